//! How a stream receives. Other ways (zero copy, splice, io_uring) are other implementations of `Receiver`.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

use rustix::net::RecvFlags;

/// The most that one call takes.
const MOST_BYTES: usize = 1 << 20;

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
                MOST_BYTES,
                libc::MSG_TRUNC,
            )
        };
        usize::try_from(count).map_err(|_| io::Error::last_os_error())
    }
}

/// Copies the data out, as an application does that looks at it.
pub struct Copy {
    buffer: Vec<u8>,
}

impl Copy {
    pub fn new() -> Self {
        Self {
            buffer: vec![0; MOST_BYTES],
        }
    }
}

impl Receiver for Copy {
    fn receive(&mut self, socket: BorrowedFd<'_>) -> io::Result<usize> {
        let (count, _) = rustix::net::recv(socket, &mut self.buffer[..], RecvFlags::empty())?;
        Ok(count)
    }
}
