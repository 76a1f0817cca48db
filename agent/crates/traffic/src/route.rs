//! Where streams go, and what carries them: addresses of IP and of VSOCK, TCP and MPTCP.

use std::io;
use std::net::SocketAddr;

use serde::{Deserialize, Serialize};
use socket2::SockAddr;

/// What carries the streams.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Transport {
    #[default]
    Tcp,
    Mptcp,
    /// As its addresses say.
    #[serde(skip_deserializing)]
    Vsock,
}

#[derive(Debug)]
pub struct Route {
    pub to: SockAddr,
    /// `None`: as the kernel chooses.
    pub from: Option<SockAddr>,
}

/// An address as a person writes it.
pub fn format_address(address: &SockAddr) -> String {
    match (address.as_socket(), address.as_vsock_address()) {
        (Some(ip), _) => ip.to_string(),
        (None, Some((libc::VMADDR_CID_ANY, libc::VMADDR_PORT_ANY))) => "a vsock port".into(),
        (None, Some((libc::VMADDR_CID_ANY, port))) => format!("vsock port {port}"),
        (None, Some((cid, port))) => format!("vsock {cid}:{port}"),
        (None, None) => "an unknown address".into(),
    }
}

pub fn port_of(address: &SockAddr) -> Option<u32> {
    let of_ip = address.as_socket().map(|ip| ip.port().into());
    of_ip.or_else(|| address.as_vsock_address().map(|(_, port)| port))
}

/// An address of the internet that a socket has.
pub fn address(of: io::Result<SockAddr>) -> io::Result<SocketAddr> {
    of?.as_socket()
        .ok_or_else(|| io::Error::other("a socket of the internet without an address"))
}
