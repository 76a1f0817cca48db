//! Reads all that a trial counts at one moment, and makes differences of it.

use std::collections::HashMap;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::Instant;

use super::report::{
    DatagramReading, DatagramsReceived, DatagramsSent, FramesMoved, Kind, Moved, StreamMoved,
    TcpMoved,
};
use super::socket_detail::DETAILED_STREAMS;
use vnetbench_counters::driver::{self, Driver};
use vnetbench_counters::load_thread::{self, LoadThread};
use vnetbench_counters::socket_memory::{self, DropMeter};
use vnetbench_counters::tcp_info::{Meter, TcpReading};
use vnetbench_counters::thread_time::ThreadTime;
use vnetbench_counters::watched::{self, Seen, Watched};
use vnetbench_counters::{Amount, Counters, CpuWork, Depth, Reading, Scope, Sources};
use vnetbench_streams::{Role, Stream};
use vnetbench_system::error::Result;
use vnetbench_system::histogram::{Counts, Histogram};

/// What a trial counts beside its streams.
pub struct Counted {
    sources: Sources,
    watched: Option<Watched>,
    driver: Option<Driver>,
}

impl Counted {
    pub fn open(scope: Scope<'_>, watched: watched::Asked) -> Result<Self> {
        let interface = scope.interface;
        Ok(Self {
            sources: Sources::open(scope)?,
            watched: watched.open()?,
            driver: interface.map(Driver::of),
        })
    }
}

pub struct Sampler {
    counted: Counted,
    streams: Vec<(Arc<Stream>, Meters)>,
    threads: Vec<Arc<LoadThread>>,
}

/// What is kept of one stream from reading to reading.
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
    seen: Option<Seen>,
    streams: Vec<StreamReading>,
    threads: Vec<Option<ThreadTime>>,
}

enum StreamReading {
    Tcp(TcpReading),
    Datagrams(DatagramReading),
    /// How many.
    Frames(u64),
}

impl Snapshot {
    /// Set where something that the trial needs has gone.
    pub fn fault(&self) -> Option<&str> {
        self.reading.fault.as_deref()
    }
}

impl Sampler {
    pub fn new(counted: Counted, streams: &[Arc<Stream>], threads: Vec<Arc<LoadThread>>) -> Self {
        let mut alike = HashMap::new();
        let metered = streams.iter().map(|stream| {
            let before = alike.entry((stream.part, stream.role)).or_insert(0);
            *before += 1;
            let meters = Meters {
                tcp: Meter::new(*before <= DETAILED_STREAMS),
                drops: DropMeter::default(),
            };
            (Arc::clone(stream), meters)
        });
        Self {
            streams: metered.collect(),
            counted,
            threads,
        }
    }

    /// What a trial begins with. Frames that its sinks have counted by then came from a side that had begun before this one:
    /// they are of the trial too, and of its first sample.
    pub fn read_first(&mut self) -> Snapshot {
        let mut first = self.read_whole();
        for (i, (stream, _)) in self.streams.iter().enumerate() {
            if stream.frames.is_some() && stream.role == Role::Sink {
                first.bytes[i].1 = 0;
                first.streams[i] = StreamReading::Frames(0);
                first.delay = Some(Counts::none());
            }
        }
        first
    }

    pub fn read_whole(&mut self) -> Snapshot {
        self.read(Depth::WHOLE)
    }

    pub fn read(&mut self, depth: Depth) -> Snapshot {
        // The bytes right after the clock: goodput is what must fit its interval best.
        let at = Instant::now();
        let bytes = self
            .streams
            .iter()
            .map(|(stream, _)| stream.bytes())
            .collect();
        let latency = self.counts(|stream| Some(&stream.timing.as_ref()?.latency));
        let connect = self.counts(|stream| stream.timing.as_ref()?.connect.as_ref());
        let delay = self.counts(|stream| stream.datagrams.as_ref()?.delay.as_ref());
        let delay = delay.or_else(|| self.delay_of_frames());
        let reading = self.counted.sources.read(depth);
        let watched = self.counted.watched.as_mut();
        let seen = watched.map(|watched: &mut Watched| watched.read(depth.queues));
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
            seen,
            streams,
            threads: self.threads.iter().map(|thread| thread.time()).collect(),
        }
    }

    pub fn read_driver(&self) -> Option<driver::Reading> {
        self.counted.driver.as_ref().map(Driver::read)
    }

    pub fn driver_moved(&self, then: Option<&driver::Reading>) -> driver::Moved {
        let driver = self.counted.driver.as_ref().zip(then);
        driver.map_or_else(Default::default, |(driver, then)| driver.since(then))
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

    fn delay_of_frames(&self) -> Option<Counts> {
        let mut streams = self.streams.iter();
        streams.find_map(|(stream, _)| stream.frames.as_ref()?.delay())
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
                // Besides data, the kernel counts what opens and closes a connection.
                let acked = |of: &Snapshot| match &of.streams[i] {
                    StreamReading::Tcp(tcp) if stream.role == Role::Source => {
                        Some(tcp.bytes_acked.min(of.bytes[i].0))
                    }
                    _ => None,
                };
                StreamMoved {
                    id: stream.id,
                    role: stream.role,
                    part: stream.part,
                    bytes,
                    bytes_acked: acked(now).map(|now| now.saturating_sub(acked(then).unwrap_or(0))),
                    of: moved(stream.role, &then.streams[i], &now.streams[i]),
                    state: None,
                    transport: None,
                    lent: None,
                    frames: None,
                }
            })
            .collect();
        let sum = |of: &Snapshot| {
            let add = |(a, b), (c, d): &(u64, u64)| (a + c, b + d);
            of.bytes.iter().fold((0, 0), add)
        };
        let (sent, received) = sum(now);
        let (sent_then, received_then) = sum(then);
        let mut counters = now.reading.counted_since(&then.reading);
        let last_cpu = |place: usize| self.threads[place].last_cpu();
        load_thread::count(&then.threads, &now.threads, last_cpu, &mut counters);
        count_frames(&streams, &mut counters);
        let since =
            |now: &Option<Counts>, then: &Option<Counts>| Some(now.as_ref()?.since(then.as_ref()?));
        Moved {
            bytes_sent: sent - sent_then,
            bytes_received: received - received_then,
            latency: since(&now.latency, &then.latency),
            connect: since(&now.connect, &then.connect),
            delay: since(&now.delay, &then.delay),
            counters,
            cpu: CpuWork::since(&now.reading.cpu, &then.reading.cpu),
            watched: now
                .seen
                .as_ref()
                .zip(then.seen.as_ref())
                .map(|(now, then)| now.since(then)),
            streams,
        }
    }
}

impl Meters {
    fn read(&mut self, stream: &Stream) -> StreamReading {
        if let Some(frames) = &stream.frames {
            return StreamReading::Frames(frames.counts().frames);
        }
        let Some(datagrams) = &stream.datagrams else {
            return StreamReading::Tcp(self.tcp.read(stream.socket.as_fd()));
        };
        let memory = socket_memory::of(datagrams.socket.as_fd());
        StreamReading::Datagrams(DatagramReading {
            counts: datagrams.tally.counts(),
            socket_drops: self.drops.read(memory.as_ref()),
            memory,
        })
    }
}

/// The frames of a side that has any, as counters.
fn count_frames(streams: &[StreamMoved], counters: &mut Counters) {
    let mut sums = [("frames_sent", None), ("frames_received", None)];
    for stream in streams {
        let (sum, frames) = match stream.of {
            Kind::Frames(FramesMoved::FramesSent(frames)) => (&mut sums[0].1, frames),
            Kind::Frames(FramesMoved::FramesReceived(frames)) => (&mut sums[1].1, frames),
            _ => continue,
        };
        *sum = Some(sum.unwrap_or(0) + frames);
    }
    for (name, sum) in sums {
        if let Some(frames) = sum {
            counters.push(name, Amount::Count(frames));
        }
    }
}

fn moved(role: Role, then: &StreamReading, now: &StreamReading) -> Kind {
    match (then, now) {
        (StreamReading::Tcp(then), StreamReading::Tcp(now)) => {
            Kind::Tcp(TcpMoved::between(role, then, now))
        }
        (StreamReading::Datagrams(then), StreamReading::Datagrams(now)) => match role {
            Role::Source => Kind::Source(DatagramsSent {
                datagrams: now.counts.datagrams - then.counts.datagrams,
            }),
            Role::Sink => Kind::Sink(DatagramsReceived::between(then, now)),
        },
        (StreamReading::Frames(then), StreamReading::Frames(now)) => Kind::Frames(match role {
            Role::Source => FramesMoved::FramesSent(now - then),
            Role::Sink => FramesMoved::FramesReceived(now - then),
        }),
        _ => unreachable!("a stream is of one kind from beginning to end"),
    }
}
