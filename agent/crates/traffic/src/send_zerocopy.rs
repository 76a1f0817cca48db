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
/// Origin of the notifications of zero-copy sends (linux/errqueue.h).
const SO_EE_ORIGIN_ZEROCOPY: u8 = 5;
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

impl Completion {
    /// Returns the completion of a notification; `None` if it is about something else, such as an ICMP error or a time
    /// stamp.
    fn from_notification(error: &libc::sock_extended_err) -> Option<Self> {
        if error.ee_origin != SO_EE_ORIGIN_ZEROCOPY || error.ee_errno != 0 {
            return None;
        }
        Some(Self {
            // The range includes both ends; its 32-bit numbers wrap.
            sends: u64::from(error.ee_data.wrapping_sub(error.ee_info)) + 1,
            was_copied: error.ee_code == SO_EE_CODE_ZEROCOPY_COPIED,
        })
    }
}

/// Reads notifications up to the next completion; `None` if there is none yet.
fn read_completion(socket: BorrowedFd<'_>) -> Option<Completion> {
    loop {
        let error = read_notification(socket)?;
        if let Some(completion) = error.and_then(|error| Completion::from_notification(&error)) {
            return Some(completion);
        }
    }
}

/// Reads the next message of the error queue and returns its error, if it has one; `None` if the queue is empty.
fn read_notification(socket: BorrowedFd<'_>) -> Option<Option<libc::sock_extended_err>> {
    /// Control messages: time stamps, the error with its header, and an optional address.
    #[repr(C, align(8))]
    struct Control([u8; 256]);
    let mut control = Control([0; 256]);
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
    let mut message = unsafe { libc::CMSG_FIRSTHDR(&header) };
    while !message.is_null() {
        // SAFETY: `message` is a control message within the buffer, which is aligned for its header.
        let (level, kind, length) = unsafe {
            let message = &*message;
            (message.cmsg_level, message.cmsg_type, message.cmsg_len)
        };
        let has_error = matches!(
            (level, kind),
            (libc::SOL_IP, libc::IP_RECVERR) | (libc::SOL_IPV6, libc::IPV6_RECVERR)
        );
        // SAFETY: the macro computes a size.
        let needed = unsafe { libc::CMSG_LEN(size_of::<libc::sock_extended_err>() as _) };
        if has_error && length as usize >= needed as usize {
            // SAFETY: the data has the length of a `sock_extended_err` (linux/errqueue.h) at least; it is read unaligned.
            return Some(Some(unsafe {
                libc::CMSG_DATA(message)
                    .cast::<libc::sock_extended_err>()
                    .read_unaligned()
            }));
        }
        // SAFETY: `message` is a control message of `header`; the macro stays within the lengths in it.
        message = unsafe { libc::CMSG_NXTHDR(&header, message) };
    }
    Some(None)
}

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::net::{TcpListener, TcpStream};

    use super::*;

    const MESSAGE_BYTES: usize = 4096;
    const SENDS: u64 = 40;
    const ROUNDS: u32 = 6000;

    /// Returns the sender's and the receiver's end of a connection over the loopback.
    fn connection() -> (Socket, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").expect("listener");
        let address = listener.local_addr().expect("address");
        let sender = TcpStream::connect(address).expect("connection");
        (sender.into(), listener.accept().expect("connection").0)
    }

    /// Sends messages and waits until each has a notification. Returns the counts.
    fn send_all(socket: &Socket, mut receiver: TcpStream) -> ZeroCopyCounts {
        let message: Arc<[u8]> = vec![7; MESSAGE_BYTES].into();
        let mut sender = ZeroCopySender::new(message, socket).expect("zero-copy sends");
        let mut received = vec![0; MESSAGE_BYTES];
        let mut sends = 0;
        while sends < SENDS {
            match sender.send(socket.as_fd()) {
                Ok(bytes) => {
                    receiver.read_exact(&mut received[..bytes]).expect("data");
                    sends += 1;
                }
                Err(error) => assert_eq!(error.kind(), io::ErrorKind::Interrupted),
            }
        }
        for _ in 0..ROUNDS {
            let counts = sender.reap_zero_copy_completions(socket.as_fd());
            if counts.is_some_and(|counts| counts.uncompleted == 0) {
                break;
            }
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
        sender.counts
    }

    #[test]
    fn each_send_is_counted_once() {
        let (socket, receiver) = connection();
        let counts = send_all(&socket, receiver);
        assert_eq!(counts.in_place + counts.copied, SENDS, "{counts:?}");
    }

    #[test]
    fn time_stamps_on_the_error_queue_count_as_no_send() {
        let (socket, receiver) = connection();
        let flags = libc::SOF_TIMESTAMPING_TX_SOFTWARE
            | libc::SOF_TIMESTAMPING_TX_ACK
            | libc::SOF_TIMESTAMPING_SOFTWARE
            | libc::SOF_TIMESTAMPING_OPT_ID
            | libc::SOF_TIMESTAMPING_OPT_TSONLY;
        socket_option::set(&socket, libc::SOL_SOCKET, libc::SO_TIMESTAMPING, flags)
            .expect("time stamps");
        let counts = send_all(&socket, receiver);
        assert_eq!(counts.uncompleted, 0, "{counts:?}");
        assert_eq!(counts.in_place + counts.copied, SENDS, "{counts:?}");
    }

    #[test]
    fn only_notifications_of_zero_copy_sends_are_completions() {
        let notification = |origin, errno| libc::sock_extended_err {
            ee_errno: errno,
            ee_origin: origin,
            ee_type: 0,
            ee_code: SO_EE_CODE_ZEROCOPY_COPIED,
            ee_pad: 0,
            ee_info: u32::MAX,
            ee_data: 1,
        };
        let completion =
            |origin, errno| Completion::from_notification(&notification(origin, errno));
        let wrapped = completion(SO_EE_ORIGIN_ZEROCOPY, 0).expect("a completion");
        assert_eq!((wrapped.sends, wrapped.was_copied), (3, true));
        for origin in [
            libc::SO_EE_ORIGIN_ICMP,
            libc::SO_EE_ORIGIN_TIMESTAMPING,
            libc::SO_EE_ORIGIN_LOCAL,
        ] {
            assert!(completion(origin, 0).is_none());
        }
        assert!(completion(SO_EE_ORIGIN_ZEROCOPY, 105).is_none());
    }
}
