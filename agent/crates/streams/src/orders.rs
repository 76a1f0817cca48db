//! The orders that all streams of a part follow, from waiting for the start to their end.

use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Condvar, Mutex, PoisonError};

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum Command {
    Wait,
    Go,
    EndSources,
    EndAll,
}

/// The order that is in force for the streams of one part of a trial's load.
#[derive(Default)]
pub struct Commands {
    current: AtomicU8,
    gate: Mutex<()>,
    changed: Condvar,
}

impl Commands {
    pub fn current(&self) -> Command {
        match self.current.load(Ordering::Acquire) {
            0 => Command::Wait,
            1 => Command::Go,
            2 => Command::EndSources,
            _ => Command::EndAll,
        }
    }

    /// Puts an order into force. A stream sees it at its next call; `enforce` reaches those that a call keeps waiting.
    pub fn issue(&self, order: Command) {
        {
            let _closed = self.gate.lock().unwrap_or_else(PoisonError::into_inner);
            self.current.store(order as u8, Ordering::Release);
        }
        self.changed.notify_all();
    }

    /// Returns when an order is in force.
    pub fn wait_for_start(&self) {
        let mut gate = self.gate.lock().unwrap_or_else(PoisonError::into_inner);
        while self.current() == Command::Wait {
            gate = self
                .changed
                .wait(gate)
                .unwrap_or_else(PoisonError::into_inner);
        }
    }
}
