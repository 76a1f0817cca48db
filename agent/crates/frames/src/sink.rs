//! The sinks at a port: they count an endpoint's streams with the best backend that the port supports.

use std::io;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use serde::Serialize;

use crate::arrivals::StreamArrivals;
use crate::filter::TrialFrameFilter;
use crate::foreign::{ForeignFrameCounts, ForeignFrames};
use crate::packet::sink::PacketSink;
use crate::parameters::{ChosenBackends, FrameBackend};
use crate::port::Port;
use crate::sink_program::SinkProgram;
use vnetbench_counters::load_thread::LoadThread;
use vnetbench_streams::frames::{FrameCounts, FrameEndpoint, FrameSinkDetails, FrameStreamDetails};
use vnetbench_streams::{Command, Commands, StreamEnd};
use vnetbench_system::error::{RequestError, Result};
use vnetbench_system::histogram;

/// How often a sink checks whether the load is over.
const LOAD_END_CHECK_INTERVAL: Duration = Duration::from_millis(20);
/// How often a sink checks for late frames during the settling time.
const CHECKS_WHILE_SETTLING: u32 = 10;

/// Counts all frames that arrive at a port.
#[derive(Debug)]
pub struct FrameCounter {
    backend: CounterBackend,
    sink_count: usize,
    /// Why no better backend is available; empty if this is the best or the requested one.
    pub fallback_reason: String,
}

#[derive(Debug)]
enum CounterBackend {
    XdpProgram(SinkProgram),
    PacketSocket(PacketSink),
}

impl FrameCounter {
    /// Opens a counter with the requested backend, or with the best available one.
    pub fn open(port: &Port, filter: &TrialFrameFilter, requested: FrameBackend) -> Result<Self> {
        let with_backend = |backend, fallback_reason| Self {
            backend,
            sink_count: filter.sinks.len(),
            fallback_reason,
        };
        let mut fallback_reason = String::new();
        if requested != FrameBackend::Packet {
            match SinkProgram::attach(port, filter) {
                Ok(mut program) => {
                    let reason = std::mem::take(&mut program.fallback_reason);
                    return Ok(with_backend(CounterBackend::XdpProgram(program), reason));
                }
                Err(reason) if requested == FrameBackend::Xdp => {
                    let name = &port.name;
                    return Err(RequestError::Trial(format!(
                        "no XDP program can count frames at {name}: {reason}"
                    )));
                }
                Err(reason) => {
                    fallback_reason = format!("no XDP program can count frames: {reason}");
                }
            }
        }
        let socket = PacketSink::open(port, filter)?;
        let backend = CounterBackend::PacketSocket(socket);
        Ok(with_backend(backend, fallback_reason))
    }

    /// Returns the name of the backend in the agent's protocol.
    pub fn backend_name(&self) -> &'static str {
        match &self.backend {
            CounterBackend::XdpProgram(program) => program.mode.backend_name(),
            CounterBackend::PacketSocket(_) => "packet",
        }
    }

    /// Returns the arrivals of one sink's stream.
    pub fn stream_arrivals(&self, sink_index: usize) -> StreamArrivals {
        match &self.backend {
            CounterBackend::XdpProgram(program) => program.arrivals.stream_arrivals(sink_index),
            CounterBackend::PacketSocket(socket) => socket.stream_arrivals(sink_index),
        }
    }

    /// Returns the thread that receives the frames of all sinks, unless an XDP program counts them.
    pub fn receiving_thread(&self) -> Option<&Arc<LoadThread>> {
        match &self.backend {
            CounterBackend::PacketSocket(socket) if self.sink_count > 0 => {
                Some(&socket.load_thread)
            }
            _ => None,
        }
    }

    /// Returns the one-way delays of the frames of all sinks.
    pub fn one_way_delays(&self) -> histogram::HistogramCounts {
        match &self.backend {
            CounterBackend::XdpProgram(program) => program.arrivals.one_way_delays(),
            CounterBackend::PacketSocket(socket) => socket.one_way_delays(),
        }
    }

    /// Returns whether a frame carried a time stamp of another clock.
    pub fn has_received_other_clock_frame(&self) -> bool {
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
    pub fn ring_dropped_count(&self) -> u64 {
        match &self.backend {
            CounterBackend::XdpProgram(_) => 0,
            CounterBackend::PacketSocket(socket) => socket.ring_dropped_count(),
        }
    }
}

/// The sink of one stream.
#[derive(Debug)]
struct StreamSink {
    counter: Arc<FrameCounter>,
    sink_index: usize,
    end_after_silence: Duration,
}

/// Observes the other frames at a port. It keeps the port's counter alive.
#[derive(Debug)]
pub struct OtherFrameObserver {
    counter: Arc<FrameCounter>,
    baseline: OnceLock<OtherFrameReading>,
}

/// The counters of a port's other frames at one time.
#[derive(Debug, Default)]
struct OtherFrameReading {
    foreign_frames: ForeignFrames,
    dropped: u64,
}

/// Frames at a port since the observation began.
#[derive(Debug, Serialize)]
pub struct OtherFrameCounts {
    /// Frames that belong to none of the sinks.
    foreign_frames: ForeignFrameCounts,
    /// Frames that this endpoint dropped because its receive ring was full: loss of the tester, not of the device.
    sink_dropped: u64,
}

impl OtherFrameObserver {
    /// Returns the thread that receives the frames; see `FrameCounter::receiving_thread`.
    pub fn receiving_thread(&self) -> Option<&Arc<LoadThread>> {
        self.counter.receiving_thread()
    }

    /// Begins the observation. Later calls have no effect.
    pub fn take_baseline_once(&self) {
        let _ = self.baseline.set(self.read());
    }

    /// Returns the frames since the observation began.
    pub fn counts_since_baseline(&self) -> OtherFrameCounts {
        let (start, now) = (self.baseline.get_or_init(Default::default), self.read());
        OtherFrameCounts {
            foreign_frames: now.foreign_frames.since(&start.foreign_frames),
            sink_dropped: now.dropped - start.dropped,
        }
    }

    fn read(&self) -> OtherFrameReading {
        OtherFrameReading {
            foreign_frames: self.counter.foreign_frames(),
            dropped: self.counter.ring_dropped_count(),
        }
    }
}

/// The opened sinks of an endpoint.
pub struct OpenSinks {
    /// A sink for each stream of the filter, in order.
    pub sinks: Vec<Box<dyn FrameEndpoint>>,
    /// Observes the other frames at the port.
    pub observer: OtherFrameObserver,
}

/// Opens a sink for each stream of the filter, in order, and an observer of the port's other frames.
pub fn open_sinks(
    port: &Port,
    filter: &TrialFrameFilter,
    requested: FrameBackend,
    end_after_silence: Duration,
    backends: &mut ChosenBackends,
) -> Result<OpenSinks> {
    let counter = Arc::new(FrameCounter::open(port, filter, requested)?);
    if !filter.sinks.is_empty() {
        backends.sink = Some(counter.backend_name());
        backends.add_reason(&counter.fallback_reason);
    }
    let sinks = (0..filter.sinks.len()).map(|sink_index| -> Box<dyn FrameEndpoint> {
        Box::new(StreamSink {
            counter: Arc::clone(&counter),
            sink_index,
            end_after_silence,
        })
    });
    Ok(OpenSinks {
        sinks: sinks.collect(),
        observer: OtherFrameObserver {
            counter,
            baseline: OnceLock::new(),
        },
    })
}

impl FrameEndpoint for StreamSink {
    fn run(&self, commands: &Commands) -> io::Result<StreamEnd> {
        while commands.current() == Command::Go {
            std::thread::sleep(LOAD_END_CHECK_INTERVAL);
        }
        let mut arrivals = self.counter.stream_arrivals(self.sink_index);
        // Each check follows a sleep: one long sleep of a process that gets no CPU time is no silence of the path.
        let mut silent_checks = 0;
        while silent_checks < CHECKS_WHILE_SETTLING {
            if commands.current() == Command::EndAll {
                return Ok(StreamEnd::Cut);
            }
            std::thread::sleep(self.end_after_silence / CHECKS_WHILE_SETTLING);
            let current = self.counter.stream_arrivals(self.sink_index);
            silent_checks = if current == arrivals {
                silent_checks + 1
            } else {
                0
            };
            arrivals = current;
        }
        Ok(StreamEnd::Drained)
    }

    fn counts(&self) -> FrameCounts {
        let StreamArrivals { frames, bytes, .. } = self.counter.stream_arrivals(self.sink_index);
        FrameCounts { frames, bytes }
    }

    /// The sinks at a port share one histogram, so only the first one reports it. `None` if a frame has the time of
    /// another clock.
    fn port_one_way_delays(&self) -> Option<histogram::HistogramCounts> {
        (self.sink_index == 0 && !self.counter.has_received_other_clock_frame())
            .then(|| self.counter.one_way_delays())
    }

    fn details(&self, _load_ended: Instant) -> FrameStreamDetails {
        let arrived = self.counter.stream_arrivals(self.sink_index);
        FrameStreamDetails::Sink(FrameSinkDetails {
            duplicates: arrived.duplicates,
            out_of_order: arrived.out_of_order,
            before_window: arrived.before_window,
            highest_number: arrived.highest_number,
            jitter_us: arrived.jitter_nanos as f64 / 1e3,
            impossible_transits: arrived.impossible_transits,
        })
    }
}
