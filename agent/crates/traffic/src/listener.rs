//! The sockets of streams, and the listening side of connecting.

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
use crate::sockets::{SocketOptions, abort_on_close, is_connection_lost, open};
use vnetbench_streams::Secret;
use vnetbench_system::error::{Error, Result};
use vnetbench_system::ports;
use vnetbench_system::waiting::{WaitOutcome, Waker, wait};

/// How long a connection may take to say whose it is.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(2);
/// Connections beyond those of the streams that may still be about to say it; then the oldest gives way.
const MAX_FOREIGN: usize = 256;

/// A socket that takes the connections of so many streams, with the options that they inherit; and its port.
pub fn listen(
    address: &SockAddr,
    streams: usize,
    options: &SocketOptions,
) -> Result<(Socket, u32)> {
    match address.as_socket() {
        Some(ip) if ip.port() == 0 => ports::try_ports(|port| {
            listen_at(&SocketAddr::new(ip.ip(), port).into(), streams, options)
        }),
        _ => listen_at(address, streams, options),
    }
}

fn listen_at(address: &SockAddr, streams: usize, options: &SocketOptions) -> Result<(Socket, u32)> {
    let socket = open(address.domain(), options)?;
    let listening = || {
        socket.set_nonblocking(true)?;
        socket.set_reuse_address(true)?;
        socket.bind(address)?;
        socket.listen(i32::try_from(streams + MAX_FOREIGN).unwrap_or(i32::MAX))?;
        route::port_of(&socket.local_addr()?).ok_or_else(|| io::ErrorKind::Other.into())
    };
    let port = listening().map_err(|error: io::Error| {
        Error::system(format!("listen on {}", format_address(address)), error)
    })?;
    Ok((socket, port))
}

/// A connection that has not said yet whose it is.
struct PendingConnection {
    socket: Socket,
    handshake: HandshakeReader,
    until: Instant,
}

enum HandshakeState {
    NotYet,
    Stream(u32),
    Foreign,
}

impl PendingConnection {
    fn read_handshake(&mut self, secret: &Secret) -> HandshakeState {
        match self.handshake.read(&self.socket) {
            ReadState::NotYet => HandshakeState::NotYet,
            ReadState::All => self
                .handshake
                .stream(secret)
                .map_or(HandshakeState::Foreign, HandshakeState::Stream),
            ReadState::Closed => HandshakeState::Foreign,
        }
    }
}

/// Takes connections until all streams are there, and returns them in the order of the load; `None` when the bell was
/// rung before. Adds to `foreign` what it had to turn away.
pub fn accept_all(
    listener: &Socket,
    load: &Load,
    waker: &Waker,
    foreign: &mut u64,
) -> Result<Option<Vec<Socket>>> {
    let failed = |error: io::Error| Error::system("take a connection", error);
    let mut connected: Vec<Option<Socket>> = load.roles.iter().map(|_| None).collect();
    let mut unknown: VecDeque<PendingConnection> = VecDeque::new();
    let mut ready = Vec::new();
    while connected.iter().any(Option::is_none) {
        let polled: Vec<_> = std::iter::once(listener.as_fd())
            .chain(unknown.iter().map(|connection| connection.socket.as_fd()))
            .map(|socket| (socket, PollFlags::IN))
            .collect();
        // The oldest comes first, and its time is up first.
        let until = unknown.front().map(|connection| connection.until);
        let waited = wait(&polled, &mut ready, waker, until).map_err(failed)?;
        match waited {
            WaitOutcome::Woken => return Ok(None),
            WaitOutcome::TimedOut => ready.clear(),
            WaitOutcome::Ready => {}
        }
        let now = Instant::now();
        let mut still_unknown = VecDeque::with_capacity(unknown.len());
        for (index, mut connection) in unknown.drain(..).enumerate() {
            let speaks = ready.get(index + 1).copied().unwrap_or(false);
            let said = if speaks {
                connection.read_handshake(&load.secret)
            } else {
                HandshakeState::NotYet
            };
            match said {
                HandshakeState::Stream(id) => {
                    let at = load.roles.iter().position(|(expected, _)| *expected == id);
                    match at.map(|at| &mut connected[at]) {
                        Some(place @ None)
                            if handshake::send_response(&connection.socket, id, &load.secret)
                                .is_ok() =>
                        {
                            *place = Some(connection.socket);
                        }
                        _ => *foreign += 1,
                    }
                }
                HandshakeState::NotYet if now < connection.until => {
                    still_unknown.push_back(connection)
                }
                HandshakeState::NotYet | HandshakeState::Foreign => *foreign += 1,
            }
        }
        unknown = still_unknown;
        if ready.first() == Some(&true) {
            if let Some(socket) = accept(listener).map_err(failed)? {
                unknown.push_back(PendingConnection {
                    socket,
                    handshake: HandshakeReader::default(),
                    until: now + HANDSHAKE_TIMEOUT,
                });
            }
            if unknown.len() > load.roles.len() + MAX_FOREIGN {
                unknown.pop_front();
                *foreign += 1;
            }
        }
    }
    *foreign += unknown.len() as u64;
    Ok(Some(connected.into_iter().flatten().collect()))
}

/// `None` where the connection was gone again before it was taken (accept(2), "Error handling").
fn accept(listener: &Socket) -> io::Result<Option<Socket>> {
    match listener.accept() {
        Ok((socket, _)) => {
            socket.set_nonblocking(true)?;
            abort_on_close(&socket)?;
            Ok(Some(socket))
        }
        Err(error) if is_connection_lost(&error) => Ok(None),
        Err(error) => Err(error),
    }
}
