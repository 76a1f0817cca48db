//! Reads all that a trial counts at one moment, and makes differences of it.

use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::Instant;

use super::report::{
    DatagramReading, DatagramsReceived, DatagramsSent, Moved, StreamMoved, TcpMoved, Transport,
};
use crate::counters::socket_drops::DropMeter;
use crate::counters::tcp_info::{Meter, TcpReading};
use crate::counters::{CpuTimes, Reading, Sources};
use crate::traffic::histogram::{Counts, Histogram};
use crate::traffic::{Role, Stream};

pub struct Sampler {
    sources: Sources,
    streams: Vec<(Arc<Stream>, Meters)>,
}

/// What is kept of one stream from reading to reading.
#[derive(Default)]
struct Meters {
    tcp: Meter,
    drops: DropMeter,
}

/// All counters as they stood at one moment.
pub struct Snapshot {
    pub at: Instant,
    /// Sent and received by each stream.
    bytes: Vec<(u64, u64)>,
    latency: Option<Counts>,
    connect: Option<Counts>,
    delay: Option<Counts>,
    reading: Reading,
    streams: Vec<StreamReading>,
}

enum StreamReading {
    Tcp(TcpReading),
    Datagrams(DatagramReading),
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
            .map(|stream| (Arc::clone(stream), Meters::default()));
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
        let latency = self.counts(|stream| Some(&stream.timing.as_ref()?.latency));
        let connect = self.counts(|stream| stream.timing.as_ref()?.connect.as_ref());
        let delay = self.counts(|stream| stream.datagrams.as_ref()?.delay.as_ref());
        let reading = self.sources.read();
        let streams = self
            .streams
            .iter_mut()
            .map(|(stream, meters)| meters.read(stream))
            .collect();
        Snapshot {
            at,
            bytes,
            latency,
            connect,
            delay,
            reading,
            streams,
        }
    }

    /// One kind of histogram of all streams together; `None` where no stream has it.
    fn counts(&self, kind: impl Fn(&Stream) -> Option<&Histogram>) -> Option<Counts> {
        let mut histograms = self
            .streams
            .iter()
            .filter_map(|(stream, _)| kind(stream))
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
                StreamMoved {
                    id: stream.id,
                    role: stream.role,
                    bytes,
                    of: moved(stream.role, &then.streams[i], &now.streams[i]),
                    state: None,
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
            delay: since(&now.delay, &then.delay),
            counters: now.reading.counters.since(&then.reading.counters),
            cpu: CpuTimes::since(&now.reading.cpu, &then.reading.cpu),
            streams,
        }
    }
}

impl Meters {
    fn read(&mut self, stream: &Stream) -> StreamReading {
        let Some(datagrams) = &stream.datagrams else {
            return StreamReading::Tcp(self.tcp.read(stream.socket.as_fd()));
        };
        StreamReading::Datagrams(DatagramReading {
            counts: datagrams.tally.counts(),
            socket_drops: self.drops.read(datagrams.socket.as_fd()),
        })
    }
}

fn moved(role: Role, then: &StreamReading, now: &StreamReading) -> Transport {
    match (then, now) {
        (StreamReading::Tcp(then), StreamReading::Tcp(now)) => {
            Transport::Tcp(TcpMoved::between(then, now))
        }
        (StreamReading::Datagrams(then), StreamReading::Datagrams(now)) => match role {
            Role::Source => Transport::Source(DatagramsSent {
                datagrams: now.counts.moved - then.counts.moved,
            }),
            Role::Sink => Transport::Sink(DatagramsReceived::between(then, now)),
        },
        _ => unreachable!("a stream is of one kind from beginning to end"),
    }
}
