//! The commands that all streams of a load part follow, from the wait for the start to the end.

use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Condvar, Mutex, PoisonError};

/// A command to the streams of a load part; commands follow in this order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum Command {
    /// Wait for the start.
    Wait,
    /// Send and receive.
    Go,
    /// Sources stop sending; sinks read the rest.
    EndSources,
    /// All streams end.
    EndAll,
}

/// The current command of the streams of one load part.
#[derive(Default)]
pub struct Commands {
    current: AtomicU8,
    gate: Mutex<()>,
    changed: Condvar,
}

impl Commands {
    /// Returns the current command.
    pub fn current(&self) -> Command {
        match self.current.load(Ordering::Acquire) {
            0 => Command::Wait,
            1 => Command::Go,
            2 => Command::EndSources,
            _ => Command::EndAll,
        }
    }

    /// Issues a command. A stream sees it after its current system call; `enforce_on` ends blocked calls.
    pub fn issue(&self, command: Command) {
        {
            let _closed = self.gate.lock().unwrap_or_else(PoisonError::into_inner);
            self.current.store(command as u8, Ordering::Release);
        }
        self.changed.notify_all();
    }

    /// Waits for a command other than `Wait`.
    pub fn wait_for_first_command(&self) {
        let mut gate = self.gate.lock().unwrap_or_else(PoisonError::into_inner);
        while self.current() == Command::Wait {
            gate = self
                .changed
                .wait(gate)
                .unwrap_or_else(PoisonError::into_inner);
        }
    }
}
