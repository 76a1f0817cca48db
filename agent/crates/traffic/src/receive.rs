//! The receive modes of a stream.
//!
//! Each mode is an implementation of [`Receiver`]; others (zero copy, splice, io_uring) are possible.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::time::{Duration, Instant};

use rustix::net::RecvFlags;
use rustix::net::sockopt::socket_recv_buffer_size;
use serde::Deserialize;

use vnetbench_streams::arrival_gaps::ArrivalReport;

/// Maximum bytes that one call receives.
pub(crate) const MAX_RECEIVE_BYTES: usize = 1 << 20;
/// A call that receives this many bytes belongs to a fast stream, whose next call can wait for more data.
const MIN_CALL_BYTES_FOR_DELAY: usize = 16 << 10;
/// Delay before the next call of a fast stream.
///
/// The kernel usually adds up to 50 µs, the timer slack of a thread.
pub const COALESCING_DELAY: Duration = Duration::from_micros(20);
/// A call that receives fewer bytes in less than this time belongs to a stream of many small segments.
const MAX_SMALL_SEGMENT_CALL_TIME: Duration = Duration::from_micros(50);
/// Delay before the next call of such a stream. Its data does not fill the buffer in this time.
const SMALL_SEGMENT_COALESCING_DELAY: Duration = Duration::from_micros(100);
/// One call may receive 1/8 of the receive buffer before the delays pause.
///
/// If the buffer fills during a delay, the receive window closes and holds the source back.
const DELAY_PAUSE_BUFFER_DIVISOR: usize = 8;
/// Number of calls without a delay after a call that received more than that share.
const CALLS_PER_DELAY_PAUSE: u32 = 256;

/// How a sink receives data.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ReceiveMode {
    /// The kernel discards the data ([`DiscardReceiver`]).
    Discard,
    /// The kernel copies the data to the process ([`CopyReceiver`]).
    Copy,
}

/// Receives the data of a stream.
pub trait Receiver: Send {
    /// Receives in one call; returns the number of bytes, 0 at the end of the data.
    ///
    /// # Errors
    ///
    /// The call fails, with `EAGAIN` if the socket does not block and has no data.
    fn receive(&mut self, socket: BorrowedFd<'_>) -> io::Result<usize>;

    /// Returns when messages arrived, at the end of the stream; `None` if this receiver does not record it.
    fn take_arrivals(&mut self) -> Option<ArrivalReport> {
        None
    }
}

/// Lets the kernel discard the data (MSG_TRUNC, tcp(7)).
///
/// The data passes through all of TCP but is not copied to the process.
pub struct DiscardReceiver;

impl Receiver for DiscardReceiver {
    fn receive(&mut self, socket: BorrowedFd<'_>) -> io::Result<usize> {
        // SAFETY: with MSG_TRUNC the kernel writes nothing for a TCP socket; the null pointer ensures it.
        let count = unsafe {
            libc::recv(
                socket.as_raw_fd(),
                std::ptr::null_mut(),
                MAX_RECEIVE_BYTES,
                libc::MSG_TRUNC,
            )
        };
        usize::try_from(count).map_err(|_| io::Error::last_os_error())
    }
}

/// Delays the next call of a fast stream, so that it receives more data at once.
///
/// The kernel wakes a sink that sleeps in the call for nearly every segment. These wakeups cost the CPU that receives
/// the segments, mostly the sender's, up to half of its capacity.
pub struct DelayedCallReceiver<R> {
    inner: R,
    /// Number of next calls without a delay.
    remaining_undelayed_calls: u32,
}

impl<R: Receiver> DelayedCallReceiver<R> {
    /// Wraps a receiver.
    pub fn new(inner: R) -> Self {
        Self {
            inner,
            remaining_undelayed_calls: 0,
        }
    }
}

impl<R: Receiver> Receiver for DelayedCallReceiver<R> {
    fn receive(&mut self, socket: BorrowedFd<'_>) -> io::Result<usize> {
        if self.remaining_undelayed_calls > 0 {
            self.remaining_undelayed_calls -= 1;
            return self.inner.receive(socket);
        }
        let started_at = Instant::now();
        let count = self.inner.receive(socket)?;
        let delay = match count {
            MIN_CALL_BYTES_FOR_DELAY.. => COALESCING_DELAY,
            1.. if started_at.elapsed() < MAX_SMALL_SEGMENT_CALL_TIME => {
                SMALL_SEGMENT_COALESCING_DELAY
            }
            _ => return Ok(count),
        };
        if count < MAX_RECEIVE_BYTES
            && count * DELAY_PAUSE_BUFFER_DIVISOR <= socket_recv_buffer_size(socket)?
        {
            std::thread::sleep(delay);
        } else {
            self.remaining_undelayed_calls = CALLS_PER_DELAY_PAUSE;
        }
        Ok(count)
    }
}

/// Copies the data to the process, like an application that reads it.
pub struct CopyReceiver {
    buffer: Vec<u8>,
}

impl Default for CopyReceiver {
    fn default() -> Self {
        Self::new()
    }
}

impl CopyReceiver {
    /// Creates a receiver with its buffer.
    pub fn new() -> Self {
        Self {
            buffer: vec![0; MAX_RECEIVE_BYTES],
        }
    }
}

impl Receiver for CopyReceiver {
    fn receive(&mut self, socket: BorrowedFd<'_>) -> io::Result<usize> {
        let (count, _) = rustix::net::recv(socket, &mut self.buffer[..], RecvFlags::empty())?;
        Ok(count)
    }
}
