//! The sockets of streams, and the listening side of connecting.

use std::collections::VecDeque;
use std::io;
use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use rustix::event::PollFlags;
use rustix::io::Errno;
use rustix::net::sockopt::set_tcp_congestion;
use socket2::{Domain, Protocol, SockAddr, Socket, Type};

use super::Load;
use super::opening::{self, Heard, Hearing, Secret};
use super::route::{self, Transport, spelled};
use crate::error::{Error, Kind, Result};
use crate::ports;
use crate::socket_option;
use crate::waiting::{Bell, Waited, wait};

/// How long a connection may take to say whose it is.
const OPENING_TIMEOUT: Duration = Duration::from_secs(2);
/// Connections beyond those of the streams that may still be about to say it; then the oldest gives way.
const MAX_FOREIGN: usize = 256;

/// What is asked of every socket; `None` leaves the kernel its choice.
#[derive(Debug, Default, Clone)]
pub struct Options {
    pub buffer_bytes: Option<usize>,
    pub congestion_control: Option<String>,
    /// TCP_NODELAY: small messages are sent at once (Nagle's algorithm is off).
    pub no_delay: bool,
    /// SO_BUSY_POLL, the microseconds for which the kernel asks the interface before a call sleeps.
    pub busy_poll_us: Option<u32>,
    pub transport: Transport,
    /// SO_MAX_PACING_RATE.
    pub pacing_rate_bps: Option<u64>,
}

/// A socket with these options.
pub(super) fn open(domain: Domain, options: &Options) -> Result<Socket> {
    let (protocol, name) = match options.transport {
        Transport::Tcp => (Some(Protocol::TCP), "a TCP"),
        Transport::Mptcp => (Some(Protocol::MPTCP), "an MPTCP"),
        Transport::Vsock => (None, "a VSOCK"),
    };
    let socket = Socket::new(domain, Type::STREAM, protocol).map_err(|error| {
        let refused = Error::system(format!("open {name} socket"), error);
        match options.transport {
            Transport::Mptcp => refused.of(Kind::Mptcp),
            Transport::Tcp | Transport::Vsock => refused,
        }
    })?;
    set_changeable(&socket, options)?;
    // Before the connection is made: TCP settles its window scale then.
    set_buffers(&socket, options.buffer_bytes)?;
    if let Some(name) = &options.congestion_control {
        set_tcp_congestion(&socket, name).map_err(|error| {
            let kind = match error {
                Errno::PERM => Kind::CongestionControlForbidden,
                _ => Kind::CongestionControlAbsent,
            };
            Error::system(format!("set the congestion control {name}"), error).of(kind)
        })?;
    }
    Ok(socket)
}

/// Sets of the options those that a socket may get after it has been connected too.
pub fn set_changeable(socket: &Socket, options: &Options) -> Result<()> {
    if options.no_delay && options.transport != Transport::Vsock {
        socket
            .set_tcp_nodelay(true)
            .map_err(|error| Error::system("set TCP_NODELAY", error))?;
    }
    if let Some(us) = options.busy_poll_us {
        socket_option::set(socket, libc::SOL_SOCKET, libc::SO_BUSY_POLL, us).map_err(|error| {
            Error::system(format!("set SO_BUSY_POLL to {us} us"), error).of(Kind::BusyPoll)
        })?;
    }
    if let Some(bps) = options.pacing_rate_bps {
        socket_option::set(socket, libc::SOL_SOCKET, libc::SO_MAX_PACING_RATE, bps / 8).map_err(
            |error| Error::system(format!("set SO_MAX_PACING_RATE to {bps} bit/s"), error),
        )?;
    }
    Ok(())
}

pub(super) fn set_buffers(socket: &Socket, bytes: Option<usize>) -> Result<()> {
    let Some(bytes) = bytes else {
        return Ok(());
    };
    socket
        .set_send_buffer_size(bytes)
        .and_then(|()| socket.set_recv_buffer_size(bytes))
        .map_err(|error| Error::system(format!("set socket buffers of {bytes} bytes"), error))
}

/// Lets what a paced stream still holds go at once: at its rate that could take far longer than a trial waits.
pub(super) fn stop_pacing(socket: &Socket) {
    // Fails only where the socket was never paced.
    let _ = socket_option::set(socket, libc::SOL_SOCKET, libc::SO_MAX_PACING_RATE, u64::MAX);
}

/// Has a socket that is bound to an address get its port when it connects (ip(7), IP_BIND_ADDRESS_NO_PORT): only then is
/// it known which ports are free towards the other side.
pub(super) fn choose_port_late(socket: &Socket) -> io::Result<()> {
    socket_option::set(socket, libc::SOL_IP, libc::IP_BIND_ADDRESS_NO_PORT, 1u32)
}

/// Until a stream has drained, closing it means that its connection is torn down at both ends: whatever ends the agent,
/// nothing goes on being sent.
pub(super) fn abort_on_close(socket: &Socket) -> io::Result<()> {
    socket.set_linger(Some(Duration::ZERO))
}

/// A socket that takes the connections of so many streams, with the options that they inherit; and its port.
pub fn listen(address: &SockAddr, streams: usize, options: &Options) -> Result<(Socket, u32)> {
    match address.as_socket() {
        Some(ip) if ip.port() == 0 => ports::choose(|port| {
            listen_at(&SocketAddr::new(ip.ip(), port).into(), streams, options)
        }),
        _ => listen_at(address, streams, options),
    }
}

fn listen_at(address: &SockAddr, streams: usize, options: &Options) -> Result<(Socket, u32)> {
    let socket = open(address.domain(), options)?;
    let listening = || {
        socket.set_nonblocking(true)?;
        socket.set_reuse_address(true)?;
        socket.bind(address)?;
        socket.listen(i32::try_from(streams + MAX_FOREIGN).unwrap_or(i32::MAX))?;
        route::port(&socket.local_addr()?).ok_or_else(|| io::ErrorKind::Other.into())
    };
    let port = listening().map_err(|error: io::Error| {
        Error::system(format!("listen on {}", spelled(address)), error)
    })?;
    Ok((socket, port))
}

/// A connection that has not said yet whose it is.
struct Unknown {
    socket: Socket,
    hearing: Hearing,
    until: Instant,
}

enum Said {
    NotYet,
    Stream(u32),
    Foreign,
}

impl Unknown {
    fn hear(&mut self, secret: &Secret) -> Said {
        match self.hearing.hear(&self.socket) {
            Heard::NotYet => Said::NotYet,
            Heard::All => self
                .hearing
                .stream(secret)
                .map_or(Said::Foreign, Said::Stream),
            Heard::Closed => Said::Foreign,
        }
    }
}

/// Takes connections until all streams are there, and returns them in the order of the load; `None` when the bell was
/// rung before. Adds to `foreign` what it had to turn away.
pub fn accept_all(
    listener: &Socket,
    load: &Load,
    bell: &Bell,
    foreign: &mut u64,
) -> Result<Option<Vec<Socket>>> {
    let failed = |error: io::Error| Error::system("take a connection", error);
    let mut connected: Vec<Option<Socket>> = load.roles.iter().map(|_| None).collect();
    let mut unknown: VecDeque<Unknown> = VecDeque::new();
    let mut ready = Vec::new();
    while connected.iter().any(Option::is_none) {
        let polled: Vec<_> = std::iter::once(listener.as_fd())
            .chain(unknown.iter().map(|connection| connection.socket.as_fd()))
            .map(|socket| (socket, PollFlags::IN))
            .collect();
        // The oldest comes first, and its time is up first.
        let until = unknown.front().map(|connection| connection.until);
        let waited = wait(&polled, &mut ready, bell, until).map_err(failed)?;
        match waited {
            Waited::Rung => return Ok(None),
            Waited::TimedOut => ready.clear(),
            Waited::Ready => {}
        }
        let now = Instant::now();
        let mut still_unknown = VecDeque::with_capacity(unknown.len());
        for (index, mut connection) in unknown.drain(..).enumerate() {
            let speaks = ready.get(index + 1).copied().unwrap_or(false);
            let said = if speaks {
                connection.hear(&load.secret)
            } else {
                Said::NotYet
            };
            match said {
                Said::Stream(id) => {
                    let at = load.roles.iter().position(|(expected, _)| *expected == id);
                    match at.map(|at| &mut connected[at]) {
                        Some(place @ None)
                            if opening::answer(&connection.socket, id, &load.secret).is_ok() =>
                        {
                            *place = Some(connection.socket);
                        }
                        _ => *foreign += 1,
                    }
                }
                Said::NotYet if now < connection.until => still_unknown.push_back(connection),
                Said::NotYet | Said::Foreign => *foreign += 1,
            }
        }
        unknown = still_unknown;
        if ready.first() == Some(&true) {
            if let Some(socket) = accept(listener).map_err(failed)? {
                unknown.push_back(Unknown {
                    socket,
                    hearing: Hearing::default(),
                    until: now + OPENING_TIMEOUT,
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
        Err(error) if is_gone(&error) => Ok(None),
        Err(error) => Err(error),
    }
}

pub(super) fn is_gone(error: &io::Error) -> bool {
    matches!(
        error.raw_os_error(),
        Some(
            libc::EAGAIN
                | libc::EINTR
                | libc::ECONNABORTED
                | libc::ENETDOWN
                | libc::EPROTO
                | libc::EHOSTDOWN
                | libc::EHOSTUNREACH
                | libc::ENETUNREACH
        )
    )
}
