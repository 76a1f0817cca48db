//! Sends existing pages: of a file in memory (sendfile), or of this process through a pipe (splice).

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use rustix::fs::{MemfdFlags, memfd_create, sendfile};
use rustix::pipe::{
    IoSliceRaw, PipeFlags, SpliceFlags, fcntl_setpipe_size, pipe_with, splice, vmsplice,
};

use crate::send::Sender;

/// Default maximum size of an unprivileged process's pipe (pipe(7), /proc/sys/fs/pipe-max-size).
const MAX_PIPE_BYTES: usize = 1 << 20;

/// Sends a message from a file in memory; clones share the file.
#[derive(Clone)]
pub(crate) struct FileSender {
    file: Arc<OwnedFd>,
    bytes: u64,
    offset: u64,
}

impl FileSender {
    /// Creates a sender and writes the message to its file.
    ///
    /// # Errors
    ///
    /// The system refuses the file.
    pub fn new(message: &[u8]) -> io::Result<Self> {
        let file = memfd_create("message", MemfdFlags::CLOEXEC)?;
        let mut rest = message;
        while !rest.is_empty() {
            let written = rustix::io::write(&file, rest)?;
            rest = &rest[written..];
        }
        Ok(Self {
            file: Arc::new(file),
            bytes: message.len() as u64,
            offset: 0,
        })
    }
}

impl Sender for FileSender {
    fn send(&mut self, socket: BorrowedFd<'_>) -> io::Result<usize> {
        let rest = (self.bytes - self.offset) as usize;
        let mut offset = self.offset;
        let count = sendfile(socket, &*self.file, Some(&mut offset), rest)?;
        self.offset = (self.offset + count as u64) % self.bytes;
        Ok(count)
    }
}

/// Sends a message from the memory of this process: moves its pages to a pipe, and from there to the socket.
pub(crate) struct PipeSender {
    message: Arc<[u8]>,
    read_end: OwnedFd,
    write_end: OwnedFd,
    /// Start of the part of the message that is not in the pipe yet.
    offset: usize,
    /// Bytes in the pipe.
    pipe_bytes: usize,
}

impl PipeSender {
    /// Creates a sender and its pipe.
    ///
    /// # Errors
    ///
    /// The system refuses the pipe.
    pub fn new(message: Arc<[u8]>) -> io::Result<Self> {
        let (read_end, write_end) = pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK)?;
        let pipe_bytes = message.len().clamp(1, MAX_PIPE_BYTES);
        // If the system refuses the size, the pipe keeps its default size and needs more calls.
        let _ = fcntl_setpipe_size(&write_end, pipe_bytes);
        Ok(Self {
            message,
            read_end,
            write_end,
            offset: 0,
            pipe_bytes: 0,
        })
    }

    fn fill(&mut self) -> io::Result<()> {
        let slice = [IoSliceRaw::from_slice(&self.message[self.offset..])];
        // SAFETY: this is the write end of the pipe, so the kernel only reads the memory. It is not a gift
        // (SPLICE_F_GIFT), and it is never written again, so data in transit does not change.
        let count = unsafe { vmsplice(self.write_end.as_fd(), &slice, SpliceFlags::NONBLOCK)? };
        self.offset = (self.offset + count) % self.message.len();
        self.pipe_bytes = count;
        Ok(())
    }
}

impl Sender for PipeSender {
    fn send(&mut self, socket: BorrowedFd<'_>) -> io::Result<usize> {
        if self.pipe_bytes == 0 {
            self.fill()?;
        }
        // No SPLICE_F_NONBLOCK: the socket determines whether the call blocks.
        let pipe = &self.read_end;
        let count = splice(
            pipe,
            None,
            socket,
            None,
            self.pipe_bytes,
            SpliceFlags::empty(),
        )?;
        self.pipe_bytes -= count;
        Ok(count)
    }
}
