//! A bounded queue of frames in order of their due times, and a pool of buffers.

use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;
use std::time::Instant;

use crate::ports::{FRAME_BUFFER_BYTES, VIRTIO_HEADER_BYTES};

/// Longer frames keep their receive buffer; shorter ones are copied to a buffer of their size.
const MAX_COPIED_FRAME_BYTES: usize = 16 << 10;
/// Maximum number of unused buffers in the pool.
const MAX_POOLED_BUFFERS: usize = 256;

/// A frame with its virtio header.
#[derive(Debug)]
pub struct Frame {
    buffer: Vec<u8>,
    length: usize,
}

impl Frame {
    /// Creates a frame from its bytes, which begin with the virtio header.
    pub fn from_bytes_with_virtio_header(bytes: Vec<u8>) -> Self {
        Self {
            length: bytes.len(),
            buffer: bytes,
        }
    }

    /// Returns the frame with the virtio header before it.
    pub fn bytes_with_virtio_header(&self) -> &[u8] {
        &self.buffer[..self.length]
    }

    /// Returns the frame's size without the virtio header.
    pub fn ethernet_bytes(&self) -> u64 {
        self.length.saturating_sub(VIRTIO_HEADER_BYTES) as u64
    }
}

/// A pool of receive buffers.
#[derive(Default)]
pub struct BufferPool(Vec<Vec<u8>>);

impl BufferPool {
    /// Takes a buffer from the pool, or allocates one.
    pub fn acquire(&mut self) -> Vec<u8> {
        self.0.pop().unwrap_or_else(|| vec![0; FRAME_BUFFER_BYTES])
    }

    /// Makes a frame of the first `length` bytes of a receive buffer.
    pub fn make_frame(&mut self, buffer: Vec<u8>, length: usize) -> Frame {
        if length > MAX_COPIED_FRAME_BYTES {
            return Frame { buffer, length };
        }
        let fitted = Frame::from_bytes_with_virtio_header(buffer[..length].to_vec());
        self.release_buffer(buffer);
        fitted
    }

    /// Returns a frame's buffer to the pool.
    pub fn release_frame(&mut self, frame: Frame) {
        self.release_buffer(frame.buffer);
    }

    /// Returns a receive buffer to the pool.
    pub fn release_buffer(&mut self, buffer: Vec<u8>) {
        if buffer.len() == FRAME_BUFFER_BYTES && self.0.len() < MAX_POOLED_BUFFERS {
            self.0.push(buffer);
        }
    }
}

/// A frame with the time at which it is due.
pub struct QueuedFrame {
    /// When the far port gets the frame.
    pub due: Instant,
    /// Orders frames with equal due times by arrival.
    number: u64,
    /// The frame.
    pub frame: Frame,
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

/// What a queue holds at one time.
#[derive(Debug, PartialEq, Eq)]
pub struct Backlog {
    /// Number of queued frames.
    pub frames: usize,
    /// Their bytes.
    pub bytes: usize,
}

/// Queued frames in order of their due times.
pub struct FrameQueue {
    frames: BinaryHeap<Reverse<QueuedFrame>>,
    enqueued_frame_count: u64,
    bytes: usize,
    max_bytes: usize,
}

impl FrameQueue {
    /// Creates a queue that holds at most `max_bytes`.
    pub fn new(max_bytes: usize) -> Self {
        Self {
            frames: BinaryHeap::new(),
            enqueued_frame_count: 0,
            bytes: 0,
            max_bytes,
        }
    }

    /// Queues a frame, or returns it if the queue is full.
    pub fn push(&mut self, due: Instant, frame: Frame) -> std::result::Result<(), Frame> {
        if self.bytes + frame.length > self.max_bytes {
            return Err(frame);
        }
        self.bytes += frame.length;
        self.enqueued_frame_count += 1;
        self.frames.push(Reverse(QueuedFrame {
            due,
            number: self.enqueued_frame_count,
            frame,
        }));
        Ok(())
    }

    /// Returns when the next frame is due.
    pub fn next_due(&self) -> Option<Instant> {
        self.frames.peek().map(|Reverse(first)| first.due)
    }

    /// Removes the next frame.
    pub fn pop(&mut self) -> Option<QueuedFrame> {
        let Reverse(first) = self.frames.pop()?;
        self.bytes -= first.frame.length;
        Some(first)
    }

    /// Returns what is queued now.
    pub fn backlog(&self) -> Backlog {
        Backlog {
            frames: self.frames.len(),
            bytes: self.bytes,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn frame(byte: u8) -> Frame {
        Frame::from_bytes_with_virtio_header(vec![byte; 100])
    }

    #[test]
    fn frames_leave_by_due_time_and_then_by_arrival() {
        let (mut queue, now) = (FrameQueue::new(10_000), Instant::now());
        for (ms, byte) in [(5, 1), (3, 2), (5, 3), (4, 4)] {
            let due = now + Duration::from_millis(ms);
            assert!(queue.push(due, frame(byte)).is_ok());
        }
        assert_eq!(queue.next_due(), Some(now + Duration::from_millis(3)));
        let order: Vec<u8> = std::iter::from_fn(|| queue.pop())
            .map(|queued| queued.frame.bytes_with_virtio_header()[0])
            .collect();
        assert_eq!(order, [2, 4, 1, 3]);
        let empty = Backlog {
            frames: 0,
            bytes: 0,
        };
        assert_eq!(queue.backlog(), empty);
    }

    #[test]
    fn a_full_queue_returns_the_frame_until_another_has_left() {
        let (mut queue, now) = (FrameQueue::new(250), Instant::now());
        assert!(queue.push(now, frame(1)).is_ok());
        assert!(queue.push(now, frame(2)).is_ok());
        let rejected = queue.push(now, frame(3)).expect_err("the queue is full");
        let full = Backlog {
            frames: 2,
            bytes: 200,
        };
        assert_eq!(queue.backlog(), full);
        queue.pop();
        assert!(queue.push(now, rejected).is_ok());
    }

    #[test]
    fn long_frames_keep_their_receive_buffer_and_short_ones_are_copied() {
        let mut buffers = BufferPool::default();
        let mut buffer = buffers.acquire();
        buffer[0] = 7;
        let short = buffers.make_frame(buffer, 100);
        assert_eq!(
            (short.buffer.len(), short.bytes_with_virtio_header()[0]),
            (100, 7)
        );
        assert_eq!(buffers.0.len(), 1, "the pool has the buffer again");
        let buffer = buffers.acquire();
        let long = buffers.make_frame(buffer, 40_000);
        assert_eq!(
            (buffers.0.len(), long.bytes_with_virtio_header().len()),
            (0, 40_000)
        );
        buffers.release_frame(long);
        assert_eq!(buffers.0.len(), 1);
    }
}
