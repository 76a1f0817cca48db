//! Sends with MSG_ZEROCOPY (Linux: Documentation/networking/msg_zerocopy.rst).
//!
//! The kernel uses the memory of the process. A notification on the socket's error queue completes a send and says
//! whether the kernel copied the data after all.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::sync::Arc;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use socket2::Socket;

use crate::send::Sender;
use vnetbench_streams::ZeroCopyCounts;
use vnetbench_system::socket_option;

/// Number of sends between two readings of the error queue, so that notifications do not fill the memory for them.
const SENDS_PER_REAP: u32 = 16;
/// Maximum wait of a blocking send for completions, after which the stream checks its command.
const COMPLETION_TIMEOUT: Timespec = Timespec {
    tv_sec: 0,
    tv_nsec: 20_000_000,
};
/// Code of a notification whose sends the kernel copied (linux/errqueue.h).
const SO_EE_CODE_ZEROCOPY_COPIED: u8 = 1;

/// Sends one prepared message repeatedly without a copy.
pub(crate) struct ZeroCopySender {
    message: Arc<[u8]>,
    /// Start of the unsent rest of the message.
    offset: usize,
    sends_since_reap: u32,
    counts: ZeroCopyCounts,
    /// Whether sends wait until the kernel has space.
    is_blocking: bool,
}

impl ZeroCopySender {
    /// Creates a sender and enables SO_ZEROCOPY on the socket.
    ///
    /// # Errors
    ///
    /// The kernel refuses the option.
    pub fn new(message: Arc<[u8]>, socket: &Socket) -> io::Result<Self> {
        socket_option::set(socket, libc::SOL_SOCKET, libc::SO_ZEROCOPY, 1u32)?;
        Ok(Self {
            message,
            offset: 0,
            sends_since_reap: 0,
            counts: ZeroCopyCounts::default(),
            is_blocking: !socket.nonblocking()?,
        })
    }

    /// Reads all available notifications.
    fn reap(&mut self, socket: BorrowedFd<'_>) {
        self.sends_since_reap = 0;
        while let Some(Completion { sends, was_copied }) = read_completion(socket) {
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
        let rest = &self.message[self.offset..];
        // SAFETY: the slice is valid for reads. Its memory is never written, however long the kernel holds it.
        let count = unsafe {
            libc::send(
                socket.as_raw_fd(),
                rest.as_ptr().cast(),
                rest.len(),
                libc::MSG_ZEROCOPY | libc::MSG_NOSIGNAL,
            )
        };
        if let Ok(count) = usize::try_from(count) {
            self.offset = (self.offset + count) % self.message.len();
            self.sends_since_reap += 1;
            self.counts.uncompleted += 1;
            return Ok(count);
        }
        let error = io::Error::last_os_error();
        match error.raw_os_error() {
            // Unread notifications use all the memory for them (net.core.optmem_max).
            Some(libc::ENOBUFS) => {
                if self.is_blocking {
                    // A message on the error queue ends poll without a requested event.
                    poll(
                        &mut [PollFd::new(&socket, PollFlags::empty())],
                        Some(&COMPLETION_TIMEOUT),
                    )?;
                }
                self.reap(socket);
                let errno = if self.is_blocking {
                    libc::EINTR
                } else {
                    libc::EAGAIN
                };
                Err(io::Error::from_raw_os_error(errno))
            }
            Some(libc::EAGAIN) => {
                self.reap(socket);
                Err(error)
            }
            _ => Err(error),
        }
    }

    fn reap_zero_copy_completions(&mut self, socket: BorrowedFd<'_>) -> Option<ZeroCopyCounts> {
        self.reap(socket);
        Some(self.counts)
    }
}

/// The end of consecutive sends.
struct Completion {
    /// Number of sends.
    sends: u64,
    /// Whether the kernel copied their data.
    was_copied: bool,
}

/// Reads the next notification; `None` if there is none yet.
fn read_completion(socket: BorrowedFd<'_>) -> Option<Completion> {
    /// A control message: its header, the error, and an optional address.
    #[repr(C, align(8))]
    struct Control([u8; 128]);
    let mut control = Control([0; 128]);
    // SAFETY: an all-zero `msghdr` is valid: it has no name, buffers or control message.
    let mut header: libc::msghdr = unsafe { std::mem::zeroed() };
    header.msg_control = (&raw mut control).cast();
    header.msg_controllen = size_of::<Control>() as _;
    // SAFETY: `header` and the memory that it points to are valid during the call.
    let result =
        unsafe { libc::recvmsg(socket.as_fd().as_raw_fd(), &mut header, libc::MSG_ERRQUEUE) };
    if result < 0 {
        return None;
    }
    // SAFETY: the kernel filled in `header`; the macro stays within the lengths in it.
    let first = unsafe { libc::CMSG_FIRSTHDR(&header) };
    if first.is_null() {
        return None;
    }
    // SAFETY: the data of an error queue's control message starts with a `sock_extended_err` (linux/errqueue.h), which
    // is read unaligned. The buffer of 128 bytes is larger than both together.
    let error: libc::sock_extended_err = unsafe {
        libc::CMSG_DATA(first)
            .cast::<libc::sock_extended_err>()
            .read_unaligned()
    };
    // The range includes both ends; its 32-bit numbers wrap.
    let sends = u64::from(error.ee_data.wrapping_sub(error.ee_info)) + 1;
    Some(Completion {
        sends,
        was_copied: error.ee_code == SO_EE_CODE_ZEROCOPY_COPIED,
    })
}
