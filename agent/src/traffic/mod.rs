//! Streams of load: what one is, what it has counted, and the orders that all of a trial follow.

pub mod connection;
mod event_loop;
pub mod receive;
pub mod send;
pub mod tcp_stream;

use std::io;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, OnceLock, PoisonError};

use rustix::net::{Shutdown, shutdown};
use serde::{Deserialize, Serialize};
use socket2::Socket;

use self::connection::{Options, Secret};
use self::tcp_stream::Drive;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    Source,
    Sink,
}

/// The streams of one side, as they are asked for.
#[derive(Debug)]
pub struct Load {
    pub secret: Secret,
    pub roles: Vec<(u32, Role)>,
    pub options: Options,
    pub drive: Drive,
}

/// What one stream has moved. Only the stream's own thread writes here, the sampler reads; a cache line (and the one that
/// the processor fetches with it) of its own keeps streams from slowing each other down.
#[derive(Debug, Default)]
#[repr(align(128))]
pub struct Tally {
    bytes: AtomicU64,
    calls: AtomicU64,
}

impl Tally {
    /// One call moved so many bytes.
    pub fn add(&self, bytes: usize) {
        // Loads and stores and no read-modify-write: there is one writer.
        let sum = self.bytes.load(Ordering::Relaxed) + bytes as u64;
        self.bytes.store(sum, Ordering::Relaxed);
        let calls = self.calls.load(Ordering::Relaxed) + 1;
        self.calls.store(calls, Ordering::Relaxed);
    }

    pub fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    pub fn calls(&self) -> u64 {
        self.calls.load(Ordering::Relaxed)
    }
}

/// How a stream came to its end.
#[derive(Debug)]
pub enum End {
    /// Both sides have seen the end of the data.
    Drained,
    /// It was ended before that.
    Cut,
    Broken(io::Error),
}

impl End {
    /// Its name in the protocol.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Drained => "drained",
            Self::Cut => "cut",
            Self::Broken(_) => "broken",
        }
    }
}

/// One connection and its one direction.
#[derive(Debug)]
pub struct Stream {
    pub id: u32,
    pub role: Role,
    pub socket: Socket,
    pub tally: Tally,
    pub end: OnceLock<End>,
}

impl Stream {
    pub fn new(id: u32, role: Role, socket: Socket) -> Self {
        Self {
            id,
            role,
            socket,
            tally: Tally::default(),
            end: OnceLock::new(),
        }
    }

    fn note_end(&self, end: End) {
        if matches!(end, End::Drained) {
            // Nothing is on its way any more, so nothing needs to be torn down.
            let _ = self.socket.set_linger(None);
        }
        // Of two ends the first counts.
        let _ = self.end.set(end);
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum Order {
    Wait,
    Go,
    EndSources,
    EndAll,
}

/// The order that is in force for all streams of a trial.
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
                (Order::EndSources, Role::Source) => Shutdown::Write,
                (Order::EndAll, Role::Source) => Shutdown::Both,
                // Not its sending half: that would tell the source that everything was read.
                (Order::EndAll, Role::Sink) => Shutdown::Read,
                _ => continue,
            };
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
