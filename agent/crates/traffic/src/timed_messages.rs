//! Messages with their time of sending, for the gaps between the arrivals of a TCP stream (`arrival_gaps`).
//!
//! A source sends each message when it is due, whether the earlier ones have arrived or not, like an application with data
//! that does not wait. While TCP stalls, the send buffer fills and the call blocks; the overdue messages follow at once.
//! A sink notes when it has read the last byte of each message.

use std::io;
use std::num::NonZeroU64;
use std::os::fd::BorrowedFd;
use std::time::{Duration, Instant};

use rustix::net::{RecvFlags, SendFlags};
use rustix::thread::set_current_timer_slack;

use crate::receive::{MAX_RECEIVE_BYTES, Receiver};
use crate::send::{Sender, make_message};
use vnetbench_streams::arrival_gaps::{Arrival, ArrivalRecorder, ArrivalReport};
use vnetbench_streams::timing::{RequestRate, Schedule};
use vnetbench_system::clock::realtime_nanos;

/// Bytes at the start of a message: CLOCK_REALTIME in nanoseconds when the source began to send it, big endian.
pub const SENT_TIME_BYTES: usize = size_of::<u64>();
/// Time limit of one wait, after which the thread checks its command.
const STOP_CHECK_INTERVAL: Duration = Duration::from_millis(20);

/// Sends each message when it is due.
pub struct TimedMessageSender {
    message: Vec<u8>,
    schedule: Schedule,
    /// Number of the message that is due next, or partly sent.
    number: u64,
    /// Start of its unsent rest.
    offset: usize,
}

impl TimedMessageSender {
    /// Creates a sender of messages of this size, at least [`SENT_TIME_BYTES`].
    pub fn new(message_bytes: usize, per_s: f64) -> Self {
        Self {
            message: make_message(message_bytes).to_vec(),
            schedule: Schedule::new(RequestRate::staggered(per_s, 0, 1)),
            number: 0,
            offset: 0,
        }
    }
}

impl Sender for TimedMessageSender {
    /// Fails with `EINTR` if the message is not due for long, so that the thread can check its command.
    fn send(&mut self, socket: BorrowedFd<'_>) -> io::Result<usize> {
        if self.offset == 0 {
            if self.number == 0 {
                // Otherwise, the kernel may wake this thread up to 50 µs late, to combine wakeups.
                let _ = set_current_timer_slack(NonZeroU64::new(1));
            }
            let due = self.schedule.due_at(self.number);
            let remaining = due.saturating_duration_since(Instant::now());
            std::thread::sleep(remaining.min(STOP_CHECK_INTERVAL));
            if remaining > STOP_CHECK_INTERVAL {
                return Err(io::Error::from_raw_os_error(libc::EINTR));
            }
            self.message[..SENT_TIME_BYTES].copy_from_slice(&realtime_nanos().to_be_bytes());
        }
        let count = rustix::net::send(socket, &self.message[self.offset..], SendFlags::NOSIGNAL)?;
        self.offset += count;
        if self.offset == self.message.len() {
            self.offset = 0;
            self.number += 1;
        }
        Ok(count)
    }
}

/// Receives messages and records when each was complete.
pub struct TimedMessageReceiver {
    buffer: Vec<u8>,
    messages: MessageTracker,
    arrivals: ArrivalRecorder,
}

impl TimedMessageReceiver {
    /// Creates a receiver of messages of this size.
    pub fn new(message_bytes: usize) -> Self {
        Self {
            buffer: vec![0; MAX_RECEIVE_BYTES],
            messages: MessageTracker::new(message_bytes),
            arrivals: ArrivalRecorder::default(),
        }
    }
}

impl Receiver for TimedMessageReceiver {
    fn receive(&mut self, socket: BorrowedFd<'_>) -> io::Result<usize> {
        let (count, _) = rustix::net::recv(socket, &mut self.buffer[..], RecvFlags::empty())?;
        // The time of the read and not of the segment: a segment after a lost one waits for its retransmission.
        let received_nanos = realtime_nanos();
        let arrivals = &mut self.arrivals;
        self.messages
            .read(&self.buffer[..count], |number, sent_nanos| {
                let arrival = Arrival {
                    number,
                    sent_nanos,
                    received_nanos,
                };
                arrivals.record(arrival, 1);
            });
        Ok(count)
    }

    fn take_arrivals(&mut self) -> Option<ArrivalReport> {
        std::mem::take(&mut self.arrivals).into_report()
    }
}

/// Finds the messages in a stream of bytes.
struct MessageTracker {
    message_bytes: usize,
    sent_time: [u8; SENT_TIME_BYTES],
    number: u64,
    /// Bytes of the current message that were read.
    offset: usize,
}

impl MessageTracker {
    fn new(message_bytes: usize) -> Self {
        Self {
            message_bytes,
            sent_time: [0; SENT_TIME_BYTES],
            number: 0,
            offset: 0,
        }
    }

    /// Reads the next bytes; calls `on_message` with the number and the time of sending of each message that they complete.
    fn read(&mut self, mut bytes: &[u8], mut on_message: impl FnMut(u64, u64)) {
        while !bytes.is_empty() {
            let (part, rest) = bytes.split_at(bytes.len().min(self.message_bytes - self.offset));
            if let Some(time) = self.sent_time.get_mut(self.offset..) {
                let count = time.len().min(part.len());
                time[..count].copy_from_slice(&part[..count]);
            }
            self.offset += part.len();
            if self.offset == self.message_bytes {
                on_message(self.number, u64::from_be_bytes(self.sent_time));
                self.number += 1;
                self.offset = 0;
            }
            bytes = rest;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MESSAGE_BYTES: usize = 21;

    #[test]
    fn messages_are_found_however_the_stream_is_cut() {
        let stream: Vec<u8> = (0..50_u64)
            .flat_map(|number| {
                let mut message = vec![0xee; MESSAGE_BYTES];
                message[..SENT_TIME_BYTES].copy_from_slice(&(1000 + number).to_be_bytes());
                message
            })
            .collect();
        for read_bytes in [1, 3, 8, 20, 21, 22, 64, stream.len()] {
            let mut tracker = MessageTracker::new(MESSAGE_BYTES);
            let mut found = Vec::new();
            for bytes in stream.chunks(read_bytes) {
                tracker.read(bytes, |number, sent| found.push((number, sent)));
            }
            let expected: Vec<_> = (0..50).map(|number| (number, 1000 + number)).collect();
            assert_eq!(found, expected, "{read_bytes} bytes in each read");
        }
    }

    #[test]
    fn an_incomplete_message_has_not_arrived() {
        let mut tracker = MessageTracker::new(MESSAGE_BYTES);
        tracker.read(&[0; MESSAGE_BYTES - 1], |number, _| {
            panic!("message {number} is incomplete")
        });
    }
}
