//! Sending without a copy by MSG_ZEROCOPY (Linux: Documentation/networking/msg_zerocopy.rst): memory is lent to the kernel,
//! which says on the socket's error queue when it is done with it, and whether it had to copy after all.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::sync::Arc;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use socket2::Socket;

use crate::send::Sender;
use vnetbench_streams::ZeroCopyCounts;
use vnetbench_system::socket_option;

/// Sends after which the kernel is heard, so that what it has to say does not fill the memory that it has for that.
const SENDS_PER_REAP: u32 = 16;
/// How long a blocking send waits for memory that the kernel still holds before it looks for new orders.
const PATIENCE: Timespec = Timespec {
    tv_sec: 0,
    tv_nsec: 20_000_000,
};
/// linux/errqueue.h
const SO_EE_CODE_ZEROCOPY_COPIED: u8 = 1;

/// Lends one prepared message again and again.
pub struct ZeroCopySender {
    message: Arc<[u8]>,
    sent: usize,
    sends_since_reap: u32,
    counts: ZeroCopyCounts,
    /// Whether a send waits until there is room.
    waits: bool,
}

impl ZeroCopySender {
    pub fn new(message: Arc<[u8]>, socket: &Socket) -> io::Result<Self> {
        socket_option::set(socket, libc::SOL_SOCKET, libc::SO_ZEROCOPY, 1u32)?;
        Ok(Self {
            message,
            sent: 0,
            sends_since_reap: 0,
            counts: ZeroCopyCounts::default(),
            waits: !socket.nonblocking()?,
        })
    }

    fn reap(&mut self, socket: BorrowedFd<'_>) {
        self.sends_since_reap = 0;
        while let Some((sends, was_copied)) = read_completion(socket) {
            self.counts.uncompleted = self.counts.uncompleted.saturating_sub(sends);
            if was_copied {
                self.counts.copied += sends;
            } else {
                self.counts.in_place += sends;
            }
        }
    }
}

impl Sender for ZeroCopySender {
    fn send(&mut self, socket: BorrowedFd<'_>) -> io::Result<usize> {
        if self.sends_since_reap >= SENDS_PER_REAP {
            self.reap(socket);
        }
        let left = &self.message[self.sent..];
        // SAFETY: the slice is valid for reads, and its memory is never written to, however long the kernel holds it.
        let count = unsafe {
            libc::send(
                socket.as_raw_fd(),
                left.as_ptr().cast(),
                left.len(),
                libc::MSG_ZEROCOPY | libc::MSG_NOSIGNAL,
            )
        };
        if let Ok(count) = usize::try_from(count) {
            self.sent = (self.sent + count) % self.message.len();
            self.sends_since_reap += 1;
            self.counts.uncompleted += 1;
            return Ok(count);
        }
        let error = io::Error::last_os_error();
        match error.raw_os_error() {
            // The kernel holds as much as it may (net.core.optmem_max) until it has been heard.
            Some(libc::ENOBUFS) => {
                if self.waits {
                    // The error queue makes poll end whatever is asked for.
                    poll(
                        &mut [PollFd::new(&socket, PollFlags::empty())],
                        Some(&PATIENCE),
                    )?;
                }
                self.reap(socket);
                let again = if self.waits {
                    libc::EINTR
                } else {
                    libc::EAGAIN
                };
                Err(io::Error::from_raw_os_error(again))
            }
            Some(libc::EAGAIN) => {
                self.reap(socket);
                Err(error)
            }
            _ => Err(error),
        }
    }

    fn reap_completions(&mut self, socket: BorrowedFd<'_>) -> Option<ZeroCopyCounts> {
        self.reap(socket);
        Some(self.counts)
    }
}

/// The next sends that the kernel is done with, and whether it copied them; `None` where it has nothing to say.
fn read_completion(socket: BorrowedFd<'_>) -> Option<(u64, bool)> {
    /// A control message: its head, the error, and the address that may follow.
    #[repr(C, align(8))]
    struct Control([u8; 128]);
    let mut control = Control([0; 128]);
    // SAFETY: a message head of zeroes is a valid one, without name, buffers or control message.
    let mut head: libc::msghdr = unsafe { std::mem::zeroed() };
    head.msg_control = (&raw mut control).cast();
    head.msg_controllen = size_of::<Control>() as _;
    // SAFETY: `head` and the memory that it points to are valid through the call.
    let heard = unsafe { libc::recvmsg(socket.as_fd().as_raw_fd(), &mut head, libc::MSG_ERRQUEUE) };
    if heard < 0 {
        return None;
    }
    // SAFETY: the kernel has filled `head`; the macros stay within what it says there is.
    let first = unsafe { libc::CMSG_FIRSTHDR(&head) };
    if first.is_null() {
        return None;
    }
    // SAFETY: an error queue's control message begins with a `sock_extended_err` (linux/errqueue.h), which is read
    // unaligned, and 128 bytes are more than its head and itself.
    let error: libc::sock_extended_err = unsafe {
        libc::CMSG_DATA(first)
            .cast::<libc::sock_extended_err>()
            .read_unaligned()
    };
    // Both ends of the range belong to it; the numbers are 32 bits wide and wrap.
    let sends = u64::from(error.ee_data.wrapping_sub(error.ee_info)) + 1;
    Some((sends, error.ee_code == SO_EE_CODE_ZEROCOPY_COPIED))
}
