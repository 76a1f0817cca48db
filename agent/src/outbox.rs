//! The queue of output lines. One thread writes them, so that a bench that reads slowly never blocks the load.
//!
//! Samples wait for up to [`MAX_HOLD_TIME`] for more output: each write wakes this thread and the bench, which takes CPU time
//! that the load then lacks. Everything else is written at once, with the samples that wait before it.

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
/// How long an event that may be dropped waits for more output. A killed agent loses what waits.
const MAX_HOLD_TIME: Duration = Duration::from_millis(250);
/// The amount of output beyond which nothing waits.
const MAX_HELD_BYTES: usize = 256 << 10;

#[derive(Default)]
struct LineQueue {
    lines: VecDeque<String>,
    queued_bytes: usize,
    /// When the queued lines are to be written; `None` if there are none.
    write_at: Option<Instant>,
    is_writing: bool,
}

impl LineQueue {
    /// Takes lines from the front: all that fit into [`MAX_HELD_BYTES`], and at least one. There must be one.
    fn take_lines(&mut self) -> String {
        let mut taken = self.lines.pop_front().unwrap_or_default();
        while let Some(next) = self.lines.front()
            && taken.len() + next.len() <= MAX_HELD_BYTES
        {
            taken.push_str(next);
            self.lines.pop_front();
        }
        if self.lines.is_empty() {
            self.write_at = None;
        }
        taken
    }
}

/// The output of the agent.
#[derive(Default)]
pub struct Outbox {
    queue: Mutex<LineQueue>,
    /// `write_at` is set or earlier.
    is_due_earlier: Condvar,
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
    pub fn queue_answer_when_room(&self, line: String) {
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
        self.push(queue, line, Instant::now());
    }

    /// Queues an event that may be dropped, and that may wait for others. Returns whether it was queued.
    #[must_use]
    pub fn queue_droppable_event(&self, line: String) -> bool {
        let queue = self.lock();
        if queue.queued_bytes > EVENT_DROP_THRESHOLD_BYTES {
            return false;
        }
        let now = Instant::now();
        let may_wait = queue.queued_bytes + line.len() <= MAX_HELD_BYTES;
        self.push(
            queue,
            line,
            if may_wait { now + MAX_HOLD_TIME } else { now },
        );
        true
    }

    /// Queues an event that is never dropped. Each trial has only one, so these events cannot fill the memory.
    pub fn queue_undroppable_event(&self, line: String) {
        self.push(self.lock(), line, Instant::now());
    }

    /// Waits until everything is written, at most for `timeout`.
    pub fn drain(&self, timeout: Duration) {
        let deadline = Instant::now() + timeout;
        let mut queue = self.lock();
        self.set_due(&mut queue, Instant::now());
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

    fn push(&self, mut queue: MutexGuard<'_, LineQueue>, mut line: String, write_at: Instant) {
        line.push('\n');
        queue.queued_bytes += line.len();
        queue.lines.push_back(line);
        self.set_due(&mut queue, write_at);
    }

    /// Lets the writer write the queued lines at this time, if they are not due earlier.
    fn set_due(&self, queue: &mut LineQueue, write_at: Instant) {
        if !queue.lines.is_empty() && queue.write_at.is_none_or(|due| write_at < due) {
            queue.write_at = Some(write_at);
            self.is_due_earlier.notify_one();
        }
    }

    /// Waits until queued lines are due, and takes them.
    fn wait_for_due_lines(&self) -> String {
        let mut queue = self.lock();
        loop {
            let wait = queue
                .write_at
                .map(|at| at.saturating_duration_since(Instant::now()));
            queue = match wait {
                None => self
                    .is_due_earlier
                    .wait(queue)
                    .unwrap_or_else(PoisonError::into_inner),
                Some(Duration::ZERO) => {
                    queue.is_writing = true;
                    return queue.take_lines();
                }
                Some(wait) => {
                    self.is_due_earlier
                        .wait_timeout(queue, wait)
                        .unwrap_or_else(PoisonError::into_inner)
                        .0
                }
            };
        }
    }

    fn write_all_to(&self, mut output: File) {
        loop {
            let lines = self.wait_for_due_lines();
            if output.write_all(lines.as_bytes()).is_err() {
                journal::restore_and_exit();
            }
            let mut queue = self.lock();
            queue.queued_bytes -= lines.len();
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_wait_for_a_line_that_is_due_at_once() {
        let (outbox, start) = (Outbox::default(), Instant::now());
        assert!(outbox.queue_droppable_event("first".into()));
        assert!(outbox.queue_droppable_event("second".into()));
        let due = outbox.lock().write_at.expect("lines are queued");
        assert!(due >= start + MAX_HOLD_TIME);
        outbox.queue_answer_when_room("answer".into());
        assert_eq!(outbox.wait_for_due_lines(), "first\nsecond\nanswer\n");
        assert_eq!(outbox.lock().write_at, None);
    }

    #[test]
    fn samples_are_written_in_time_without_another_line() {
        let outbox = Outbox::default();
        assert!(outbox.queue_droppable_event("sample".into()));
        outbox.lock().write_at = Some(Instant::now() + Duration::from_millis(1));
        assert_eq!(outbox.wait_for_due_lines(), "sample\n");
    }

    #[test]
    fn many_samples_do_not_wait_and_are_written_in_order() {
        let outbox = Outbox::default();
        let lines: Vec<String> = (0..5)
            .map(|number| number.to_string().repeat(MAX_HELD_BYTES / 2))
            .collect();
        for line in &lines {
            assert!(outbox.queue_droppable_event(line.clone()));
        }
        let mut written = String::new();
        while outbox.lock().write_at.is_some() {
            let part = outbox.wait_for_due_lines();
            assert!(part.len() <= MAX_HELD_BYTES + 1);
            written += &part;
        }
        assert_eq!(written, lines.join("\n") + "\n");
    }
}
