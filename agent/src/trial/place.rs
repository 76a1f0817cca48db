//! Where one side of a trial listens or connects, as it is asked for: addresses of IP or of VSOCK.

use std::net::{IpAddr, SocketAddr};

use serde::Deserialize;
use socket2::{Domain, SockAddr};

use crate::traffic::route::Route;

#[derive(Clone, Copy, Deserialize)]
#[serde(
    untagged,
    deny_unknown_fields,
    expecting = "listen must be {address, port} or {vsock: {port}}"
)]
pub enum Listen {
    Ip {
        address: IpAddr,
        #[serde(default)]
        port: u16,
    },
    Vsock {
        vsock: VsockPort,
    },
}

#[derive(Clone, Copy, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct VsockPort {
    port: Option<u32>,
}

#[derive(Clone, Copy, Deserialize)]
#[serde(
    untagged,
    deny_unknown_fields,
    expecting = "connect must be {address, port, from} or {vsock: {cid, port}}"
)]
pub enum Connect {
    Ip {
        address: IpAddr,
        port: u16,
        from: Option<IpAddr>,
    },
    Vsock {
        vsock: VsockPeer,
    },
}

#[derive(Clone, Copy, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct VsockPeer {
    cid: u32,
    port: u32,
}

impl Listen {
    pub fn address(self) -> SockAddr {
        match self {
            Self::Ip { address, port } => SocketAddr::new(address, port).into(),
            Self::Vsock { vsock } => {
                let port = vsock.port.unwrap_or(libc::VMADDR_PORT_ANY);
                SockAddr::vsock(libc::VMADDR_CID_ANY, port)
            }
        }
    }
}

impl Connect {
    pub fn route(self) -> Route {
        match self {
            Self::Ip {
                address,
                port,
                from,
            } => Route {
                to: SocketAddr::new(address, port).into(),
                from: from.map(|from| SocketAddr::new(from, 0).into()),
            },
            Self::Vsock { vsock } => Route {
                to: SockAddr::vsock(vsock.cid, vsock.port),
                from: None,
            },
        }
    }
}

#[derive(Debug)]
pub enum Place {
    Listens(SockAddr),
    Connects(Box<Route>),
}

impl Place {
    pub fn is_vsock(&self) -> bool {
        let address = match self {
            Self::Listens(address) => address,
            Self::Connects(route) => &route.to,
        };
        address.domain() == Domain::VSOCK
    }
}
