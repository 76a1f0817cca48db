//! The addresses of an endpoint: where it listens, or what it connects to.

use std::net::{IpAddr, SocketAddr};

use serde::Deserialize;
use socket2::{Domain, SockAddr};

use vnetbench_iperf3::parameters::TestParameters;
use vnetbench_traffic::route::Route;

/// The parameter `listen` of `trial.prepare`.
#[derive(Clone, Copy, Deserialize)]
#[serde(
    untagged,
    deny_unknown_fields,
    expecting = "listen must be {address, port} or {vsock: {port}}"
)]
pub enum ListenAddress {
    /// An IP address; any free port unless named.
    Ip {
        /// The address.
        address: IpAddr,
        /// The port; any free one if absent.
        port: Option<u16>,
    },
    /// A VSOCK port.
    Vsock {
        /// The port.
        vsock: VsockPort,
    },
}

/// A VSOCK port to listen on; any free port unless named.
#[derive(Clone, Copy, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct VsockPort {
    port: Option<u32>,
}

/// The parameter `connect` of `trial.prepare`.
#[derive(Clone, Copy, Deserialize)]
#[serde(
    untagged,
    deny_unknown_fields,
    expecting = "connect must be {address, port, from, protocol} or {vsock: {cid, port}}"
)]
pub enum ConnectAddress {
    /// An IP address and port.
    Ip {
        /// The other endpoint's address.
        address: IpAddr,
        /// The other endpoint's port.
        port: u16,
        /// The source address; the system chooses one if absent.
        from: Option<IpAddr>,
        /// The other endpoint's protocol; an agent's if absent.
        protocol: Option<PeerProtocol>,
    },
    /// A VSOCK address.
    Vsock {
        /// The other endpoint's address.
        vsock: VsockPeer,
    },
}

/// The context id and port of a VSOCK peer.
#[derive(Clone, Copy, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct VsockPeer {
    cid: u32,
    port: u32,
}

impl ListenAddress {
    /// Returns the socket address to listen on.
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

/// The protocol of the other endpoint.
#[derive(Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum PeerProtocol {
    /// The other endpoint is an agent.
    Vnetbench,
    /// The other endpoint is an iperf3 server.
    Iperf3,
}

impl ConnectAddress {
    /// Returns the addresses to connect from and to.
    pub fn route(self) -> Route {
        match self {
            Self::Ip {
                address,
                port,
                from,
                ..
            } => Route {
                destination: SocketAddr::new(address, port).into(),
                source: from.map(|from| SocketAddr::new(from, 0).into()),
            },
            Self::Vsock { vsock } => Route {
                destination: SockAddr::vsock(vsock.cid, vsock.port),
                source: None,
            },
        }
    }

    /// Returns whether the other endpoint is an iperf3 server.
    pub fn is_to_iperf3(self) -> bool {
        matches!(
            self,
            Self::Ip {
                protocol: Some(PeerProtocol::Iperf3),
                ..
            }
        )
    }
}

/// How an endpoint meets the other one.
#[derive(Debug)]
pub enum ConnectionMethod {
    /// Through its interface: frames need no connection.
    Port,
    /// Listens at this address.
    Listen(SockAddr),
    /// Connects to an agent.
    Connect(Box<Route>),
    /// Connects to an iperf3 server with these test parameters.
    ConnectIperf3(Box<Route>, Box<TestParameters>),
}

impl ConnectionMethod {
    /// Returns whether the connections are of VSOCK.
    pub fn is_vsock(&self) -> bool {
        self.domain() == Some(Domain::VSOCK)
    }

    /// Returns the socket domain of the connections, or `None` without connections.
    pub fn domain(&self) -> Option<Domain> {
        match self {
            Self::Port => None,
            Self::Listen(address) => Some(address.domain()),
            Self::Connect(route) | Self::ConnectIperf3(route, _) => {
                Some(route.destination.domain())
            }
        }
    }
}
