//! Applies the impairments of one direction: schedules frames, drops or reorders segments, and enforces the queue limit.
//! It neither reads nor writes frames.

use std::sync::Arc;
use std::time::Instant;

use crate::counts::{DirectionCounts, add_as_only_writer};
use crate::frame_queue::{BufferPool, Frame, FrameQueue, QueuedFrame};
use crate::impairments::{ImpairmentSampler, SegmentOutcome};
use crate::segments::SegmentLayout;

/// The delayed frames of one direction.
pub struct DelayQueue {
    queue: FrameQueue,
    /// Buffers for frames to read.
    pub buffers: BufferPool,
    sampler: ImpairmentSampler,
    counts: Arc<DirectionCounts>,
    /// Due time of the last frame that was not reordered. No later frame is due earlier.
    last_due: Instant,
    outcomes: Vec<SegmentOutcome>,
}

impl DelayQueue {
    /// Creates an empty queue.
    pub fn new(
        queue_bytes: usize,
        sampler: ImpairmentSampler,
        counts: Arc<DirectionCounts>,
        now: Instant,
    ) -> Self {
        Self {
            queue: FrameQueue::new(queue_bytes),
            buffers: BufferPool::default(),
            sampler,
            counts,
            last_due: now,
            outcomes: Vec::new(),
        }
    }

    /// Replaces the impairments and counters. Queued frames keep their due times and count as delivered later.
    pub fn replace_sampler_and_counts(
        &mut self,
        sampler: ImpairmentSampler,
        counts: Arc<DirectionCounts>,
        now: Instant,
    ) {
        self.sampler = sampler;
        self.counts = counts;
        // Frames with a longer earlier delay must not hold up new frames.
        self.last_due = now;
    }

    /// Samples the delay and the outcome of a received frame's segments, and queues what passes.
    pub fn impair_and_enqueue(&mut self, now: Instant, frame: Frame) {
        let due = (now + self.sampler.sample_frame_delay()).max(self.last_due);
        self.last_due = due;
        let layout = SegmentLayout::parse(frame.bytes_with_virtio_header());
        let segments = layout.map_or(1, |layout| layout.segment_count());
        add_as_only_writer(&self.counts.segments, segments as u64);
        if self.sampler.passes_every_segment() {
            return self.push(due, frame);
        }
        self.outcomes.clear();
        self.outcomes
            .extend((0..segments).map(|_| self.sampler.sample_segment_outcome()));
        let count_outcome = |outcome| {
            self.outcomes
                .iter()
                .filter(|each| **each == outcome)
                .count() as u64
        };
        add_as_only_writer(&self.counts.lost, count_outcome(SegmentOutcome::Lost));
        add_as_only_writer(
            &self.counts.reordered,
            count_outcome(SegmentOutcome::Reordered),
        );
        match layout {
            _ if count_outcome(SegmentOutcome::Passed) == segments as u64 => self.push(due, frame),
            Some(layout) => {
                self.drop_or_queue_segments(due, &layout, frame.bytes_with_virtio_header());
                self.buffers.release_frame(frame);
            }
            None => self.drop_or_reorder_frame(due, frame),
        }
    }

    /// Returns when the next frame is due.
    pub fn next_due(&self) -> Option<Instant> {
        self.queue.next_due()
    }

    /// Removes the next frame that is due. Call [`Self::record_delivery`] afterwards.
    pub fn take_due_frame(&mut self, now: Instant) -> Option<QueuedFrame> {
        self.queue.next_due().filter(|due| *due <= now)?;
        self.queue.pop()
    }

    /// Records whether the far port accepted a frame, and when.
    pub fn record_delivery(&mut self, queued: QueuedFrame, is_accepted: bool, now: Instant) {
        if is_accepted {
            add_as_only_writer(&self.counts.frames, 1);
            add_as_only_writer(&self.counts.bytes, queued.frame.ethernet_bytes());
            self.counts
                .lateness
                .record(now.saturating_duration_since(queued.due));
        } else {
            add_as_only_writer(&self.counts.port_drops, 1);
        }
        self.buffers.release_frame(queued.frame);
    }

    /// Records the current backlog.
    pub fn record_backlog(&self) {
        self.counts.record_backlog(self.queue.backlog());
    }

    /// Drops or reorders a frame of one segment.
    fn drop_or_reorder_frame(&mut self, due: Instant, frame: Frame) {
        match self.outcomes[0] {
            SegmentOutcome::Reordered => self.push(due + self.sampler.extra_reorder_delay(), frame),
            _ => self.buffers.release_frame(frame),
        }
    }

    /// Queues the segments of a frame that pass, in as few frames as possible, and each reordered segment alone.
    fn drop_or_queue_segments(&mut self, due: Instant, layout: &SegmentLayout, frame: &[u8]) {
        let outcomes = std::mem::take(&mut self.outcomes);
        let mut first_segment = 0;
        for run in outcomes.chunk_by(|a, b| a == b && *a == SegmentOutcome::Passed) {
            let segments = first_segment..first_segment + run.len();
            first_segment = segments.end;
            match run[0] {
                SegmentOutcome::Lost => {}
                SegmentOutcome::Passed => self.push(
                    due,
                    Frame::from_bytes_with_virtio_header(layout.extract_segments(frame, segments)),
                ),
                SegmentOutcome::Reordered => {
                    let reordered_due = due + self.sampler.extra_reorder_delay();
                    self.push(
                        reordered_due,
                        Frame::from_bytes_with_virtio_header(
                            layout.extract_segments(frame, segments),
                        ),
                    );
                }
            }
        }
        self.outcomes = outcomes;
    }

    fn push(&mut self, due: Instant, frame: Frame) {
        if let Err(rejected) = self.queue.push(due, frame) {
            add_as_only_writer(&self.counts.queue_drops, 1);
            add_as_only_writer(&self.counts.queue_drop_bytes, rejected.ethernet_bytes());
            self.buffers.release_frame(rejected);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use serde_json::{Value, json};

    use super::*;
    use crate::impairments::Impairments;
    use crate::segments::tests::tcp_frame;

    const QUEUE_BYTES: usize = 1 << 20;
    /// Bytes of a frame of one segment.
    const BYTES: usize = 100;
    /// Segments of a frame of `tcp_frame`.
    const SEGMENTS: u64 = 3;

    fn sampler(impairments: Value) -> ImpairmentSampler {
        let impairments: Impairments = serde_json::from_value(impairments).expect("impairments");
        impairments.check_parameters().expect("valid impairments");
        ImpairmentSampler::new(impairments, 7)
    }

    fn queue(
        queue_bytes: usize,
        impairments: Value,
    ) -> (DelayQueue, Arc<DirectionCounts>, Instant) {
        let (counts, now) = (Arc::new(DirectionCounts::new()), Instant::now());
        let queue = DelayQueue::new(queue_bytes, sampler(impairments), Arc::clone(&counts), now);
        (queue, counts, now)
    }

    fn frame(byte: u8) -> Frame {
        Frame::from_bytes_with_virtio_header(vec![byte; BYTES])
    }

    /// Delivers all queued frames and returns them with their due times.
    fn drain_queue(queue: &mut DelayQueue) -> Vec<(Instant, Vec<u8>)> {
        let at_last = Instant::now() + Duration::from_secs(3600);
        let mut delivered = Vec::new();
        while let Some(queued) = queue.take_due_frame(at_last) {
            let due = queued.due;
            delivered.push((due, queued.frame.bytes_with_virtio_header().to_vec()));
            queue.record_delivery(queued, true, due);
        }
        delivered
    }

    fn first_bytes(delivered: &[(Instant, Vec<u8>)]) -> Vec<u8> {
        delivered.iter().map(|(_, frame)| frame[0]).collect()
    }

    #[test]
    fn a_frame_is_delivered_after_its_delay_and_not_before() {
        let (mut queue, counts, now) = queue(QUEUE_BYTES, json!({"delay_us": 1000}));
        let due = now + Duration::from_millis(1);
        queue.impair_and_enqueue(now, frame(1));
        assert_eq!(queue.next_due(), Some(due));
        assert!(
            queue
                .take_due_frame(due - Duration::from_nanos(1))
                .is_none()
        );
        let taken = queue.take_due_frame(due).expect("it is due");
        queue.record_delivery(taken, true, due + Duration::from_micros(5));
        let json = counts.to_json();
        assert_eq!((&json["frames"], &json["segments"]), (&json!(1), &json!(1)));
        assert!(json["lateness_max_us"].as_f64() > Some(4.9), "{json}");
    }

    #[test]
    fn jitter_does_not_reorder_frames() {
        let jittered = json!({"delay_us": 1000, "jitter_us": 1000});
        let (mut queue, _, now) = queue(QUEUE_BYTES, jittered);
        let order: Vec<u8> = (0..200).collect();
        for byte in &order {
            queue.impair_and_enqueue(now, frame(*byte));
        }
        let delivered = drain_queue(&mut queue);
        assert_eq!(first_bytes(&delivered), order);
        assert!(delivered[0].0 < delivered[199].0, "delays differ");
    }

    #[test]
    fn a_reordered_frame_does_not_delay_later_frames() {
        let reordered = json!({"delay_us": 1000, "reorder": 1, "reorder_us": 300});
        let (mut queue, counts, now) = queue(QUEUE_BYTES, reordered);
        queue.impair_and_enqueue(now, frame(1));
        queue.replace_sampler_and_counts(
            sampler(json!({"delay_us": 1000})),
            Arc::clone(&counts),
            now,
        );
        queue.impair_and_enqueue(now, frame(2));
        let delivered = drain_queue(&mut queue);
        assert_eq!(first_bytes(&delivered), [2, 1]);
        assert_eq!(delivered[1].0 - delivered[0].0, Duration::from_micros(300));
        assert_eq!(counts.to_json()["reordered"], 1);
    }

    #[test]
    fn lost_frames_are_not_queued_and_count_by_segments() {
        let (mut queue, counts, now) = queue(QUEUE_BYTES, json!({"loss": 1}));
        queue.impair_and_enqueue(now, frame(1));
        queue.impair_and_enqueue(
            now,
            Frame::from_bytes_with_virtio_header(tcp_frame(true, 0)),
        );
        assert_eq!(queue.next_due(), None);
        let json = counts.to_json();
        assert_eq!(json["lost"], 1 + SEGMENTS);
        assert_eq!(json["segments"], 1 + SEGMENTS);
        assert_eq!(json["queue_drops"], 0);
    }

    #[test]
    fn each_segment_has_exactly_one_outcome() {
        const FRAMES: u64 = 200;
        let some = json!({"loss": 0.3, "reorder": 0.2, "reorder_us": 300});
        let (mut queue, counts, now) = queue(QUEUE_BYTES, some);
        for _ in 0..FRAMES {
            queue.impair_and_enqueue(
                now,
                Frame::from_bytes_with_virtio_header(tcp_frame(true, 0)),
            );
        }
        let json = counts.to_json();
        let [lost, reordered] = ["lost", "reordered"].map(|name| json[name].as_u64().unwrap_or(0));
        assert_eq!(json["segments"], FRAMES * SEGMENTS);
        assert!(lost > 0 && reordered > 0, "{json}");
        let segments = |frame: &[u8]| {
            SegmentLayout::parse(frame).map_or(1, |layout| layout.segment_count()) as u64
        };
        let (late, in_time): (Vec<_>, Vec<_>) = drain_queue(&mut queue)
            .into_iter()
            .partition(|(due, _)| *due > now);
        assert_eq!(
            late.len() as u64,
            reordered,
            "each reordered segment is a frame"
        );
        assert!(late.iter().all(|(_, frame)| segments(frame) == 1));
        let passed: u64 = in_time.iter().map(|(_, frame)| segments(frame)).sum();
        assert_eq!(passed, FRAMES * SEGMENTS - lost - reordered);
        let max_segments = in_time.iter().map(|(_, frame)| segments(frame)).max();
        assert_eq!(
            max_segments,
            Some(SEGMENTS),
            "a frame that passes whole is not cut"
        );
    }

    #[test]
    fn a_frame_without_losses_passes_unchanged() {
        let (mut queue, _, now) = queue(QUEUE_BYTES, json!({}));
        queue.impair_and_enqueue(
            now,
            Frame::from_bytes_with_virtio_header(tcp_frame(false, 1)),
        );
        assert_eq!(drain_queue(&mut queue), [(now, tcp_frame(false, 1))]);
    }

    #[test]
    fn queue_drops_and_port_drops_are_counted_separately() {
        let (mut queue, counts, now) = queue(2 * BYTES, json!({}));
        for byte in 0..5 {
            queue.impair_and_enqueue(now, frame(byte));
        }
        let first = queue.take_due_frame(now).expect("it is due");
        queue.record_delivery(first, false, now);
        assert_eq!(first_bytes(&drain_queue(&mut queue)), [1]);
        let json = counts.to_json();
        let of_ethernet = BYTES - super::super::ports::VIRTIO_HEADER_BYTES;
        assert_eq!(json["queue_drops"], 3);
        assert_eq!(json["queue_drop_bytes"], 3 * of_ethernet);
        assert_eq!(
            (&json["port_drops"], &json["frames"]),
            (&json!(1), &json!(1))
        );
        assert_eq!(json["bytes"], of_ethernet);
    }

    #[test]
    fn frames_queued_before_new_settings_count_for_the_new_settings() {
        let (mut queue, before, now) = queue(QUEUE_BYTES, json!({"delay_us": 1000}));
        queue.impair_and_enqueue(now, frame(1));
        queue.impair_and_enqueue(now, frame(2));
        queue.record_backlog();
        let counts = Arc::new(DirectionCounts::zeroed_with_backlog(&before));
        queue.replace_sampler_and_counts(sampler(json!({})), Arc::clone(&counts), now);
        let json = counts.to_json();
        assert_eq!(
            (&json["backlog_frames"], &json["frames"]),
            (&json!(2), &json!(0)),
            "before another frame arrives"
        );
        assert_eq!(json["max_backlog_bytes"], 2 * BYTES);
        assert_eq!(first_bytes(&drain_queue(&mut queue)), [1, 2]);
        queue.record_backlog();
        let json = counts.to_json();
        assert_eq!(
            (&json["backlog_frames"], &json["frames"]),
            (&json!(0), &json!(2))
        );
        assert_eq!(before.to_json()["frames"], 0);
    }

    #[test]
    fn an_earlier_longer_delay_does_not_hold_up_frames_after_new_settings() {
        let (mut queue, counts, now) = queue(QUEUE_BYTES, json!({"delay_us": 1e6}));
        queue.impair_and_enqueue(now, frame(1));
        queue.replace_sampler_and_counts(sampler(json!({})), counts, now);
        queue.impair_and_enqueue(now, frame(2));
        let delivered = drain_queue(&mut queue);
        assert_eq!(first_bytes(&delivered), [2, 1]);
        assert_eq!(delivered[0].0, now);
        assert_eq!(
            delivered[1].0 - now,
            Duration::from_secs(1),
            "its own delay"
        );
    }
}
