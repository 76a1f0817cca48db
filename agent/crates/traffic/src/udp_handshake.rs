//! How a flow of datagrams is opened: over the stream's connection both sides agree on a port, and then the source proves
//! that datagrams as large as those of the load get through.
//!
//! The source says whose clock it reads (16 bytes), the sink its port (2 bytes, big endian). The source sends datagrams
//! to it, small ones and such as the load will have, until the sink has said that one of the latter came. A source that
//! cannot send them says why (4 bytes, errno) before it leaves.

use std::io;
use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use rustix::event::PollFlags;
use rustix::net::RecvFlags;
use socket2::{SockAddr, Socket, Type};

use crate::load::Load;
use crate::route::require_ip_address;
use crate::sockets;
use crate::udp_stream::FlowOptions;
use vnetbench_streams::Role;
use vnetbench_streams::datagram_header::{
    DatagramHeader, HEADER_BYTES, PROBE_NUMBER, SMALL_PROBE_NUMBER, now_nanos, stream_key,
};
use vnetbench_streams::datagrams::{DatagramCounters, DatagramFlow};
use vnetbench_system::clock::{self, ClockIdHash};
use vnetbench_system::error::{Error, Kind, Result};
use vnetbench_system::histogram::Histogram;
use vnetbench_system::waiting::{WaitOutcome, Waker, wait};
use vnetbench_system::{ports, socket_option};

/// Between two probes of one stream.
const PROBE_INTERVAL: Duration = Duration::from_millis(20);
/// What a sink says of the datagrams that came.
const SMALL_PROBE_ARRIVED: u8 = 1;
const PROBE_ARRIVED: u8 = 2;
/// Datagrams that are looked at before the time and the bell are again: whoever sends more than these holds nothing up.
const MAX_DATAGRAMS_PER_TURN: usize = 256;
/// Neither side has more to say than a source that cannot send.
const MAX_CONTROL_BYTES: usize = size_of::<ClockIdHash>() + size_of::<i32>();

/// Opens the flows of all streams, whose connections are these, in the order of the load; `None` when the bell was rung
/// before.
pub fn open_flows(
    load: &Load,
    flow: &FlowOptions,
    connections: &[Socket],
    waker: &Waker,
    timeout: Duration,
) -> Result<Option<Vec<DatagramFlow>>> {
    let here = clock::identity();
    let mut openings = Vec::with_capacity(connections.len());
    for ((id, role), connection) in load.roles.iter().zip(connections) {
        openings.push(FlowHandshake::start(
            connection,
            *role,
            stream_key(&load.secret, *id),
            flow,
            &here,
        )?);
    }
    let until = Instant::now() + timeout;
    let mut probe_at = Instant::now();
    let mut ready = Vec::new();
    while openings.iter().any(|opening| !opening.is_done) {
        let now = Instant::now();
        let probes = now >= probe_at;
        if probes {
            probe_at = now + PROBE_INTERVAL;
        }
        for opening in openings.iter_mut().filter(|opening| !opening.is_done) {
            if now >= until {
                return Err(Error::TimedOut {
                    operation: opening.operation("getting"),
                    after_s: timeout.as_secs_f64(),
                    kind: Some(Kind::Datagram),
                });
            }
            opening.advance(probes)?;
        }
        let polled: Vec<_> = openings
            .iter()
            .filter(|opening| !opening.is_done)
            .flat_map(|opening| [opening.connection.as_fd(), opening.socket.as_fd()])
            .map(|socket| (socket, PollFlags::IN))
            .collect();
        let waited = wait(&polled, &mut ready, waker, Some(until.min(probe_at)));
        if waited.map_err(|error| Error::system("wait for datagrams", error))? == WaitOutcome::Woken
        {
            return Ok(None);
        }
    }
    let streams = openings.len();
    let open =
        |(place, opening): (usize, FlowHandshake<'_>)| opening.into_flow(flow, place, streams);
    Ok(Some(openings.into_iter().enumerate().map(open).collect()))
}

/// One stream's flow while it is being opened.
struct FlowHandshake<'a> {
    connection: &'a Socket,
    socket: Socket,
    role: Role,
    key: u32,
    datagram_bytes: usize,
    identity: Option<ClockIdHash>,
    /// What the other side has said on the connection.
    received: Vec<u8>,
    /// Of a source: that it knows the sink's port.
    has_port: bool,
    small_probe_arrived: bool,
    probe_arrived: bool,
    is_done: bool,
}

impl<'a> FlowHandshake<'a> {
    fn start(
        connection: &'a Socket,
        role: Role,
        key: u32,
        flow: &FlowOptions,
        here: &Option<ClockIdHash>,
    ) -> Result<Self> {
        let mut at = require_ip_address(connection.local_addr())
            .map_err(|error| Error::system("open a UDP socket", error))?;
        let mut at_port = |port| {
            at.set_port(port);
            open_udp_socket(at, role, flow)
        };
        let socket = match role {
            Role::Source => at_port(0)?,
            Role::Sink => ports::try_ports(at_port)?,
        };
        let words = match role {
            Role::Source => here.unwrap_or_default().to_vec(),
            Role::Sink => require_ip_address(socket.local_addr())
                .map_err(|error| Error::system("open a UDP socket", error))?
                .port()
                .to_be_bytes()
                .to_vec(),
        };
        let opening = Self {
            connection,
            socket,
            role,
            key,
            datagram_bytes: flow.datagram_bytes,
            identity: *here,
            received: Vec::new(),
            has_port: false,
            small_probe_arrived: false,
            probe_arrived: false,
            is_done: false,
        };
        opening
            .send_control(&words)
            .map_err(|error| opening.error(error))?;
        Ok(opening)
    }

    /// All of it: so little always fits a connection's buffer.
    fn send_control(&self, words: &[u8]) -> io::Result<()> {
        self.connection.send(words).map(drop)
    }

    /// What is being done, by this verb: "get" or "getting".
    fn operation(&self, verb: &str) -> String {
        let small = match (self.small_probe_arrived, self.datagram_bytes > HEADER_BYTES) {
            (true, _) => format!("small ones of {HEADER_BYTES} bytes get through"),
            (false, true) => format!("none of {HEADER_BYTES} bytes gets through either"),
            (false, false) => "none gets through".into(),
        };
        format!(
            "{verb} a datagram of {} bytes through ({small})",
            self.datagram_bytes
        )
    }

    fn error(&self, error: impl Into<io::Error>) -> Error {
        Error::system(self.operation("get"), error).with_kind(Kind::Datagram)
    }

    fn advance(&mut self, probes: bool) -> Result<()> {
        self.receive_control().map_err(|error| self.error(error))?;
        match self.role {
            Role::Source => self.advance_probing(probes),
            Role::Sink => self.advance_listening(),
        }
    }

    /// Takes what the other side has said on the connection.
    fn receive_control(&mut self) -> io::Result<()> {
        let mut bytes = [0; 64];
        match rustix::net::recv(self.connection, &mut bytes[..], RecvFlags::DONTWAIT) {
            Ok((0, _)) => Err(io::ErrorKind::ConnectionReset.into()),
            Ok((count, _)) if self.received.len() + count > MAX_CONTROL_BYTES => Err(
                io::Error::other("the other side says more than there is to say"),
            ),
            Ok((count, _)) => {
                self.received.extend_from_slice(&bytes[..count]);
                Ok(())
            }
            Err(rustix::io::Errno::AGAIN | rustix::io::Errno::INTR) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    fn advance_probing(&mut self, probes: bool) -> Result<()> {
        let Some((port, answers)) = self.received.split_first_chunk::<2>() else {
            return Ok(());
        };
        self.small_probe_arrived |= answers.contains(&SMALL_PROBE_ARRIVED);
        self.probe_arrived |= answers.contains(&PROBE_ARRIVED);
        self.is_done = self.probe_arrived;
        let begins = !self.has_port;
        if begins {
            let port = u16::from_be_bytes(*port);
            self.has_port = true;
            let connecting = || {
                let mut to = require_ip_address(self.connection.peer_addr())?;
                to.set_port(port);
                self.socket.connect(&SockAddr::from(to))
            };
            connecting().map_err(|error| self.error(error))?;
        }
        if !self.is_done && (probes || begins) {
            self.send_probe(SMALL_PROBE_NUMBER, HEADER_BYTES)?;
            self.send_probe(PROBE_NUMBER, self.datagram_bytes)?;
        }
        Ok(())
    }

    fn send_probe(&self, number: u64, bytes: usize) -> Result<()> {
        let mut datagram = vec![0; bytes];
        let head = DatagramHeader {
            key: self.key,
            number,
            sent_nanos: now_nanos(),
        };
        head.write(&mut datagram);
        let Err(error) = self.socket.send(&datagram) else {
            return Ok(());
        };
        let errno = error.raw_os_error().unwrap_or(0);
        match errno {
            libc::EAGAIN | libc::EINTR | libc::ENOBUFS => return Ok(()),
            _ => {}
        }
        // The other side has to know why; closing must not tear down what says so. Both only help.
        let _ = self.connection.set_linger(None);
        let _ = self.send_control(&errno.to_be_bytes());
        Err(self.send_error(error))
    }

    fn send_error(&self, error: io::Error) -> Error {
        Error::system(
            format!("send a datagram of {} bytes", self.datagram_bytes),
            error,
        )
        .with_kind(Kind::Datagram)
    }

    fn advance_listening(&mut self) -> Result<()> {
        let taken = self.receive_probes();
        if taken.is_err() {
            // The source may have left since it was heard, and have said why before.
            let _ = self.receive_control();
        }
        let said = self
            .received
            .split_first_chunk::<{ size_of::<ClockIdHash>() }>();
        if let Some(errno) = said.and_then(|(_, reason)| reason.first_chunk::<4>()) {
            let error = io::Error::from_raw_os_error(i32::from_be_bytes(*errno));
            return Err(self.send_error(error));
        }
        taken.map_err(|error| self.error(error))?;
        self.is_done = self.probe_arrived && said.is_some();
        Ok(())
    }

    /// Says what has come, and connects the socket to where it came from: nothing else reaches it then.
    fn receive_probes(&mut self) -> io::Result<()> {
        let source = require_ip_address(self.connection.peer_addr())?;
        let mut bytes = [0; HEADER_BYTES];
        for _ in 0..MAX_DATAGRAMS_PER_TURN {
            let flags = RecvFlags::DONTWAIT | RecvFlags::TRUNC;
            let (kept, length, from) =
                match rustix::net::recvfrom(&self.socket, &mut bytes[..], flags) {
                    Ok((kept, length, from)) => (kept, length, from),
                    Err(rustix::io::Errno::AGAIN | rustix::io::Errno::INTR) => return Ok(()),
                    Err(error) => return Err(error.into()),
                };
            let from = from.and_then(|from| SocketAddr::try_from(from).ok());
            let head = DatagramHeader::read(&bytes[..kept]).filter(|head| head.key == self.key);
            let (Some(head), Some(from)) = (head, from.filter(|from| from.ip() == source.ip()))
            else {
                continue;
            };
            if head.number == SMALL_PROBE_NUMBER && !self.small_probe_arrived {
                self.small_probe_arrived = true;
                self.send_control(&[SMALL_PROBE_ARRIVED])?;
            }
            if head.number == PROBE_NUMBER && length == self.datagram_bytes && !self.probe_arrived {
                self.probe_arrived = true;
                self.socket.connect(&SockAddr::from(from))?;
                self.send_control(&[PROBE_ARRIVED])?;
            }
        }
        Ok(())
    }

    fn into_flow(self, flow: &FlowOptions, place: usize, streams: usize) -> DatagramFlow {
        let is_sink = self.role == Role::Sink;
        let clock_is_shared = is_sink
            && self
                .identity
                .is_some_and(|here| self.received.starts_with(&here));
        DatagramFlow {
            socket: self.socket,
            key: self.key,
            counters: DatagramCounters::default(),
            delay: clock_is_shared.then(Histogram::new),
            pacing: if is_sink {
                None
            } else {
                flow.pacing(place, streams)
            },
            gaps: Default::default(),
        }
    }
}

/// A UDP socket at this address, and with all that the flow asks of a side of this role.
fn open_udp_socket(at: SocketAddr, role: Role, flow: &FlowOptions) -> Result<Socket> {
    let domain = socket2::Domain::for_address(at);
    let socket = Socket::new(domain, Type::DGRAM, None)
        .and_then(|socket| socket.set_nonblocking(true).map(|()| socket))
        .map_err(|error| Error::system("open a UDP socket", error))?;
    sockets::set_buffers(&socket, flow.buffer_bytes)?;
    let set = |level, option, value, what: &str| {
        socket_option::set(&socket, level, option, value)
            .map_err(|error| Error::system(format!("set {what}"), error))
    };
    let offload = |error: Error| error.with_kind(Kind::UdpOffload);
    match role {
        Role::Sink => {
            set(libc::SOL_SOCKET, libc::SO_TIMESTAMPNS, 1, "SO_TIMESTAMPNS")?;
            if flow.is_aggregated {
                set(libc::SOL_UDP, libc::UDP_GRO, 1, "UDP_GRO").map_err(offload)?;
            }
        }
        Role::Source => {
            if at.is_ipv6() {
                let (discover, dont) = if flow.can_fragment {
                    (libc::IPV6_PMTUDISC_DONT, 0)
                } else {
                    (libc::IPV6_PMTUDISC_DO, 1)
                };
                let level = libc::IPPROTO_IPV6;
                set(
                    level,
                    libc::IPV6_MTU_DISCOVER,
                    discover as u32,
                    "IPV6_MTU_DISCOVER",
                )?;
                set(level, libc::IPV6_DONTFRAG, dont, "IPV6_DONTFRAG")?;
            } else {
                let discover = if flow.can_fragment {
                    libc::IP_PMTUDISC_DONT
                } else {
                    libc::IP_PMTUDISC_DO
                };
                set(
                    libc::SOL_IP,
                    libc::IP_MTU_DISCOVER,
                    discover as u32,
                    "IP_MTU_DISCOVER",
                )?;
            }
            if flow.is_segmented {
                let bytes = flow.datagram_bytes as u32;
                set(libc::SOL_UDP, libc::UDP_SEGMENT, bytes, "UDP_SEGMENT").map_err(offload)?;
            }
        }
    }
    socket
        .bind(&SockAddr::from(at))
        .map_err(|error| Error::system(format!("bind a UDP socket to {}", at.ip()), error))?;
    Ok(socket)
}
