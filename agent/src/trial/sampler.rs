//! Reads all that a trial counts at one moment, and makes differences of it.

use std::collections::HashMap;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::Instant;

use super::report::{
    DatagramReading, DatagramSinkSample, DatagramSourceSample, FrameSample, SampleCounters,
    StreamCounters, StreamSample, TcpSample,
};
use super::socket_detail::DETAILED_STREAMS;
use vnetbench_counters::driver::{self, DriverCounters};
use vnetbench_counters::load_thread::{self, LoadThread};
use vnetbench_counters::socket_memory::{self, DropMeter};
use vnetbench_counters::tcp_info::{Meter, TcpReading};
use vnetbench_counters::thread_time::ThreadTime;
use vnetbench_counters::watched::{self, Observer, ObserverReading};
use vnetbench_counters::{CounterValue, Counters, CpuWork, ReadScope, Reading, Scope, Sources};
use vnetbench_streams::{Role, Stream};
use vnetbench_system::error::Result;
use vnetbench_system::histogram::{Histogram, HistogramCounts};

/// What a trial counts beside its streams.
pub struct CounterSources {
    sources: Sources,
    observed: Option<Observer>,
    driver: Option<DriverCounters>,
}

impl CounterSources {
    pub fn open(scope: Scope<'_>, watched: watched::ObserverRequest) -> Result<Self> {
        let interface = scope.interface;
        Ok(Self {
            sources: Sources::open(scope)?,
            observed: watched.open()?,
            driver: interface.map(DriverCounters::open),
        })
    }
}

pub struct Sampler {
    sources: CounterSources,
    streams: Vec<(Arc<Stream>, StreamMeters)>,
    threads: Vec<Arc<LoadThread>>,
}

/// What is kept of one stream from reading to reading.
struct StreamMeters {
    tcp: Meter,
    drops: DropMeter,
}

/// All counters as they stood at one moment.
pub struct Snapshot {
    pub at: Instant,
    /// Sent and received by each stream.
    bytes: Vec<(u64, u64)>,
    latency: Option<HistogramCounts>,
    connect: Option<HistogramCounts>,
    delay: Option<HistogramCounts>,
    reading: Reading,
    observed: Option<ObserverReading>,
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
    pub fn new(
        sources: CounterSources,
        streams: &[Arc<Stream>],
        threads: Vec<Arc<LoadThread>>,
    ) -> Self {
        let mut alike = HashMap::new();
        let metered = streams.iter().map(|stream| {
            let before = alike.entry((stream.part, stream.role)).or_insert(0);
            *before += 1;
            let meters = StreamMeters {
                tcp: Meter::new(*before <= DETAILED_STREAMS),
                drops: DropMeter::default(),
            };
            (Arc::clone(stream), meters)
        });
        Self {
            streams: metered.collect(),
            sources,
            threads,
        }
    }

    /// What a trial begins with. Frames that its sinks have counted by then came from a side that had begun before this one:
    /// they are of the trial too, and of its first sample.
    pub fn read_first(&mut self) -> Snapshot {
        let mut first = self.read_full();
        for (i, (stream, _)) in self.streams.iter().enumerate() {
            if stream.frames.is_some() && stream.role == Role::Sink {
                first.bytes[i].1 = 0;
                first.streams[i] = StreamReading::Frames(0);
                first.delay = Some(HistogramCounts::empty());
            }
        }
        first
    }

    pub fn read_full(&mut self) -> Snapshot {
        self.read(ReadScope::ALL)
    }

    pub fn read(&mut self, depth: ReadScope) -> Snapshot {
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
        let reading = self.sources.sources.read(depth);
        let watched = self.sources.observed.as_mut();
        let seen = watched.map(|watched: &mut Observer| watched.read(depth.queues));
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
            observed: seen,
            streams,
            threads: self.threads.iter().map(|thread| thread.time()).collect(),
        }
    }

    pub fn read_driver(&self) -> Option<driver::DriverReading> {
        self.sources.driver.as_ref().map(DriverCounters::read)
    }

    pub fn driver_change(&self, then: Option<&driver::DriverReading>) -> driver::DriverChange {
        let driver = self.sources.driver.as_ref().zip(then);
        driver.map_or_else(Default::default, |(driver, then)| driver.since(then))
    }

    /// One kind of histogram of all streams together; `None` where no stream has it.
    fn counts(&self, kind: impl Fn(&Stream) -> Option<&Histogram>) -> Option<HistogramCounts> {
        let mut histograms = self
            .streams
            .iter()
            .filter_map(|(stream, _)| kind(stream))
            .peekable();
        histograms.peek()?;
        Some(HistogramCounts::sum(histograms))
    }

    fn delay_of_frames(&self) -> Option<HistogramCounts> {
        let mut streams = self.streams.iter();
        streams.find_map(|(stream, _)| stream.frames.as_ref()?.delay())
    }

    pub fn between(&self, then: &Snapshot, now: &Snapshot) -> SampleCounters {
        let streams: Vec<StreamSample> = self
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
                StreamSample {
                    id: stream.id,
                    role: stream.role,
                    part: stream.part,
                    bytes,
                    bytes_acked: acked(now).map(|now| now.saturating_sub(acked(then).unwrap_or(0))),
                    counters: stream_change(stream.role, &then.streams[i], &now.streams[i]),
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
        let since = |now: &Option<HistogramCounts>, then: &Option<HistogramCounts>| {
            Some(now.as_ref()?.since(then.as_ref()?))
        };
        SampleCounters {
            bytes_sent: sent - sent_then,
            bytes_received: received - received_then,
            latency: since(&now.latency, &then.latency),
            connect: since(&now.connect, &then.connect),
            delay: since(&now.delay, &then.delay),
            counters,
            cpu: CpuWork::since(&now.reading.cpu, &then.reading.cpu),
            watched: now
                .observed
                .as_ref()
                .zip(then.observed.as_ref())
                .map(|(now, then)| now.since(then)),
            streams,
        }
    }
}

impl StreamMeters {
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
fn count_frames(streams: &[StreamSample], counters: &mut Counters) {
    let mut sums = [("frames_sent", None), ("frames_received", None)];
    for stream in streams {
        let (sum, frames) = match stream.counters {
            StreamCounters::Frames(FrameSample::FramesSent(frames)) => (&mut sums[0].1, frames),
            StreamCounters::Frames(FrameSample::FramesReceived(frames)) => (&mut sums[1].1, frames),
            _ => continue,
        };
        *sum = Some(sum.unwrap_or(0) + frames);
    }
    for (name, sum) in sums {
        if let Some(frames) = sum {
            counters.push(name, CounterValue::Count(frames));
        }
    }
}

fn stream_change(role: Role, then: &StreamReading, now: &StreamReading) -> StreamCounters {
    match (then, now) {
        (StreamReading::Tcp(then), StreamReading::Tcp(now)) => {
            StreamCounters::Tcp(TcpSample::between(role, then, now))
        }
        (StreamReading::Datagrams(then), StreamReading::Datagrams(now)) => match role {
            Role::Source => StreamCounters::Source(DatagramSourceSample {
                datagrams: now.counts.datagrams - then.counts.datagrams,
            }),
            Role::Sink => StreamCounters::Sink(DatagramSinkSample::between(then, now)),
        },
        (StreamReading::Frames(then), StreamReading::Frames(now)) => {
            StreamCounters::Frames(match role {
                Role::Source => FrameSample::FramesSent(now - then),
                Role::Sink => FrameSample::FramesReceived(now - then),
            })
        }
        _ => unreachable!("a stream is of one kind from beginning to end"),
    }
}
