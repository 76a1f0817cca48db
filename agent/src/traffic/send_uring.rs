//! Sending by io_uring (io_uring(7)): one call submits a batch of messages, each a request of its own, and waits for them.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::sync::Arc;

use io_uring::register::Probe;
use io_uring::{IoUring, cqueue, opcode, squeue, types};

use super::send::{Lent, SendMode, Sender, Sending};

/// Messages that may be lent at a time; beyond that a call waits until the kernel is done with some.
const MOST_LENT: u64 = 1024;
/// linux/io_uring.h: what a notification says of its send.
const SEND_ZC_REPORT_USAGE: u16 = 1 << 3;
const NOTIF_USAGE_ZC_COPIED: u32 = 1 << 31;

/// Sends one prepared message again and again, a batch of them a call.
pub struct Submissions {
    ring: IoUring,
    is_enabled: bool,
    message: Arc<[u8]>,
    sent: usize,
    batch: u32,
    /// Where messages are lent.
    lent: Option<Lent>,
}

/// What a batch came to, as far as it is known.
#[derive(Default)]
struct Outcome {
    requests: u32,
    bytes: usize,
    error: Option<i32>,
}

impl Submissions {
    /// Fails where the kernel has no io_uring, forbids it (kernel.io_uring_disabled), or lacks what is used of it: task
    /// work that waits for the call (Linux 6.1), SEND_ZC (6.0).
    pub fn new(message: Arc<[u8]>, sending: Sending) -> io::Result<Self> {
        let lends = sending.mode == SendMode::IoUringZerocopy;
        // Disabled until its stream's own thread takes it: only one thread may submit.
        let ring: IoUring = IoUring::builder()
            .setup_r_disabled()
            .setup_single_issuer()
            .setup_defer_taskrun()
            .setup_cqsize(sending.batch.next_power_of_two() + 2 * MOST_LENT as u32)
            .build(sending.batch.next_power_of_two())?;
        let mut probe = Probe::new();
        ring.submitter().register_probe(&mut probe)?;
        let wanted = if lends {
            opcode::SendZc::CODE
        } else {
            opcode::Send::CODE
        };
        if !probe.is_supported(wanted) {
            return Err(io::Error::from_raw_os_error(libc::EOPNOTSUPP));
        }
        Ok(Self {
            ring,
            is_enabled: false,
            message,
            sent: 0,
            batch: sending.batch,
            lent: lends.then(Lent::default),
        })
    }

    /// A request for message number `place` of the batch. Each starts only when the one before it was sent whole: else
    /// messages could come to lie within others.
    fn request(&self, place: u32, socket: BorrowedFd<'_>) -> squeue::Entry {
        let rest = &self.message[if place == 0 { self.sent } else { 0 }..];
        let (socket, bytes) = (types::Fd(socket.as_raw_fd()), rest.len() as u32);
        let flags = libc::MSG_WAITALL | libc::MSG_NOSIGNAL;
        let entry = match self.lent {
            None => opcode::Send::new(socket, rest.as_ptr(), bytes)
                .flags(flags)
                .build(),
            Some(_) => opcode::SendZc::new(socket, rest.as_ptr(), bytes)
                .flags(flags)
                .zc_flags(SEND_ZC_REPORT_USAGE)
                .build(),
        };
        if place + 1 < self.batch {
            entry.flags(squeue::Flags::IO_LINK)
        } else {
            entry
        }
    }

    fn take_completions(&mut self, outcome: &mut Outcome) {
        for entry in self.ring.completion() {
            if cqueue::notif(entry.flags()) {
                if let Some(lent) = &mut self.lent {
                    lent.unsettled -= 1;
                    if entry.result() as u32 & NOTIF_USAGE_ZC_COPIED == 0 {
                        lent.in_place += 1;
                    } else {
                        lent.copied += 1;
                    }
                }
                continue;
            }
            if cqueue::more(entry.flags())
                && let Some(lent) = &mut self.lent
            {
                lent.unsettled += 1;
            }
            outcome.requests += 1;
            match usize::try_from(entry.result()) {
                Ok(bytes) => outcome.bytes += bytes,
                // The first of a batch says why; it cancels those that follow.
                Err(_) => outcome.error = outcome.error.or(Some(-entry.result())),
            }
        }
    }

    fn is_lent_out(&self) -> bool {
        self.lent.is_some_and(|lent| lent.unsettled >= MOST_LENT)
    }
}

/// Submits what there is, and waits for at least one completion; a signal only makes it return early.
fn enter(ring: &IoUring) -> io::Result<()> {
    match ring.submit_and_wait(1) {
        Err(error) if error.raw_os_error() != Some(libc::EINTR) => Err(error),
        _ => Ok(()),
    }
}

impl Sender for Submissions {
    fn send(&mut self, socket: BorrowedFd<'_>) -> io::Result<usize> {
        if !self.is_enabled {
            self.ring.submitter().register_enable_rings()?;
            self.is_enabled = true;
        }
        let mut outcome = Outcome::default();
        while self.is_lent_out() {
            enter(&self.ring)?;
            self.take_completions(&mut outcome);
        }
        for place in 0..self.batch {
            let request = self.request(place, socket);
            // SAFETY: the message outlives the request, which is waited for below; of messages that are lent the memory
            // is never written to, and the kernel holds its pages by itself.
            unsafe { self.ring.submission().push(&request) }.map_err(io::Error::other)?;
        }
        while outcome.requests < self.batch {
            enter(&self.ring)?;
            self.take_completions(&mut outcome);
        }
        match outcome {
            Outcome {
                bytes: 0,
                error: Some(errno),
                ..
            } => Err(io::Error::from_raw_os_error(errno)),
            Outcome { bytes, .. } => {
                self.sent = (self.sent + bytes) % self.message.len();
                Ok(bytes)
            }
        }
    }

    fn settle(&mut self, _socket: BorrowedFd<'_>) -> Option<Lent> {
        if self.is_enabled {
            // With task work that waits for a call, nothing comes without one; it fails only on a ring that is gone.
            let _ = self.ring.submit_and_wait(0);
            self.take_completions(&mut Outcome::default());
        }
        self.lent
    }
}
