//! The orders that all streams of a part follow, from waiting for the start to their end.

use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Condvar, Mutex, PoisonError};

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum Order {
    Wait,
    Go,
    EndSources,
    EndAll,
}

/// The order that is in force for the streams of one part of a trial's load.
#[derive(Default)]
pub struct Orders {
    current: AtomicU8,
    gate: Mutex<()>,
    changed: Condvar,
}

impl Orders {
    pub fn current(&self) -> Order {
        match self.current.load(Ordering::Acquire) {
            0 => Order::Wait,
            1 => Order::Go,
            2 => Order::EndSources,
            _ => Order::EndAll,
        }
    }

    /// Puts an order into force. A stream sees it at its next call; `enforce` reaches those that a call keeps waiting.
    pub fn give(&self, order: Order) {
        {
            let _closed = self.gate.lock().unwrap_or_else(PoisonError::into_inner);
            self.current.store(order as u8, Ordering::Release);
        }
        self.changed.notify_all();
    }

    /// Returns when an order is in force.
    pub fn wait_for_start(&self) {
        let mut gate = self.gate.lock().unwrap_or_else(PoisonError::into_inner);
        while self.current() == Order::Wait {
            gate = self
                .changed
                .wait(gate)
                .unwrap_or_else(PoisonError::into_inner);
        }
    }
}
