//! Reads all counters of a trial at one moment, and returns the difference of two readings.

use std::collections::HashMap;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::Instant;

use super::boundary::BoundarySources;
use super::report::{
    DatagramReading, DatagramSinkSample, DatagramSourceSample, SampleCounters, StreamFrameCount,
    StreamSample, StreamSampleCounters, TcpSample,
};
use super::round_robin::{MAX_READ_PER_SAMPLE, RoundRobinSelector};
use super::socket_detail::MAX_DETAILED_STREAMS_PER_PART_AND_ROLE;
use vnetbench_counters::load_thread::{self, LoadThread, ThreadReading};
use vnetbench_counters::observer::{self, Observer, ObserverReading};
use vnetbench_counters::socket_memory::{self, SocketDropMeter};
use vnetbench_counters::tcp_info::{TcpMeter, TcpReading};
use vnetbench_counters::{
    CounterReader, CounterScope, CounterValue, Counters, CpuWork, CycleScope, ReadScope, Reading,
};
use vnetbench_streams::{Role, Stream, StreamBytes};
use vnetbench_system::error::Result;
use vnetbench_system::histogram::{Histogram, HistogramCounts};

/// The counters of a trial other than those of its streams.
pub struct CounterSources {
    sources: CounterReader,
    observer: Option<Observer>,
    boundary: BoundarySources,
}

impl CounterSources {
    /// Opens the counters of this scope, and of the observed threads and interfaces.
    pub fn open(scope: CounterScope<'_>, observer: observer::ObserverRequest) -> Result<Self> {
        let counts_whole_kernel =
            scope.includes_system_counters || matches!(scope.cycles, CycleScope::System);
        let boundary = BoundarySources::open(scope.interface, counts_whole_kernel, &observer)?;
        Ok(Self {
            sources: CounterReader::open(scope)?,
            observer: observer.open()?,
            boundary,
        })
    }
}

/// Reads the counters of one trial.
pub struct Sampler {
    sources: CounterSources,
    streams: Vec<(Arc<Stream>, StreamMeters)>,
    /// The number of streams that have details.
    detailed_streams: usize,
    detail_selector: RoundRobinSelector,
    threads: Vec<Arc<LoadThread>>,
    /// The last reading of each thread.
    thread_readings: Vec<ThreadReading>,
    thread_selector: RoundRobinSelector,
}

/// The meters of one stream, which keep state between readings.
struct StreamMeters {
    tcp: TcpMeter,
    /// The number of the stream among those with details; `None` for further streams.
    detail_index: Option<usize>,
    drops: SocketDropMeter,
}

/// All counters of a trial at one moment.
pub struct Snapshot {
    /// When the counters were read.
    pub at: Instant,
    /// The bytes that each stream has sent and received.
    bytes: Vec<StreamBytes>,
    latency: Option<HistogramCounts>,
    connect: Option<HistogramCounts>,
    delay: Option<HistogramCounts>,
    reading: Reading,
    observed: Option<ObserverReading>,
    streams: Vec<StreamReading>,
    threads: Vec<ThreadReading>,
}

enum StreamReading {
    Tcp(TcpReading),
    Datagrams(DatagramReading),
    /// The number of frames.
    Frames(u64),
}

impl Snapshot {
    /// Returns an error message if the trial's interface vanished, is down, or has no carrier.
    pub fn interface_fault(&self) -> Option<&str> {
        self.reading.failure_message.as_deref()
    }
}

impl Sampler {
    /// Returns a sampler of these counters, streams and load threads.
    pub fn new(
        sources: CounterSources,
        streams: &[Arc<Stream>],
        threads: Vec<Arc<LoadThread>>,
    ) -> Self {
        let mut counts_by_part_and_role = HashMap::new();
        let mut detailed_streams = 0;
        let metered_streams = streams.iter().map(|stream| {
            let count = counts_by_part_and_role
                .entry((stream.part, stream.role))
                .or_insert(0);
            *count += 1;
            let detail_index = (*count <= MAX_DETAILED_STREAMS_PER_PART_AND_ROLE).then(|| {
                detailed_streams += 1;
                detailed_streams - 1
            });
            let meters = StreamMeters {
                tcp: TcpMeter::default(),
                detail_index,
                drops: SocketDropMeter::default(),
            };
            (Arc::clone(stream), meters)
        });
        Self {
            streams: metered_streams.collect(),
            sources,
            detailed_streams,
            detail_selector: RoundRobinSelector::default(),
            thread_readings: vec![ThreadReading::default(); threads.len()],
            threads,
            thread_selector: RoundRobinSelector::default(),
        }
    }

    /// Reads the counters at the start of the load.
    ///
    /// The other endpoint may start first. Frames that the sinks have counted by now belong to the first sample, so
    /// their initial count is 0.
    pub fn read_initial(&mut self) -> Snapshot {
        let mut snapshot = self.read_all_counters();
        for (i, (stream, _)) in self.streams.iter().enumerate() {
            if stream.frames.is_some() && stream.role == Role::Sink {
                snapshot.bytes[i].received = 0;
                snapshot.streams[i] = StreamReading::Frames(0);
                snapshot.delay = Some(HistogramCounts::empty());
            }
        }
        snapshot
    }

    /// Reads all counters, also those that take long to read.
    pub fn read_all_counters(&mut self) -> Snapshot {
        self.read_up_to(ReadScope::ALL, usize::MAX)
    }

    /// Reads the counters of this scope, of many threads and of the details of many sockets only some, in turn.
    pub fn read(&mut self, scope: ReadScope) -> Snapshot {
        self.read_up_to(scope, MAX_READ_PER_SAMPLE)
    }

    fn read_up_to(&mut self, scope: ReadScope, max_selected: usize) -> Snapshot {
        // Reads the bytes right after the clock: goodput must match its interval best.
        let at = Instant::now();
        let bytes = self
            .streams
            .iter()
            .map(|(stream, _)| stream.bytes())
            .collect();
        let latency = self.sum_histograms(|stream| Some(&stream.timing.as_ref()?.latency));
        let connect = self.sum_histograms(|stream| stream.timing.as_ref()?.connect.as_ref());
        let delay = self.sum_histograms(|stream| stream.datagrams.as_ref()?.delay.as_ref());
        let delay = delay.or_else(|| self.frame_delay());
        let reading = self.sources.sources.read(scope);
        let observer = self.sources.observer.as_mut();
        let observed = observer.map(|observer: &mut Observer| observer.read(scope.qdiscs));
        let selection = self
            .detail_selector
            .next(self.detailed_streams, max_selected);
        let streams = self.streams.iter_mut().map(|(stream, meters)| {
            let is_selected = meters
                .detail_index
                .is_some_and(|index| selection.includes(index));
            meters.read(stream, is_selected)
        });
        let streams = streams.collect();
        let selection = self.thread_selector.next(self.threads.len(), max_selected);
        let threads = self.threads.iter().zip(&mut self.thread_readings);
        for (index, (thread, reading)) in threads.enumerate() {
            if selection.includes(index) {
                *reading = reading.next_reading(thread.cpu_and_wait_time(), at);
            }
        }
        Snapshot {
            at,
            bytes,
            latency,
            connect,
            delay,
            reading,
            observed,
            streams,
            threads: self.thread_readings.clone(),
        }
    }

    /// Returns what is read only at the start and the end of the trial.
    pub fn boundary_sources(&self) -> &BoundarySources {
        &self.sources.boundary
    }

    /// Returns the sum of one histogram over all streams; `None` if no stream has it.
    fn sum_histograms(
        &self,
        histogram: impl Fn(&Stream) -> Option<&Histogram>,
    ) -> Option<HistogramCounts> {
        let mut histograms = self
            .streams
            .iter()
            .filter_map(|(stream, _)| histogram(stream))
            .peekable();
        histograms.peek()?;
        Some(HistogramCounts::sum(histograms))
    }

    fn frame_delay(&self) -> Option<HistogramCounts> {
        let mut streams = self.streams.iter();
        streams.find_map(|(stream, _)| stream.frames.as_ref()?.port_one_way_delays())
    }

    /// Returns what was counted from `then` to `now`. Also reads the present CPU of the busiest thread, which is in no
    /// snapshot.
    pub fn counters_between_and_current_cpu(
        &self,
        then: &Snapshot,
        now: &Snapshot,
    ) -> SampleCounters {
        let streams = self.streams_between(then, now);
        let sent = |snapshot: &Snapshot| snapshot.bytes.iter().map(|bytes| bytes.sent).sum::<u64>();
        let received = |snapshot: &Snapshot| {
            snapshot
                .bytes
                .iter()
                .map(|bytes| bytes.received)
                .sum::<u64>()
        };
        let mut counters = now.reading.counters_since(&then.reading);
        let last_cpu = |index: usize| self.threads[index].last_cpu();
        load_thread::push_thread_counters(
            &then.threads,
            &now.threads,
            now.at - then.at,
            last_cpu,
            &mut counters,
        );
        add_frame_counters(&streams, &mut counters);
        let between = |then: &Option<HistogramCounts>, now: &Option<HistogramCounts>| {
            Some(now.as_ref()?.since(then.as_ref()?))
        };
        SampleCounters {
            bytes_sent: sent(now) - sent(then),
            bytes_received: received(now) - received(then),
            latency: between(&then.latency, &now.latency),
            connect_time: between(&then.connect, &now.connect),
            delay: between(&then.delay, &now.delay),
            counters,
            cpu: CpuWork::changes_between(&then.reading.cpu, &now.reading.cpu),
            observed: now
                .observed
                .as_ref()
                .zip(then.observed.as_ref())
                .map(|(now, then)| now.since(then)),
            streams,
        }
    }

    /// Returns what each stream counted from `then` to `now`.
    fn streams_between(&self, then: &Snapshot, now: &Snapshot) -> Vec<StreamSample> {
        self.streams
            .iter()
            .enumerate()
            .map(|(i, (stream, _))| {
                let role = stream.role;
                let acked = |snapshot: &Snapshot| match &snapshot.streams[i] {
                    StreamReading::Tcp(tcp) if role == Role::Source => {
                        Some(tcp.payload_acked(snapshot.bytes[i].sent))
                    }
                    _ => None,
                };
                StreamSample {
                    id: stream.id,
                    role,
                    part: stream.part,
                    bytes: now.bytes[i].bytes_carried_by(role)
                        - then.bytes[i].bytes_carried_by(role),
                    bytes_acked: acked(now).map(|now| now.saturating_sub(acked(then).unwrap_or(0))),
                    counters: stream_counters_between(role, &then.streams[i], &now.streams[i]),
                    state: None,
                    transport: None,
                    zero_copy: None,
                    arrivals: None,
                    frames: None,
                }
            })
            .collect()
    }
}

impl StreamMeters {
    fn read(&mut self, stream: &Stream, reads_detail: bool) -> StreamReading {
        if let Some(frames) = &stream.frames {
            return StreamReading::Frames(frames.counts().frames);
        }
        let Some(datagrams) = &stream.datagrams else {
            let socket = stream.socket.as_fd();
            return StreamReading::Tcp(if reads_detail {
                self.tcp.read_with_detail(socket)
            } else {
                self.tcp.read_or_keep_last(socket)
            });
        };
        let memory = socket_memory::read_socket_memory(datagrams.socket.as_fd());
        StreamReading::Datagrams(DatagramReading {
            counts: datagrams.counters.counts(),
            socket_drops: self.drops.update_total_drops(memory.as_ref()),
            memory,
        })
    }
}

/// Adds the frames of all streams to the counters, if the load is `frames`.
fn add_frame_counters(streams: &[StreamSample], counters: &mut Counters) {
    let mut sums = [("frames_sent", None), ("frames_received", None)];
    for stream in streams {
        let (sum, frames) = match stream.counters {
            StreamSampleCounters::Frames(StreamFrameCount::FramesSent(frames)) => {
                (&mut sums[0].1, frames)
            }
            StreamSampleCounters::Frames(StreamFrameCount::FramesReceived(frames)) => {
                (&mut sums[1].1, frames)
            }
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

fn stream_counters_between(
    role: Role,
    then: &StreamReading,
    now: &StreamReading,
) -> StreamSampleCounters {
    match (then, now) {
        (StreamReading::Tcp(then), StreamReading::Tcp(now)) => {
            StreamSampleCounters::Tcp(TcpSample::between(role, then, now))
        }
        (StreamReading::Datagrams(then), StreamReading::Datagrams(now)) => match role {
            Role::Source => StreamSampleCounters::Source(DatagramSourceSample {
                datagrams: now.counts.datagrams - then.counts.datagrams,
            }),
            Role::Sink => StreamSampleCounters::Sink(DatagramSinkSample::between(then, now)),
        },
        (StreamReading::Frames(then), StreamReading::Frames(now)) => {
            StreamSampleCounters::Frames(match role {
                Role::Source => StreamFrameCount::FramesSent(now - then),
                Role::Sink => StreamFrameCount::FramesReceived(now - then),
            })
        }
        _ => unreachable!("a stream never changes its protocol"),
    }
}
