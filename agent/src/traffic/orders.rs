//! The orders that all streams of a part follow, from waiting for the start to their end.

use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};

use rustix::net::{Shutdown, shutdown};

use super::{Role, Stream, connection};

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

    /// Shuts down what the order in force has ended. Takes its time: the kernel lets a call that is at work finish first.
    pub fn enforce(&self, streams: &[Arc<Stream>]) {
        for stream in streams.iter().filter(|stream| stream.end.get().is_none()) {
            let how = match (self.current(), stream.role) {
                (Order::EndSources, Role::Source) if !stream.closes_itself() => Shutdown::Write,
                (Order::EndAll, Role::Source) => Shutdown::Both,
                // Not its sending half: that would tell the source that everything was read.
                (Order::EndAll, Role::Sink) => Shutdown::Read,
                _ => continue,
            };
            if how == Shutdown::Write {
                connection::stop_pacing(&stream.socket);
            }
            // Fails only on a connection that is gone already, and then its thread knows.
            let _ = shutdown(&stream.socket, how);
        }
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
