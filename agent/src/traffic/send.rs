//! How a stream sends. Other ways (zero copy, splice, io_uring) are other implementations of `Sender`.

use std::io;
use std::os::fd::BorrowedFd;
use std::sync::Arc;

use rustix::net::SendFlags;

pub trait Sender: Send {
    /// Hands the kernel the next bytes in one call; returns how many it took.
    fn send(&mut self, socket: BorrowedFd<'_>) -> io::Result<usize>;
}

/// Sends one prepared message again and again, one call a message; what a call did not take is sent by the next.
pub struct Messages {
    message: Arc<[u8]>,
    sent: usize,
}

impl Messages {
    pub fn new(message: Arc<[u8]>) -> Self {
        Self { message, sent: 0 }
    }
}

impl Sender for Messages {
    fn send(&mut self, socket: BorrowedFd<'_>) -> io::Result<usize> {
        let count = rustix::net::send(socket, &self.message[self.sent..], SendFlags::NOSIGNAL)?;
        self.sent = (self.sent + count) % self.message.len();
        Ok(count)
    }
}

/// A message of that many bytes. They differ and are written: memory never written to is one page of zeroes that stays
/// in the cache, and no application's data is that.
pub fn message(bytes: usize) -> Arc<[u8]> {
    (0..bytes).map(|at| ((at * 31) >> 3) as u8).collect()
}
