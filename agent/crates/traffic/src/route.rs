//! The addresses (IP and VSOCK) and transports (TCP, MPTCP and VSOCK) of streams.

use std::io;
use std::net::SocketAddr;

use serde::{Deserialize, Serialize};
use socket2::SockAddr;

/// The transport of streams.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Transport {
    /// TCP.
    #[default]
    Tcp,
    /// Multipath TCP.
    Mptcp,
    /// VSOCK. Its addresses imply it, so requests do not name it.
    #[serde(skip_deserializing)]
    Vsock,
}

/// The addresses of a connection.
#[derive(Debug)]
pub struct Route {
    /// Address to connect to.
    pub destination: SockAddr,
    /// Local address; `None` lets the kernel choose.
    pub source: Option<SockAddr>,
}

/// Formats an address for messages.
pub fn format_address(address: &SockAddr) -> String {
    match (address.as_socket(), address.as_vsock_address()) {
        (Some(ip), _) => ip.to_string(),
        (None, Some((libc::VMADDR_CID_ANY, libc::VMADDR_PORT_ANY))) => "a vsock port".into(),
        (None, Some((libc::VMADDR_CID_ANY, port))) => format!("vsock port {port}"),
        (None, Some((cid, port))) => format!("vsock {cid}:{port}"),
        (None, None) => "an unknown address".into(),
    }
}

/// Returns the port of an IP or VSOCK address.
pub fn ip_or_vsock_port(address: &SockAddr) -> Option<u32> {
    let ip_port = address.as_socket().map(|ip| ip.port().into());
    ip_port.or_else(|| address.as_vsock_address().map(|(_, port)| port))
}

/// Returns the IP address from a socket's address.
///
/// # Errors
///
/// Reading the address failed, or it is not an IP address.
pub fn require_ip_address(address: io::Result<SockAddr>) -> io::Result<SocketAddr> {
    address?
        .as_socket()
        .ok_or_else(|| io::Error::other("the socket has no IP address"))
}
