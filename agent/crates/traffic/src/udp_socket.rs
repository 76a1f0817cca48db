//! The UDP sockets of datagram flows, with the options of their role.

use std::net::SocketAddr;

use socket2::{SockAddr, Socket, Type};

use crate::flow_options::FlowOptions;
use crate::route::require_ip_address;
use crate::sockets;
use vnetbench_streams::Role;
use vnetbench_system::error::{ErrorKind, RequestError, Result};
use vnetbench_system::socket_option;

/// Receive buffer of a sink that records arrivals, if the trial requests no size: half a second of small datagrams at
/// 10,000 per second, with the kernel's overhead of 768 bytes each.
const ARRIVAL_RECEIVE_BUFFER_BYTES: u32 = 4 << 20;

/// Opens the UDP socket of a flow at the local address of its connection and this port.
pub(crate) fn open_flow_socket(
    control_connection: &Socket,
    port: u16,
    role: Role,
    options: &FlowOptions,
) -> Result<Socket> {
    let mut local = require_ip_address(control_connection.local_addr())
        .map_err(|error| RequestError::system("open a UDP socket", error))?;
    local.set_port(port);
    open_udp_socket(local, role, options)
}

/// Opens a UDP socket at this address, with the flow's options for this role.
fn open_udp_socket(local: SocketAddr, role: Role, options: &FlowOptions) -> Result<Socket> {
    let domain = socket2::Domain::for_address(local);
    let socket = Socket::new(domain, Type::DGRAM, None)
        .and_then(|socket| socket.set_nonblocking(true).map(|()| socket))
        .map_err(|error| RequestError::system("open a UDP socket", error))?;
    sockets::set_buffers(&socket, options.buffer_bytes)?;
    match role {
        Role::Sink => set_sink_options(&socket, options)?,
        Role::Source => set_fragmentation_and_segmentation(&socket, local, options)?,
    }
    socket.bind(&SockAddr::from(local)).map_err(|error| {
        RequestError::system(format!("bind a UDP socket to {}", local.ip()), error)
    })?;
    Ok(socket)
}

fn set_sink_options(socket: &Socket, options: &FlowOptions) -> Result<()> {
    if options.records_arrivals && options.buffer_bytes.is_none() {
        enlarge_receive_buffer(socket);
    }
    set_option(
        socket,
        libc::SOL_SOCKET,
        libc::SO_TIMESTAMPNS,
        1,
        "SO_TIMESTAMPNS",
    )?;
    if options.uses_udp_gro {
        set_option(socket, libc::SOL_UDP, libc::UDP_GRO, 1, "UDP_GRO")
            .map_err(|error| error.with_kind_if_none(ErrorKind::UdpOffload))?;
    }
    Ok(())
}

/// Enlarges the receive buffer beyond rmem_max where that is allowed, and else up to it.
///
/// Otherwise, a sink that waits for a CPU loses datagrams that the network has delivered.
fn enlarge_receive_buffer(socket: &Socket) {
    let bytes = ARRIVAL_RECEIVE_BUFFER_BYTES;
    let is_forced =
        socket_option::set(socket, libc::SOL_SOCKET, libc::SO_RCVBUFFORCE, bytes).is_ok();
    if !is_forced {
        // A smaller buffer is no error: the sink reports its size, and drops at the socket are counted.
        let _ = socket.set_recv_buffer_size(bytes as usize);
    }
}

fn set_fragmentation_and_segmentation(
    socket: &Socket,
    local: SocketAddr,
    options: &FlowOptions,
) -> Result<()> {
    if local.is_ipv6() {
        let (discovery, dont_fragment) = if options.can_fragment {
            (libc::IPV6_PMTUDISC_DONT, 0)
        } else {
            (libc::IPV6_PMTUDISC_DO, 1)
        };
        let level = libc::IPPROTO_IPV6;
        let (name, discovery) = ("IPV6_MTU_DISCOVER", discovery as u32);
        set_option(socket, level, libc::IPV6_MTU_DISCOVER, discovery, name)?;
        let name = "IPV6_DONTFRAG";
        set_option(socket, level, libc::IPV6_DONTFRAG, dont_fragment, name)?;
    } else {
        let discovery = if options.can_fragment {
            libc::IP_PMTUDISC_DONT
        } else {
            libc::IP_PMTUDISC_DO
        };
        let (name, discovery) = ("IP_MTU_DISCOVER", discovery as u32);
        set_option(socket, libc::SOL_IP, libc::IP_MTU_DISCOVER, discovery, name)?;
    }
    if options.uses_udp_gso {
        let bytes = options.datagram_bytes as u32;
        set_option(
            socket,
            libc::SOL_UDP,
            libc::UDP_SEGMENT,
            bytes,
            "UDP_SEGMENT",
        )
        .map_err(|error| error.with_kind_if_none(ErrorKind::UdpOffload))?;
    }
    Ok(())
}

fn set_option(socket: &Socket, level: i32, option: i32, value: u32, name: &str) -> Result<()> {
    socket_option::set(socket, level, option, value)
        .map_err(|error| RequestError::system(format!("set {name}"), error))
}
