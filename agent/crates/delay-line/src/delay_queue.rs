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
        fates: ImpairmentSampler,
        counts: Arc<DirectionCounts>,
        now: Instant,
    ) {
        self.sampler = fates;
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

    fn fates(asked: Value) -> ImpairmentSampler {
        let asked: Impairments = serde_json::from_value(asked).expect("impairments");
        asked.check().expect("they can be");
        ImpairmentSampler::new(asked, 7)
    }

    fn passage(queue_bytes: usize, asked: Value) -> (DelayQueue, Arc<DirectionCounts>, Instant) {
        let (counts, now) = (Arc::new(DirectionCounts::new()), Instant::now());
        let passage = DelayQueue::new(queue_bytes, fates(asked), Arc::clone(&counts), now);
        (passage, counts, now)
    }

    fn frame(byte: u8) -> Frame {
        Frame::new(vec![byte; BYTES])
    }

    /// All that waits, as it leaves.
    fn leave(passage: &mut DelayQueue) -> Vec<(Instant, Vec<u8>)> {
        let at_last = Instant::now() + Duration::from_secs(3600);
        let mut left = Vec::new();
        while let Some((due, frame)) = passage.take_due(at_last) {
            left.push((due, frame.bytes().to_vec()));
            passage.record_delivery((due, frame), true, due);
        }
        left
    }

    fn first_bytes(left: &[(Instant, Vec<u8>)]) -> Vec<u8> {
        left.iter().map(|(_, frame)| frame[0]).collect()
    }

    #[test]
    fn a_frame_leaves_when_its_delay_is_over_and_not_before() {
        let (mut passage, counts, now) = passage(QUEUE_BYTES, json!({"delay_us": 1000}));
        let due = now + Duration::from_millis(1);
        passage.enqueue(now, frame(1));
        assert_eq!(passage.next_due(), Some(due));
        assert!(passage.take_due(due - Duration::from_nanos(1)).is_none());
        let taken = passage.take_due(due).expect("it is due");
        passage.record_delivery(taken, true, due + Duration::from_micros(5));
        let told = counts.to_json();
        assert_eq!((&told["frames"], &told["segments"]), (&json!(1), &json!(1)));
        assert!(told["late_max_us"].as_f64() > Some(4.9), "{told}");
    }

    #[test]
    fn frames_keep_their_order_whatever_is_drawn_for_each() {
        let jittered = json!({"delay_us": 1000, "jitter_us": 1000});
        let (mut passage, _, now) = passage(QUEUE_BYTES, jittered);
        let order: Vec<u8> = (0..200).collect();
        for byte in &order {
            passage.enqueue(now, frame(*byte));
        }
        let left = leave(&mut passage);
        assert_eq!(first_bytes(&left), order);
        assert!(left[0].0 < left[199].0, "they have delays of their own");
    }

    #[test]
    fn what_comes_behind_a_frame_that_is_held_back_does_not_wait_for_it() {
        let held_back = json!({"delay_us": 1000, "reorder": 1, "reorder_us": 300});
        let (mut passage, counts, now) = passage(QUEUE_BYTES, held_back);
        passage.enqueue(now, frame(1));
        passage.reconfigure(fates(json!({"delay_us": 1000})), Arc::clone(&counts), now);
        passage.enqueue(now, frame(2));
        let left = leave(&mut passage);
        assert_eq!(first_bytes(&left), [2, 1]);
        assert_eq!(left[1].0 - left[0].0, Duration::from_micros(300));
        assert_eq!(counts.to_json()["held_back"], 1);
    }

    #[test]
    fn what_is_lost_does_not_wait_and_is_counted_by_its_segments() {
        let (mut passage, counts, now) = passage(QUEUE_BYTES, json!({"loss": 1}));
        passage.enqueue(now, frame(1));
        passage.enqueue(now, Frame::new(tcp(true, 0)));
        assert_eq!(passage.next_due(), None);
        let told = counts.to_json();
        assert_eq!(told["lost"], 1 + SEGMENTS);
        assert_eq!(told["segments"], 1 + SEGMENTS);
        assert_eq!(told["overflowed"], 0);
    }

    #[test]
    fn each_segment_of_a_frame_is_lost_passes_or_is_held_back_once() {
        const FRAMES: u64 = 200;
        let some = json!({"loss": 0.3, "reorder": 0.2, "reorder_us": 300});
        let (mut passage, counts, now) = passage(QUEUE_BYTES, some);
        for _ in 0..FRAMES {
            passage.enqueue(now, Frame::new(tcp(true, 0)));
        }
        let told = counts.to_json();
        let [lost, held_back] = ["lost", "held_back"].map(|name| told[name].as_u64().unwrap_or(0));
        assert_eq!(told["segments"], FRAMES * SEGMENTS);
        assert!(lost > 0 && held_back > 0, "{told}");
        let segments = |frame: &[u8]| {
            SegmentLayout::parse(frame).map_or(1, |layout| layout.segment_count()) as u64
        };
        let (late, in_time): (Vec<_>, Vec<_>) = leave(&mut passage)
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
        let (mut passage, _, now) = passage(QUEUE_BYTES, json!({}));
        passage.enqueue(now, Frame::new(tcp(false, 1)));
        assert_eq!(leave(&mut passage), [(now, tcp(false, 1))]);
    }

    #[test]
    fn what_there_is_no_room_for_and_what_the_far_port_does_not_take_is_told_apart() {
        let (mut passage, counts, now) = passage(2 * BYTES, json!({}));
        for byte in 0..5 {
            passage.enqueue(now, frame(byte));
        }
        let first = passage.take_due(now).expect("it is due");
        passage.record_delivery(first, false, now);
        assert_eq!(first_bytes(&leave(&mut passage)), [1]);
        let told = counts.to_json();
        let of_ethernet = BYTES - super::super::ports::VNET_HEADER_BYTES;
        assert_eq!(told["overflowed"], 3);
        assert_eq!(told["overflowed_bytes"], 3 * of_ethernet);
        assert_eq!((&told["refused"], &told["frames"]), (&json!(1), &json!(1)));
        assert_eq!(told["bytes"], of_ethernet);
    }

    #[test]
    fn what_waits_when_the_line_is_set_is_counted_by_the_new_counts() {
        let (mut passage, before, now) = passage(QUEUE_BYTES, json!({"delay_us": 1000}));
        passage.enqueue(now, frame(1));
        passage.enqueue(now, frame(2));
        passage.note_level();
        let counts = Arc::new(DirectionCounts::continuing(&before));
        passage.reconfigure(fates(json!({})), Arc::clone(&counts), now);
        let told = counts.to_json();
        assert_eq!(
            (&told["waiting"], &told["frames"]),
            (&json!(2), &json!(0)),
            "before another frame comes"
        );
        assert_eq!(told["most_waiting_bytes"], 2 * BYTES);
        assert_eq!(first_bytes(&leave(&mut passage)), [1, 2]);
        passage.note_level();
        let told = counts.to_json();
        assert_eq!((&told["waiting"], &told["frames"]), (&json!(0), &json!(2)));
        assert_eq!(before.to_json()["frames"], 0);
    }

    #[test]
    fn a_longer_delay_before_does_not_hold_up_what_comes_after_another_was_set() {
        let (mut passage, counts, now) = passage(QUEUE_BYTES, json!({"delay_us": 1e6}));
        passage.enqueue(now, frame(1));
        passage.reconfigure(fates(json!({})), counts, now);
        passage.enqueue(now, frame(2));
        let left = leave(&mut passage);
        assert_eq!(first_bytes(&left), [2, 1]);
        assert_eq!(left[0].0, now);
        assert_eq!(left[1].0 - now, Duration::from_secs(1), "as it was to");
    }
}
