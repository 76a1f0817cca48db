//! Reads all that a trial counts at one moment, and makes differences of it.

use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::Instant;

use super::report::{Moved, StreamMoved};
use crate::counters::tcp_info::{Meter, TcpReading};
use crate::counters::{CpuTimes, Reading, Sources};
use crate::traffic::{Role, Stream};

pub struct Sampler {
    sources: Sources,
    streams: Vec<(Arc<Stream>, Meter)>,
}

/// All counters as they stood at one moment.
pub struct Snapshot {
    pub at: Instant,
    bytes: Vec<u64>,
    reading: Reading,
    tcp: Vec<TcpReading>,
}

impl Snapshot {
    /// Set where something that the trial needs has gone.
    pub fn fault(&self) -> Option<&str> {
        self.reading.fault.as_deref()
    }
}

impl Sampler {
    pub fn new(sources: Sources, streams: &[Arc<Stream>]) -> Self {
        let metered = streams
            .iter()
            .map(|stream| (Arc::clone(stream), Meter::default()));
        Self {
            sources,
            streams: metered.collect(),
        }
    }

    pub fn read(&mut self) -> Snapshot {
        // The bytes right after the clock: goodput is what must fit its interval best.
        let at = Instant::now();
        let bytes = self
            .streams
            .iter()
            .map(|(stream, _)| stream.tally.bytes())
            .collect();
        let reading = self.sources.read();
        let tcp = self
            .streams
            .iter_mut()
            .map(|(stream, meter)| meter.read(stream.socket.as_fd()))
            .collect();
        Snapshot {
            at,
            bytes,
            reading,
            tcp,
        }
    }

    pub fn between(&self, then: &Snapshot, now: &Snapshot) -> Moved {
        let streams: Vec<StreamMoved> = self
            .streams
            .iter()
            .enumerate()
            .map(|(i, (stream, _))| {
                let bytes = now.bytes[i] - then.bytes[i];
                StreamMoved::between(stream.id, stream.role, bytes, &then.tcp[i], &now.tcp[i])
            })
            .collect();
        let of = |role| {
            streams
                .iter()
                .filter(move |s| s.role == role)
                .map(|s| s.bytes)
                .sum()
        };
        Moved {
            bytes_sent: of(Role::Source),
            bytes_received: of(Role::Sink),
            counters: now.reading.counters.since(&then.reading.counters),
            cpu: CpuTimes::since(&now.reading.cpu, &then.reading.cpu),
            streams,
        }
    }
}
