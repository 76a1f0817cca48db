//! A server's listening sockets, and the delivery of connections to tests.
//!
//! A TCP connection is pending until its cookie has arrived. It then goes to the test with this cookie, or starts a new
//! test. A UDP stream goes to the test that collects streams from its address.

use std::collections::VecDeque;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::event::PollFlags;
use rustix::net::RecvFlags;
use socket2::{SockAddr, Socket};

use crate::limits::Transport;
use crate::sockets::open_socket;
use crate::test_registry::{ClientNetwork, Delivery, TestRegistry};
use crate::udp::find_connect_reply;
use crate::wire::{COOKIE_BYTES, Cookie};
use vnetbench_system::waiting::{Waker, wait};

/// Time limit for a connection to send its cookie.
const COOKIE_TIMEOUT: Duration = Duration::from_secs(5);
/// Maximum number of connections without a cookie; beyond it the oldest is closed.
const PENDING_BEFORE_OLDEST_CLOSES: usize = 256;
const LISTEN_BACKLOG: i32 = 1_024;
/// Maximum number of datagrams read between two looks at the TCP connections. A socket's usual buffer holds fewer.
const MAX_DATAGRAMS_PER_WAKE: usize = 1_024;
/// Time until the next `accept` after the system ran out of descriptors or memory.
const ACCEPT_RETRY_DELAY: Duration = Duration::from_millis(50);

/// The listening sockets of a server and its pending connections.
pub struct Listener {
    tcp: Socket,
    udp: Socket,
    address: SocketAddr,
    pending: VecDeque<PendingConnection>,
    /// Wakes `poll` when the server stops.
    pub stop: Arc<Waker>,
    cookie_timeout: Duration,
}

/// A connection that has not sent its whole cookie.
struct PendingConnection {
    socket: Socket,
    peer: IpAddr,
    received: Vec<u8>,
    accepted_at: Instant,
    /// The peer closed the connection, or reading failed.
    is_closed: bool,
}

impl Listener {
    /// Listens on the address for TCP and UDP; port 0 selects a free port.
    ///
    /// A connection has `cookie_timeout`, at most `COOKIE_TIMEOUT`, to send its cookie.
    pub fn bind(address: SocketAddr, cookie_timeout: Duration) -> io::Result<Self> {
        let tcp = open_socket(Transport::Tcp, &address)?;
        tcp.set_reuse_address(true)?;
        enable_dual_stack_if_ipv6(&tcp, &address)?;
        tcp.set_nonblocking(true)?;
        tcp.bind(&SockAddr::from(address))?;
        tcp.listen(LISTEN_BACKLOG)?;
        let address = tcp
            .local_addr()?
            .as_socket()
            .ok_or(io::ErrorKind::Unsupported)?;
        let udp = open_socket(Transport::Udp, &address)?;
        enable_dual_stack_if_ipv6(&udp, &address)?;
        udp.bind(&SockAddr::from(address))?;
        // Set after `bind`: otherwise `bind` would succeed although another server has the port.
        udp.set_reuse_address(true)?;
        udp.set_nonblocking(true)?;
        Ok(Self {
            tcp,
            udp,
            address,
            pending: VecDeque::new(),
            stop: Arc::new(Waker::new()?),
            cookie_timeout: cookie_timeout.min(COOKIE_TIMEOUT),
        })
    }

    /// Returns the address on which the server listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Waits for events and delivers connections to their tests; returns those that start a new test.
    pub fn wait_for_new_tests(
        &mut self,
        registry: &TestRegistry,
    ) -> io::Result<Vec<(Socket, Cookie)>> {
        let polled: Vec<_> = [self.tcp.as_fd(), self.udp.as_fd()]
            .into_iter()
            .chain(
                self.pending
                    .iter()
                    .map(|connection| connection.socket.as_fd()),
            )
            .map(|fd| (fd, PollFlags::IN))
            .collect();
        let deadline = self
            .pending
            .front()
            .map(|connection| connection.accepted_at + self.cookie_timeout);
        let mut ready = Vec::new();
        wait(&polled, &mut ready, &self.stop, deadline)?;
        let is_readable = |index: usize| ready.get(index).copied().unwrap_or(false);
        if is_readable(1) {
            self.accept_udp(registry)?;
        }
        for (index, connection) in self.pending.iter_mut().enumerate() {
            if is_readable(index + 2) {
                connection.read_cookie_part();
            }
        }
        let new_tests = self.deliver_identified(registry);
        if is_readable(0) {
            self.accept();
        }
        Ok(new_tests)
    }

    fn accept(&mut self) {
        match self.tcp.accept() {
            Ok((socket, from)) => {
                let Some(from) = from
                    .as_socket()
                    .filter(|_| socket.set_nonblocking(true).is_ok())
                else {
                    return;
                };
                let from = from.ip().to_canonical();
                self.pending.push_back(PendingConnection {
                    socket,
                    peer: from,
                    received: Vec::new(),
                    accepted_at: Instant::now(),
                    is_closed: false,
                });
                if self.pending.len() > PENDING_BEFORE_OLDEST_CLOSES {
                    self.close_oldest_of_busiest_client();
                }
            }
            Err(error)
                if matches!(
                    error.raw_os_error(),
                    Some(libc::EMFILE | libc::ENFILE | libc::ENOMEM)
                ) =>
            {
                std::thread::sleep(ACCEPT_RETRY_DELAY);
            }
            // The connection closed before it was accepted (accept(2), "Error handling").
            Err(_) => {}
        }
    }

    /// Closes the oldest pending connection of the client with the most, so that it displaces no other client.
    fn close_oldest_of_busiest_client(&mut self) {
        let client = |connection: &PendingConnection| ClientNetwork::from(connection.peer);
        let count = |of: ClientNetwork| {
            self.pending
                .iter()
                .filter(|each| client(each) == of)
                .count()
        };
        let oldest = (0..self.pending.len())
            .rev()
            .max_by_key(|index| count(client(&self.pending[*index])));
        if let Some(index) = oldest {
            self.pending.remove(index);
        }
    }

    /// Delivers the connections with a complete cookie; returns those that start a new test.
    fn deliver_identified(&mut self, registry: &TestRegistry) -> Vec<(Socket, Cookie)> {
        let now = Instant::now();
        let (mut new_tests, mut pending): (Vec<(Socket, Cookie)>, VecDeque<PendingConnection>) =
            Default::default();
        for connection in self.pending.drain(..) {
            if connection.is_closed || now >= connection.accepted_at + self.cookie_timeout {
                continue;
            }
            let Some(cookie) = connection.cookie() else {
                pending.push_back(connection);
                continue;
            };
            // Streams are numbered in the order in which they are opened. An earlier connection without a cookie may
            // belong to the same test: deliver this one after it.
            let since = registry.collecting_since(&cookie);
            let may_precede = |other: &PendingConnection| {
                other.peer == connection.peer
                    && since.is_some_and(|since| other.accepted_at >= since)
                    && other.cookie().is_none()
            };
            if pending.iter().any(may_precede) {
                pending.push_back(connection);
                continue;
            }
            match registry.deliver(&cookie, connection.socket) {
                Delivery::Delivered => {}
                Delivery::NewTest(socket) => new_tests.push((socket, cookie)),
            }
        }
        self.pending = pending;
        new_tests
    }

    /// Connects the UDP socket to each peer that sent a connect message, and listens on a new socket.
    ///
    /// The kernel then delivers all further datagrams of that peer to its own socket. Reads at most
    /// `MAX_DATAGRAMS_PER_WAKE` datagrams, because a flood of them must not keep TCP clients waiting.
    fn accept_udp(&mut self, registry: &TestRegistry) -> io::Result<()> {
        let mut budget = MAX_DATAGRAMS_PER_WAKE;
        let mut messages = VecDeque::new();
        while let Some(message) = next_connect_sender_and_reply(&self.udp, &mut budget) {
            messages.push_back(message);
        }
        while let Some((from, reply)) = messages.pop_front() {
            let Some(collector) = registry.udp_collector(from.ip().to_canonical()) else {
                continue;
            };
            // Bind the new socket before connecting the old one, so that no connect message is lost.
            let next_socket = open_socket(Transport::Udp, &self.address)?;
            next_socket.set_reuse_address(true)?;
            enable_dual_stack_if_ipv6(&next_socket, &self.address)?;
            next_socket.set_nonblocking(true)?;
            next_socket.bind(&SockAddr::from(self.address))?;
            let stream = std::mem::replace(&mut self.udp, next_socket);
            if stream.connect(&SockAddr::from(from)).is_err() {
                continue;
            }
            while let Some(other) = next_connect_sender_and_reply(&stream, &mut budget) {
                messages.push_back(other);
            }
            // If this fails, the client reports the missing reply.
            let _ = stream.send(&reply);
            let _ = collector.send(stream);
        }
        Ok(())
    }
}

fn enable_dual_stack_if_ipv6(socket: &Socket, address: &SocketAddr) -> io::Result<()> {
    if address.is_ipv6() {
        socket.set_only_v6(false)
    } else {
        Ok(())
    }
}

/// Returns the sender of the next connect message and the reply to it; drops other datagrams. Each datagram takes one
/// of the budget.
fn next_connect_sender_and_reply(
    socket: &Socket,
    budget: &mut usize,
) -> Option<(SocketAddr, [u8; 4])> {
    let mut bytes = [0; 8];
    while *budget > 0 {
        *budget -= 1;
        match rustix::net::recvfrom(socket, &mut bytes[..], RecvFlags::DONTWAIT) {
            Ok((count, _, Some(from))) => {
                let from = SocketAddr::try_from(from).ok();
                if let Some((from, reply)) = from.zip(find_connect_reply(&bytes[..count])) {
                    return Some((from, reply));
                }
            }
            Ok((_, _, None)) | Err(rustix::io::Errno::INTR | rustix::io::Errno::CONNREFUSED) => {}
            Err(_) => return None,
        }
    }
    None
}

impl PendingConnection {
    /// Reads more of the cookie, unless it is complete.
    fn read_cookie_part(&mut self) {
        let missing = COOKIE_BYTES - self.received.len();
        if missing == 0 {
            return;
        }
        let mut bytes = [0; COOKIE_BYTES];
        match rustix::net::recv(&self.socket, &mut bytes[..missing], RecvFlags::empty()) {
            Ok((0, _)) => self.is_closed = true,
            Ok((count, _)) => self.received.extend_from_slice(&bytes[..count]),
            Err(rustix::io::Errno::AGAIN | rustix::io::Errno::INTR) => {}
            Err(_) => self.is_closed = true,
        }
    }

    /// Returns the cookie if it is complete.
    fn cookie(&self) -> Option<Cookie> {
        self.received.as_slice().try_into().ok()
    }
}

#[cfg(test)]
mod tests {
    use std::net::{TcpStream, UdpSocket};

    use super::*;

    fn listen() -> Listener {
        let address = SocketAddr::from(([127, 0, 0, 1], 0));
        Listener::bind(address, COOKIE_TIMEOUT).expect("listener")
    }

    #[test]
    fn a_flood_of_datagrams_is_read_in_parts() {
        let flooded = UdpSocket::bind("127.0.0.1:0").expect("socket");
        let sender = UdpSocket::bind("127.0.0.1:0").expect("socket");
        sender
            .connect(flooded.local_addr().expect("address"))
            .expect("connection");
        for _ in 0..20 {
            sender.send(b"not a connect message").expect("sent");
        }
        let socket = Socket::from(flooded);
        let mut budget = 7;
        assert!(next_connect_sender_and_reply(&socket, &mut budget).is_none());
        assert_eq!(budget, 0);
        let mut budget = 100;
        assert!(next_connect_sender_and_reply(&socket, &mut budget).is_none());
        // The other thirteen, and the read that found none.
        assert_eq!(budget, 100 - 14);
    }

    #[test]
    fn the_client_with_the_most_pending_connections_loses_its_oldest() {
        let mut listener = listen();
        let connection = |peer: [u8; 4], number: u8| PendingConnection {
            socket: TcpStream::connect(listener.address())
                .expect("connection")
                .into(),
            peer: peer.into(),
            received: vec![number],
            accepted_at: Instant::now(),
            is_closed: false,
        };
        let (quiet, busy) = ([192, 0, 2, 1], [192, 0, 2, 2]);
        let pending = [
            connection(quiet, 0),
            connection(busy, 1),
            connection(busy, 2),
            connection(quiet, 3),
            connection(busy, 4),
        ];
        listener.pending.extend(pending);
        let mut close_one = || {
            listener.close_oldest_of_busiest_client();
            listener
                .pending
                .iter()
                .map(|each| each.received[0])
                .collect::<Vec<_>>()
        };
        assert_eq!(close_one(), [0, 2, 3, 4]);
        // Both have two now: the older connection goes.
        assert_eq!(close_one(), [2, 3, 4]);
    }
}
