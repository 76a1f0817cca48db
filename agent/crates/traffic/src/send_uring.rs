//! Sends with io_uring (io_uring(7)): one call submits a batch of messages, one request each, and waits for them.

use std::collections::HashSet;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::sync::Arc;

use io_uring::register::Probe;
use io_uring::{IoUring, cqueue, opcode, squeue, types};
use socket2::Socket;

use crate::send::{SendMode, SendOptions, Sender};
use vnetbench_streams::ZeroCopyCounts;

/// Maximum number of uncompleted zero-copy sends. At the maximum, the sender waits for completions.
const MAX_UNCOMPLETED_SENDS: usize = 1024;
/// Maximum wait for completions in one call, after which the stream checks its command.
const COMPLETION_TIMEOUT_NS: u32 = 20_000_000;
/// Flag that makes notifications report copies (linux/io_uring.h).
const SEND_ZC_REPORT_USAGE: u16 = 1 << 3;
/// Result of a notification whose send the kernel copied (linux/io_uring.h).
const NOTIF_USAGE_ZC_COPIED: u32 = 1 << 31;

/// Sends one prepared message repeatedly, in batches of one call.
pub(crate) struct UringSender {
    ring: IoUring,
    is_ring_enabled: bool,
    message: Arc<[u8]>,
    /// Start of the unsent rest of the message.
    offset: usize,
    /// Messages per call.
    batch: u32,
    /// Flags of `send`.
    flags: i32,
    /// The zero-copy sends, in zero-copy mode.
    ledger: Option<CompletionLedger>,
    /// Number of requests so far.
    requests: u64,
}

/// The end of one zero-copy send.
struct Notification {
    /// Number of the request.
    request: u64,
    /// Whether the kernel copied the data.
    was_copied: bool,
}

/// The zero-copy sends and their completions.
#[derive(Default)]
struct CompletionLedger {
    /// Requests without a notification.
    uncompleted: HashSet<u64>,
    /// Notifications that precede the results of their requests.
    ///
    /// The notification of a cancelled request means nothing, so the result has to be known first.
    early_notifications: Vec<Notification>,
    /// Completed sends without a copy.
    in_place: u64,
    /// Completed sends that the kernel copied.
    copied: u64,
}

impl CompletionLedger {
    /// Removes a completed request; returns false if the request is unknown.
    fn remove_and_count_if_uncompleted(&mut self, request: u64, was_copied: bool) -> bool {
        let was_uncompleted = self.uncompleted.remove(&request);
        if was_uncompleted && was_copied {
            self.copied += 1;
        } else if was_uncompleted {
            self.in_place += 1;
        }
        was_uncompleted
    }

    /// Records a notification.
    fn record_notification(&mut self, request: u64, was_copied: bool) {
        if !self.remove_and_count_if_uncompleted(request, was_copied) {
            self.early_notifications.push(Notification {
                request,
                was_copied,
            });
        }
    }

    /// Applies the early notifications, when the results of all requests are known.
    fn complete_early_notifications(&mut self) {
        for Notification {
            request,
            was_copied,
        } in std::mem::take(&mut self.early_notifications)
        {
            self.remove_and_count_if_uncompleted(request, was_copied);
        }
    }

    /// Returns the counts so far.
    fn counts(&self) -> ZeroCopyCounts {
        ZeroCopyCounts {
            in_place: self.in_place,
            copied: self.copied,
            uncompleted: self.uncompleted.len() as u64,
        }
    }
}

/// The outcome of a batch so far.
#[derive(Default)]
struct BatchOutcome {
    /// Completed requests.
    completed: u32,
    /// Bytes sent.
    bytes: usize,
    /// First error number.
    error: Option<i32>,
}

impl UringSender {
    /// Creates a sender and its ring for the socket.
    ///
    /// # Errors
    ///
    /// The kernel has no io_uring, forbids it (kernel.io_uring_disabled), or lacks a needed feature: deferred task work
    /// (Linux 6.1) or SEND_ZC (6.0). Only a send shows whether the kernel reports copies (6.2).
    pub fn new(message: Arc<[u8]>, options: SendOptions, socket: &Socket) -> io::Result<Self> {
        let is_zero_copy = options.mode == SendMode::IoUringZerocopy;
        // Disabled until the stream's thread enables it, because only one thread may submit.
        let mut builder = IoUring::builder();
        builder
            .setup_r_disabled()
            .setup_single_issuer()
            .setup_defer_taskrun();
        if is_zero_copy {
            // Space for completions between calls: one for each uncompleted send, and those of a batch.
            builder.setup_cqsize(MAX_UNCOMPLETED_SENDS as u32 + 3 * options.batch);
        }
        let ring = builder.build(options.batch)?;
        let mut probe = Probe::new();
        ring.submitter().register_probe(&mut probe)?;
        let code = if is_zero_copy {
            opcode::SendZc::CODE
        } else {
            opcode::Send::CODE
        };
        if !probe.is_supported(code) {
            return Err(io::Error::from_raw_os_error(libc::EOPNOTSUPP));
        }
        Ok(Self {
            ring,
            is_ring_enabled: false,
            message,
            offset: 0,
            batch: options.batch,
            // io_uring ignores whether the socket blocks, so MSG_DONTWAIT says it. With MSG_WAITALL, a partly sent
            // message ends its batch if it cannot wait for the rest.
            flags: libc::MSG_NOSIGNAL
                | libc::MSG_WAITALL
                | if socket.nonblocking()? {
                    libc::MSG_DONTWAIT
                } else {
                    0
                },
            ledger: is_zero_copy.then(CompletionLedger::default),
            requests: 0,
        })
    }

    /// Returns the request for the message at `index` of the batch.
    ///
    /// Each request starts only after the previous message is sent completely; otherwise, messages could interleave.
    fn build_request(&self, index: u32, socket: BorrowedFd<'_>) -> squeue::Entry {
        let rest = &self.message[if index == 0 { self.offset } else { 0 }..];
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
        if index + 1 < self.batch {
            entry.flags(squeue::Flags::IO_LINK)
        } else {
            entry
        }
    }

    /// Reads available completions into `outcome`.
    fn take_completions(&mut self, outcome: &mut BatchOutcome) {
        for entry in self.ring.completion() {
            let request = entry.user_data();
            if cqueue::notif(entry.flags()) {
                if let Some(ledger) = &mut self.ledger {
                    ledger.record_notification(
                        request,
                        entry.result() as u32 & NOTIF_USAGE_ZC_COPIED != 0,
                    );
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
                // The first error of a batch is the cause; it cancels the requests after it.
                Err(_) => outcome.error = outcome.error.or(Some(-entry.result())),
            }
        }
    }

    /// Reads the available completions, or waits up to `timeout_ns` for the first one.
    fn wait_for_completions(&mut self, outcome: &mut BatchOutcome, timeout_ns: u32) {
        let timeout = types::Timespec::new().nsec(timeout_ns);
        let arguments = types::SubmitArgs::new().timespec(&timeout);
        // Fails at the timeout; the caller sees what is still missing.
        let _ = self.ring.submitter().submit_with_args(1, &arguments);
        self.take_completions(outcome);
    }

    /// Waits until there are fewer uncompleted sends than the maximum.
    fn wait_for_buffers(&mut self, outcome: &mut BatchOutcome) -> io::Result<()> {
        let is_blocking = self.flags & libc::MSG_DONTWAIT == 0;
        self.wait_for_completions(
            outcome,
            if is_blocking {
                COMPLETION_TIMEOUT_NS
            } else {
                0
            },
        );
        if !self.has_too_many_uncompleted() {
            return Ok(());
        }
        let errno = if is_blocking {
            libc::EINTR
        } else {
            libc::EAGAIN
        };
        Err(io::Error::from_raw_os_error(errno))
    }

    /// Returns whether the uncompleted sends are at their maximum.
    fn has_too_many_uncompleted(&self) -> bool {
        self.ledger
            .as_ref()
            .is_some_and(|ledger| ledger.uncompleted.len() >= MAX_UNCOMPLETED_SENDS)
    }
}

/// Submits the pending requests and waits for `completions` completions; a signal makes it return early.
fn submit_and_wait(ring: &IoUring, completions: u32) -> io::Result<()> {
    match ring.submit_and_wait(completions as usize) {
        Err(error) if error.raw_os_error() != Some(libc::EINTR) => Err(error),
        _ => Ok(()),
    }
}

impl Sender for UringSender {
    fn send(&mut self, socket: BorrowedFd<'_>) -> io::Result<usize> {
        if !self.is_ring_enabled {
            self.ring.submitter().register_enable_rings()?;
            self.is_ring_enabled = true;
        }
        let mut outcome = BatchOutcome::default();
        if self.has_too_many_uncompleted() {
            self.wait_for_buffers(&mut outcome)?;
        }
        for index in 0..self.batch {
            let request = self.build_request(index, socket).user_data(self.requests);
            self.requests += 1;
            // SAFETY: the message outlives the request: the code below waits for the request, or leaks the message if
            // waiting fails. In zero-copy mode the memory is never written, and the kernel holds its pages itself.
            unsafe { self.ring.submission().push(&request) }.map_err(io::Error::other)?;
        }
        while outcome.completed < self.batch {
            if let Err(error) = submit_and_wait(&self.ring, self.batch - outcome.completed) {
                // Leaks the message, because unfinished requests may still read it.
                std::mem::forget(Arc::clone(&self.message));
                // Wrapped, so that no caller retries: the rest of this batch must not mix with the next batch.
                return Err(io::Error::other(error));
            }
            self.take_completions(&mut outcome);
        }
        if let Some(ledger) = &mut self.ledger {
            ledger.complete_early_notifications();
        }
        match outcome {
            BatchOutcome {
                bytes: 0,
                error: Some(errno),
                ..
            } => Err(io::Error::from_raw_os_error(errno)),
            BatchOutcome { bytes, .. } => {
                self.offset = (self.offset + bytes) % self.message.len();
                Ok(bytes)
            }
        }
    }

    fn reap_zero_copy_completions(&mut self, _socket: BorrowedFd<'_>) -> Option<ZeroCopyCounts> {
        if self.ledger.is_some() && self.is_ring_enabled {
            self.wait_for_completions(&mut BatchOutcome::default(), 0);
        }
        self.ledger.as_ref().map(CompletionLedger::counts)
    }
}
