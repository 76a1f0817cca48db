//! Frames on their way, in the order of the times when they are due, and no more bytes of them than a bound.

use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;
use std::time::Instant;

use crate::ports::{NOTE_BYTES, ROOM_BYTES};

/// Longer frames keep the room that they were read into; shorter ones get one that fits them.
const FITTED_BYTES: usize = 16 << 10;
/// Rooms that are kept for frames to come.
const SPARE_ROOMS: usize = 256;

/// A frame with its note.
#[derive(Debug)]
pub struct Frame {
    room: Vec<u8>,
    length: usize,
}

impl Frame {
    pub fn of(bytes: Vec<u8>) -> Self {
        Self {
            length: bytes.len(),
            room: bytes,
        }
    }

    pub fn bytes(&self) -> &[u8] {
        &self.room[..self.length]
    }

    /// Without the note.
    pub fn bytes_of_ethernet(&self) -> u64 {
        self.length.saturating_sub(NOTE_BYTES) as u64
    }
}

/// Room for frames that are read, used again and again.
#[derive(Default)]
pub struct Rooms(Vec<Vec<u8>>);

impl Rooms {
    pub fn room(&mut self) -> Vec<u8> {
        self.0.pop().unwrap_or_else(|| vec![0; ROOM_BYTES])
    }

    /// What was read into a room, so many bytes of it.
    pub fn keep(&mut self, room: Vec<u8>, length: usize) -> Frame {
        if length > FITTED_BYTES {
            return Frame { room, length };
        }
        let fitted = Frame::of(room[..length].to_vec());
        self.put_back(room);
        fitted
    }

    pub fn free(&mut self, frame: Frame) {
        self.put_back(frame.room);
    }

    pub fn put_back(&mut self, room: Vec<u8>) {
        if room.len() == ROOM_BYTES && self.0.len() < SPARE_ROOMS {
            self.0.push(room);
        }
    }
}

struct Waiting {
    due: Instant,
    /// Of frames that are due at one time, the first that came is the first that goes.
    number: u64,
    frame: Frame,
}

impl PartialEq for Waiting {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Waiting {}

impl PartialOrd for Waiting {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Waiting {
    fn cmp(&self, other: &Self) -> Ordering {
        (self.due, self.number).cmp(&(other.due, other.number))
    }
}

pub struct Queue {
    waiting: BinaryHeap<Reverse<Waiting>>,
    came: u64,
    bytes: usize,
    most_bytes: usize,
}

impl Queue {
    pub fn of(most_bytes: usize) -> Self {
        Self {
            waiting: BinaryHeap::new(),
            came: 0,
            bytes: 0,
            most_bytes,
        }
    }

    /// Gives the frame back where there is no room for it.
    pub fn push(&mut self, due: Instant, frame: Frame) -> std::result::Result<(), Frame> {
        if self.bytes + frame.length > self.most_bytes {
            return Err(frame);
        }
        self.bytes += frame.length;
        self.came += 1;
        self.waiting.push(Reverse(Waiting {
            due,
            number: self.came,
            frame,
        }));
        Ok(())
    }

    pub fn next_due(&self) -> Option<Instant> {
        self.waiting.peek().map(|Reverse(first)| first.due)
    }

    pub fn pop(&mut self) -> Option<(Instant, Frame)> {
        let Reverse(first) = self.waiting.pop()?;
        self.bytes -= first.frame.length;
        Some((first.due, first.frame))
    }

    /// Frames and bytes that wait.
    pub fn level(&self) -> (usize, usize) {
        (self.waiting.len(), self.bytes)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn frame(byte: u8) -> Frame {
        Frame::of(vec![byte; 100])
    }

    #[test]
    fn frames_go_when_they_are_due_and_those_of_one_time_as_they_came() {
        let (mut queue, now) = (Queue::of(10_000), Instant::now());
        for (ms, byte) in [(5, 1), (3, 2), (5, 3), (4, 4)] {
            let due = now + Duration::from_millis(ms);
            assert!(queue.push(due, frame(byte)).is_ok());
        }
        assert_eq!(queue.next_due(), Some(now + Duration::from_millis(3)));
        let order: Vec<u8> = std::iter::from_fn(|| queue.pop())
            .map(|(_, frame)| frame.bytes()[0])
            .collect();
        assert_eq!(order, [2, 4, 1, 3]);
        assert_eq!(queue.level(), (0, 0));
    }

    #[test]
    fn what_does_not_fit_is_given_back_and_fits_again_when_one_has_left() {
        let (mut queue, now) = (Queue::of(250), Instant::now());
        assert!(queue.push(now, frame(1)).is_ok());
        assert!(queue.push(now, frame(2)).is_ok());
        let refused = queue.push(now, frame(3)).expect_err("it is full");
        assert_eq!(queue.level(), (2, 200));
        queue.pop();
        assert!(queue.push(now, refused).is_ok());
    }

    #[test]
    fn long_frames_stay_where_they_were_read_and_short_ones_do_not() {
        let mut rooms = Rooms::default();
        let mut room = rooms.room();
        room[0] = 7;
        let short = rooms.keep(room, 100);
        assert_eq!((short.room.len(), short.bytes()[0]), (100, 7));
        assert_eq!(rooms.0.len(), 1, "the room is to be had again");
        let room = rooms.room();
        let long = rooms.keep(room, 40_000);
        assert_eq!((rooms.0.len(), long.bytes().len()), (0, 40_000));
        rooms.free(long);
        assert_eq!(rooms.0.len(), 1);
    }
}
