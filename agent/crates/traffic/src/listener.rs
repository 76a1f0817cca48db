//! The listening endpoint: accepts the connections of the streams.

use std::collections::VecDeque;
use std::io;
use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use rustix::event::PollFlags;
use socket2::{SockAddr, Socket};

use crate::handshake::{self, HandshakeReader, ReadState};
use crate::load::Load;
use crate::route::{self, format_address};
use crate::sockets::{
    SocketOptions, enable_reset_on_close, is_accept_of_gone_connection, open_socket,
};
use vnetbench_streams::Secret;
use vnetbench_system::error::{RequestError, Result};
use vnetbench_system::ports;
use vnetbench_system::waiting::{WaitOutcome, Waker, wait};

/// Time limit of a connection for sending its request.
///
/// A lost SYN raises the first retransmission timeout to 3 s (RFC 6298, section 5.7), so that a request on a lossy path
/// may come after several of these. `SURPLUS_PENDING_BEFORE_OLDEST_CLOSES` bounds what foreign connections take
/// meanwhile.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(30);
/// Maximum number of pending connections beyond the number of streams. Above it, the oldest is closed.
const SURPLUS_PENDING_BEFORE_OLDEST_CLOSES: usize = 256;

/// Listens for the connections of `streams` streams; returns the socket and its port.
///
/// The connections inherit the options of the socket. Port 0 takes a free port.
///
/// # Errors
///
/// The system refuses the socket, an option or the address.
pub fn listen_and_return_port(
    address: &SockAddr,
    stream_count: usize,
    options: &SocketOptions,
) -> Result<(Socket, u32)> {
    match address.as_socket() {
        Some(ip) if ip.port() == 0 => ports::open_on_allowed_port(|port| {
            listen_at(
                &SocketAddr::new(ip.ip(), port).into(),
                stream_count,
                options,
            )
        }),
        _ => listen_at(address, stream_count, options),
    }
}

fn listen_at(
    address: &SockAddr,
    stream_count: usize,
    options: &SocketOptions,
) -> Result<(Socket, u32)> {
    let socket = open_socket(address.domain(), options)?;
    let start_listening = || {
        socket.set_nonblocking(true)?;
        socket.set_reuse_address(true)?;
        socket.bind(address)?;
        socket.listen(
            i32::try_from(stream_count + SURPLUS_PENDING_BEFORE_OLDEST_CLOSES).unwrap_or(i32::MAX),
        )?;
        route::ip_or_vsock_port(&socket.local_addr()?).ok_or_else(|| io::ErrorKind::Other.into())
    };
    let port = start_listening().map_err(|error: io::Error| {
        RequestError::system(format!("listen on {}", format_address(address)), error)
    })?;
    Ok((socket, port))
}

/// A connection that has not identified its stream yet.
struct PendingConnection {
    socket: Socket,
    handshake: HandshakeReader,
    expires_at: Instant,
}

/// The state of a pending connection's handshake.
enum HandshakeState {
    Incomplete,
    /// A request for this stream.
    Stream(u32),
    /// No request of this trial.
    Foreign,
}

impl PendingConnection {
    fn read_handshake(&mut self, secret: &Secret) -> HandshakeState {
        match self.handshake.read(&self.socket) {
            ReadState::Incomplete => HandshakeState::Incomplete,
            ReadState::Complete => self
                .handshake
                .requested_stream_id(secret)
                .map_or(HandshakeState::Foreign, HandshakeState::Stream),
            ReadState::Closed => HandshakeState::Foreign,
        }
    }
}

/// Accepts the connections of all streams and returns them in the order of the load; `None` if `waker` wakes it first.
///
/// Adds the rejected connections to `foreign_connections`.
///
/// # Errors
///
/// Waiting or accepting failed.
pub fn accept_all(
    listener: &Socket,
    load: &Load,
    waker: &Waker,
    foreign_connections: &mut u64,
) -> Result<Option<Vec<Socket>>> {
    let failed = |error: io::Error| RequestError::system("accept a connection", error);
    let mut connected: Vec<Option<Socket>> = load.roles.iter().map(|_| None).collect();
    let mut pending: VecDeque<PendingConnection> = VecDeque::new();
    let mut ready = Vec::new();
    while connected.iter().any(Option::is_none) {
        let polled: Vec<_> = std::iter::once(listener.as_fd())
            .chain(pending.iter().map(|connection| connection.socket.as_fd()))
            .map(|socket| (socket, PollFlags::IN))
            .collect();
        // The oldest connection is first and expires first.
        let deadline = pending.front().map(|connection| connection.expires_at);
        let waited = wait(&polled, &mut ready, waker, deadline).map_err(failed)?;
        match waited {
            WaitOutcome::Woken => return Ok(None),
            WaitOutcome::TimedOut => ready.clear(),
            WaitOutcome::Ready => {}
        }
        let now = Instant::now();
        pending = advance_handshakes(
            pending,
            ready.get(1..).unwrap_or_default(),
            now,
            load,
            &mut connected,
            foreign_connections,
        );
        if ready.first() == Some(&true) {
            if let Some(socket) = accept_unless_lost(listener).map_err(failed)? {
                pending.push_back(PendingConnection {
                    socket,
                    handshake: HandshakeReader::default(),
                    expires_at: now + HANDSHAKE_TIMEOUT,
                });
            }
            if pending.len() > load.roles.len() + SURPLUS_PENDING_BEFORE_OLDEST_CLOSES {
                pending.pop_front();
                *foreign_connections += 1;
            }
        }
    }
    *foreign_connections += pending.len() as u64;
    Ok(Some(connected.into_iter().flatten().collect()))
}

/// Reads the handshakes of pending connections and accepts the streams that they request.
///
/// Returns the connections that are still pending, and adds the rejected ones to `foreign_connections`.
fn advance_handshakes(
    pending: VecDeque<PendingConnection>,
    ready: &[bool],
    now: Instant,
    load: &Load,
    connected: &mut [Option<Socket>],
    foreign: &mut u64,
) -> VecDeque<PendingConnection> {
    let mut still_pending = VecDeque::with_capacity(pending.len());
    for (index, mut connection) in pending.into_iter().enumerate() {
        let is_ready = ready.get(index).copied().unwrap_or(false);
        let state = if is_ready {
            connection.read_handshake(&load.secret)
        } else {
            HandshakeState::Incomplete
        };
        match state {
            HandshakeState::Stream(id) => {
                let index = load.roles.iter().position(|stream| stream.id == id);
                match index.map(|index| &mut connected[index]) {
                    Some(slot @ None)
                        if handshake::send_response(&connection.socket, id, &load.secret)
                            .is_ok() =>
                    {
                        *slot = Some(connection.socket);
                    }
                    _ => *foreign += 1,
                }
            }
            HandshakeState::Incomplete if now < connection.expires_at => {
                still_pending.push_back(connection)
            }
            HandshakeState::Incomplete | HandshakeState::Foreign => *foreign += 1,
        }
    }
    still_pending
}

/// Accepts a connection; returns `None` if it is already gone.
fn accept_unless_lost(listener: &Socket) -> io::Result<Option<Socket>> {
    match listener.accept() {
        Ok((socket, _)) => {
            socket.set_nonblocking(true)?;
            enable_reset_on_close(&socket)?;
            Ok(Some(socket))
        }
        Err(error) if is_accept_of_gone_connection(&error) => Ok(None),
        Err(error) => Err(error),
    }
}
