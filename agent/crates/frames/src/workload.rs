//! A side's streams of frames: made ready at their port, and run.

use std::io;
use std::sync::Arc;

use socket2::Socket;

use crate::bpf_programs::ProbeResult;
use crate::filter::{FrameFilter, MAX_STREAMS};
use crate::packet::source::PacketSource;
use crate::parameters::{Backend, ChosenBackends, FrameParameters};
use crate::port::Port;
use crate::sink::{self, PortObserver};
use crate::{generate, template};
use vnetbench_streams::frames::FrameEndpoint;
use vnetbench_streams::threads::{self, StartedThread, ThreadPlan};
use vnetbench_streams::{
    Commands, EndGuard, OnEnd, Role, Secret, Stream, StreamEnd, datagram_header,
};
use vnetbench_system::error::{Error, Result};

/// A side's streams in the load's order, each with a socket at the port, and how they are carried.
pub struct FrameWorkload {
    pub streams: Vec<(Socket, Box<dyn FrameEndpoint>)>,
    pub observer: PortObserver,
    pub backends: ChosenBackends,
}

/// Makes the port ready for a side's streams, and known to the device.
pub fn open(
    roles: &[(u32, Role)],
    secret: &Secret,
    parameters: &FrameParameters,
) -> Result<FrameWorkload> {
    if roles.iter().any(|(id, _)| *id as usize >= MAX_STREAMS) {
        let what = format!("streams of frames have ids below {MAX_STREAMS}");
        return Err(Error::BadParameter(what));
    }
    let port = Port::open(&parameters.interface)?;
    let largest = parameters.sizes.iter().map(|size| size.bytes).max();
    port.check_size(largest.unwrap_or_default(), parameters.vlan_tags.len())?;
    let ids = |role| {
        let of_role = roles.iter().filter(move |(_, of)| *of == role);
        of_role.map(|(id, _)| *id).collect()
    };
    let key = |id| datagram_header::stream_key(secret, id);
    let filter = FrameFilter {
        prefix: key(0),
        sources: ids(Role::Source),
        sinks: ids(Role::Sink),
    };
    let keys: Vec<u32> = filter.sources.iter().map(|id| key(*id)).collect();
    let mut ways = ChosenBackends::default();
    // First: where a program is at a port, some drivers can have frames redirected into it.
    let (sinks, watch) = sink::open(
        &port,
        &filter,
        parameters.sink,
        parameters.settle,
        &mut ways,
    )?;
    let mut sinks = sinks.into_iter();
    let mut sources = open_sources(&port, parameters, &keys, &mut ways)?.into_iter();
    let carried = roles.iter().map(|(_, role)| match role {
        Role::Source => sources.next(),
        Role::Sink => sinks.next(),
    });
    let mut streams = Vec::with_capacity(roles.len());
    for frames in carried {
        let frames = frames.expect("one for each stream of the role");
        streams.push((port.socket()?, frames));
    }
    let learning = template::learning_frame(&port, parameters, key(roles[0].0));
    port.announce(&learning)?;
    Ok(FrameWorkload {
        streams,
        observer: watch,
        backends: ways,
    })
}

/// A source for each of these keys, in their order.
fn open_sources(
    port: &Port,
    parameters: &FrameParameters,
    keys: &[u32],
    ways: &mut ChosenBackends,
) -> Result<Vec<Box<dyn FrameEndpoint>>> {
    let by_program = |(place, key): (usize, &u32)| -> ProbeResult<Box<dyn FrameEndpoint>> {
        let source = generate::XdpSource::load(port, parameters, *key, place, keys.len())?;
        Ok(Box::new(source))
    };
    let by_packets = |(place, key): (usize, &u32)| -> Result<Box<dyn FrameEndpoint>> {
        let source = PacketSource::open(port, parameters, *key, place, keys.len())?;
        Ok(Box::new(source))
    };
    if keys.is_empty() {
        return Ok(Vec::new());
    }
    if parameters.generator != Backend::Packet {
        let made: ProbeResult<Vec<_>> = keys.iter().enumerate().map(by_program).collect();
        match made {
            Ok(sources) => {
                ways.generator = Some("xdp");
                return Ok(sources);
            }
            Err(why) if parameters.generator == Backend::Xdp => {
                let name = &port.name;
                return Err(Error::Trial(format!(
                    "no program makes frames at {name}: {why}"
                )));
            }
            Err(why) => ways.add_reason(&format!("no program makes frames: {why}")),
        }
    }
    ways.generator = Some("packet");
    keys.iter().enumerate().map(by_packets).collect()
}

/// Starts the streams' threads, one each; they wait for `Order::Go`.
pub fn start(
    streams: &[Arc<Stream>],
    threads: &ThreadPlan,
    orders: &Arc<Commands>,
    on_end: &OnEnd,
) -> io::Result<Vec<StartedThread>> {
    threads::start_threads(streams, threads, orders, |own| {
        let guard = EndGuard::new(&own[0], on_end);
        Ok(move |orders: &Commands| {
            let stream = &*guard.stream;
            let frames = stream.frames.as_ref().expect("a stream of frames");
            stream.record_end(frames.run(orders).unwrap_or_else(StreamEnd::Broken));
        })
    })
}
