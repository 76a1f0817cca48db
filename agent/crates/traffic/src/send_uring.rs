//! Sending by io_uring (io_uring(7)): one call submits a batch of messages, each a request of its own, and waits for them.

use std::collections::HashSet;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::sync::Arc;

use io_uring::register::Probe;
use io_uring::{IoUring, cqueue, opcode, squeue, types};
use socket2::Socket;

use crate::send::{SendMode, SendOptions, Sender};
use vnetbench_streams::ZeroCopyCounts;

/// Messages that may be lent at a time; beyond that nothing is sent until the kernel is done with some.
const MAX_UNCOMPLETED_SENDS: usize = 1024;
/// How long a call waits for that before it looks for new orders.
const PATIENCE_NS: u32 = 20_000_000;
/// linux/io_uring.h: what a notification says of its send.
const SEND_ZC_REPORT_USAGE: u16 = 1 << 3;
const NOTIF_USAGE_ZC_COPIED: u32 = 1 << 31;

/// Sends one prepared message again and again, a batch of them a call.
pub struct UringSender {
    ring: IoUring,
    is_enabled: bool,
    message: Arc<[u8]>,
    sent: usize,
    batch: u32,
    flags: i32,
    /// Where messages are lent.
    ledger: Option<CompletionLedger>,
    /// Requests so far.
    requests: u64,
}

/// The requests whose messages were lent, and what the kernel has said of them.
#[derive(Default)]
struct CompletionLedger {
    uncompleted: HashSet<u64>,
    /// Notifications of requests that are not known to have sent anything: those of one that was cancelled mean nothing.
    early_notifications: Vec<(u64, bool)>,
    in_place: u64,
    copied: u64,
}

impl CompletionLedger {
    fn complete(&mut self, request: u64, was_copied: bool) -> bool {
        let was_open = self.uncompleted.remove(&request);
        if was_open && was_copied {
            self.copied += 1;
        } else if was_open {
            self.in_place += 1;
        }
        was_open
    }

    fn record(&mut self, request: u64, was_copied: bool) {
        if !self.complete(request, was_copied) {
            self.early_notifications.push((request, was_copied));
        }
    }

    /// Once what all requests have sent is known.
    fn complete_early(&mut self) {
        for (request, was_copied) in std::mem::take(&mut self.early_notifications) {
            self.complete(request, was_copied);
        }
    }

    fn counts(&self) -> ZeroCopyCounts {
        ZeroCopyCounts {
            in_place: self.in_place,
            copied: self.copied,
            uncompleted: self.uncompleted.len() as u64,
        }
    }
}

/// What a batch came to, as far as it is known.
#[derive(Default)]
struct BatchOutcome {
    completed: u32,
    bytes: usize,
    error: Option<i32>,
}

impl UringSender {
    /// Fails where the kernel has no io_uring, forbids it (kernel.io_uring_disabled), or lacks what is used of it: task
    /// work that waits for the call (Linux 6.1), SEND_ZC (6.0). That it reports its use (6.2) only a send tells.
    pub fn new(message: Arc<[u8]>, sending: SendOptions, socket: &Socket) -> io::Result<Self> {
        let lends = sending.mode == SendMode::IoUringZerocopy;
        // Disabled until its stream's own thread takes it: only one thread may submit.
        let mut ring = IoUring::builder();
        ring.setup_r_disabled()
            .setup_single_issuer()
            .setup_defer_taskrun();
        if lends {
            // Completions may come in while nobody looks: one of each message that is lent, and those of the batch.
            ring.setup_cqsize(MAX_UNCOMPLETED_SENDS as u32 + 3 * sending.batch);
        }
        let ring = ring.build(sending.batch)?;
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
            // To io_uring it is all one whether the socket itself would block. MSG_WAITALL has a message that was sent in
            // part end its batch, where it may not wait for the rest of it.
            flags: libc::MSG_NOSIGNAL
                | libc::MSG_WAITALL
                | if socket.nonblocking()? {
                    libc::MSG_DONTWAIT
                } else {
                    0
                },
            ledger: lends.then(CompletionLedger::default),
            requests: 0,
        })
    }

    /// A request for message number `place` of the batch. Each starts only when the one before it was sent whole: else
    /// messages could come to lie within others.
    fn request(&self, place: u32, socket: BorrowedFd<'_>) -> squeue::Entry {
        let rest = &self.message[if place == 0 { self.sent } else { 0 }..];
        let (socket, bytes) = (types::Fd(socket.as_raw_fd()), rest.len() as u32);
        let entry = match self.ledger {
            None => opcode::Send::new(socket, rest.as_ptr(), bytes)
                .flags(self.flags)
                .build(),
            Some(_) => opcode::SendZc::new(socket, rest.as_ptr(), bytes)
                .flags(self.flags)
                .zc_flags(SEND_ZC_REPORT_USAGE)
                .build(),
        };
        if place + 1 < self.batch {
            entry.flags(squeue::Flags::IO_LINK)
        } else {
            entry
        }
    }

    fn take_completions(&mut self, outcome: &mut BatchOutcome) {
        for entry in self.ring.completion() {
            let request = entry.user_data();
            if cqueue::notif(entry.flags()) {
                if let Some(ledger) = &mut self.ledger {
                    ledger.record(request, entry.result() as u32 & NOTIF_USAGE_ZC_COPIED != 0);
                }
                continue;
            }
            outcome.completed += 1;
            match usize::try_from(entry.result()) {
                Ok(bytes) => {
                    outcome.bytes += bytes;
                    if cqueue::more(entry.flags())
                        && let Some(ledger) = &mut self.ledger
                    {
                        ledger.uncompleted.insert(request);
                    }
                }
                // The first of a batch says why; it cancels those that follow.
                Err(_) => outcome.error = outcome.error.or(Some(-entry.result())),
            }
        }
    }

    /// Takes what has come, or comes within that time.
    fn wait_for_completions(&mut self, outcome: &mut BatchOutcome, patience_ns: u32) {
        let patience = types::Timespec::new().nsec(patience_ns);
        let until = types::SubmitArgs::new().timespec(&patience);
        // Fails where the time has passed: what then is missing is seen by who asked.
        let _ = self.ring.submitter().submit_with_args(1, &until);
        self.take_completions(outcome);
    }

    fn wait_for_buffers(&mut self, outcome: &mut BatchOutcome) -> io::Result<()> {
        let waits = self.flags & libc::MSG_DONTWAIT == 0;
        self.wait_for_completions(outcome, if waits { PATIENCE_NS } else { 0 });
        if !self.has_too_many_uncompleted() {
            return Ok(());
        }
        let again = if waits { libc::EINTR } else { libc::EAGAIN };
        Err(io::Error::from_raw_os_error(again))
    }

    fn has_too_many_uncompleted(&self) -> bool {
        self.ledger
            .as_ref()
            .is_some_and(|ledger| ledger.uncompleted.len() >= MAX_UNCOMPLETED_SENDS)
    }
}

/// Submits what there is, and waits for so many completions; a signal only makes it return early.
fn enter(ring: &IoUring, completions: u32) -> io::Result<()> {
    match ring.submit_and_wait(completions as usize) {
        Err(error) if error.raw_os_error() != Some(libc::EINTR) => Err(error),
        _ => Ok(()),
    }
}

impl Sender for UringSender {
    fn send(&mut self, socket: BorrowedFd<'_>) -> io::Result<usize> {
        if !self.is_enabled {
            self.ring.submitter().register_enable_rings()?;
            self.is_enabled = true;
        }
        let mut outcome = BatchOutcome::default();
        if self.has_too_many_uncompleted() {
            self.wait_for_buffers(&mut outcome)?;
        }
        for place in 0..self.batch {
            let request = self.request(place, socket).user_data(self.requests);
            self.requests += 1;
            // SAFETY: the message outlives the request, which is waited for below, or where that fails for good; of
            // messages that are lent the memory is never written to, and the kernel holds its pages by itself.
            unsafe { self.ring.submission().push(&request) }.map_err(io::Error::other)?;
        }
        while outcome.completed < self.batch {
            if let Err(error) = enter(&self.ring, self.batch - outcome.completed) {
                // Requests may be left that read the message.
                std::mem::forget(Arc::clone(&self.message));
                // Never as a passing error: what is left of this batch must not be taken for the next one's.
                return Err(io::Error::other(error));
            }
            self.take_completions(&mut outcome);
        }
        if let Some(ledger) = &mut self.ledger {
            ledger.complete_early();
        }
        match outcome {
            BatchOutcome {
                bytes: 0,
                error: Some(errno),
                ..
            } => Err(io::Error::from_raw_os_error(errno)),
            BatchOutcome { bytes, .. } => {
                self.sent = (self.sent + bytes) % self.message.len();
                Ok(bytes)
            }
        }
    }

    fn reap_completions(&mut self, _socket: BorrowedFd<'_>) -> Option<ZeroCopyCounts> {
        if self.ledger.is_some() && self.is_enabled {
            self.wait_for_completions(&mut BatchOutcome::default(), 0);
        }
        self.ledger.as_ref().map(CompletionLedger::counts)
    }
}
