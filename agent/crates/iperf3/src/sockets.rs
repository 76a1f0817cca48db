//! Sockets of a test: resolves addresses, opens sockets and applies the test parameters.

use std::io;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
use std::os::fd::AsRawFd;
use std::time::Duration;

use rustix::net::sockopt::{set_tcp_congestion, tcp_congestion};
use socket2::{Domain, SockAddr, Socket, Type};

use crate::limits::Transport;
use crate::parameters::TestParameters;
use crate::states::{ErrorCode, TestError};

/// The address family that `-4` or `-6` selects.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum AddressFamily {
    /// IPv4 or IPv6.
    #[default]
    Any,
    /// Only IPv4.
    V4,
    /// Only IPv6.
    V6,
}

/// Returns the first address of a host in this family.
///
/// # Errors
///
/// A message for the user.
pub fn resolve(host: &str, port: u16, family: AddressFamily) -> Result<SocketAddr, String> {
    let addresses = (host, port)
        .to_socket_addrs()
        .map_err(|error| format!("cannot resolve the host {host}: {error}"))?;
    let mut matching = addresses.filter(|address| match family {
        AddressFamily::Any => true,
        AddressFamily::V4 => address.is_ipv4(),
        AddressFamily::V6 => address.is_ipv6(),
    });
    matching.next().ok_or_else(|| {
        format!("the host {host} has no address of the family that -4 or -6 selects")
    })
}

/// Returns the address for output: converts an IPv4-mapped IPv6 address to IPv4.
pub fn unmap_ipv4_address(address: SocketAddr) -> SocketAddr {
    SocketAddr::new(address.ip().to_canonical(), address.port())
}

/// Opens a socket for this transport and address family.
pub fn open_socket(transport: Transport, address: &SocketAddr) -> io::Result<Socket> {
    let kind = match transport {
        Transport::Tcp => Type::STREAM,
        Transport::Udp => Type::DGRAM,
    };
    Socket::new(Domain::for_address(*address), kind, None)
}

/// Opens and connects a TCP socket; `prepare` configures it before it connects.
pub fn connect_tcp(
    to: SocketAddr,
    from: Option<SocketAddr>,
    timeout: Duration,
    prepare: impl FnOnce(&Socket) -> Result<(), TestError>,
) -> Result<Socket, TestError> {
    let failed = |error| TestError::Unreachable(format!("cannot connect to {to}: {error}"));
    let socket = open_socket(Transport::Tcp, &to).map_err(failed)?;
    prepare(&socket)?;
    bind_source(&socket, from)?;
    socket
        .connect_timeout(&SockAddr::from(to), timeout)
        .map_err(failed)?;
    Ok(socket)
}

/// Binds a socket to the local address, if there is one; the kernel chooses a port in place of 0.
pub fn bind_source(socket: &Socket, from: Option<SocketAddr>) -> Result<(), TestError> {
    let Some(from) = from else {
        return Ok(());
    };
    socket.bind(&SockAddr::from(from)).map_err(|error| {
        TestError::failed(match from.port() {
            0 => format!("cannot send from {}: {error}", from.ip()),
            port => format!("cannot use the source port {port}: {error}. Choose another --cport"),
        })
    })
}

/// Applies the test parameters to a socket.
///
/// # Errors
///
/// iperf3's error code for the option that the system refuses.
pub fn apply_parameters(
    socket: &Socket,
    parameters: &TestParameters,
    address: &SocketAddr,
) -> Result<(), TestError> {
    if let Some(bytes) = parameters.socket_buffer_bytes {
        set_buffer_sizes(socket, bytes)?;
    }
    if parameters.tos > 0 {
        let set = match address.ip().to_canonical() {
            IpAddr::V4(_) => socket.set_tos_v4(parameters.tos),
            IpAddr::V6(_) => socket.set_tclass_v6(parameters.tos),
        };
        set.map_err(|error| {
            socket_refusal_error(
                ErrorCode::SetTos,
                format!("the type of service {}", parameters.tos),
                &error,
            )
        })?;
    }
    if parameters.transport == Transport::Udp {
        return Ok(());
    }
    if let Some(mss) = parameters.mss {
        socket.set_tcp_mss(mss).map_err(|error| {
            socket_refusal_error(
                ErrorCode::SetMss,
                format!("segments of {mss} bytes"),
                &error,
            )
        })?;
    }
    if parameters.no_delay {
        socket.set_tcp_nodelay(true).map_err(|error| {
            socket_refusal_error(ErrorCode::CreateStream, "TCP_NODELAY".into(), &error)
        })?;
    }
    if let Some(name) = &parameters.congestion_control {
        set_tcp_congestion(socket, name).map_err(|error| {
            socket_refusal_error(
                ErrorCode::Congestion,
                format!("the congestion control {name}"),
                &error.into(),
            )
        })?;
    }
    Ok(())
}

/// Sets both socket buffers, or fails if the system limits them to less.
fn set_buffer_sizes(socket: &Socket, bytes: usize) -> Result<(), TestError> {
    socket
        .set_send_buffer_size(bytes)
        .and_then(|()| socket.set_recv_buffer_size(bytes))
        .map_err(|error| {
            socket_refusal_error(
                ErrorCode::BufferNotSet,
                format!("socket buffers of {bytes} bytes"),
                &error,
            )
        })?;
    let actual_sizes = [socket.send_buffer_size(), socket.recv_buffer_size()];
    if let Some(limit) = actual_sizes
        .into_iter()
        .flatten()
        .find(|actual| *actual < bytes)
    {
        return Err(TestError::refused(
            ErrorCode::BufferNotSet,
            format!(
                "the test needs socket buffers of {bytes} bytes, but the system limits them to {limit} bytes. \
                 Raise net.core.wmem_max and net.core.rmem_max"
            ),
        ));
    }
    Ok(())
}

fn socket_refusal_error(code: ErrorCode, what: String, error: &io::Error) -> TestError {
    TestError::Refused {
        code,
        errno: error.raw_os_error().unwrap_or(0),
        message: format!("the system refuses {what}: {error}"),
    }
}

/// Returns the socket's congestion control algorithm.
pub fn read_congestion_control(socket: &Socket) -> Option<String> {
    tcp_congestion(socket).ok()
}

/// Returns the number of bytes sent and not acknowledged (SIOCOUTQ, tcp(7)).
pub fn read_unacknowledged_bytes(socket: &Socket) -> io::Result<i32> {
    let mut bytes = 0i32;
    // SAFETY: the request writes one int, and the pointer points to an int.
    let answer = unsafe { libc::ioctl(socket.as_raw_fd(), libc::TIOCOUTQ, &raw mut bytes) };
    if answer == 0 {
        Ok(bytes)
    } else {
        Err(io::Error::last_os_error())
    }
}
