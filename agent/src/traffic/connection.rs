//! From addresses to connected streams: both sides of connecting, and the 32 bytes that tell our streams from others.

use std::collections::VecDeque;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsFd, AsRawFd};
use std::time::{Duration, Instant};

use rustix::event::PollFlags;
use rustix::net::RecvFlags;
use rustix::net::sockopt::{set_tcp_congestion, tcp_congestion};
use serde::Serialize;
use socket2::{Domain, SockAddr, Socket, Type};

use super::datagrams::Datagrams;
use super::{Load, Role, Stream};
use crate::error::{Error, Result};
use crate::waiting::{Bell, Waited, wait};

/// What opens a connection: `VNB1`, the stream's id, the trial's secret, 8 zero bytes.
const PREAMBLE_BYTES: usize = 32;
pub type Secret = [u8; 16];

/// How long a connection may take to say whose it is.
const PREAMBLE_TIMEOUT: Duration = Duration::from_secs(2);
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
}

/// What a stream's socket really has.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Found {
    id: u32,
    mss: Option<u32>,
    congestion_control: Option<String>,
    send_buffer_bytes: Option<usize>,
    receive_buffer_bytes: Option<usize>,
    no_delay: Option<bool>,
    busy_poll_us: Option<u32>,
    /// The rest is of datagrams only. What UDP_SEGMENT has the kernel cut messages into; 0: it cuts none.
    #[serde(skip_serializing_if = "Option::is_none")]
    udp_segment_bytes: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    udp_gro: Option<bool>,
    /// Of a sink.
    #[serde(skip_serializing_if = "Option::is_none")]
    shared_clock: Option<bool>,
}

pub fn found(stream: &Stream) -> Found {
    let socket = &stream.socket;
    if let Some(datagrams) = &stream.datagrams {
        return of_datagrams(stream, datagrams);
    }
    Found {
        id: stream.id,
        mss: socket.tcp_mss().ok(),
        congestion_control: tcp_congestion(socket).ok(),
        send_buffer_bytes: socket.send_buffer_size().ok(),
        receive_buffer_bytes: socket.recv_buffer_size().ok(),
        no_delay: socket.tcp_nodelay().ok(),
        busy_poll_us: int_option(socket, libc::SOL_SOCKET, libc::SO_BUSY_POLL).ok(),
        ..Found::default()
    }
}

fn of_datagrams(stream: &Stream, datagrams: &Datagrams) -> Found {
    let socket = &datagrams.socket;
    Found {
        id: stream.id,
        send_buffer_bytes: socket.send_buffer_size().ok(),
        receive_buffer_bytes: socket.recv_buffer_size().ok(),
        udp_segment_bytes: int_option(socket, libc::SOL_UDP, libc::UDP_SEGMENT).ok(),
        udp_gro: int_option(socket, libc::SOL_UDP, libc::UDP_GRO)
            .ok()
            .map(|on| on != 0),
        shared_clock: (stream.role == Role::Sink).then_some(datagrams.delay.is_some()),
        ..Found::default()
    }
}

/// A socket with these options.
pub(super) fn open(address: IpAddr, options: &Options) -> Result<Socket> {
    let domain = Domain::for_address(SocketAddr::new(address, 0));
    let socket = Socket::new(domain, Type::STREAM, None)
        .map_err(|error: io::Error| Error::system("open a TCP socket", error))?;
    if options.no_delay {
        socket
            .set_tcp_nodelay(true)
            .map_err(|error| Error::system("set TCP_NODELAY", error))?;
    }
    if let Some(us) = options.busy_poll_us {
        set_option(&socket, libc::SOL_SOCKET, libc::SO_BUSY_POLL, us)
            .map_err(|error| Error::system(format!("set SO_BUSY_POLL to {us} us"), error))?;
    }
    // Before the connection is made: TCP settles its window scale then.
    set_buffers(&socket, options.buffer_bytes)?;
    if let Some(name) = &options.congestion_control {
        set_tcp_congestion(&socket, name)
            .map_err(|error| Error::system(format!("set the congestion control {name}"), error))?;
    }
    Ok(socket)
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

pub(super) fn address(of: io::Result<SockAddr>) -> io::Result<SocketAddr> {
    of?.as_socket()
        .ok_or_else(|| io::Error::other("a socket of the internet without an address"))
}

fn int_option(socket: &Socket, level: i32, option: i32) -> io::Result<u32> {
    let (mut value, mut length) = (0u32, size_of::<u32>() as libc::socklen_t);
    // SAFETY: these options are ints, and the pointers are to one and to its length.
    let answer = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            level,
            option,
            (&raw mut value).cast(),
            &raw mut length,
        )
    };
    if answer == 0 {
        Ok(value)
    } else {
        Err(io::Error::last_os_error())
    }
}

pub(super) fn set_option(socket: &Socket, level: i32, option: i32, value: u32) -> io::Result<()> {
    // SAFETY: these options are ints, and the pointer is to one, of that length.
    let answer = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            level,
            option,
            (&raw const value).cast(),
            size_of::<u32>() as libc::socklen_t,
        )
    };
    if answer == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}

/// Has a socket that is bound to an address get its port when it connects (ip(7), IP_BIND_ADDRESS_NO_PORT): only then is
/// it known which ports are free towards the other side.
pub(super) fn choose_port_late(socket: &Socket) -> io::Result<()> {
    set_option(socket, libc::SOL_IP, libc::IP_BIND_ADDRESS_NO_PORT, 1)
}

/// Until a stream has drained, closing it means that its connection is torn down at both ends: whatever ends the agent,
/// nothing goes on being sent.
fn abort_on_close(socket: &Socket) -> io::Result<()> {
    socket.set_linger(Some(Duration::ZERO))
}

/// A socket that takes the connections of so many streams, with the options that they inherit.
pub fn listen(address: SocketAddr, streams: usize, options: &Options) -> Result<(Socket, u16)> {
    let socket = open(address.ip(), options)?;
    let listening = || {
        socket.set_nonblocking(true)?;
        socket.set_reuse_address(true)?;
        socket.bind(&SockAddr::from(address))?;
        socket.listen(i32::try_from(streams + MAX_FOREIGN).unwrap_or(i32::MAX))?;
        let bound = socket
            .local_addr()?
            .as_socket()
            .ok_or(io::ErrorKind::Other)?;
        Ok(bound.port())
    };
    let port = listening()
        .map_err(|error: io::Error| Error::system(format!("listen on {address}"), error))?;
    Ok((socket, port))
}

/// A connection that has not said yet whose it is.
struct Unknown {
    socket: Socket,
    said: Vec<u8>,
    until: Instant,
}

enum Said {
    NotYet,
    Stream(u32),
    Foreign,
}

impl Unknown {
    fn hear(&mut self, secret: &Secret) -> Said {
        let mut bytes = [0; PREAMBLE_BYTES];
        let wanted = PREAMBLE_BYTES - self.said.len();
        match rustix::net::recv(&self.socket, &mut bytes[..wanted], RecvFlags::empty()) {
            Ok((count @ 1.., _)) => self.said.extend_from_slice(&bytes[..count]),
            Err(rustix::io::Errno::AGAIN | rustix::io::Errno::INTR) => return Said::NotYet,
            Ok(_) | Err(_) => return Said::Foreign,
        }
        if self.said.len() < PREAMBLE_BYTES {
            return Said::NotYet;
        }
        let id = u32::from_be_bytes([self.said[4], self.said[5], self.said[6], self.said[7]]);
        if self.said == preamble(id, secret) {
            Said::Stream(id)
        } else {
            Said::Foreign
        }
    }
}

fn preamble(id: u32, secret: &Secret) -> [u8; PREAMBLE_BYTES] {
    let mut bytes = [0; PREAMBLE_BYTES];
    bytes[..4].copy_from_slice(b"VNB1");
    bytes[4..8].copy_from_slice(&id.to_be_bytes());
    bytes[8..24].copy_from_slice(secret);
    bytes
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
                        Some(place @ None) => *place = Some(connection.socket),
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
                    said: Vec::with_capacity(PREAMBLE_BYTES),
                    until: now + PREAMBLE_TIMEOUT,
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

/// Connects all streams at once, and returns them in the order of the load; `None` when the bell was rung before.
pub fn connect_all(
    to: SocketAddr,
    from: Option<IpAddr>,
    load: &Load,
    bell: &Bell,
    timeout: Duration,
) -> Result<Option<Vec<Socket>>> {
    let failed = |error: io::Error| Error::system(format!("connect to {to}"), error);
    let until = Instant::now() + timeout;
    let mut begun = Vec::with_capacity(load.roles.len());
    for _ in &load.roles {
        let socket = open(to.ip(), &load.options)?;
        socket
            .set_nonblocking(true)
            .and_then(|()| abort_on_close(&socket))
            .map_err(failed)?;
        if let Some(from) = from {
            socket
                .bind(&SockAddr::from(SocketAddr::new(from, 0)))
                .map_err(|error| Error::system(format!("send from {from}"), error))?;
        }
        match socket.connect(&SockAddr::from(to)) {
            Err(error) if error.raw_os_error() != Some(libc::EINPROGRESS) => {
                return Err(failed(error));
            }
            _ => begun.push(socket),
        }
    }
    // Each says whose it is as soon as it can: the far side does not wait for one that another one here keeps silent.
    let mut silent: Vec<usize> = (0..begun.len()).collect();
    let mut ready = Vec::new();
    while !silent.is_empty() {
        let polled: Vec<_> = silent
            .iter()
            .map(|at| (begun[*at].as_fd(), PollFlags::OUT))
            .collect();
        match wait(&polled, &mut ready, bell, Some(until)).map_err(failed)? {
            Waited::Rung => return Ok(None),
            Waited::TimedOut => {
                return Err(Error::TimedOut {
                    operation: format!("connecting to {to}"),
                    after_s: timeout.as_secs_f64(),
                });
            }
            Waited::Ready => {}
        }
        let mut still_silent = Vec::with_capacity(silent.len());
        for (at, can_speak) in silent.into_iter().zip(&ready) {
            if *can_speak {
                say(&begun[at], load.roles[at].0, &load.secret).map_err(failed)?;
            } else {
                still_silent.push(at);
            }
        }
        silent = still_silent;
    }
    Ok(Some(begun))
}

/// Says whose connection this is, where it has been made.
fn say(socket: &Socket, id: u32, secret: &Secret) -> io::Result<()> {
    if let Some(error) = socket.take_error()? {
        return Err(error);
    }
    // All of it: a new connection's buffer is empty, and no smaller than this.
    socket.send(&preamble(id, secret)).map(drop)
}
