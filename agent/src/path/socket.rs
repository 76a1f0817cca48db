//! The sockets of path probes, whose packets are never fragmented.

use std::net::{IpAddr, SocketAddr};

use rustix::net::sockopt::{
    Ipv4PathMtuDiscovery, Ipv6PathMtuDiscovery, set_ip_mtu_discover, set_ipv6_mtu_discover,
};
use socket2::{Domain, SockAddr, Socket, Type};

use vnetbench_system::error::{RequestError, Result};

/// The largest packet that IP can carry.
pub const MAX_PACKET_BYTES: usize = 65_535;

/// Returns the length of the IP and UDP headers.
pub fn ip_udp_header_bytes(address: IpAddr) -> usize {
    if address.is_ipv4() { 28 } else { 48 }
}

/// Opens a UDP socket that never fragments its datagrams. Port 0 means any port.
pub fn open_unfragmented_udp_socket(address: IpAddr, port: u16) -> Result<Socket> {
    let bound = SocketAddr::new(address, port);
    let open = || {
        let socket = Socket::new(Domain::for_address(bound), Type::DGRAM, None)?;
        // PROBE instead of DO: with DO the kernel would apply a cached path MTU that may be out of date.
        match address {
            IpAddr::V4(_) => set_ip_mtu_discover(&socket, Ipv4PathMtuDiscovery::PROBE)?,
            IpAddr::V6(_) => set_ipv6_mtu_discover(&socket, Ipv6PathMtuDiscovery::PROBE)?,
        }
        socket.bind(&SockAddr::from(bound))?;
        socket.set_nonblocking(true)?;
        Ok(socket)
    };
    open().map_err(|error: std::io::Error| {
        RequestError::system(format!("open a UDP socket on {address}"), error)
    })
}
