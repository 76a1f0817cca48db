//! The sockets of a path's proof: their packets are never fragmented.

use std::net::{IpAddr, SocketAddr};

use rustix::net::sockopt::{
    Ipv4PathMtuDiscovery, Ipv6PathMtuDiscovery, set_ip_mtu_discover, set_ipv6_mtu_discover,
};
use socket2::{Domain, SockAddr, Socket, Type};

use vnetbench_system::error::{Error, Result};

/// The largest packet that IP can carry.
pub const MAX_PACKET_BYTES: usize = 65_535;

/// What IP and UDP put before the payload.
pub fn header_bytes(address: IpAddr) -> usize {
    if address.is_ipv4() { 28 } else { 48 }
}

/// A UDP socket whose datagrams go out whole or not at all; port 0: any.
pub fn open_unfragmented(address: IpAddr, port: u16) -> Result<Socket> {
    let bound = SocketAddr::new(address, port);
    let open = || {
        let socket = Socket::new(Domain::for_address(bound), Type::DGRAM, None)?;
        // PROBE and not DO: the kernel's memory of a smaller path MTU would refuse what may pass by now.
        match address {
            IpAddr::V4(_) => set_ip_mtu_discover(&socket, Ipv4PathMtuDiscovery::PROBE)?,
            IpAddr::V6(_) => set_ipv6_mtu_discover(&socket, Ipv6PathMtuDiscovery::PROBE)?,
        }
        socket.bind(&SockAddr::from(bound))?;
        socket.set_nonblocking(true)?;
        Ok(socket)
    };
    open().map_err(|error: std::io::Error| {
        Error::system(format!("open a UDP socket on {address}"), error)
    })
}
