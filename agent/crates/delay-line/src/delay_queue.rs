//! What becomes of the frames of one direction of a line: when each is due, which segments are lost or held back, and what
//! there is no room for. It neither reads nor writes them.

use std::sync::Arc;
use std::time::Instant;

use crate::counts::{DirectionCounts, increment};
use crate::frame_queue::{BufferPool, Frame, FrameQueue};
use crate::impairments::{ImpairmentSampler, SegmentOutcome};
use crate::segments::SegmentLayout;

pub struct DelayQueue {
    queue: FrameQueue,
    pub buffers: BufferPool,
    sampler: ImpairmentSampler,
    counts: Arc<DirectionCounts>,
    /// When the last frame that was not held back is due: none goes before one that came earlier.
    last_due: Instant,
    outcomes: Vec<SegmentOutcome>,
}

impl DelayQueue {
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

    /// From now on. What waits leaves when it was to, and is counted here as it leaves.
    pub fn reconfigure(
        &mut self,
        sampler: ImpairmentSampler,
        counts: Arc<DirectionCounts>,
        now: Instant,
    ) {
        self.sampler = sampler;
        self.counts = counts;
        // What was longer on its way before does not hold up what comes now.
        self.last_due = now;
    }

    /// A frame that came now.
    pub fn enqueue(&mut self, now: Instant, frame: Frame) {
        let due = (now + self.sampler.sample_delay()).max(self.last_due);
        self.last_due = due;
        let layout = SegmentLayout::parse(frame.bytes());
        let segments = layout.map_or(1, |layout| layout.segment_count());
        increment(&self.counts.segments, segments as u64);
        if self.sampler.passes_every_segment() {
            return self.push(due, frame);
        }
        self.outcomes.clear();
        self.outcomes
            .extend((0..segments).map(|_| self.sampler.sample_segment()));
        let of = |fate| self.outcomes.iter().filter(|each| **each == fate).count() as u64;
        increment(&self.counts.lost, of(SegmentOutcome::Lost));
        increment(&self.counts.reordered, of(SegmentOutcome::Reordered));
        match layout {
            _ if of(SegmentOutcome::Passed) == segments as u64 => self.push(due, frame),
            Some(layout) => {
                self.push_segments(due, &layout, frame.bytes());
                self.buffers.release_frame(frame);
            }
            None => self.push_single_segment(due, frame),
        }
    }

    pub fn next_due(&self) -> Option<Instant> {
        self.queue.next_due()
    }

    /// The next frame that is due by now. What becomes of it is to be told by `gave`.
    pub fn take_due(&mut self, now: Instant) -> Option<(Instant, Frame)> {
        self.queue.next_due().filter(|due| *due <= now)?;
        self.queue.pop()
    }

    /// Whether the far port took a frame, and when.
    pub fn record_delivery(
        &mut self,
        (due, frame): (Instant, Frame),
        is_taken: bool,
        now: Instant,
    ) {
        if is_taken {
            increment(&self.counts.frames, 1);
            increment(&self.counts.bytes, frame.ethernet_bytes());
            self.counts.late.record(now.saturating_duration_since(due));
        } else {
            increment(&self.counts.refused, 1);
        }
        self.buffers.release_frame(frame);
    }

    pub fn note_level(&self) {
        self.counts.record_backlog(self.queue.backlog());
    }

    /// A frame of one segment that is lost or held back.
    fn push_single_segment(&mut self, due: Instant, frame: Frame) {
        match self.outcomes[0] {
            SegmentOutcome::Reordered => self.push(due + self.sampler.reorder_delay(), frame),
            _ => self.buffers.release_frame(frame),
        }
    }

    /// What passes of a frame of several, as few frames as can be, and what is held back, each by itself.
    fn push_segments(&mut self, due: Instant, layout: &SegmentLayout, frame: &[u8]) {
        let drawn = std::mem::take(&mut self.outcomes);
        let mut at = 0;
        for part in drawn.chunk_by(|a, b| a == b && *a == SegmentOutcome::Passed) {
            let segments = at..at + part.len();
            at = segments.end;
            match part[0] {
                SegmentOutcome::Lost => {}
                SegmentOutcome::Passed => {
                    self.push(due, Frame::new(layout.extract(frame, segments)))
                }
                SegmentOutcome::Reordered => {
                    let later = due + self.sampler.reorder_delay();
                    self.push(later, Frame::new(layout.extract(frame, segments)));
                }
            }
        }
        self.outcomes = drawn;
    }

    fn push(&mut self, due: Instant, frame: Frame) {
        if let Err(refused) = self.queue.push(due, frame) {
            increment(&self.counts.overflowed, 1);
            increment(&self.counts.overflowed_bytes, refused.ethernet_bytes());
            self.buffers.release_frame(refused);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use serde_json::{Value, json};

    use super::*;
    use crate::impairments::Impairments;
    use crate::segments::tests::tcp;

    const QUEUE_BYTES: usize = 1 << 20;
    /// Of frames of one segment.
    const BYTES: usize = 100;
    /// Of frames of `tcp`.
    const SEGMENTS: u64 = 3;

    fn sampler(impairments: Value) -> ImpairmentSampler {
        let impairments: Impairments = serde_json::from_value(impairments).expect("impairments");
        impairments.check().expect("they can be");
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
        Frame::new(vec![byte; BYTES])
    }

    /// All that waits, as it leaves.
    fn leave(queue: &mut DelayQueue) -> Vec<(Instant, Vec<u8>)> {
        let at_last = Instant::now() + Duration::from_secs(3600);
        let mut left = Vec::new();
        while let Some((due, frame)) = queue.take_due(at_last) {
            left.push((due, frame.bytes().to_vec()));
            queue.record_delivery((due, frame), true, due);
        }
        left
    }

    fn first_bytes(left: &[(Instant, Vec<u8>)]) -> Vec<u8> {
        left.iter().map(|(_, frame)| frame[0]).collect()
    }

    #[test]
    fn a_frame_leaves_when_its_delay_is_over_and_not_before() {
        let (mut queue, counts, now) = queue(QUEUE_BYTES, json!({"delay_us": 1000}));
        let due = now + Duration::from_millis(1);
        queue.enqueue(now, frame(1));
        assert_eq!(queue.next_due(), Some(due));
        assert!(queue.take_due(due - Duration::from_nanos(1)).is_none());
        let taken = queue.take_due(due).expect("it is due");
        queue.record_delivery(taken, true, due + Duration::from_micros(5));
        let json = counts.to_json();
        assert_eq!((&json["frames"], &json["segments"]), (&json!(1), &json!(1)));
        assert!(json["late_max_us"].as_f64() > Some(4.9), "{json}");
    }

    #[test]
    fn frames_keep_their_order_whatever_is_drawn_for_each() {
        let jittered = json!({"delay_us": 1000, "jitter_us": 1000});
        let (mut queue, _, now) = queue(QUEUE_BYTES, jittered);
        let order: Vec<u8> = (0..200).collect();
        for byte in &order {
            queue.enqueue(now, frame(*byte));
        }
        let left = leave(&mut queue);
        assert_eq!(first_bytes(&left), order);
        assert!(left[0].0 < left[199].0, "they have delays of their own");
    }

    #[test]
    fn what_comes_behind_a_frame_that_is_held_back_does_not_wait_for_it() {
        let held_back = json!({"delay_us": 1000, "reorder": 1, "reorder_us": 300});
        let (mut queue, counts, now) = queue(QUEUE_BYTES, held_back);
        queue.enqueue(now, frame(1));
        queue.reconfigure(sampler(json!({"delay_us": 1000})), Arc::clone(&counts), now);
        queue.enqueue(now, frame(2));
        let left = leave(&mut queue);
        assert_eq!(first_bytes(&left), [2, 1]);
        assert_eq!(left[1].0 - left[0].0, Duration::from_micros(300));
        assert_eq!(counts.to_json()["held_back"], 1);
    }

    #[test]
    fn what_is_lost_does_not_wait_and_is_counted_by_its_segments() {
        let (mut queue, counts, now) = queue(QUEUE_BYTES, json!({"loss": 1}));
        queue.enqueue(now, frame(1));
        queue.enqueue(now, Frame::new(tcp(true, 0)));
        assert_eq!(queue.next_due(), None);
        let json = counts.to_json();
        assert_eq!(json["lost"], 1 + SEGMENTS);
        assert_eq!(json["segments"], 1 + SEGMENTS);
        assert_eq!(json["overflowed"], 0);
    }

    #[test]
    fn each_segment_of_a_frame_is_lost_passes_or_is_held_back_once() {
        const FRAMES: u64 = 200;
        let some = json!({"loss": 0.3, "reorder": 0.2, "reorder_us": 300});
        let (mut queue, counts, now) = queue(QUEUE_BYTES, some);
        for _ in 0..FRAMES {
            queue.enqueue(now, Frame::new(tcp(true, 0)));
        }
        let json = counts.to_json();
        let [lost, held_back] = ["lost", "held_back"].map(|name| json[name].as_u64().unwrap_or(0));
        assert_eq!(json["segments"], FRAMES * SEGMENTS);
        assert!(lost > 0 && held_back > 0, "{json}");
        let segments = |frame: &[u8]| {
            SegmentLayout::parse(frame).map_or(1, |layout| layout.segment_count()) as u64
        };
        let (late, in_time): (Vec<_>, Vec<_>) = leave(&mut queue)
            .into_iter()
            .partition(|(due, _)| *due > now);
        assert_eq!(late.len() as u64, held_back, "each by itself");
        assert!(late.iter().all(|(_, frame)| segments(frame) == 1));
        let passed: u64 = in_time.iter().map(|(_, frame)| segments(frame)).sum();
        assert_eq!(passed, FRAMES * SEGMENTS - lost - held_back);
        let most = in_time.iter().map(|(_, frame)| segments(frame)).max();
        assert_eq!(most, Some(SEGMENTS), "what passes whole is not cut");
    }

    #[test]
    fn a_frame_of_which_nothing_is_lost_leaves_as_it_came() {
        let (mut queue, _, now) = queue(QUEUE_BYTES, json!({}));
        queue.enqueue(now, Frame::new(tcp(false, 1)));
        assert_eq!(leave(&mut queue), [(now, tcp(false, 1))]);
    }

    #[test]
    fn what_there_is_no_room_for_and_what_the_far_port_does_not_take_is_told_apart() {
        let (mut queue, counts, now) = queue(2 * BYTES, json!({}));
        for byte in 0..5 {
            queue.enqueue(now, frame(byte));
        }
        let first = queue.take_due(now).expect("it is due");
        queue.record_delivery(first, false, now);
        assert_eq!(first_bytes(&leave(&mut queue)), [1]);
        let json = counts.to_json();
        let of_ethernet = BYTES - super::super::ports::VNET_HEADER_BYTES;
        assert_eq!(json["overflowed"], 3);
        assert_eq!(json["overflowed_bytes"], 3 * of_ethernet);
        assert_eq!((&json["refused"], &json["frames"]), (&json!(1), &json!(1)));
        assert_eq!(json["bytes"], of_ethernet);
    }

    #[test]
    fn what_waits_when_the_line_is_set_is_counted_by_the_new_counts() {
        let (mut queue, before, now) = queue(QUEUE_BYTES, json!({"delay_us": 1000}));
        queue.enqueue(now, frame(1));
        queue.enqueue(now, frame(2));
        queue.note_level();
        let counts = Arc::new(DirectionCounts::continuing(&before));
        queue.reconfigure(sampler(json!({})), Arc::clone(&counts), now);
        let json = counts.to_json();
        assert_eq!(
            (&json["waiting"], &json["frames"]),
            (&json!(2), &json!(0)),
            "before another frame comes"
        );
        assert_eq!(json["most_waiting_bytes"], 2 * BYTES);
        assert_eq!(first_bytes(&leave(&mut queue)), [1, 2]);
        queue.note_level();
        let json = counts.to_json();
        assert_eq!((&json["waiting"], &json["frames"]), (&json!(0), &json!(2)));
        assert_eq!(before.to_json()["frames"], 0);
    }

    #[test]
    fn a_longer_delay_before_does_not_hold_up_what_comes_after_another_was_set() {
        let (mut queue, counts, now) = queue(QUEUE_BYTES, json!({"delay_us": 1e6}));
        queue.enqueue(now, frame(1));
        queue.reconfigure(sampler(json!({})), counts, now);
        queue.enqueue(now, frame(2));
        let left = leave(&mut queue);
        assert_eq!(first_bytes(&left), [2, 1]);
        assert_eq!(left[0].0, now);
        assert_eq!(left[1].0 - now, Duration::from_secs(1), "as it was to");
    }
}
