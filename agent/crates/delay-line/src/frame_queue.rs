//! Frames on their way, in the order of the times when they are due, and no more bytes of them than a bound.

use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;
use std::time::Instant;

use crate::ports::{BUFFER_BYTES, VNET_HEADER_BYTES};

/// Longer frames keep the room that they were read into; shorter ones get one that fits them.
const MAX_COPIED_BYTES: usize = 16 << 10;
/// Rooms that are kept for frames to come.
const MAX_POOLED_BUFFERS: usize = 256;

/// A frame with its note.
#[derive(Debug)]
pub struct Frame {
    buffer: Vec<u8>,
    length: usize,
}

impl Frame {
    pub fn new(bytes: Vec<u8>) -> Self {
        Self {
            length: bytes.len(),
            buffer: bytes,
        }
    }

    pub fn bytes(&self) -> &[u8] {
        &self.buffer[..self.length]
    }

    /// Without the note.
    pub fn ethernet_bytes(&self) -> u64 {
        self.length.saturating_sub(VNET_HEADER_BYTES) as u64
    }
}

/// Room for frames that are read, used again and again.
#[derive(Default)]
pub struct BufferPool(Vec<Vec<u8>>);

impl BufferPool {
    pub fn acquire(&mut self) -> Vec<u8> {
        self.0.pop().unwrap_or_else(|| vec![0; BUFFER_BYTES])
    }

    /// What was read into a room, so many bytes of it.
    pub fn make_frame(&mut self, room: Vec<u8>, length: usize) -> Frame {
        if length > MAX_COPIED_BYTES {
            return Frame {
                buffer: room,
                length,
            };
        }
        let fitted = Frame::new(room[..length].to_vec());
        self.release(room);
        fitted
    }

    pub fn release_frame(&mut self, frame: Frame) {
        self.release(frame.buffer);
    }

    pub fn release(&mut self, room: Vec<u8>) {
        if room.len() == BUFFER_BYTES && self.0.len() < MAX_POOLED_BUFFERS {
            self.0.push(room);
        }
    }
}

struct QueuedFrame {
    due: Instant,
    /// Of frames that are due at one time, the first that came is the first that goes.
    number: u64,
    frame: Frame,
}

impl PartialEq for QueuedFrame {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for QueuedFrame {}

impl PartialOrd for QueuedFrame {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for QueuedFrame {
    fn cmp(&self, other: &Self) -> Ordering {
        (self.due, self.number).cmp(&(other.due, other.number))
    }
}

pub struct FrameQueue {
    frames: BinaryHeap<Reverse<QueuedFrame>>,
    enqueued: u64,
    bytes: usize,
    max_bytes: usize,
}

impl FrameQueue {
    pub fn new(max_bytes: usize) -> Self {
        Self {
            frames: BinaryHeap::new(),
            enqueued: 0,
            bytes: 0,
            max_bytes,
        }
    }

    /// Gives the frame back where there is no room for it.
    pub fn push(&mut self, due: Instant, frame: Frame) -> std::result::Result<(), Frame> {
        if self.bytes + frame.length > self.max_bytes {
            return Err(frame);
        }
        self.bytes += frame.length;
        self.enqueued += 1;
        self.frames.push(Reverse(QueuedFrame {
            due,
            number: self.enqueued,
            frame,
        }));
        Ok(())
    }

    pub fn next_due(&self) -> Option<Instant> {
        self.frames.peek().map(|Reverse(first)| first.due)
    }

    pub fn pop(&mut self) -> Option<(Instant, Frame)> {
        let Reverse(first) = self.frames.pop()?;
        self.bytes -= first.frame.length;
        Some((first.due, first.frame))
    }

    /// Frames and bytes that wait.
    pub fn backlog(&self) -> (usize, usize) {
        (self.frames.len(), self.bytes)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn frame(byte: u8) -> Frame {
        Frame::new(vec![byte; 100])
    }

    #[test]
    fn frames_go_when_they_are_due_and_those_of_one_time_as_they_came() {
        let (mut queue, now) = (FrameQueue::new(10_000), Instant::now());
        for (ms, byte) in [(5, 1), (3, 2), (5, 3), (4, 4)] {
            let due = now + Duration::from_millis(ms);
            assert!(queue.push(due, frame(byte)).is_ok());
        }
        assert_eq!(queue.next_due(), Some(now + Duration::from_millis(3)));
        let order: Vec<u8> = std::iter::from_fn(|| queue.pop())
            .map(|(_, frame)| frame.bytes()[0])
            .collect();
        assert_eq!(order, [2, 4, 1, 3]);
        assert_eq!(queue.backlog(), (0, 0));
    }

    #[test]
    fn what_does_not_fit_is_given_back_and_fits_again_when_one_has_left() {
        let (mut queue, now) = (FrameQueue::new(250), Instant::now());
        assert!(queue.push(now, frame(1)).is_ok());
        assert!(queue.push(now, frame(2)).is_ok());
        let refused = queue.push(now, frame(3)).expect_err("it is full");
        assert_eq!(queue.backlog(), (2, 200));
        queue.pop();
        assert!(queue.push(now, refused).is_ok());
    }

    #[test]
    fn long_frames_stay_where_they_were_read_and_short_ones_do_not() {
        let mut buffers = BufferPool::default();
        let mut room = buffers.acquire();
        room[0] = 7;
        let short = buffers.make_frame(room, 100);
        assert_eq!((short.buffer.len(), short.bytes()[0]), (100, 7));
        assert_eq!(buffers.0.len(), 1, "the room is to be had again");
        let room = buffers.acquire();
        let long = buffers.make_frame(room, 40_000);
        assert_eq!((buffers.0.len(), long.bytes().len()), (0, 40_000));
        buffers.release_frame(long);
        assert_eq!(buffers.0.len(), 1);
    }
}
