//! Streams of load: what one is, what it has counted, and the orders that all of a trial follow.

mod asking;
pub mod connecting;
pub mod connection;
pub mod datagrams;
mod event_loop;
pub mod found;
pub mod histogram;
pub mod jitter;
pub mod opening;
pub mod receive;
pub mod reception;
pub mod route;
pub mod send;
mod send_pages;
mod send_uring;
mod send_zerocopy;
pub mod tcp_crr;
pub mod tcp_rr;
pub mod tcp_stream;
pub mod threads;
pub mod timing;
mod udp_calls;
pub mod udp_head;
pub mod udp_opening;
pub mod udp_stream;

use std::io;
use std::ops::Range;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, OnceLock, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rustix::net::{Shutdown, shutdown};
use serde::{Deserialize, Serialize};
use socket2::{Domain, Socket};

use self::connection::Options;
use self::datagrams::Datagrams;
use self::opening::Secret;
use self::route::Transport;
use self::send::Lent;
use self::tcp_crr::Connections;
use self::tcp_rr::Exchange;
use self::tcp_stream::Transfer;
use self::threads::Threads;
use self::timing::{Pacing, Timing};
use self::udp_stream::Flow;
use crate::error::Result;
use crate::frames::{self, Frames};

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    Source,
    Sink,
}

impl Role {
    /// That of the same stream at its other end.
    pub fn opposite(self) -> Self {
        match self {
            Self::Source => Self::Sink,
            Self::Sink => Self::Source,
        }
    }
}

/// The streams of one side, as they are asked for.
#[derive(Debug)]
pub struct Load {
    pub secret: Secret,
    /// The streams of one part after those of the other.
    pub roles: Vec<(u32, Role)>,
    /// What every socket is opened with.
    pub options: Options,
    pub parts: Vec<Part>,
}

/// Streams of a load that do the same, and that begin at the same time.
#[derive(Debug)]
pub struct Part {
    /// Its name in the protocol, where a load has several.
    pub name: Option<&'static str>,
    /// Which of the load's streams.
    pub streams: Range<usize>,
    pub work: Work,
    /// What its sockets have, once they are connected.
    pub options: Options,
    pub threads: Threads,
    /// How long after the start.
    pub begins_after: Duration,
}

/// What the streams do.
#[derive(Debug)]
pub enum Work {
    Stream(Transfer),
    RequestResponse(Exchange),
    ConnectRequestResponse(Connections),
    Datagrams(Flow),
    Frames(frames::Asked),
}

impl Load {
    pub fn part_of(&self, place: usize) -> &Part {
        let mut parts = self.parts.iter();
        let found = parts.find(|part| part.streams.contains(&place));
        found.expect("every stream is of a part")
    }

    /// Whether this side's kernel can do what is asked of it.
    pub fn check(&self) -> Result<()> {
        for part in &self.parts {
            let mut roles = self.roles[part.streams.clone()].iter();
            if let Work::Stream(transfer) = &part.work
                && roles.any(|(_, role)| *role == Role::Source)
            {
                let domain = match self.options.transport {
                    Transport::Vsock => Domain::VSOCK,
                    Transport::Tcp | Transport::Mptcp => Domain::IPV4,
                };
                let like_its_sockets = connection::open(domain, &self.options)?;
                transfer.sending.check(&like_its_sockets)?;
            }
        }
        Ok(())
    }
}

impl Part {
    /// Starts the streams' threads; they wait for `Order::Go`. `on_end` is called once for each, when it has ended.
    pub fn start(
        &self,
        streams: &[Arc<Stream>],
        orders: &Arc<Orders>,
        on_end: &OnEnd,
    ) -> io::Result<Vec<JoinHandle<()>>> {
        match &self.work {
            Work::Stream(transfer) => {
                tcp_stream::start(streams, transfer, &self.threads, orders, on_end)
            }
            Work::RequestResponse(exchange) => {
                tcp_rr::start(streams, *exchange, &self.threads, orders, on_end)
            }
            Work::ConnectRequestResponse(connections) => {
                tcp_crr::start(streams, connections, &self.threads, orders, on_end)
            }
            Work::Datagrams(flow) => {
                udp_stream::start(streams, *flow, &self.threads, orders, on_end)
            }
            Work::Frames(_) => frames::start(streams, &self.threads, orders, on_end),
        }
    }

    /// What its stream at `place` of the load times.
    pub fn timing(&self, role: Role, place: usize) -> Option<Timing> {
        if role == Role::Sink {
            return None;
        }
        match &self.work {
            Work::Stream(_) | Work::Datagrams(_) | Work::Frames(_) => None,
            Work::RequestResponse(exchange) => {
                let (place, count) = (place - self.streams.start, self.streams.len());
                Some(Timing::of_requests(exchange.pace(place, count)))
            }
            Work::ConnectRequestResponse(_) => Some(Timing::of_connections()),
        }
    }
}

/// Called when a stream has ended.
pub type OnEnd = Arc<dyn Fn() + Send + Sync>;

/// What one stream has moved. Only the stream's own thread writes here, the sampler reads; a cache line (and the one that
/// the processor fetches with it) of its own keeps streams from slowing each other down.
#[derive(Debug, Default)]
#[repr(align(128))]
pub struct Tally {
    pub sent: Count,
    pub received: Count,
}

/// What calls of one direction have moved.
#[derive(Debug, Default)]
pub struct Count {
    bytes: AtomicU64,
    calls: AtomicU64,
}

impl Count {
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
    /// The name of its part, where the load has several.
    pub part: Option<&'static str>,
    /// Its connection; of frames one at the port that carries none of them.
    pub socket: Socket,
    pub tally: Tally,
    /// What it times; only a source of requests does.
    pub timing: Option<Timing>,
    /// Its flow of datagrams, where it has one: the connection then carries only how many there were.
    pub datagrams: Option<Datagrams>,
    /// Its frames, where it has no connection.
    pub frames: Option<Box<dyn Frames>>,
    pub end: OnceLock<End>,
    /// When it broke: of several streams the first is the cause, as its side then tears down the others.
    pub broke_at: OnceLock<Instant>,
    /// What became of the memory that a source lent to the kernel, known at its end.
    pub lent: OnceLock<Lent>,
}

impl Stream {
    pub fn new(
        id: u32,
        role: Role,
        part: Option<&'static str>,
        socket: Socket,
        timing: Option<Timing>,
        datagrams: Option<Datagrams>,
    ) -> Self {
        Self {
            id,
            role,
            part,
            socket,
            tally: Tally::default(),
            timing,
            datagrams,
            frames: None,
            end: OnceLock::new(),
            broke_at: OnceLock::new(),
            lent: OnceLock::new(),
        }
    }

    /// How many it has sent and received.
    pub fn bytes(&self) -> (u64, u64) {
        match (&self.frames, self.role) {
            (Some(frames), Role::Source) => (frames.counts().bytes, 0),
            (Some(frames), Role::Sink) => (0, frames.counts().bytes),
            (None, _) => (self.tally.sent.bytes(), self.tally.received.bytes()),
        }
    }

    /// The times at which it sends, where these are set.
    pub fn pacing(&self) -> Option<&Pacing> {
        let of_requests = self
            .timing
            .as_ref()
            .and_then(|timing| timing.pacing.as_ref());
        of_requests.or_else(|| self.datagrams.as_ref()?.pacing.as_ref())
    }

    /// A source whose transactions have connections of their own, or that sends datagrams, finishes what is at work, and
    /// then says so: its sink must not hear of the end before. One of frames has nothing to close.
    fn closes_itself(&self) -> bool {
        let timing = self.timing.as_ref();
        self.datagrams.is_some()
            || self.frames.is_some()
            || timing.is_some_and(|timing| timing.connect.is_some())
    }

    pub fn note_end(&self, end: End) {
        if matches!(end, End::Drained) {
            // Nothing is on its way any more, so nothing needs to be torn down.
            let _ = self.socket.set_linger(None);
        }
        if matches!(end, End::Broken(_)) {
            let _ = self.broke_at.set(Instant::now());
        }
        // Of two ends the first counts.
        let _ = self.end.set(end);
    }
}

/// Held while a stream is being driven; dropping it ends the stream.
pub struct Guard {
    pub stream: Arc<Stream>,
    on_end: OnEnd,
}

impl Guard {
    pub fn new(stream: &Arc<Stream>, on_end: &OnEnd) -> Self {
        Self {
            stream: Arc::clone(stream),
            on_end: Arc::clone(on_end),
        }
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        // Not set only where the thread is unwinding, or never came to run.
        self.stream
            .note_end(End::Broken(io::ErrorKind::Other.into()));
        (self.on_end)();
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
