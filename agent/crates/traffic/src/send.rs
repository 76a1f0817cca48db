//! The send modes of a stream, the message that they send, and the sender that copies.

use std::io;
use std::os::fd::BorrowedFd;
use std::sync::Arc;

use rustix::net::SendFlags;
use serde::Deserialize;

use vnetbench_streams::ZeroCopyCounts;

/// How a source sends data.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SendMode {
    /// `send`: the kernel copies the message.
    Copy,
    /// `sendfile` from a file in memory.
    Sendfile,
    /// `vmsplice` and `splice` through a pipe.
    Splice,
    /// `send` with MSG_ZEROCOPY.
    Zerocopy,
    /// io_uring.
    IoUring,
    /// io_uring with SEND_ZC.
    IoUringZerocopy,
}

/// The requested way to send.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SendOptions {
    /// The send mode.
    pub mode: SendMode,
    /// Messages per system call; more than 1 only with io_uring.
    pub batch: u32,
}

impl SendMode {
    /// Returns the kernel feature that the mode needs, for messages.
    pub(crate) fn kernel_feature_name(self) -> &'static str {
        match self {
            Self::Copy => "send",
            Self::Sendfile => "sendfile",
            Self::Splice => "splice",
            Self::Zerocopy => "MSG_ZEROCOPY",
            Self::IoUring => "io_uring",
            Self::IoUringZerocopy => "io_uring's SEND_ZC",
        }
    }

    /// Returns whether one system call can send several messages.
    pub fn is_batched(self) -> bool {
        matches!(self, Self::IoUring | Self::IoUringZerocopy)
    }
}

/// Sends the data of a stream.
pub trait Sender: Send {
    /// Sends the next bytes in one call; returns how many the kernel accepted.
    ///
    /// # Errors
    ///
    /// The call fails, with `EAGAIN` if the socket does not block and has no space.
    fn send(&mut self, socket: BorrowedFd<'_>) -> io::Result<usize>;

    /// Reads available zero-copy completions; returns the counts, or `None` for other send modes.
    fn reap_zero_copy_completions(&mut self, _socket: BorrowedFd<'_>) -> Option<ZeroCopyCounts> {
        None
    }
}

/// Sends one prepared message repeatedly, in one call each. The next call sends the rest of a partly sent message.
pub struct CopySender {
    message: Arc<[u8]>,
    /// Start of the unsent rest of the message.
    offset: usize,
}

impl CopySender {
    /// Creates a sender of the message.
    pub fn new(message: Arc<[u8]>) -> Self {
        Self { message, offset: 0 }
    }
}

impl Sender for CopySender {
    fn send(&mut self, socket: BorrowedFd<'_>) -> io::Result<usize> {
        let count = rustix::net::send(socket, &self.message[self.offset..], SendFlags::NOSIGNAL)?;
        self.offset = (self.offset + count) % self.message.len();
        Ok(count)
    }
}

/// Returns a message of varying bytes.
///
/// Memory that was never written is a single page of zeros, which stays in the cache. Data of applications is not.
pub fn make_message(bytes: usize) -> Arc<[u8]> {
    (0..bytes).map(|index| ((index * 31) >> 3) as u8).collect()
}
