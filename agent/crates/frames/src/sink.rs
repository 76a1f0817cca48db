//! The sinks at a port: they count an endpoint's streams with the best backend that the port supports.

use std::io;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use serde::Serialize;

use crate::arrivals::StreamArrivals;
use crate::filter::FrameFilter;
use crate::foreign::{ForeignFrameCounts, ForeignFrames};
use crate::packet::sink::PacketSink;
use crate::parameters::{Backend, ChosenBackends};
use crate::port::Port;
use crate::sink_program::SinkProgram;
use vnetbench_counters::load_thread::LoadThread;
use vnetbench_streams::frames::{FrameCounts, FrameEndpoint, FrameOutcome, SinkOutcome};
use vnetbench_streams::{Command, Commands, StreamEnd};
use vnetbench_system::error::{Error, Result};
use vnetbench_system::histogram;

/// How often a sink checks whether the load is over.
const POLL_INTERVAL: Duration = Duration::from_millis(20);
/// How often a sink checks for late frames during the settling time.
const POLLS_WHILE_SETTLING: u32 = 10;

/// Counts all frames that arrive at a port.
#[derive(Debug)]
pub struct FrameCounter {
    backend: CounterBackend,
    sink_count: usize,
}

#[derive(Debug)]
enum CounterBackend {
    XdpProgram(SinkProgram),
    PacketSocket(PacketSink),
}

impl FrameCounter {
    /// Opens a counter and returns it with the backend's name and the reason why no better backend is available.
    pub fn open(
        port: &Port,
        filter: &FrameFilter,
        backend: Backend,
    ) -> Result<(Self, &'static str, String)> {
        let (backend, name, reason) = CounterBackend::open(port, filter, backend)?;
        let sinks = filter.sinks.len();
        Ok((
            Self {
                backend,
                sink_count: sinks,
            },
            name,
            reason,
        ))
    }

    /// Returns the arrivals of one sink's stream.
    pub fn stream_arrivals(&self, sink_index: usize) -> StreamArrivals {
        match &self.backend {
            CounterBackend::XdpProgram(program) => program.arrivals.stream_arrivals(sink_index),
            CounterBackend::PacketSocket(socket) => socket.stream_arrivals(sink_index),
        }
    }

    /// Returns the thread that receives the frames of all sinks, unless an XDP program counts them.
    pub fn thread(&self) -> Option<&Arc<LoadThread>> {
        match &self.backend {
            CounterBackend::PacketSocket(socket) if self.sink_count > 0 => {
                Some(&socket.load_thread)
            }
            _ => None,
        }
    }

    /// Returns the one-way delays of the frames of all sinks.
    pub fn delay(&self) -> histogram::HistogramCounts {
        match &self.backend {
            CounterBackend::XdpProgram(program) => program.arrivals.delay(),
            CounterBackend::PacketSocket(socket) => socket.delay(),
        }
    }

    /// Returns whether a frame carried a time stamp of another clock.
    pub fn has_separate_clock(&self) -> bool {
        (0..self.sink_count)
            .any(|sink_index| self.stream_arrivals(sink_index).impossible_transits > 0)
    }

    /// Returns the frames that belong to none of the sinks.
    pub fn foreign_frames(&self) -> ForeignFrames {
        match &self.backend {
            CounterBackend::XdpProgram(program) => program.arrivals.foreign_frames(),
            CounterBackend::PacketSocket(socket) => socket.foreign_frames(),
        }
    }

    /// Returns the number of frames that this endpoint dropped because its receive ring was full.
    pub fn dropped(&self) -> u64 {
        match &self.backend {
            CounterBackend::XdpProgram(_) => 0,
            CounterBackend::PacketSocket(socket) => socket.dropped(),
        }
    }
}

impl CounterBackend {
    fn open(
        port: &Port,
        filter: &FrameFilter,
        requested: Backend,
    ) -> Result<(Self, &'static str, String)> {
        let fallback_reason = if requested == Backend::Packet {
            String::new()
        } else {
            match SinkProgram::attach(port, filter) {
                Ok((program, reason)) => {
                    let name = program.mode.name();
                    return Ok((Self::XdpProgram(program), name, reason));
                }
                Err(reason) if requested == Backend::Xdp => {
                    let name = &port.name;
                    return Err(Error::Trial(format!(
                        "no XDP program can count frames at {name}: {reason}"
                    )));
                }
                Err(reason) => format!("no XDP program can count frames: {reason}"),
            }
        };
        let socket = PacketSink::open(port, filter)?;
        Ok((Self::PacketSocket(socket), "packet", fallback_reason))
    }
}

/// The sink of one stream.
#[derive(Debug)]
struct StreamSink {
    counter: Arc<FrameCounter>,
    sink_index: usize,
    settle: Duration,
}

/// Observes the other frames at a port. It keeps the port's counter alive.
#[derive(Debug)]
pub struct PortObserver {
    counter: Arc<FrameCounter>,
    baseline: OnceLock<(ForeignFrames, u64)>,
}

/// Frames at a port since the observation began.
#[derive(Debug, Serialize)]
pub struct PortCounts {
    /// Frames that belong to none of the sinks.
    foreign: ForeignFrameCounts,
    /// Frames that this endpoint dropped because its receive ring was full: loss of the tester, not of the device.
    sink_dropped: u64,
}

impl PortObserver {
    /// Returns the thread that receives the frames; see [`FrameCounter::thread`].
    pub fn thread(&self) -> Option<&Arc<LoadThread>> {
        self.counter.thread()
    }

    /// Begins the observation. Later calls have no effect.
    pub fn begin(&self) {
        let _ = self.baseline.set(self.foreign_and_dropped());
    }

    /// Returns the frames since the observation began.
    pub fn counts(&self) -> PortCounts {
        let (foreign, dropped) = self.foreign_and_dropped();
        let (foreign_at_start, dropped_at_start) = self.baseline.get_or_init(Default::default);
        PortCounts {
            foreign: foreign.since(foreign_at_start),
            sink_dropped: dropped - dropped_at_start,
        }
    }

    fn foreign_and_dropped(&self) -> (ForeignFrames, u64) {
        (self.counter.foreign_frames(), self.counter.dropped())
    }
}

/// Opens a sink for each stream of the filter, in order, and an observer of the port's other frames.
pub fn open(
    port: &Port,
    filter: &FrameFilter,
    requested: Backend,
    settle: Duration,
    backends: &mut ChosenBackends,
) -> Result<(Vec<Box<dyn FrameEndpoint>>, PortObserver)> {
    let (counter, name, reason) = FrameCounter::open(port, filter, requested)?;
    let counter = Arc::new(counter);
    if !filter.sinks.is_empty() {
        backends.sink = Some(name);
        backends.add_reason(&reason);
    }
    let sinks = (0..filter.sinks.len()).map(|sink_index| -> Box<dyn FrameEndpoint> {
        Box::new(StreamSink {
            counter: Arc::clone(&counter),
            sink_index,
            settle,
        })
    });
    let sinks = sinks.collect();
    let observer = PortObserver {
        counter,
        baseline: OnceLock::new(),
    };
    Ok((sinks, observer))
}

impl FrameEndpoint for StreamSink {
    fn run(&self, commands: &Commands) -> io::Result<StreamEnd> {
        while commands.current() == Command::Go {
            std::thread::sleep(POLL_INTERVAL);
        }
        let mut arrivals = self.counter.stream_arrivals(self.sink_index);
        let mut last_arrival = Instant::now();
        while last_arrival.elapsed() < self.settle {
            if commands.current() == Command::EndAll {
                return Ok(StreamEnd::Cut);
            }
            std::thread::sleep(self.settle / POLLS_WHILE_SETTLING);
            let current = self.counter.stream_arrivals(self.sink_index);
            if current != arrivals {
                (arrivals, last_arrival) = (current, Instant::now());
            }
        }
        Ok(StreamEnd::Drained)
    }

    fn counts(&self) -> FrameCounts {
        let StreamArrivals { frames, bytes, .. } = self.counter.stream_arrivals(self.sink_index);
        FrameCounts { frames, bytes }
    }

    /// The sinks at a port share one histogram, so only the first one reports it.
    fn delay(&self) -> Option<histogram::HistogramCounts> {
        (self.sink_index == 0 && !self.counter.has_separate_clock()).then(|| self.counter.delay())
    }

    fn outcome(&self, _load_ended: Instant) -> FrameOutcome {
        let arrived = self.counter.stream_arrivals(self.sink_index);
        FrameOutcome::Sink(SinkOutcome {
            duplicates: arrived.duplicates,
            out_of_order: arrived.out_of_order,
            before_window: arrived.before_window,
            highest_number: arrived.highest_number,
            jitter_us: arrived.jitter_nanos as f64 / 1e3,
            impossible_transits: arrived.impossible_transits,
        })
    }
}
