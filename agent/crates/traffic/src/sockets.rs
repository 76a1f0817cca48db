//! The options of stream sockets, and opening a socket with them.

use std::io;
use std::time::Duration;

use rustix::io::Errno;
use rustix::net::sockopt::set_tcp_congestion;
use socket2::{Domain, Protocol, Socket, Type};

use crate::route::Transport;
use crate::source_ports::SourcePorts;
use vnetbench_system::error::{ErrorKind, RequestError, Result};
use vnetbench_system::socket_option;

/// The requested options of a socket; `None` keeps the kernel's default.
#[derive(Debug, Default, Clone)]
pub struct SocketOptions {
    /// Size of the send buffer and of the receive buffer.
    pub buffer_bytes: Option<usize>,
    /// Name of the congestion control algorithm.
    pub congestion_control: Option<String>,
    /// TCP_NODELAY: sends small messages at once (disables Nagle's algorithm).
    pub no_delay: bool,
    /// SO_BUSY_POLL: microseconds for which the kernel polls the interface before a call sleeps.
    pub busy_poll_us: Option<u32>,
    /// The transport.
    pub transport: Transport,
    /// SO_MAX_PACING_RATE, in bit/s.
    pub pacing_rate_bps: Option<u64>,
    /// The source ports of the connecting endpoint.
    pub source_ports: SourcePorts,
}

/// Opens a socket with these options.
pub(crate) fn open_socket(domain: Domain, options: &SocketOptions) -> Result<Socket> {
    let (protocol, name) = match options.transport {
        Transport::Tcp => (Some(Protocol::TCP), "a TCP"),
        Transport::Mptcp => (Some(Protocol::MPTCP), "an MPTCP"),
        Transport::Vsock => (None, "a VSOCK"),
    };
    let socket = Socket::new(domain, Type::STREAM, protocol).map_err(|error| {
        let error = RequestError::system(format!("open {name} socket"), error);
        match options.transport {
            Transport::Mptcp => error.with_kind_if_none(ErrorKind::Mptcp),
            Transport::Tcp | Transport::Vsock => error,
        }
    })?;
    set_connected_options(&socket, options)?;
    // Set before connecting, because TCP then negotiates the window scale.
    set_buffers(&socket, options.buffer_bytes)?;
    if let Some(name) = &options.congestion_control {
        set_tcp_congestion(&socket, name).map_err(|error| {
            let kind = match error {
                Errno::PERM => ErrorKind::CongestionControlForbidden,
                _ => ErrorKind::CongestionControlAbsent,
            };
            RequestError::system(format!("set the congestion control {name}"), error)
                .with_kind_if_none(kind)
        })?;
    }
    Ok(socket)
}

/// Sets the options that a connected socket can change.
///
/// # Errors
///
/// The kernel refuses an option.
pub fn set_connected_options(socket: &Socket, options: &SocketOptions) -> Result<()> {
    if options.no_delay && options.transport != Transport::Vsock {
        socket
            .set_tcp_nodelay(true)
            .map_err(|error| RequestError::system("set TCP_NODELAY", error))?;
    }
    if let Some(us) = options.busy_poll_us {
        socket_option::set(socket, libc::SOL_SOCKET, libc::SO_BUSY_POLL, us).map_err(|error| {
            RequestError::system(format!("set SO_BUSY_POLL to {us} µs"), error)
                .with_kind_if_none(ErrorKind::BusyPoll)
        })?;
    }
    if let Some(bps) = options.pacing_rate_bps {
        socket_option::set(socket, libc::SOL_SOCKET, libc::SO_MAX_PACING_RATE, bps / 8).map_err(
            |error| RequestError::system(format!("set SO_MAX_PACING_RATE to {bps} bit/s"), error),
        )?;
    }
    Ok(())
}

/// Sets the sizes of both buffers, if requested.
pub(crate) fn set_buffers(socket: &Socket, bytes: Option<usize>) -> Result<()> {
    let Some(bytes) = bytes else {
        return Ok(());
    };
    socket
        .set_send_buffer_size(bytes)
        .and_then(|()| socket.set_recv_buffer_size(bytes))
        .map_err(|error| {
            RequestError::system(format!("set socket buffers of {bytes} bytes"), error)
        })
}

/// Defers the choice of a bound socket's port until it connects (ip(7), IP_BIND_ADDRESS_NO_PORT).
///
/// Only then does the kernel know which ports are free for that destination.
pub(crate) fn defer_port_choice(socket: &Socket) -> io::Result<()> {
    socket_option::set(socket, libc::SOL_IP, libc::IP_BIND_ADDRESS_NO_PORT, 1u32)
}

/// Makes closing the socket reset the connection until the stream has drained.
///
/// However the agent ends, neither endpoint continues to send.
pub(crate) fn enable_reset_on_close(socket: &Socket) -> io::Result<()> {
    socket.set_linger(Some(Duration::ZERO))
}

/// Returns whether `accept` failed because the connection is already gone (accept(2), "Error handling").
pub(crate) fn is_accept_of_gone_connection(error: &io::Error) -> bool {
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
