//! The sockets of streams: what is asked of each, and how it is opened and set.

use std::io;
use std::time::Duration;

use rustix::io::Errno;
use rustix::net::sockopt::set_tcp_congestion;
use socket2::{Domain, Protocol, Socket, Type};

use crate::route::Transport;
use vnetbench_system::error::{Error, Kind, Result};
use vnetbench_system::socket_option;

/// What is asked of every socket; `None` leaves the kernel its choice.
#[derive(Debug, Default, Clone)]
pub struct SocketOptions {
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
pub(crate) fn open(domain: Domain, options: &SocketOptions) -> Result<Socket> {
    let (protocol, name) = match options.transport {
        Transport::Tcp => (Some(Protocol::TCP), "a TCP"),
        Transport::Mptcp => (Some(Protocol::MPTCP), "an MPTCP"),
        Transport::Vsock => (None, "a VSOCK"),
    };
    let socket = Socket::new(domain, Type::STREAM, protocol).map_err(|error| {
        let refused = Error::system(format!("open {name} socket"), error);
        match options.transport {
            Transport::Mptcp => refused.with_kind(Kind::Mptcp),
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
            Error::system(format!("set the congestion control {name}"), error).with_kind(kind)
        })?;
    }
    Ok(socket)
}

/// Sets of the options those that a socket may get after it has been connected too.
pub fn set_changeable(socket: &Socket, options: &SocketOptions) -> Result<()> {
    if options.no_delay && options.transport != Transport::Vsock {
        socket
            .set_tcp_nodelay(true)
            .map_err(|error| Error::system("set TCP_NODELAY", error))?;
    }
    if let Some(us) = options.busy_poll_us {
        socket_option::set(socket, libc::SOL_SOCKET, libc::SO_BUSY_POLL, us).map_err(|error| {
            Error::system(format!("set SO_BUSY_POLL to {us} us"), error).with_kind(Kind::BusyPoll)
        })?;
    }
    if let Some(bps) = options.pacing_rate_bps {
        socket_option::set(socket, libc::SOL_SOCKET, libc::SO_MAX_PACING_RATE, bps / 8).map_err(
            |error| Error::system(format!("set SO_MAX_PACING_RATE to {bps} bit/s"), error),
        )?;
    }
    Ok(())
}

pub(crate) fn set_buffers(socket: &Socket, bytes: Option<usize>) -> Result<()> {
    let Some(bytes) = bytes else {
        return Ok(());
    };
    socket
        .set_send_buffer_size(bytes)
        .and_then(|()| socket.set_recv_buffer_size(bytes))
        .map_err(|error| Error::system(format!("set socket buffers of {bytes} bytes"), error))
}

/// Has a socket that is bound to an address get its port when it connects (ip(7), IP_BIND_ADDRESS_NO_PORT): only then is
/// it known which ports are free towards the other side.
pub(crate) fn choose_port_late(socket: &Socket) -> io::Result<()> {
    socket_option::set(socket, libc::SOL_IP, libc::IP_BIND_ADDRESS_NO_PORT, 1u32)
}

/// Until a stream has drained, closing it means that its connection is torn down at both ends: whatever ends the agent,
/// nothing goes on being sent.
pub(crate) fn abort_on_close(socket: &Socket) -> io::Result<()> {
    socket.set_linger(Some(Duration::ZERO))
}

pub(crate) fn is_connection_lost(error: &io::Error) -> bool {
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
