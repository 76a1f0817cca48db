//! The sinks at a port: a side's streams, counted where they arrive, by the best way that the port has.

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

/// How often a sink looks whether the load is over, and then whether more has come.
const POLL_INTERVAL: Duration = Duration::from_millis(20);
const POLLS_WHILE_SETTLING: u32 = 10;

/// What counts at a port.
#[derive(Debug)]
pub struct FrameCounter {
    backend: CounterBackend,
    sinks: usize,
}

#[derive(Debug)]
enum CounterBackend {
    Program(SinkProgram),
    Packets(PacketSink),
}

impl FrameCounter {
    /// By which way, and why not by a better one.
    pub fn open_sinks(
        port: &Port,
        filter: &FrameFilter,
        way: Backend,
    ) -> Result<(Self, &'static str, String)> {
        let (by, name, why) = CounterBackend::open(port, filter, way)?;
        let sinks = filter.sinks.len();
        Ok((Self { backend: by, sinks }, name, why))
    }

    pub fn stream(&self, place: usize) -> StreamArrivals {
        match &self.backend {
            CounterBackend::Program(program) => program.arrivals.stream(place),
            CounterBackend::Packets(packets) => packets.stream(place),
        }
    }

    /// The thread that takes the frames of all sinks in, where it is not the kernel's program that does.
    pub fn thread(&self) -> Option<&Arc<LoadThread>> {
        match &self.backend {
            CounterBackend::Packets(packets) if self.sinks > 0 => Some(&packets.load_thread),
            _ => None,
        }
    }

    /// How long the frames of all sinks were under way.
    pub fn delay(&self) -> histogram::HistogramCounts {
        match &self.backend {
            CounterBackend::Program(program) => program.arrivals.delay(),
            CounterBackend::Packets(packets) => packets.delay(),
        }
    }

    /// Whether a frame has come whose time is none of this side's clock.
    pub fn has_separate_clock(&self) -> bool {
        (0..self.sinks).any(|place| self.stream(place).impossible_transits > 0)
    }

    pub fn foreign_frames(&self) -> ForeignFrames {
        match &self.backend {
            CounterBackend::Program(program) => program.arrivals.foreign_frames(),
            CounterBackend::Packets(packets) => packets.foreign_frames(),
        }
    }

    /// Frames that this side had no room for.
    pub fn dropped(&self) -> u64 {
        match &self.backend {
            CounterBackend::Program(_) => 0,
            CounterBackend::Packets(packets) => packets.dropped(),
        }
    }
}

impl CounterBackend {
    fn open(
        port: &Port,
        filter: &FrameFilter,
        way: Backend,
    ) -> Result<(Self, &'static str, String)> {
        let refused = if way == Backend::Packet {
            String::new()
        } else {
            match SinkProgram::attach(port, filter) {
                Ok((program, why)) => {
                    let name = program.mode.name();
                    return Ok((Self::Program(program), name, why));
                }
                Err(why) if way == Backend::Xdp => {
                    let name = &port.name;
                    return Err(Error::Trial(format!(
                        "no XDP program counts at {name}: {why}"
                    )));
                }
                Err(why) => format!("no XDP program counts: {why}"),
            }
        };
        let packets = PacketSink::open(port, filter)?;
        Ok((Self::Packets(packets), "packet", refused))
    }
}

/// One of the streams.
#[derive(Debug)]
struct StreamSink {
    counter: Arc<FrameCounter>,
    place: usize,
    settle: Duration,
}

/// What comes to a port beside the frames that its sinks count; as long as it lives they do count.
#[derive(Debug)]
pub struct PortObserver {
    counter: Arc<FrameCounter>,
    at_start: OnceLock<(ForeignFrames, u64)>,
}

/// What came since the watch began.
#[derive(Debug, Serialize)]
pub struct PortCounts {
    foreign: ForeignFrameCounts,
    /// Frames of any kind that this side had no room for: its own loss, and not the device's.
    sink_dropped: u64,
}

impl PortObserver {
    /// See `Counting::thread`.
    pub fn thread(&self) -> Option<&Arc<LoadThread>> {
        self.counter.thread()
    }

    pub fn begin(&self) {
        // Of two beginnings the first counts.
        let _ = self.at_start.set(self.foreign_and_dropped());
    }

    pub fn counts(&self) -> PortCounts {
        let (foreign, dropped) = self.foreign_and_dropped();
        let (strangers_then, dropped_then) = self.at_start.get_or_init(Default::default);
        PortCounts {
            foreign: foreign.since(strangers_then),
            sink_dropped: dropped - dropped_then,
        }
    }

    fn foreign_and_dropped(&self) -> (ForeignFrames, u64) {
        (self.counter.foreign_frames(), self.counter.dropped())
    }
}

/// A sink for each stream that is sought, in their order; and what watches all else, on a side without sinks too.
pub fn open(
    port: &Port,
    filter: &FrameFilter,
    way: Backend,
    settle: Duration,
    ways: &mut ChosenBackends,
) -> Result<(Vec<Box<dyn FrameEndpoint>>, PortObserver)> {
    let (counting, name, why) = FrameCounter::open_sinks(port, filter, way)?;
    let counting = Arc::new(counting);
    if !filter.sinks.is_empty() {
        ways.sink = Some(name);
        ways.add_reason(&why);
    }
    let sinks = (0..filter.sinks.len()).map(|place| -> Box<dyn FrameEndpoint> {
        Box::new(StreamSink {
            counter: Arc::clone(&counting),
            place,
            settle,
        })
    });
    let sinks = sinks.collect();
    let then = OnceLock::new();
    Ok((
        sinks,
        PortObserver {
            counter: counting,
            at_start: then,
        },
    ))
}

impl FrameEndpoint for StreamSink {
    fn run(&self, orders: &Commands) -> io::Result<StreamEnd> {
        while orders.current() == Command::Go {
            std::thread::sleep(POLL_INTERVAL);
        }
        let mut came = self.counter.stream(self.place);
        let mut last_came = Instant::now();
        while last_came.elapsed() < self.settle {
            if orders.current() == Command::EndAll {
                return Ok(StreamEnd::Cut);
            }
            std::thread::sleep(self.settle / POLLS_WHILE_SETTLING);
            let now = self.counter.stream(self.place);
            if now != came {
                (came, last_came) = (now, Instant::now());
            }
        }
        Ok(StreamEnd::Drained)
    }

    fn counts(&self) -> FrameCounts {
        let StreamArrivals { frames, bytes, .. } = self.counter.stream(self.place);
        FrameCounts { frames, bytes }
    }

    /// The sinks at a port count it together, so the first speaks for all.
    fn delay(&self) -> Option<histogram::HistogramCounts> {
        (self.place == 0 && !self.counter.has_separate_clock()).then(|| self.counter.delay())
    }

    fn outcome(&self, _load_ended: Instant) -> FrameOutcome {
        let arrived = self.counter.stream(self.place);
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
