//! A side's streams of frames: made ready at their port, and run.

use std::io;
use std::sync::Arc;

use socket2::Socket;

use crate::bpf_programs::Able;
use crate::filter::{MAX_STREAMS, Sought};
use crate::packet::source::PacketSource;
use crate::parameters::{Asked, Way, Ways};
use crate::port::Port;
use crate::sink::{self, Watch};
use crate::{generate, template};
use vnetbench_streams::frames::Frames;
use vnetbench_streams::threads::{self, Started, Threads};
use vnetbench_streams::{End, Guard, OnEnd, Orders, Role, Secret, Stream, datagram_header};
use vnetbench_system::error::{Error, Result};

/// A side's streams in the load's order, each with a socket at the port, and how they are carried.
pub struct Opened {
    pub streams: Vec<(Socket, Box<dyn Frames>)>,
    pub watch: Watch,
    pub ways: Ways,
}

/// Makes the port ready for a side's streams, and known to the device.
pub fn open(roles: &[(u32, Role)], secret: &Secret, asked: &Asked) -> Result<Opened> {
    if roles.iter().any(|(id, _)| *id as usize >= MAX_STREAMS) {
        let what = format!("streams of frames have ids below {MAX_STREAMS}");
        return Err(Error::BadParameter(what));
    }
    let port = Port::open(&asked.interface)?;
    let largest = asked.sizes.iter().map(|size| size.bytes).max();
    port.check_size(largest.unwrap_or_default(), asked.vlan_tags.len())?;
    let ids = |role| {
        let of_role = roles.iter().filter(move |(_, of)| *of == role);
        of_role.map(|(id, _)| *id).collect()
    };
    let key = |id| datagram_header::key(secret, id);
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
    let carried = roles.iter().map(|(_, role)| match role {
        Role::Source => sources.next(),
        Role::Sink => sinks.next(),
    });
    let mut streams = Vec::with_capacity(roles.len());
    for frames in carried {
        let frames = frames.expect("one for each stream of the role");
        streams.push((port.socket()?, frames));
    }
    let learning = template::learning_frame(&port, asked, key(roles[0].0));
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
