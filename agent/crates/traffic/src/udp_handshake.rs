//! Opens datagram flows: negotiates the port, and probes that datagrams of the load's size arrive.
//!
//! On the stream's connection, the source sends the identity of its clock (16 bytes), and the sink sends its port
//! (2 bytes, big endian). The source sends small probes and probes of the load's datagram size, until the sink confirms
//! one of the load's size. A source that cannot send the probes reports the error number (4 bytes) before it closes.

use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::{Duration, Instant};

use rustix::event::PollFlags;
use rustix::net::RecvFlags;
use socket2::{SockAddr, Socket};

use crate::flow_options::FlowOptions;
use crate::load::Load;
use crate::route::require_ip_address;
use crate::udp_socket::open_flow_socket;
use vnetbench_streams::datagram_header::{
    DatagramHeader, FULL_PROBE_NUMBER, HEADER_BYTES, SMALL_PROBE_NUMBER, derive_stream_key,
};
use vnetbench_streams::datagrams::{DatagramCounters, DatagramFlow};
use vnetbench_streams::{Role, StreamRole};
use vnetbench_system::clock::{self, ClockIdHash};
use vnetbench_system::error::{ErrorKind, RequestError, Result};
use vnetbench_system::histogram::Histogram;
use vnetbench_system::ports;
use vnetbench_system::waiting::{WaitOutcome, Waker, wait};

/// Time between two probes of a stream.
const PROBE_INTERVAL: Duration = Duration::from_millis(20);
/// The sink's confirmation of a small probe.
const SMALL_PROBE_ARRIVED_CODE: u8 = 1;
/// The sink's confirmation of a probe of the load's datagram size.
const FULL_PROBE_ARRIVED_CODE: u8 = 2;
/// Maximum number of datagrams read between two checks of the time limit and the waker.
///
/// A fast foreign sender therefore does not block the handshake.
const MAX_DATAGRAMS_PER_TURN: usize = 256;
/// Maximum bytes from the other endpoint: the longest message is that of a source that cannot send.
const MAX_PEER_MESSAGE_BYTES: usize = size_of::<ClockIdHash>() + size_of::<i32>();

/// Opens the flows of all streams on their connections, in the order of the load; `None` if `waker` wakes it first.
///
/// # Errors
///
/// A socket, the exchange on a connection or a probe failed, or no probe of the load's size arrived within the time
/// limit.
pub fn open_flows(
    load: &Load,
    options: &FlowOptions,
    connections: &[Socket],
    waker: &Waker,
    timeout: Duration,
) -> Result<Option<Vec<DatagramFlow>>> {
    let mut handshakes = begin_handshakes(load, options, connections)?;
    let deadline = Instant::now() + timeout;
    let mut next_probe_at = Instant::now();
    let mut ready = Vec::new();
    while handshakes.iter().any(|handshake| !handshake.is_done) {
        let now = Instant::now();
        let is_probe_due = now >= next_probe_at;
        if is_probe_due {
            next_probe_at = now + PROBE_INTERVAL;
        }
        for handshake in handshakes.iter_mut().filter(|handshake| !handshake.is_done) {
            if now >= deadline {
                return Err(RequestError::TimedOut {
                    operation: handshake.describe_datagram_delivery("delivering"),
                    after_s: timeout.as_secs_f64(),
                    kind: Some(ErrorKind::Datagram),
                });
            }
            handshake.advance(is_probe_due)?;
        }
        let polled: Vec<_> = handshakes
            .iter()
            .filter(|handshake| !handshake.is_done)
            .flat_map(FlowHandshake::awaited_sockets)
            .map(|socket| (socket, PollFlags::IN))
            .collect();
        let until = deadline.min(next_probe_at);
        let outcome = wait(&polled, &mut ready, waker, Some(until))
            .map_err(|error| RequestError::system("wait for datagrams", error))?;
        if outcome == WaitOutcome::Woken {
            return Ok(None);
        }
    }
    let stream_count = handshakes.len();
    let flows = handshakes
        .into_iter()
        .enumerate()
        .map(|(index, handshake)| handshake.into_flow(options, index, stream_count));
    Ok(Some(flows.collect()))
}

/// Opens the sockets of all streams and begins their handshakes.
fn begin_handshakes<'a>(
    load: &Load,
    options: &FlowOptions,
    connections: &'a [Socket],
) -> Result<Vec<FlowHandshake<'a>>> {
    let own_clock = clock::identity_hash();
    let mut source_sockets = open_source_sockets(load, options, connections)?.into_iter();
    let streams = load.roles.iter().zip(connections);
    streams
        .map(|(StreamRole { id, role }, connection)| {
            let socket = match role {
                Role::Source => source_sockets.next().expect("each source has a socket"),
                Role::Sink => ports::open_on_allowed_port(|port| {
                    open_flow_socket(connection, port, *role, options)
                })?,
            };
            let key = derive_stream_key(&load.secret, *id);
            FlowHandshake::begin(connection, socket, *role, key, options, &own_clock)
        })
        .collect()
}

/// Opens the sockets of all sources, with the source ports of the options.
fn open_source_sockets(
    load: &Load,
    options: &FlowOptions,
    connections: &[Socket],
) -> Result<Vec<Socket>> {
    let streams = load.roles.iter().zip(connections);
    let sources: Vec<&Socket> = streams
        .filter(|(stream, _)| stream.role == Role::Source)
        .map(|(_, connection)| connection)
        .collect();
    options
        .source_ports
        .bind_sockets(sources.len(), |index, port| {
            open_flow_socket(sources[index], port, Role::Source, options)
        })
}

/// The handshake of one stream's flow.
struct FlowHandshake<'a> {
    control_connection: &'a Socket,
    socket: Socket,
    role: Role,
    /// Key of the stream in each datagram.
    key: u32,
    datagram_bytes: usize,
    /// Identity of this endpoint's clock.
    own_clock: Option<ClockIdHash>,
    /// Bytes from the other endpoint on the connection.
    received: Vec<u8>,
    /// Whether a source has the sink's port.
    has_port: bool,
    small_probe_arrived: bool,
    probe_arrived: bool,
    is_done: bool,
}

impl<'a> FlowHandshake<'a> {
    /// Sends the first message of this endpoint on the control connection.
    fn begin(
        control_connection: &'a Socket,
        socket: Socket,
        role: Role,
        key: u32,
        options: &FlowOptions,
        own_clock: &Option<ClockIdHash>,
    ) -> Result<Self> {
        let message = match role {
            Role::Source => own_clock.unwrap_or_default().to_vec(),
            Role::Sink => require_ip_address(socket.local_addr())
                .map_err(|error| RequestError::system("open a UDP socket", error))?
                .port()
                .to_be_bytes()
                .to_vec(),
        };
        let handshake = Self {
            control_connection,
            socket,
            role,
            key,
            datagram_bytes: options.datagram_bytes,
            own_clock: *own_clock,
            received: Vec::new(),
            has_port: false,
            small_probe_arrived: false,
            probe_arrived: false,
            is_done: false,
        };
        handshake
            .send_control(&message)
            .map_err(|error| handshake.add_context(error))?;
        Ok(handshake)
    }

    /// Returns the sockets that can advance the handshake.
    fn awaited_sockets(&self) -> [BorrowedFd<'_>; 2] {
        [self.control_connection.as_fd(), self.socket.as_fd()]
    }

    /// Sends a message on the connection, whose buffer always fits the few bytes.
    fn send_control(&self, message: &[u8]) -> io::Result<()> {
        self.control_connection.send(message).map(drop)
    }

    /// Returns the operation for messages, with the verb "deliver" or "delivering".
    fn describe_datagram_delivery(&self, verb: &str) -> String {
        let small_datagrams = match (self.small_probe_arrived, self.datagram_bytes > HEADER_BYTES) {
            (true, _) => format!("small datagrams of {HEADER_BYTES} bytes arrive"),
            (false, true) => {
                format!("small datagrams of {HEADER_BYTES} bytes do not arrive either")
            }
            (false, false) => "no datagram arrives".into(),
        };
        format!(
            "{verb} a datagram of {} bytes ({small_datagrams})",
            self.datagram_bytes
        )
    }

    /// Returns an error of the handshake's current operation.
    fn add_context(&self, error: impl Into<io::Error>) -> RequestError {
        RequestError::system(self.describe_datagram_delivery("deliver"), error)
            .with_kind_if_none(ErrorKind::Datagram)
    }

    /// Advances the handshake without waiting.
    fn advance(&mut self, is_probe_due: bool) -> Result<()> {
        self.read_control_connection()
            .map_err(|error| self.add_context(error))?;
        match self.role {
            Role::Source => self.advance_source(is_probe_due),
            Role::Sink => self.advance_sink(),
        }
    }

    /// Reads available bytes from the control connection.
    fn read_control_connection(&mut self) -> io::Result<()> {
        let mut bytes = [0; 64];
        match rustix::net::recv(self.control_connection, &mut bytes[..], RecvFlags::DONTWAIT) {
            Ok((0, _)) => Err(io::ErrorKind::ConnectionReset.into()),
            Ok((count, _)) if self.received.len() + count > MAX_PEER_MESSAGE_BYTES => {
                Err(io::Error::other("the other endpoint sent unexpected bytes"))
            }
            Ok((count, _)) => {
                self.received.extend_from_slice(&bytes[..count]);
                Ok(())
            }
            Err(rustix::io::Errno::AGAIN | rustix::io::Errno::INTR) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// Reads the sink's port and confirmations, and sends probes.
    fn advance_source(&mut self, is_probe_due: bool) -> Result<()> {
        let Some((port, confirmations)) = self.received.split_first_chunk::<2>() else {
            return Ok(());
        };
        self.small_probe_arrived |= confirmations.contains(&SMALL_PROBE_ARRIVED_CODE);
        self.probe_arrived |= confirmations.contains(&FULL_PROBE_ARRIVED_CODE);
        self.is_done = self.probe_arrived;
        let is_first_probe = !self.has_port;
        if is_first_probe {
            let port = u16::from_be_bytes(*port);
            self.has_port = true;
            let connect = || {
                let mut sink = require_ip_address(self.control_connection.peer_addr())?;
                sink.set_port(port);
                self.socket.connect(&SockAddr::from(sink))
            };
            connect().map_err(|error| self.add_context(error))?;
        }
        if !self.is_done && (is_probe_due || is_first_probe) {
            self.send_probe(SMALL_PROBE_NUMBER, HEADER_BYTES)?;
            self.send_probe(FULL_PROBE_NUMBER, self.datagram_bytes)?;
        }
        Ok(())
    }

    /// Sends a probe of `bytes` bytes; reports a lasting failure to the sink.
    fn send_probe(&self, number: u64, bytes: usize) -> Result<()> {
        let mut datagram = vec![0; bytes];
        let header = DatagramHeader {
            key: self.key,
            number,
            sent_nanos: clock::realtime_nanos(),
        };
        header.write(&mut datagram);
        let Err(error) = self.socket.send(&datagram) else {
            return Ok(());
        };
        let errno = error.raw_os_error().unwrap_or(0);
        match errno {
            libc::EAGAIN | libc::EINTR | libc::ENOBUFS => return Ok(()),
            _ => {}
        }
        // Reports the cause to the other endpoint; a normal close delivers the report, unlike a reset. Errors here do
        // not matter: the returned error is the cause.
        let _ = self.control_connection.set_linger(None);
        let _ = self.send_control(&errno.to_be_bytes());
        Err(self.unsendable_probe_error(error))
    }

    /// Returns the error of a source that cannot send.
    fn unsendable_probe_error(&self, error: io::Error) -> RequestError {
        RequestError::system(
            format!("send a datagram of {} bytes", self.datagram_bytes),
            error,
        )
        .with_kind_if_none(ErrorKind::Datagram)
    }

    /// Receives probes, and the error of a source that cannot send them.
    fn advance_sink(&mut self) -> Result<()> {
        let received = self.receive_and_confirm_probes();
        if received.is_err() {
            // The source may have closed since the last read, and have reported its error before.
            let _ = self.read_control_connection();
        }
        let message = self
            .received
            .split_first_chunk::<{ size_of::<ClockIdHash>() }>();
        if let Some(errno) = message.and_then(|(_, reason)| reason.first_chunk::<4>()) {
            let error = io::Error::from_raw_os_error(i32::from_be_bytes(*errno));
            return Err(self.unsendable_probe_error(error));
        }
        received.map_err(|error| self.add_context(error))?;
        self.is_done = self.probe_arrived && message.is_some();
        Ok(())
    }

    /// Receives and confirms probes; connects the socket to their source, so that it receives no other datagrams.
    fn receive_and_confirm_probes(&mut self) -> io::Result<()> {
        let source = require_ip_address(self.control_connection.peer_addr())?;
        let mut bytes = [0; HEADER_BYTES];
        for _ in 0..MAX_DATAGRAMS_PER_TURN {
            let flags = RecvFlags::DONTWAIT | RecvFlags::TRUNC;
            let (copied_bytes, length, sender) =
                match rustix::net::recvfrom(&self.socket, &mut bytes[..], flags) {
                    Ok((copied_bytes, length, sender)) => (copied_bytes, length, sender),
                    Err(rustix::io::Errno::AGAIN | rustix::io::Errno::INTR) => return Ok(()),
                    Err(error) => return Err(error.into()),
                };
            let sender = sender
                .and_then(|sender| SocketAddr::try_from(sender).ok())
                .filter(|sender| sender.ip() == source.ip());
            let header = DatagramHeader::read(&bytes[..copied_bytes])
                .filter(|header| header.key == self.key);
            let (Some(header), Some(sender)) = (header, sender) else {
                continue;
            };
            if header.number == SMALL_PROBE_NUMBER && !self.small_probe_arrived {
                self.small_probe_arrived = true;
                self.send_control(&[SMALL_PROBE_ARRIVED_CODE])?;
            }
            if header.number == FULL_PROBE_NUMBER
                && length == self.datagram_bytes
                && !self.probe_arrived
            {
                self.probe_arrived = true;
                self.socket.connect(&SockAddr::from(sender))?;
                self.send_control(&[FULL_PROBE_ARRIVED_CODE])?;
            }
        }
        Ok(())
    }

    /// Returns the open flow of the stream at `index` of `stream_count`.
    fn into_flow(self, options: &FlowOptions, index: usize, stream_count: usize) -> DatagramFlow {
        let is_sink = self.role == Role::Sink;
        let has_shared_clock = is_sink
            && self
                .own_clock
                .is_some_and(|clock| self.received.starts_with(&clock));
        DatagramFlow {
            socket: self.socket,
            key: self.key,
            counters: DatagramCounters::default(),
            delay: has_shared_clock.then(Histogram::new),
            pacing: if is_sink {
                None
            } else {
                options.make_staggered_pacing(index, stream_count)
            },
            pacing_deviation: Default::default(),
        }
    }
}
