//! Sending pages that the kernel has already: of a file in memory (sendfile), or of this process through a pipe (splice).

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use rustix::fs::{MemfdFlags, memfd_create, sendfile};
use rustix::pipe::{
    IoSliceRaw, PipeFlags, SpliceFlags, fcntl_setpipe_size, pipe_with, splice, vmsplice,
};

use crate::send::Sender;

/// The largest pipe that a process may have without privileges (pipe(7), /proc/sys/fs/pipe-max-size).
const MAX_PIPE_BYTES: usize = 1 << 20;

/// Sends a message that stands in a file in memory; its copies share the file.
#[derive(Clone)]
pub struct FileSender {
    file: Arc<OwnedFd>,
    bytes: u64,
    sent: u64,
}

impl FileSender {
    pub fn new(message: &[u8]) -> io::Result<Self> {
        let file = memfd_create("message", MemfdFlags::CLOEXEC)?;
        let mut left = message;
        while !left.is_empty() {
            let written = rustix::io::write(&file, left)?;
            left = &left[written..];
        }
        Ok(Self {
            file: Arc::new(file),
            bytes: message.len() as u64,
            sent: 0,
        })
    }
}

impl Sender for FileSender {
    fn send(&mut self, socket: BorrowedFd<'_>) -> io::Result<usize> {
        let left = (self.bytes - self.sent) as usize;
        let mut sent = self.sent;
        let count = sendfile(socket, &*self.file, Some(&mut sent), left)?;
        self.sent = (self.sent + count as u64) % self.bytes;
        Ok(count)
    }
}

/// Sends a message from this process's own memory: its pages are put into a pipe, and from there into the socket.
pub struct PipeSender {
    message: Arc<[u8]>,
    read_end: OwnedFd,
    write_end: OwnedFd,
    /// Of the message, what has been put into the pipe.
    filled: usize,
    in_pipe: usize,
}

impl PipeSender {
    pub fn new(message: Arc<[u8]>) -> io::Result<Self> {
        let (read_end, write_end) = pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK)?;
        let wanted = message.len().clamp(1, MAX_PIPE_BYTES);
        // A user may be denied so much; the pipe then stays as it is and takes more calls.
        let _ = fcntl_setpipe_size(&write_end, wanted);
        Ok(Self {
            message,
            read_end,
            write_end,
            filled: 0,
            in_pipe: 0,
        })
    }

    fn fill(&mut self) -> io::Result<()> {
        let slice = [IoSliceRaw::from_slice(&self.message[self.filled..])];
        // SAFETY: the end is the pipe's write end, so the memory is only read; it is not given away (SPLICE_F_GIFT), and
        // is never written to again, so what is on its way stays as it is.
        let count = unsafe { vmsplice(self.write_end.as_fd(), &slice, SpliceFlags::NONBLOCK)? };
        self.filled = (self.filled + count) % self.message.len();
        self.in_pipe = count;
        Ok(())
    }
}

impl Sender for PipeSender {
    fn send(&mut self, socket: BorrowedFd<'_>) -> io::Result<usize> {
        if self.in_pipe == 0 {
            self.fill()?;
        }
        // Whether it waits is the socket's to say.
        let from = &self.read_end;
        let count = splice(from, None, socket, None, self.in_pipe, SpliceFlags::empty())?;
        self.in_pipe -= count;
        Ok(count)
    }
}
