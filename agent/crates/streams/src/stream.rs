//! One stream of load: its connection and direction, what it has counted, and how it ended.

use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Instant;

use serde::Serialize;
use socket2::Socket;

use crate::datagrams::DatagramFlow;
use crate::end::StreamEnd;
use crate::frames::FrameEndpoint;
use crate::role::Role;
use crate::timing::{Pacing, RequestTiming};

/// What one stream has moved. Only the stream's own thread writes here, the sampler reads; a cache line (and the one that
/// the processor fetches with it) of its own keeps streams from slowing each other down.
#[derive(Debug, Default)]
#[repr(align(128))]
pub struct StreamCounters {
    pub sent: CallCounter,
    pub received: CallCounter,
}

/// What calls of one direction have moved.
#[derive(Debug, Default)]
pub struct CallCounter {
    bytes: AtomicU64,
    calls: AtomicU64,
}

impl CallCounter {
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

/// What became of the messages that were lent to the kernel, as it said itself.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct ZeroCopyCounts {
    /// Sends whose memory went out without a copy.
    pub in_place: u64,
    /// Sends that the kernel copied after all, on their way.
    pub copied: u64,
    /// Sends of which it had said nothing by the end of the stream.
    #[serde(rename = "unsettled")]
    pub uncompleted: u64,
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
    pub counters: StreamCounters,
    /// What it times; only a source of requests does.
    pub timing: Option<RequestTiming>,
    /// Its flow of datagrams, where it has one: the connection then carries only how many there were.
    pub datagrams: Option<DatagramFlow>,
    /// Its frames, where it has no connection.
    pub frames: Option<Box<dyn FrameEndpoint>>,
    pub end: OnceLock<StreamEnd>,
    /// When it broke: of several streams the first is the cause, as its side then tears down the others.
    pub failed_at: OnceLock<Instant>,
    /// What became of the memory that a source lent to the kernel, known at its end.
    pub zero_copy: OnceLock<ZeroCopyCounts>,
}

impl Stream {
    pub fn new(
        id: u32,
        role: Role,
        part: Option<&'static str>,
        socket: Socket,
        timing: Option<RequestTiming>,
        datagrams: Option<DatagramFlow>,
    ) -> Self {
        Self {
            id,
            role,
            part,
            socket,
            counters: StreamCounters::default(),
            timing,
            datagrams,
            frames: None,
            end: OnceLock::new(),
            failed_at: OnceLock::new(),
            zero_copy: OnceLock::new(),
        }
    }

    /// How many it has sent and received.
    pub fn bytes(&self) -> (u64, u64) {
        match (&self.frames, self.role) {
            (Some(frames), Role::Source) => (frames.counts().bytes, 0),
            (Some(frames), Role::Sink) => (0, frames.counts().bytes),
            (None, _) => (self.counters.sent.bytes(), self.counters.received.bytes()),
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
    pub fn closes_itself(&self) -> bool {
        let timing = self.timing.as_ref();
        self.datagrams.is_some()
            || self.frames.is_some()
            || timing.is_some_and(|timing| timing.connect.is_some())
    }

    pub fn record_end(&self, end: StreamEnd) {
        if matches!(end, StreamEnd::Drained) {
            // Nothing is on its way any more, so nothing needs to be torn down.
            let _ = self.socket.set_linger(None);
        }
        if matches!(end, StreamEnd::Broken(_)) {
            let _ = self.failed_at.set(Instant::now());
        }
        // Of two ends the first counts.
        let _ = self.end.set(end);
    }
}

/// Called when a stream has ended.
pub type OnEnd = Arc<dyn Fn() + Send + Sync>;

/// Held while a stream is being driven; dropping it ends the stream.
pub struct EndGuard {
    pub stream: Arc<Stream>,
    on_end: OnEnd,
}

impl EndGuard {
    pub fn new(stream: &Arc<Stream>, on_end: &OnEnd) -> Self {
        Self {
            stream: Arc::clone(stream),
            on_end: Arc::clone(on_end),
        }
    }
}

impl Drop for EndGuard {
    fn drop(&mut self) {
        // Not set only where the thread is unwinding, or never came to run.
        self.stream
            .record_end(StreamEnd::Broken(io::ErrorKind::Other.into()));
        (self.on_end)();
    }
}
