//! One stream of load: its connection, role, counters and end.

use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Instant;

use serde::Serialize;
use socket2::Socket;

use crate::arrival_gaps::ArrivalReport;
use crate::datagrams::DatagramFlow;
use crate::end::StreamEnd;
use crate::frames::{FrameEndpoint, FrameStreamDetails};
use crate::role::Role;
use crate::timing::{Pacing, RequestTiming};

/// The counters of one stream. Its thread writes them, the sampler reads them.
///
/// Aligned to two cache lines, because the processor prefetches the adjacent line: threads do not share lines.
#[derive(Debug, Default)]
#[repr(align(128))]
pub struct StreamCounters {
    /// Data sent.
    pub sent: CallCounter,
    /// Data received.
    pub received: CallCounter,
}

/// The bytes and system calls of one direction.
#[derive(Debug, Default)]
pub struct CallCounter {
    bytes: AtomicU64,
    calls: AtomicU64,
}

impl CallCounter {
    /// Counts one call and its bytes.
    pub fn add(&self, bytes: usize) {
        // Plain loads and stores suffice: there is one writer.
        let sum = self.bytes.load(Ordering::Relaxed) + bytes as u64;
        self.bytes.store(sum, Ordering::Relaxed);
        let calls = self.calls.load(Ordering::Relaxed) + 1;
        self.calls.store(calls, Ordering::Relaxed);
    }

    /// Returns the number of bytes.
    pub fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    /// Returns the number of system calls.
    pub fn calls(&self) -> u64 {
        self.calls.load(Ordering::Relaxed)
    }
}

/// The payload bytes that a stream has sent and received.
#[derive(Debug, Clone, Copy)]
pub struct StreamBytes {
    /// Bytes sent.
    pub sent: u64,
    /// Bytes received.
    pub received: u64,
}

impl StreamBytes {
    /// Returns the bytes that a stream of this role carries: those sent by a source, those received by a sink.
    pub fn bytes_carried_by(self, role: Role) -> u64 {
        match role {
            Role::Source => self.sent,
            Role::Sink => self.received,
        }
    }
}

/// The zero-copy sends of a stream, by the kernel's completion notifications.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct ZeroCopyCounts {
    /// Sends without a copy.
    pub in_place: u64,
    /// Sends that the kernel copied.
    pub copied: u64,
    /// Sends without a notification at the end of the stream.
    pub uncompleted: u64,
}

/// One stream: a connection that carries data in one direction.
#[derive(Debug)]
pub struct Stream {
    /// Number of the stream in its trial.
    pub id: u32,
    /// Whether this endpoint sends or receives.
    pub role: Role,
    /// Name of the load part, if the load has several.
    pub part: Option<&'static str>,
    /// The connection; for frames, an unused socket at the port.
    pub socket: Socket,
    /// Bytes and calls.
    pub counters: StreamCounters,
    /// Latencies of a source of requests.
    pub timing: Option<RequestTiming>,
    /// The UDP part of a datagram stream; its connection carries only the number of datagrams.
    pub datagrams: Option<DatagramFlow>,
    /// The frames of a stream without a connection.
    pub frames: Option<Box<dyn FrameEndpoint>>,
    /// How the stream ended.
    pub end: OnceLock<StreamEnd>,
    /// Time of the failure. The first failed stream is the cause: its endpoint then closes the others.
    pub failed_at: OnceLock<Instant>,
    /// Zero-copy counts of a source, known at its end.
    pub zero_copy: OnceLock<ZeroCopyCounts>,
    /// When datagrams or messages arrived, known at the end of a sink that records it.
    pub arrivals: OnceLock<ArrivalReport>,
}

impl Stream {
    /// Creates a stream without frames.
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
            arrivals: OnceLock::new(),
        }
    }

    /// Returns the bytes sent and received.
    pub fn bytes(&self) -> StreamBytes {
        let (sent, received) = match (&self.frames, self.role) {
            (Some(frames), Role::Source) => (frames.counts().bytes, 0),
            (Some(frames), Role::Sink) => (0, frames.counts().bytes),
            (None, _) => (self.counters.sent.bytes(), self.counters.received.bytes()),
        };
        StreamBytes { sent, received }
    }

    /// Returns the pacing of the stream, if it has a rate.
    pub fn pacing(&self) -> Option<&Pacing> {
        let request_pacing = self
            .timing
            .as_ref()
            .and_then(|timing| timing.pacing.as_ref());
        request_pacing.or_else(|| self.datagrams.as_ref()?.pacing.as_ref())
    }

    /// Returns the totals of a stream of frames whose load ended at this time.
    pub fn frame_details(&self, load_ended_at: Instant) -> Option<FrameStreamDetails> {
        Some(self.frames.as_ref()?.details(load_ended_at))
    }

    /// Returns whether its own connection carries the data.
    pub fn is_tcp(&self) -> bool {
        self.datagrams.is_none() && self.frames.is_none()
    }

    /// Returns whether the stream's thread closes the connection itself.
    ///
    /// A source of datagrams, or of transactions with their own connections, first finishes its work and then announces
    /// the end to the sink. A stream of frames has nothing to close.
    pub fn is_connection_closed_by_own_thread(&self) -> bool {
        let timing = self.timing.as_ref();
        self.datagrams.is_some()
            || self.frames.is_some()
            || timing.is_some_and(|timing| timing.connect.is_some())
    }

    /// Records the end of the stream; only the first end counts.
    pub fn record_end(&self, end: StreamEnd) {
        if matches!(end, StreamEnd::Drained) {
            // No data is in flight: close normally instead of resetting the connection.
            let _ = self.socket.set_linger(None);
        }
        if matches!(end, StreamEnd::Broken(_)) {
            let _ = self.failed_at.set(Instant::now());
        }
        let _ = self.end.set(end);
    }
}

/// Called when a stream has ended.
pub type OnEnd = Arc<dyn Fn() + Send + Sync>;

/// Guard held by the thread that drives a stream; dropping it ends the stream.
pub struct EndGuard {
    /// The stream.
    pub stream: Arc<Stream>,
    on_end: OnEnd,
}

impl EndGuard {
    /// Creates the guard of a stream.
    pub fn new(stream: &Arc<Stream>, on_end: &OnEnd) -> Self {
        Self {
            stream: Arc::clone(stream),
            on_end: Arc::clone(on_end),
        }
    }
}

impl Drop for EndGuard {
    fn drop(&mut self) {
        // Has an effect only if the thread panicked or never ran.
        self.stream
            .record_end(StreamEnd::Broken(io::ErrorKind::Other.into()));
        (self.on_end)();
    }
}
