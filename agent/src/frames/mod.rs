//! The workload `frames`: Ethernet frames made and counted at one port, without sockets of IP in between.
//!
//! A stream is the frames that one thread makes at one side and that are counted at the other. What stands at their head
//! is in `bpf/frame.h`. The sides have no connection: each is ready when its own port is.

pub mod generate;
pub mod loading;
mod pacing;
mod port;
mod sink;
pub mod template;

use std::fmt::Debug;
use std::io;
use std::net::IpAddr;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use socket2::Socket;

use self::port::Port;
use crate::error::{Error, Result};
use crate::traffic::histogram;
use crate::traffic::threads::{self, Threads};
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
    pub generator: Generator,
    pub pacing: Pacing,
    /// A sink ends when none has come for so long after the load has ended.
    pub settle: Duration,
}

/// Of a frame, with its FCS.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Size {
    pub bytes: usize,
    pub weight: u32,
}

/// By which way frames are made.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Generator {
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

/// What came to a port and was none of its sinks'.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Foreign {
    pub others: u64,
    /// This side's own frames, come back.
    pub own: u64,
    pub other_trial: u64,
    /// Of the others, as a person would name it.
    pub example: Option<String>,
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

    /// Of one of the sinks at a port, which speaks for all.
    fn foreign(&self) -> Option<Foreign> {
        None
    }
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

/// A side's streams in the load's order, each with a socket at the port, and how they are carried.
pub struct Opened {
    pub streams: Vec<(Socket, Box<dyn Frames>)>,
    pub ways: Ways,
}

/// Makes the port ready for a side's streams, and known to the device.
pub fn open(load: &Load, asked: &Asked) -> Result<Opened> {
    let port = Port::open(&asked.interface)?;
    let ids = |role| {
        let of_role = load.roles.iter().filter(move |(_, of)| *of == role);
        of_role.map(|(id, _)| udp_head::key(&load.secret, *id))
    };
    let sources: Vec<u32> = ids(Role::Source).collect();
    let sinks: Vec<u32> = ids(Role::Sink).collect();
    let mut ways = Ways::default();
    let mut sources = sources_of(&port, asked, &sources, &mut ways)?.into_iter();
    let mut sinks = sink::open(&port, asked, &sinks, &mut ways)?.into_iter();
    let carried = load.roles.iter().map(|(_, role)| match role {
        Role::Source => sources.next(),
        Role::Sink => sinks.next(),
    });
    let mut streams = Vec::with_capacity(load.roles.len());
    for frames in carried {
        let frames = frames.expect("one for each stream of the role");
        streams.push((port.socket()?, frames));
    }
    let key = udp_head::key(&load.secret, load.roles[0].0);
    port.make_known(&template::learning_frame(&port, asked, key))?;
    Ok(Opened { streams, ways })
}

/// A source for each of these keys, in their order.
fn sources_of(
    port: &Port,
    asked: &Asked,
    keys: &[u32],
    ways: &mut Ways,
) -> Result<Vec<Box<dyn Frames>>> {
    let mut sources: Vec<Box<dyn Frames>> = Vec::with_capacity(keys.len());
    for (place, key) in keys.iter().enumerate() {
        let source = generate::Source::load(port, asked, *key, place, keys.len())
            .map_err(|why| Error::Trial(format!("cannot make frames at {}: {why}", port.name)))?;
        ways.generator = Some("xdp");
        sources.push(Box::new(source));
    }
    Ok(sources)
}

/// Starts the streams' threads, one each; they wait for `Order::Go`.
pub fn start(
    streams: &[Arc<Stream>],
    threads: &Threads,
    orders: &Arc<Orders>,
    on_end: &OnEnd,
) -> io::Result<Vec<JoinHandle<()>>> {
    threads::start(streams, threads, orders, |own| {
        let guard = Guard::new(&own[0], on_end);
        Ok(move |orders: &Orders| {
            let stream = &*guard.stream;
            let frames = stream.frames.as_ref().expect("a stream of frames");
            stream.note_end(frames.run(orders).unwrap_or_else(End::Broken));
        })
    })
}
