//! Opens and runs an endpoint's frame streams.

use std::io;
use std::sync::Arc;

use socket2::Socket;

use crate::filter::{STREAM_ID_LIMIT, TrialFrameFilter};
use crate::packet::source::PacketSource;
use crate::parameters::{ChosenBackends, FrameBackend, FrameParameters};
use crate::port::Port;
use crate::sink::{self, OpenSinks, OtherFrameObserver};
use crate::{generate, template};
use vnetbench_bpf::ProbeResult;
use vnetbench_streams::frames::FrameEndpoint;
use vnetbench_streams::threads::{self, StartedThread, ThreadPlan};
use vnetbench_streams::{
    Commands, EndGuard, OnEnd, Role, Secret, Stream, StreamEnd, StreamRole, datagram_header,
};
use vnetbench_system::error::{RequestError, Result};

/// A stream of frames that is ready to start.
pub struct OpenFrameStream {
    /// The stream's socket at the port.
    pub socket: Socket,
    /// The stream's source or sink.
    pub endpoint: Box<dyn FrameEndpoint>,
}

/// An endpoint's frame streams, ready to start.
pub struct FrameWorkload {
    /// The streams, in the load's order.
    pub streams: Vec<OpenFrameStream>,
    /// Observes foreign frames at the port.
    pub observer: OtherFrameObserver,
    /// Backends of the sources and sinks.
    pub backends: ChosenBackends,
}

/// Opens the sinks and sources of an endpoint's streams, and announces the port to the device.
///
/// # Errors
///
/// Fails if the port is not usable, a frame exceeds its MTU, or a required backend is not available.
pub fn open_frame_workload(
    roles: &[StreamRole],
    secret: &Secret,
    parameters: &FrameParameters,
) -> Result<FrameWorkload> {
    if roles
        .iter()
        .any(|stream| stream.id as usize >= STREAM_ID_LIMIT)
    {
        let message = format!("ids of frame streams must be below {STREAM_ID_LIMIT}");
        return Err(RequestError::BadParameter(message));
    }
    let port = Port::open_with_link(&parameters.interface)?;
    let largest = parameters.sizes.iter().map(|size| size.bytes).max();
    port.check_frame_fits_mtu(largest.unwrap_or_default(), parameters.vlan_tags.len())?;
    let ids = |role| {
        let streams = roles.iter().filter(move |stream| stream.role == role);
        streams.map(|stream| stream.id).collect()
    };
    let key = |id| datagram_header::derive_stream_key(secret, id);
    let filter = TrialFrameFilter {
        secret: key(0),
        sources: ids(Role::Source),
        sinks: ids(Role::Sink),
    };
    let keys: Vec<u32> = filter.sources.iter().map(|id| key(*id)).collect();
    let mut backends = ChosenBackends::default();
    // Sinks first: some drivers accept redirected frames only while an XDP program is attached.
    let OpenSinks { sinks, observer } = sink::open_sinks(
        &port,
        &filter,
        parameters.sink,
        parameters.end_after_silence,
        &mut backends,
    )?;
    let mut sinks = sinks.into_iter();
    let mut sources = open_sources(&port, parameters, &keys, &mut backends)?.into_iter();
    let endpoints = roles.iter().map(|stream| match stream.role {
        Role::Source => sources.next(),
        Role::Sink => sinks.next(),
    });
    let mut streams = Vec::with_capacity(roles.len());
    for endpoint in endpoints {
        streams.push(OpenFrameStream {
            socket: port.open_send_socket()?,
            endpoint: endpoint.expect("every stream has a source or a sink"),
        });
    }
    let probe_frame = template::build_learning_frame(&port, parameters, key(roles[0].id));
    port.announce(&probe_frame)?;
    Ok(FrameWorkload {
        streams,
        observer,
        backends,
    })
}

/// Opens a source for each key, in order.
fn open_sources(
    port: &Port,
    parameters: &FrameParameters,
    keys: &[u32],
    backends: &mut ChosenBackends,
) -> Result<Vec<Box<dyn FrameEndpoint>>> {
    let open_xdp = |(index, key): (usize, &u32)| -> ProbeResult<Box<dyn FrameEndpoint>> {
        let source = generate::XdpSource::load(port, parameters, *key, index, keys.len())?;
        Ok(Box::new(source))
    };
    let open_packet = |(index, key): (usize, &u32)| -> Result<Box<dyn FrameEndpoint>> {
        let source = PacketSource::open(port, parameters, *key, index, keys.len())?;
        Ok(Box::new(source))
    };
    if keys.is_empty() {
        return Ok(Vec::new());
    }
    if parameters.generator != FrameBackend::Packet {
        let sources: ProbeResult<Vec<_>> = keys.iter().enumerate().map(open_xdp).collect();
        match sources {
            Ok(sources) => {
                backends.generator = Some("xdp");
                return Ok(sources);
            }
            Err(reason) if parameters.generator == FrameBackend::Xdp => {
                let name = &port.name;
                return Err(RequestError::Trial(format!(
                    "no BPF program can generate frames at {name}: {reason}"
                )));
            }
            Err(reason) => {
                backends.add_reason(&format!("no BPF program can generate frames: {reason}"))
            }
        }
    }
    backends.generator = Some("packet");
    keys.iter().enumerate().map(open_packet).collect()
}

/// Starts one thread per stream. The threads wait for [`Command::Go`](vnetbench_streams::Command::Go).
pub fn start_frame_streams(
    streams: &[Arc<Stream>],
    threads: &ThreadPlan,
    commands: &Arc<Commands>,
    on_end: &OnEnd,
) -> io::Result<Vec<StartedThread>> {
    threads::start_threads(streams, threads, commands, |streams| {
        let guard = EndGuard::new(&streams[0], on_end);
        Ok(move |commands: &Commands| {
            let stream = &*guard.stream;
            let frames = stream
                .frames
                .as_ref()
                .expect("every stream of the workload frames carries frames");
            stream.record_end(frames.run(commands).unwrap_or_else(StreamEnd::Broken));
        })
    })
}
