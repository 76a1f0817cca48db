//! How a stream sends: the modes that there are, the message that all of them send, and the plain one.

use std::io;
use std::os::fd::BorrowedFd;
use std::sync::Arc;

use rustix::net::SendFlags;
use serde::Deserialize;

use vnetbench_streams::ZeroCopyCounts;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SendMode {
    Copy,
    Sendfile,
    Splice,
    Zerocopy,
    IoUring,
    IoUringZerocopy,
}

/// How messages are handed to the kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SendOptions {
    pub mode: SendMode,
    /// Messages that one call hands over; more than one only by io_uring.
    pub batch: u32,
}

impl SendMode {
    /// What of the kernel's it needs.
    pub(crate) fn kernel_feature(self) -> &'static str {
        match self {
            Self::Copy => "send",
            Self::Sendfile => "sendfile",
            Self::Splice => "splice",
            Self::Zerocopy => "MSG_ZEROCOPY",
            Self::IoUring => "io_uring",
            Self::IoUringZerocopy => "io_uring's SEND_ZC",
        }
    }

    pub fn is_batched(self) -> bool {
        matches!(self, Self::IoUring | Self::IoUringZerocopy)
    }
}

pub trait Sender: Send {
    /// Hands the kernel the next bytes in one call; returns how many it took.
    fn send(&mut self, socket: BorrowedFd<'_>) -> io::Result<usize>;

    /// Hears what the kernel has to say of memory that it was lent; `None` where none is.
    fn reap_completions(&mut self, _socket: BorrowedFd<'_>) -> Option<ZeroCopyCounts> {
        None
    }
}

/// Sends one prepared message again and again, one call a message; what a call did not take is sent by the next.
pub struct CopySender {
    message: Arc<[u8]>,
    sent: usize,
}

impl CopySender {
    pub fn new(message: Arc<[u8]>) -> Self {
        Self { message, sent: 0 }
    }
}

impl Sender for CopySender {
    fn send(&mut self, socket: BorrowedFd<'_>) -> io::Result<usize> {
        let count = rustix::net::send(socket, &self.message[self.sent..], SendFlags::NOSIGNAL)?;
        self.sent = (self.sent + count) % self.message.len();
        Ok(count)
    }
}

/// A message of that many bytes. They differ and are written: memory never written to is one page of zeroes that stays
/// in the cache, and no application's data is that.
pub fn make_message(bytes: usize) -> Arc<[u8]> {
    (0..bytes).map(|at| ((at * 31) >> 3) as u8).collect()
}
