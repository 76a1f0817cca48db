//! How a stream receives. Other ways (zero copy, splice, io_uring) are other implementations of `Receiver`.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::time::{Duration, Instant};

use rustix::net::RecvFlags;
use rustix::net::sockopt::socket_recv_buffer_size;
use serde::Deserialize;

/// The most that one call takes.
const MAX_RECEIVE_BYTES: usize = 1 << 20;
/// What a call takes of a stream that is fast enough for data to gather before the next one.
const FAST_STREAM_BYTES: usize = 16 << 10;
/// How long it may gather; the kernel adds up to 50 µs (the timer slack of a thread), and mostly does.
pub const COALESCING_TIME: Duration = Duration::from_micros(20);
/// A call that takes less, and waits no longer for it, is one of a stream of many small segments: fast enough as well.
const MIN_COALESCING_TIME: Duration = Duration::from_micros(50);
/// How long such a stream may gather: it fills no buffer meanwhile.
const SMALL_COALESCING_TIME: Duration = Duration::from_micros(100);
/// The share of the receive buffer that may fill meanwhile: a window that closes would hold the source back.
const FILLED_BUFFER_SHARE: usize = 8;
/// So many calls long nothing gathers after more than that share had.
const CAREFUL_CALLS: u32 = 256;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ReceiveMode {
    Discard,
    Copy,
}

pub trait Receiver: Send {
    /// Takes what has come in one call; returns how many bytes that were, 0 at the end of the data.
    fn receive(&mut self, socket: BorrowedFd<'_>) -> io::Result<usize>;
}

/// Has the kernel throw the data away (MSG_TRUNC, tcp(7)): it goes through all of TCP, and is never copied out.
pub struct Discard;

impl Receiver for Discard {
    fn receive(&mut self, socket: BorrowedFd<'_>) -> io::Result<usize> {
        // SAFETY: with MSG_TRUNC the kernel writes nothing for a TCP socket; a null pointer makes sure of it.
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

/// Lets the data of a fast stream gather before the next call. A sink that sleeps in the call itself is woken for nearly
/// every segment, and that costs the CPU that receives them, mostly the sender's, up to half of what it can do.
pub struct CoalescingReceiver<R> {
    inner: R,
    /// Calls to come before which nothing gathers.
    careful: u32,
}

impl<R: Receiver> CoalescingReceiver<R> {
    pub fn new(inner: R) -> Self {
        Self { inner, careful: 0 }
    }
}

impl<R: Receiver> Receiver for CoalescingReceiver<R> {
    fn receive(&mut self, socket: BorrowedFd<'_>) -> io::Result<usize> {
        if self.careful > 0 {
            self.careful -= 1;
            return self.inner.receive(socket);
        }
        let began = Instant::now();
        let count = self.inner.receive(socket)?;
        let gathering = match count {
            FAST_STREAM_BYTES.. => COALESCING_TIME,
            1.. if began.elapsed() < MIN_COALESCING_TIME => SMALL_COALESCING_TIME,
            _ => return Ok(count),
        };
        if count < MAX_RECEIVE_BYTES
            && count * FILLED_BUFFER_SHARE <= socket_recv_buffer_size(socket)?
        {
            std::thread::sleep(gathering);
        } else {
            self.careful = CAREFUL_CALLS;
        }
        Ok(count)
    }
}

/// Copies the data out, as an application does that looks at it.
pub struct Copy {
    buffer: Vec<u8>,
}

impl Default for Copy {
    fn default() -> Self {
        Self::new()
    }
}

impl Copy {
    pub fn new() -> Self {
        Self {
            buffer: vec![0; MAX_RECEIVE_BYTES],
        }
    }
}

impl Receiver for Copy {
    fn receive(&mut self, socket: BorrowedFd<'_>) -> io::Result<usize> {
        let (count, _) = rustix::net::recv(socket, &mut self.buffer[..], RecvFlags::empty())?;
        Ok(count)
    }
}
