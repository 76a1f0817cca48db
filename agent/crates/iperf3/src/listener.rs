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
use crate::test_registry::{Delivery, TestRegistry};
use crate::udp::find_connect_reply;
use crate::wire::{COOKIE_BYTES, Cookie};
use vnetbench_system::waiting::{Waker, wait};

/// Time limit for a connection to send its cookie.
const COOKIE_TIMEOUT: Duration = Duration::from_secs(5);
/// Maximum number of connections without a cookie; beyond it the oldest is closed.
const MAX_PENDING_CONNECTIONS: usize = 256;
const LISTEN_BACKLOG: i32 = 1_024;
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
            if is_readable(index + 2) && !connection.read_cookie_unless_closed() {
                // The peer closed the connection, or reading failed.
                connection.is_closed = true;
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
                if self.pending.len() > MAX_PENDING_CONNECTIONS {
                    self.pending.pop_front();
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
    /// The kernel then delivers all further datagrams of that peer to its own socket.
    fn accept_udp(&mut self, registry: &TestRegistry) -> io::Result<()> {
        let mut messages = VecDeque::new();
        while let Some(message) = next_connect_sender_and_reply(&self.udp) {
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
            while let Some(other) = next_connect_sender_and_reply(&stream) {
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

/// Returns the sender of the next connect message and the reply to it; drops other datagrams.
fn next_connect_sender_and_reply(socket: &Socket) -> Option<(SocketAddr, [u8; 4])> {
    let mut bytes = [0; 8];
    loop {
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
}

impl PendingConnection {
    /// Reads more of the cookie; returns false if the connection is closed or failed, so that it cannot complete it.
    fn read_cookie_unless_closed(&mut self) -> bool {
        let missing = COOKIE_BYTES - self.received.len();
        if missing == 0 {
            return true;
        }
        let mut bytes = [0; COOKIE_BYTES];
        match rustix::net::recv(&self.socket, &mut bytes[..missing], RecvFlags::empty()) {
            Ok((0, _)) => false,
            Ok((count, _)) => {
                self.received.extend_from_slice(&bytes[..count]);
                true
            }
            Err(error) => matches!(error, rustix::io::Errno::AGAIN | rustix::io::Errno::INTR),
        }
    }

    /// Returns the cookie if it is complete.
    fn cookie(&self) -> Option<Cookie> {
        self.received.as_slice().try_into().ok()
    }
}
