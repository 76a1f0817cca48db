//! Where a side of a trial is to be: addresses that it listens on, or that it connects to.

use std::net::{IpAddr, SocketAddr};

use serde::Deserialize;
use socket2::{Domain, SockAddr};

use vnetbench_iperf3::parameters::TestParameters;
use vnetbench_traffic::route::Route;

#[derive(Clone, Copy, Deserialize)]
#[serde(
    untagged,
    deny_unknown_fields,
    expecting = "listen must be {address, port} or {vsock: {port}}"
)]
pub enum Listen {
    Ip { address: IpAddr, port: Option<u16> },
    Vsock { vsock: VsockPort },
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
    expecting = "connect must be {address, port, from, speaks} or {vsock: {cid, port}}"
)]
pub enum Connect {
    Ip {
        address: IpAddr,
        port: u16,
        from: Option<IpAddr>,
        speaks: Option<PeerProtocol>,
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
            Self::Ip { address, port } => SocketAddr::new(address, port.unwrap_or(0)).into(),
            Self::Vsock { vsock } => {
                let port = vsock.port.unwrap_or(libc::VMADDR_PORT_ANY);
                SockAddr::vsock(libc::VMADDR_CID_ANY, port)
            }
        }
    }
}

/// What the other side understands.
#[derive(Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum PeerProtocol {
    Vnetbench,
    Iperf3,
}

impl Connect {
    pub fn route(self) -> Route {
        match self {
            Self::Ip {
                address,
                port,
                from,
                ..
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

    pub fn is_to_iperf3(self) -> bool {
        matches!(
            self,
            Self::Ip {
                speaks: Some(PeerProtocol::Iperf3),
                ..
            }
        )
    }
}

#[derive(Debug)]
pub enum EndpointAddress {
    /// At its interface: a side of frames has no connection.
    Port,
    Listen(SockAddr),
    Connect(Box<Route>),
    /// At the other side is an iperf3 server, which is asked for that.
    ConnectIperf3(Box<Route>, Box<TestParameters>),
}

impl EndpointAddress {
    pub fn is_vsock(&self) -> bool {
        self.domain() == Some(Domain::VSOCK)
    }

    /// Of its connections, where it has any.
    pub fn domain(&self) -> Option<Domain> {
        match self {
            Self::Port => None,
            Self::Listen(address) => Some(address.domain()),
            Self::Connect(route) | Self::ConnectIperf3(route, _) => Some(route.to.domain()),
        }
    }
}
