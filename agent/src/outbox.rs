//! The queue of output lines. One thread writes them, so that a bench that reads slowly never blocks the load.

use std::collections::VecDeque;
use std::fs::File;
use std::io::Write;
use std::os::fd::FromRawFd;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::journal;

/// The amount of unread output beyond which samples are dropped. The sender counts them.
const EVENT_DROP_THRESHOLD_BYTES: usize = 32 << 20;
/// The amount of unread output beyond which answers wait until the bench reads.
const ANSWER_WAIT_THRESHOLD_BYTES: usize = 64 << 20;

#[derive(Default)]
struct LineQueue {
    lines: VecDeque<String>,
    queued_bytes: usize,
    is_writing: bool,
}

/// The output of the agent.
#[derive(Default)]
pub struct Outbox {
    queue: Mutex<LineQueue>,
    not_empty: Condvar,
    line_written: Condvar,
}

impl Outbox {
    /// Starts the thread that writes to standard output. A write error ends the process, because the bench is gone.
    pub fn open_on_stdout() -> std::io::Result<Arc<Self>> {
        // SAFETY: descriptor 1 is the process's standard output; nothing else in the agent writes to it or closes it.
        let output = unsafe { File::from_raw_fd(1) };
        let outbox = Arc::new(Self::default());
        let queue = Arc::clone(&outbox);
        std::thread::Builder::new()
            .name("writer".into())
            .spawn(move || queue.write_all_to(output))?;
        Ok(outbox)
    }

    /// Queues the answer to a request. Waits while a bench sends requests without reading, which bounds the memory.
    pub fn send_answer(&self, line: String) {
        let mut queue = self.lock();
        while queue.queued_bytes > ANSWER_WAIT_THRESHOLD_BYTES {
            queue = self
                .line_written
                .wait_timeout(queue, Duration::from_millis(100))
                .unwrap_or_else(PoisonError::into_inner)
                .0;
            // This thread may be the one that reads the input, so it must detect the end of the input here.
            if has_input_hung_up() {
                journal::restore_and_exit();
            }
        }
        self.push(queue, line);
    }

    /// Queues an event that may be dropped. Returns whether it was queued.
    #[must_use]
    pub fn send_droppable_event(&self, line: String) -> bool {
        let queue = self.lock();
        if queue.queued_bytes > EVENT_DROP_THRESHOLD_BYTES {
            return false;
        }
        self.push(queue, line);
        true
    }

    /// Queues an event that is never dropped. Each trial has only one, so these events cannot fill the memory.
    pub fn send_undroppable_event(&self, line: String) {
        self.push(self.lock(), line);
    }

    /// Waits until everything is written, at most for `timeout`.
    pub fn drain(&self, timeout: Duration) {
        let deadline = Instant::now() + timeout;
        let mut queue = self.lock();
        while !queue.lines.is_empty() || queue.is_writing {
            let remaining = deadline.saturating_duration_since(Instant::now());
            if remaining.is_zero() {
                return;
            }
            queue = self
                .line_written
                .wait_timeout(queue, remaining)
                .unwrap_or_else(PoisonError::into_inner)
                .0;
        }
    }

    fn lock(&self) -> MutexGuard<'_, LineQueue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn push(&self, mut queue: MutexGuard<'_, LineQueue>, mut line: String) {
        line.push('\n');
        queue.queued_bytes += line.len();
        queue.lines.push_back(line);
        self.not_empty.notify_one();
    }

    fn write_all_to(&self, mut output: File) {
        loop {
            let mut queue = self.lock();
            while queue.lines.is_empty() {
                queue = self
                    .not_empty
                    .wait(queue)
                    .unwrap_or_else(PoisonError::into_inner);
            }
            let Some(line) = queue.lines.pop_front() else {
                continue;
            };
            queue.is_writing = true;
            drop(queue);
            if output.write_all(line.as_bytes()).is_err() {
                journal::restore_and_exit();
            }
            let mut queue = self.lock();
            queue.queued_bytes -= line.len();
            queue.is_writing = false;
            drop(queue);
            self.line_written.notify_all();
        }
    }
}

fn has_input_hung_up() -> bool {
    let input = rustix::stdio::stdin();
    let mut polled = [PollFd::new(&input, PollFlags::RDHUP)];
    let no_wait = Timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    poll(&mut polled, Some(&no_wait)).is_ok()
        && polled[0]
            .revents()
            .intersects(PollFlags::HUP | PollFlags::RDHUP | PollFlags::ERR)
}
