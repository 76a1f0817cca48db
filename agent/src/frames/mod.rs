//! The workload `frames`: Ethernet frames made and counted at one port, without sockets of IP in between.
//!
//! A stream is the frames that one thread makes at one side and that are counted at the other. What stands at their head
//! is in `bpf/frame.h`. The sides have no connection: each is ready when its own port is.

pub mod able;
mod arrivals;
mod dispatcher;
mod foreign;
pub mod generate;
#[cfg(test)]
mod hand_made;
pub mod headers;
pub mod loading;
#[cfg(test)]
mod own_network;
mod pacing;
mod packet;
mod plan;
mod port;
mod sink;
mod sink_program;
pub mod template;

use std::fmt::Debug;
use std::io;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use socket2::Socket;

use self::loading::Able;
use self::packet::source::PacketSource;
use self::port::Port;
use self::sink::Sought;
pub use self::sink::{AtPort, MAX_STREAMS, Watch};
use crate::error::{Error, Result};
use crate::traffic::histogram;
use crate::traffic::threads::{self, Started, Threads};
use crate::traffic::udp_head;
use crate::traffic::{End, Guard, Load, OnEnd, Orders, Role, Stream};

/// The interleaving of sizes has so many places.
pub const MOST_WEIGHTS: usize = 64;
/// Of the frame check sequence, which the RFCs count and the kernel does not see.
pub const FCS_BYTES: usize = 4;

/// What is asked of a side's streams.
#[derive(Debug, Clone)]
pub struct Asked {
    pub interface: String,
    /// In a fixed interleaving, each as often as its weight says.
    pub sizes: Vec<Size>,
    /// On each stream; `None`: as fast as it goes.
    pub per_s: Option<f64>,
    /// Most of each stream.
    pub most: Option<u64>,
    /// Of each stream.
    pub flows: u32,
    pub vary_addresses: bool,
    pub from: IpAddr,
    pub to: IpAddr,
    /// Outermost first.
    pub vlan_tags: Vec<u16>,
    pub mac_to: [u8; 6],
    pub generator: Way,
    pub sink: Way,
    pub pacing: Pacing,
    pub refused: Refused,
    /// A sink ends when none has come for so long after the load has ended.
    pub settle: Duration,
    /// A source's thread has another's on its CPU.
    pub shares_cpus: bool,
}

/// Of a frame, with its FCS.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Size {
    pub bytes: usize,
    pub weight: u32,
}

/// What a frame is that the port does not take.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Refused {
    /// The port carries no more.
    #[default]
    Unsent,
    /// It was offered all the same: the queue that was full is the first of what is tested.
    Lost,
}

/// By which way frames are made or counted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Way {
    /// The best that the port has.
    #[default]
    Auto,
    Xdp,
    Packet,
}

/// How a frame waits until it is due.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Pacing {
    /// What is best at the rate.
    #[default]
    Auto,
    /// The kernel's program looks at the clock again and again.
    Program,
    /// The thread sleeps, and has a batch made of those that are due.
    Batches,
}

/// What a stream has moved.
#[derive(Debug, Clone, Copy, Default)]
pub struct Counts {
    /// Sent, or received without duplicates.
    pub frames: u64,
    /// With FCS.
    pub bytes: u64,
}

/// What a stream came to, beside its counts.
#[derive(Debug, Serialize)]
#[serde(untagged)]
pub enum Outcome {
    Source(generate::Sent),
    Sink(sink::Received),
}

/// One stream of frames at one port; there are several ways to make and to count them.
pub trait Frames: Debug + Send + Sync {
    /// Carries it from the start to the end of the load, on the stream's own thread.
    fn run(&self, orders: &Orders) -> io::Result<End>;

    /// Of a source: has it make no further frame, at once. Its thread may take some milliseconds to see its order.
    fn stop(&self) {}

    fn counts(&self) -> Counts;

    /// Sets the start that all frames are due after.
    fn begin(&self, _at: Instant) {}

    /// Of a sink: how long frames were under way.
    fn delay(&self) -> Option<histogram::Counts> {
        None
    }

    /// Once it has ended; until `load_ended` frames were due.
    fn outcome(&self, load_ended: Instant) -> Outcome;
}

/// By which ways a side's frames are made and counted.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Ways {
    /// Null where the side has none of that role.
    pub generator: Option<&'static str>,
    pub sink: Option<&'static str>,
    /// Why not by the best ways; empty where they are.
    pub why: String,
}

impl Ways {
    fn add_why(&mut self, why: &str) {
        if !self.why.is_empty() && !why.is_empty() {
            self.why.push_str("; ");
        }
        self.why.push_str(why);
    }
}

/// A side's streams in the load's order, each with a socket at the port, and how they are carried.
pub struct Opened {
    pub streams: Vec<(Socket, Box<dyn Frames>)>,
    pub watch: Watch,
    pub ways: Ways,
}

/// Makes the port ready for a side's streams, and known to the device.
pub fn open(load: &Load, asked: &Asked) -> Result<Opened> {
    if load.roles.iter().any(|(id, _)| *id as usize >= MAX_STREAMS) {
        let what = format!("streams of frames have ids below {MAX_STREAMS}");
        return Err(Error::BadParameter(what));
    }
    let port = Port::open(&asked.interface)?;
    let largest = asked.sizes.iter().map(|size| size.bytes).max();
    port.check_size(largest.unwrap_or_default(), asked.vlan_tags.len())?;
    let ids = |role| {
        let of_role = load.roles.iter().filter(move |(_, of)| *of == role);
        of_role.map(|(id, _)| *id).collect()
    };
    let key = |id| udp_head::key(&load.secret, id);
    let sought = Sought {
        prefix: key(0),
        sources: ids(Role::Source),
        sinks: ids(Role::Sink),
    };
    let keys: Vec<u32> = sought.sources.iter().map(|id| key(*id)).collect();
    let mut ways = Ways::default();
    // First: where a program is at a port, some drivers can have frames redirected into it.
    let (sinks, watch) = sink::open(&port, &sought, asked.sink, asked.settle, &mut ways)?;
    let mut sinks = sinks.into_iter();
    let mut sources = sources_of(&port, asked, &keys, &mut ways)?.into_iter();
    let carried = load.roles.iter().map(|(_, role)| match role {
        Role::Source => sources.next(),
        Role::Sink => sinks.next(),
    });
    let mut streams = Vec::with_capacity(load.roles.len());
    for frames in carried {
        let frames = frames.expect("one for each stream of the role");
        streams.push((port.socket()?, frames));
    }
    let learning = template::learning_frame(&port, asked, key(load.roles[0].0));
    port.make_known(&learning)?;
    Ok(Opened {
        streams,
        watch,
        ways,
    })
}

/// A source for each of these keys, in their order.
fn sources_of(
    port: &Port,
    asked: &Asked,
    keys: &[u32],
    ways: &mut Ways,
) -> Result<Vec<Box<dyn Frames>>> {
    let by_program = |(place, key): (usize, &u32)| -> Able<Box<dyn Frames>> {
        let source = generate::Source::load(port, asked, *key, place, keys.len())?;
        Ok(Box::new(source))
    };
    let by_packets = |(place, key): (usize, &u32)| -> Result<Box<dyn Frames>> {
        let source = PacketSource::open(port, asked, *key, place, keys.len())?;
        Ok(Box::new(source))
    };
    if keys.is_empty() {
        return Ok(Vec::new());
    }
    if asked.generator != Way::Packet {
        let made: Able<Vec<_>> = keys.iter().enumerate().map(by_program).collect();
        match made {
            Ok(sources) => {
                ways.generator = Some("xdp");
                return Ok(sources);
            }
            Err(why) if asked.generator == Way::Xdp => {
                let name = &port.name;
                return Err(Error::Trial(format!(
                    "no program makes frames at {name}: {why}"
                )));
            }
            Err(why) => ways.add_why(&format!("no program makes frames: {why}")),
        }
    }
    ways.generator = Some("packet");
    keys.iter().enumerate().map(by_packets).collect()
}

/// Starts the streams' threads, one each; they wait for `Order::Go`.
pub fn start(
    streams: &[Arc<Stream>],
    threads: &Threads,
    orders: &Arc<Orders>,
    on_end: &OnEnd,
) -> io::Result<Vec<Started>> {
    threads::start(streams, threads, orders, |own| {
        let guard = Guard::new(&own[0], on_end);
        Ok(move |orders: &Orders| {
            let stream = &*guard.stream;
            let frames = stream.frames.as_ref().expect("a stream of frames");
            stream.note_end(frames.run(orders).unwrap_or_else(End::Broken));
        })
    })
}
