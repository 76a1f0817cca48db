//! The connecting endpoint: connects all streams at the same time, or one after the other.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use rustix::event::PollFlags;
use socket2::{SockAddr, Socket};

use crate::handshake::{self, HandshakeReader, ReadState};
use crate::load::Load;
use crate::route::{Route, format_address, require_ip_address};
use crate::sockets::{SocketOptions, enable_reset_on_close, open_socket};
use crate::source_ports::{SourcePorts, explain_port_in_time_wait};
use vnetbench_streams::Secret;
use vnetbench_system::error::{RequestError, Result};
use vnetbench_system::waiting::{WaitOutcome, Waker, wait};

/// Connects all streams at the same time and returns them in the order of the load.
///
/// Returns `None` if `waker` wakes it first.
///
/// # Errors
///
/// A connection or its handshake failed or timed out, or the peer is not an agent of this trial.
pub fn connect_all(
    route: &Route,
    load: &Load,
    waker: &Waker,
    timeout: Duration,
) -> Result<Option<Vec<Socket>>> {
    let destination = format_address(&route.destination);
    let deadline = Instant::now() + timeout;
    let sockets = open_bound_sockets(route, load.roles.len(), &load.socket_options)?;
    for socket in &sockets {
        start_connecting(socket, route, &load.socket_options)?;
    }
    complete_handshakes_unless_woken(&sockets, &destination, load, waker, deadline, timeout)
        .map(|is_complete| is_complete.then_some(sockets))
}

/// The handshake of one connection.
struct PendingHandshake {
    /// Index of its socket.
    index: usize,
    /// Reader of the response; `None` before the request is sent.
    reader: Option<HandshakeReader>,
}

/// Completes the handshakes of all connections; returns false if `waker` wakes it first.
///
/// Each connection sends its request as soon as it is established, so that a slow one does not delay the others.
fn complete_handshakes_unless_woken(
    sockets: &[Socket],
    destination: &str,
    load: &Load,
    waker: &Waker,
    deadline: Instant,
    timeout: Duration,
) -> Result<bool> {
    let failed =
        |error: io::Error| RequestError::system(format!("connect to {destination}"), error);
    let mut waiting: Vec<PendingHandshake> = (0..sockets.len())
        .map(|index| PendingHandshake {
            index,
            reader: None,
        })
        .collect();
    let mut ready = Vec::new();
    while !waiting.is_empty() {
        let polled: Vec<_> = waiting
            .iter()
            .map(|pending| {
                let awaited_event = if pending.reader.is_some() {
                    PollFlags::IN
                } else {
                    PollFlags::OUT
                };
                (sockets[pending.index].as_fd(), awaited_event)
            })
            .collect();
        match wait(&polled, &mut ready, waker, Some(deadline)).map_err(failed)? {
            WaitOutcome::Woken => return Ok(false),
            WaitOutcome::TimedOut => {
                let are_connected = waiting.iter().all(|pending| pending.reader.is_some());
                let operation = if are_connected {
                    "waiting for the agent at"
                } else {
                    "connecting to"
                };
                return Err(timeout_error(operation, destination, timeout));
            }
            WaitOutcome::Ready => {}
        }
        let mut still_waiting = Vec::with_capacity(waiting.len());
        for (pending, is_ready) in waiting.into_iter().zip(&ready) {
            if !is_ready {
                still_waiting.push(pending);
                continue;
            }
            let PendingHandshake { index, reader } = pending;
            let (socket, id) = (&sockets[index], load.roles[index].id);
            let reader = advance_handshake(socket, id, &load.secret, reader, destination)?;
            if reader.is_some() {
                still_waiting.push(PendingHandshake { index, reader });
            }
        }
        waiting = still_waiting;
    }
    Ok(true)
}

/// Sends the request on a ready connection, or reads the response; returns the reader while the response is incomplete.
fn advance_handshake(
    socket: &Socket,
    id: u32,
    secret: &Secret,
    reader: Option<HandshakeReader>,
    destination: &str,
) -> Result<Option<HandshakeReader>> {
    let Some(mut reader) = reader else {
        handshake::send_request(socket, id, secret)
            .map_err(|error| RequestError::system(format!("connect to {destination}"), error))?;
        return Ok(Some(HandshakeReader::default()));
    };
    let unexpected_peer = |reason| {
        Err(RequestError::UnexpectedPeer {
            address: destination.to_owned(),
            reason,
        })
    };
    match reader.read(socket) {
        ReadState::Incomplete => Ok(Some(reader)),
        ReadState::Complete if reader.is_response_to(id, secret) => Ok(None),
        ReadState::Complete => unexpected_peer(format!(
            "the peer answered {}",
            reader.quote_received_bytes()
        )),
        ReadState::Closed => unexpected_peer(format!(
            "the peer sent {} and closed the connection",
            reader.quote_received_bytes()
        )),
    }
}

/// Opens the sockets of `count` streams and binds them to the source ports of their options.
fn open_bound_sockets(route: &Route, count: usize, options: &SocketOptions) -> Result<Vec<Socket>> {
    options
        .source_ports
        .bind_sockets(count, |_, port| open_bound_socket(route, options, port))
}

/// Opens a socket and binds it to the route's source address and this port; port 0 leaves the choice to the kernel.
fn open_bound_socket(route: &Route, options: &SocketOptions, port: u16) -> Result<Socket> {
    let destination = format_address(&route.destination);
    let socket = open_socket(route.destination.domain(), options)?;
    socket
        .set_nonblocking(true)
        .and_then(|()| enable_reset_on_close(&socket))
        .and_then(|()| socket.set_reuse_address(options.source_ports.needs_address_reuse()))
        .map_err(|error| RequestError::system(format!("connect to {destination}"), error))?;
    if let Some(from) = choose_local_address(route, port) {
        socket.bind(&from).map_err(|error| {
            RequestError::system(format!("send from {}", format_address(&from)), error)
        })?;
    }
    Ok(socket)
}

/// Returns the address to bind before connecting; `None` if the kernel chooses both address and port.
fn choose_local_address(route: &Route, port: u16) -> Option<SockAddr> {
    if port == 0 {
        return route.source.clone();
    }
    let source = route.source.as_ref().and_then(SockAddr::as_socket);
    let mut local = source.unwrap_or_else(|| {
        let unspecified: IpAddr = match route.destination.is_ipv6() {
            true => Ipv6Addr::UNSPECIFIED.into(),
            false => Ipv4Addr::UNSPECIFIED.into(),
        };
        SocketAddr::new(unspecified, port)
    });
    local.set_port(port);
    Some(local.into())
}

/// Starts connecting a socket.
fn start_connecting(socket: &Socket, route: &Route, options: &SocketOptions) -> Result<()> {
    let Err(error) = socket.connect(&route.destination) else {
        return Ok(());
    };
    if error.raw_os_error() == Some(libc::EINPROGRESS) {
        return Ok(());
    }
    let destination = format_address(&route.destination);
    let error = RequestError::system(format!("connect to {destination}"), error);
    match require_ip_address(socket.local_addr()) {
        Ok(local) if options.source_ports != SourcePorts::Any => {
            Err(explain_port_in_time_wait(error, local.port(), &destination))
        }
        _ => Err(error),
    }
}

/// Connects streams one after the other, for a peer that identifies them by their order.
///
/// Returns `None` if `waker` wakes it first.
///
/// # Errors
///
/// A connection failed or timed out.
pub fn connect_sequentially(
    route: &Route,
    count: usize,
    options: &SocketOptions,
    waker: &Waker,
    timeout: Duration,
) -> Result<Option<Vec<Socket>>> {
    let destination = format_address(&route.destination);
    let failed =
        |error: io::Error| RequestError::system(format!("connect to {destination}"), error);
    let deadline = Instant::now() + timeout;
    let mut connected = Vec::with_capacity(count);
    for socket in open_bound_sockets(route, count, options)? {
        start_connecting(&socket, route, options)?;
        let polled = [(socket.as_fd(), PollFlags::OUT)];
        match wait(&polled, &mut Vec::new(), waker, Some(deadline)).map_err(failed)? {
            WaitOutcome::Woken => return Ok(None),
            WaitOutcome::TimedOut => {
                return Err(timeout_error("connecting to", &destination, timeout));
            }
            WaitOutcome::Ready => {}
        }
        if let Some(error) = socket.take_error().map_err(failed)? {
            return Err(failed(error));
        }
        connected.push(socket);
    }
    Ok(Some(connected))
}

/// Returns the error of an operation that timed out.
fn timeout_error(operation: &str, destination: &str, timeout: Duration) -> RequestError {
    RequestError::TimedOut {
        operation: format!("{operation} {destination}"),
        after_s: timeout.as_secs_f64(),
        kind: None,
    }
}
