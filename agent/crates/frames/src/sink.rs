//! The sinks at a port: a side's streams, counted where they arrive, by the best way that the port has.

use std::io;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use serde::Serialize;

use crate::arrivals::Arrived;
use crate::filter::Sought;
use crate::foreign::{Foreign, Strangers};
use crate::packet::sink::PacketSink;
use crate::parameters::{Way, Ways};
use crate::port::Port;
use crate::sink_program::SinkProgram;
use vnetbench_counters::load_thread::LoadThread;
use vnetbench_streams::frames::{Counts, Frames, Outcome, Received};
use vnetbench_streams::{End, Order, Orders};
use vnetbench_system::error::{Error, Result};
use vnetbench_system::histogram;

/// How often a sink looks whether the load is over, and then whether more has come.
const LOOK_EVERY: Duration = Duration::from_millis(20);
const LOOKS_WHILE_SETTLING: u32 = 10;

/// What counts at a port.
#[derive(Debug)]
pub struct Counting {
    by: By,
    sinks: usize,
}

#[derive(Debug)]
enum By {
    Program(SinkProgram),
    Packets(PacketSink),
}

impl Counting {
    /// By which way, and why not by a better one.
    pub fn open(port: &Port, sought: &Sought, way: Way) -> Result<(Self, &'static str, String)> {
        let (by, name, why) = By::open(port, sought, way)?;
        let sinks = sought.sinks.len();
        Ok((Self { by, sinks }, name, why))
    }

    pub fn arrived(&self, place: usize) -> Arrived {
        match &self.by {
            By::Program(program) => program.arrivals.of_stream(place),
            By::Packets(packets) => packets.arrived(place),
        }
    }

    /// The thread that takes the frames of all sinks in, where it is not the kernel's program that does.
    pub fn thread(&self) -> Option<&Arc<LoadThread>> {
        match &self.by {
            By::Packets(packets) if self.sinks > 0 => Some(&packets.counted),
            _ => None,
        }
    }

    /// How long the frames of all sinks were under way.
    pub fn delay(&self) -> histogram::Counts {
        match &self.by {
            By::Program(program) => program.arrivals.delay(),
            By::Packets(packets) => packets.delay(),
        }
    }

    /// Whether a frame has come whose time is none of this side's clock.
    pub fn has_other_clock(&self) -> bool {
        (0..self.sinks).any(|place| self.arrived(place).impossible_transits > 0)
    }

    pub fn strangers(&self) -> Strangers {
        match &self.by {
            By::Program(program) => program.arrivals.strangers(),
            By::Packets(packets) => packets.strangers(),
        }
    }

    /// Frames that this side had no room for.
    pub fn dropped(&self) -> u64 {
        match &self.by {
            By::Program(_) => 0,
            By::Packets(packets) => packets.dropped(),
        }
    }
}

impl By {
    fn open(port: &Port, sought: &Sought, way: Way) -> Result<(Self, &'static str, String)> {
        let refused = if way == Way::Packet {
            String::new()
        } else {
            match SinkProgram::attach(port, sought) {
                Ok((program, why)) => {
                    let name = program.mode.name();
                    return Ok((Self::Program(program), name, why));
                }
                Err(why) if way == Way::Xdp => {
                    let name = &port.name;
                    return Err(Error::Trial(format!(
                        "no XDP program counts at {name}: {why}"
                    )));
                }
                Err(why) => format!("no XDP program counts: {why}"),
            }
        };
        let packets = PacketSink::open(port, sought)?;
        Ok((Self::Packets(packets), "packet", refused))
    }
}

/// One of the streams.
#[derive(Debug)]
struct Sink {
    counting: Arc<Counting>,
    place: usize,
    settle: Duration,
}

/// What comes to a port beside the frames that its sinks count; as long as it lives they do count.
#[derive(Debug)]
pub struct Watch {
    counting: Arc<Counting>,
    then: OnceLock<(Strangers, u64)>,
}

/// What came since the watch began.
#[derive(Debug, Serialize)]
pub struct AtPort {
    foreign: Foreign,
    /// Frames of any kind that this side had no room for: its own loss, and not the device's.
    sink_dropped: u64,
}

impl Watch {
    /// See `Counting::thread`.
    pub fn thread(&self) -> Option<&Arc<LoadThread>> {
        self.counting.thread()
    }

    pub fn begin(&self) {
        // Of two beginnings the first counts.
        let _ = self.then.set(self.now());
    }

    pub fn told(&self) -> AtPort {
        let (strangers, dropped) = self.now();
        let (strangers_then, dropped_then) = self.then.get_or_init(Default::default);
        AtPort {
            foreign: strangers.since(strangers_then),
            sink_dropped: dropped - dropped_then,
        }
    }

    fn now(&self) -> (Strangers, u64) {
        (self.counting.strangers(), self.counting.dropped())
    }
}

/// A sink for each stream that is sought, in their order; and what watches all else, on a side without sinks too.
pub fn open(
    port: &Port,
    sought: &Sought,
    way: Way,
    settle: Duration,
    ways: &mut Ways,
) -> Result<(Vec<Box<dyn Frames>>, Watch)> {
    let (counting, name, why) = Counting::open(port, sought, way)?;
    let counting = Arc::new(counting);
    if !sought.sinks.is_empty() {
        ways.sink = Some(name);
        ways.add_why(&why);
    }
    let sinks = (0..sought.sinks.len()).map(|place| -> Box<dyn Frames> {
        Box::new(Sink {
            counting: Arc::clone(&counting),
            place,
            settle,
        })
    });
    let sinks = sinks.collect();
    let then = OnceLock::new();
    Ok((sinks, Watch { counting, then }))
}

impl Frames for Sink {
    fn run(&self, orders: &Orders) -> io::Result<End> {
        while orders.current() == Order::Go {
            std::thread::sleep(LOOK_EVERY);
        }
        let mut came = self.counting.arrived(self.place);
        let mut last_came = Instant::now();
        while last_came.elapsed() < self.settle {
            if orders.current() == Order::EndAll {
                return Ok(End::Cut);
            }
            std::thread::sleep(self.settle / LOOKS_WHILE_SETTLING);
            let now = self.counting.arrived(self.place);
            if now != came {
                (came, last_came) = (now, Instant::now());
            }
        }
        Ok(End::Drained)
    }

    fn counts(&self) -> Counts {
        let Arrived { frames, bytes, .. } = self.counting.arrived(self.place);
        Counts { frames, bytes }
    }

    /// The sinks at a port count it together, so the first speaks for all.
    fn delay(&self) -> Option<histogram::Counts> {
        (self.place == 0 && !self.counting.has_other_clock()).then(|| self.counting.delay())
    }

    fn outcome(&self, _load_ended: Instant) -> Outcome {
        let arrived = self.counting.arrived(self.place);
        Outcome::Sink(Received {
            duplicates: arrived.duplicates,
            out_of_order: arrived.out_of_order,
            before_window: arrived.before_window,
            highest: arrived.highest,
            jitter_us: arrived.jitter_nanos as f64 / 1e3,
            other_clock: arrived.impossible_transits,
        })
    }
}
