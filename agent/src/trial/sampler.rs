//! Reads all that a trial counts at one moment, and makes differences of it.

use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::Instant;

use super::report::{Moved, StreamMoved};
use crate::counters::tcp_info::{Meter, TcpReading};
use crate::counters::{CpuTimes, Reading, Sources};
use crate::traffic::histogram::{Counts, Histogram};
use crate::traffic::timing::Timing;
use crate::traffic::{Role, Stream};

pub struct Sampler {
    sources: Sources,
    streams: Vec<(Arc<Stream>, Meter)>,
}

/// All counters as they stood at one moment.
pub struct Snapshot {
    pub at: Instant,
    /// Sent and received by each stream.
    bytes: Vec<(u64, u64)>,
    latency: Option<Counts>,
    connect: Option<Counts>,
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
            .map(|(stream, _)| (stream.tally.sent.bytes(), stream.tally.received.bytes()))
            .collect();
        let latency = self.counts(|timing| Some(&timing.latency));
        let connect = self.counts(|timing| timing.connect.as_ref());
        let reading = self.sources.read();
        let tcp = self
            .streams
            .iter_mut()
            .map(|(stream, meter)| meter.read(stream.socket.as_fd()))
            .collect();
        Snapshot {
            at,
            bytes,
            latency,
            connect,
            reading,
            tcp,
        }
    }

    /// One kind of histogram of all streams together; `None` where no stream has it.
    fn counts(&self, kind: impl Fn(&Timing) -> Option<&Histogram>) -> Option<Counts> {
        let mut histograms = self
            .streams
            .iter()
            .filter_map(|(stream, _)| kind(stream.timing.as_ref()?))
            .peekable();
        histograms.peek()?;
        Some(Counts::of(histograms))
    }

    pub fn between(&self, then: &Snapshot, now: &Snapshot) -> Moved {
        let streams: Vec<StreamMoved> = self
            .streams
            .iter()
            .enumerate()
            .map(|(i, (stream, _))| {
                let bytes = match stream.role {
                    Role::Source => now.bytes[i].0 - then.bytes[i].0,
                    Role::Sink => now.bytes[i].1 - then.bytes[i].1,
                };
                let moved =
                    StreamMoved::between(stream.id, stream.role, bytes, &then.tcp[i], &now.tcp[i]);
                // Besides data, the kernel counts what opens and closes a connection.
                let acked = |of: &Snapshot| of.tcp[i].bytes_acked.min(of.bytes[i].0);
                StreamMoved {
                    bytes_acked: (stream.role == Role::Source)
                        .then(|| acked(now).saturating_sub(acked(then))),
                    ..moved
                }
            })
            .collect();
        let sum = |of: &Snapshot| {
            let add = |(a, b), (c, d): &(u64, u64)| (a + c, b + d);
            of.bytes.iter().fold((0, 0), add)
        };
        let (sent, received) = sum(now);
        let (sent_then, received_then) = sum(then);
        let since =
            |now: &Option<Counts>, then: &Option<Counts>| Some(now.as_ref()?.since(then.as_ref()?));
        Moved {
            bytes_sent: sent - sent_then,
            bytes_received: received - received_then,
            latency: since(&now.latency, &then.latency),
            connect: since(&now.connect, &then.connect),
            counters: now.reading.counters.since(&then.reading.counters),
            cpu: CpuTimes::since(&now.reading.cpu, &then.reading.cpu),
            streams,
        }
    }
}
