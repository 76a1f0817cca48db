//! How a stream sends: the modes that there are, the message that all of them send, and the plain one.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;

use rustix::net::SendFlags;
use serde::{Deserialize, Serialize};
use socket2::Socket;

use super::send_pages::{FromFile, FromPipe};
use super::send_uring::Submissions;
use super::send_zerocopy::Lending;
use crate::error::{Error, Kind, Result};

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
pub struct Sending {
    pub mode: SendMode,
    /// Messages that one call hands over; more than one only by io_uring.
    pub batch: u32,
}

impl Sending {
    /// Whether this kernel can send so: a socket that has no connection must get as far as to be told that.
    pub fn check(self, unconnected: &Socket) -> Result<()> {
        let tried =
            senders(1, self).and_then(|sender| sender(unconnected)?.send(unconnected.as_fd()));
        match tried {
            Err(error) if !matches!(error.raw_os_error(), Some(libc::EPIPE | libc::ENOTCONN)) => {
                let operation = format!("send by {}", self.mode.call());
                Err(Error::system(operation, error).of(Kind::SendMode))
            }
            _ => Ok(()),
        }
    }
}

impl SendMode {
    /// What of the kernel's it needs.
    fn call(self) -> &'static str {
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

/// What became of the messages that were lent to the kernel, as it said itself.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Lent {
    /// Sends whose memory went out without a copy.
    pub in_place: u64,
    /// Sends that the kernel copied after all, on their way.
    pub copied: u64,
    /// Sends of which it had said nothing by the end of the stream.
    pub unsettled: u64,
}

pub trait Sender: Send {
    /// Hands the kernel the next bytes in one call; returns how many it took.
    fn send(&mut self, socket: BorrowedFd<'_>) -> io::Result<usize>;

    /// Hears what the kernel has to say of memory that it was lent; `None` where none is.
    fn settle(&mut self, _socket: BorrowedFd<'_>) -> Option<Lent> {
        None
    }
}

/// Makes a sender for a socket, and the socket ready for it.
pub type MakeSender = Box<dyn Fn(&Socket) -> io::Result<Box<dyn Sender>>>;

/// What makes the senders of one trial: all of them send the same memory.
pub fn senders(message_bytes: usize, sending: Sending) -> io::Result<MakeSender> {
    let message = message(message_bytes);
    Ok(match sending.mode {
        SendMode::Copy => Box::new(move |_| Ok(Box::new(Messages::new(Arc::clone(&message))))),
        SendMode::Sendfile => {
            let file = FromFile::new(&message)?;
            Box::new(move |_| Ok(Box::new(file.clone())))
        }
        SendMode::Splice => Box::new(move |_| Ok(Box::new(FromPipe::new(Arc::clone(&message))?))),
        SendMode::Zerocopy => {
            Box::new(move |socket| Ok(Box::new(Lending::new(Arc::clone(&message), socket)?)))
        }
        SendMode::IoUring | SendMode::IoUringZerocopy => Box::new(move |socket| {
            let message = Arc::clone(&message);
            Ok(Box::new(Submissions::new(message, sending, socket)?))
        }),
    })
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

#[cfg(test)]
mod tests {
    use super::*;
    use socket2::{Domain, Type};

    #[test]
    fn what_the_kernel_lacks_is_said_with_the_call_that_needs_it() {
        let unheard_of = Sending {
            mode: SendMode::IoUring,
            // More than a ring may have.
            batch: 1 << 20,
        };
        let socket = Socket::new(Domain::IPV4, Type::STREAM, None).expect("a socket");
        let error = unheard_of.check(&socket).expect_err("no ring is so large");
        assert_eq!(error.code(), -32001);
        assert!(error.to_string().contains("send by io_uring"), "{error}");
        assert_eq!(error.data().expect("data")["kind"], "send_mode");
    }
}
