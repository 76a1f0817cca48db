//! Who is at a server's door: new connections are heard until they have shown their cookie, then go to the test that it
//! belongs to, or begin one; a UDP stream goes to the test of its address that waits for it.

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
use crate::sockets::open;
use crate::test_registry::{House, Visit};
use crate::udp::answer_to;
use crate::wire::{COOKIE_BYTES, Cookie};
use vnetbench_system::waiting::{Waker, wait};

/// How long a connection may take to show its cookie.
const COOKIE_TIMEOUT: Duration = Duration::from_secs(5);
/// Connections that have not shown it yet; beyond this the oldest gives way.
const MAX_UNKNOWN: usize = 256;
const BACKLOG: i32 = 1_024;
/// Where the system has no room for another connection, it is asked again after this.
const NO_ROOM_PAUSE: Duration = Duration::from_millis(50);

pub struct Door {
    tcp: Socket,
    udp: Socket,
    address: SocketAddr,
    unknown: VecDeque<Unknown>,
    /// Rung when nobody is to be let in any more.
    pub closing: Arc<Waker>,
    patience: Duration,
}

struct Unknown {
    socket: Socket,
    from: IpAddr,
    said: Vec<u8>,
    came: Instant,
    gone: bool,
}

impl Door {
    /// Listens on the address for both; port 0 takes a free one. A connection has `patience` to show its cookie, and
    /// `COOKIE_TIMEOUT` at most.
    pub fn open(address: SocketAddr, patience: Duration) -> io::Result<Self> {
        let tcp = open(Transport::Tcp, &address)?;
        tcp.set_reuse_address(true)?;
        dual_stack(&tcp, &address)?;
        tcp.set_nonblocking(true)?;
        tcp.bind(&SockAddr::from(address))?;
        tcp.listen(BACKLOG)?;
        let address = tcp
            .local_addr()?
            .as_socket()
            .ok_or(io::ErrorKind::Unsupported)?;
        let udp = open(Transport::Udp, &address)?;
        dual_stack(&udp, &address)?;
        udp.bind(&SockAddr::from(address))?;
        // Only now: set before, it would let this bind beside another server.
        udp.set_reuse_address(true)?;
        udp.set_nonblocking(true)?;
        Ok(Self {
            tcp,
            udp,
            address,
            unknown: VecDeque::new(),
            closing: Arc::new(Waker::new()?),
            patience: patience.min(COOKIE_TIMEOUT),
        })
    }

    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Waits for somebody, and sends everybody whose cookie is known where it belongs; returns who begins a test.
    pub fn attend(&mut self, house: &House) -> io::Result<Vec<(Socket, Cookie)>> {
        let polled: Vec<_> = [self.tcp.as_fd(), self.udp.as_fd()]
            .into_iter()
            .chain(self.unknown.iter().map(|unknown| unknown.socket.as_fd()))
            .map(|fd| (fd, PollFlags::IN))
            .collect();
        let until = self
            .unknown
            .front()
            .map(|unknown| unknown.came + self.patience);
        let mut ready = Vec::new();
        wait(&polled, &mut ready, &self.closing, until)?;
        let speaks = |index: usize| ready.get(index).copied().unwrap_or(false);
        if speaks(1) {
            self.greet(house)?;
        }
        for (index, unknown) in self.unknown.iter_mut().enumerate() {
            if speaks(index + 2) && !unknown.hear() {
                // Whoever closes or goes on talking before a test has nothing to do here.
                unknown.gone = true;
            }
        }
        let begun = self.let_in(house);
        if speaks(0) {
            self.accept();
        }
        Ok(begun)
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
                self.unknown.push_back(Unknown {
                    socket,
                    from,
                    said: Vec::new(),
                    came: Instant::now(),
                    gone: false,
                });
                if self.unknown.len() > MAX_UNKNOWN {
                    self.unknown.pop_front();
                }
            }
            Err(error)
                if matches!(
                    error.raw_os_error(),
                    Some(libc::EMFILE | libc::ENFILE | libc::ENOMEM)
                ) =>
            {
                std::thread::sleep(NO_ROOM_PAUSE);
            }
            // The connection was gone again before it was taken (accept(2), "Error handling").
            Err(_) => {}
        }
    }

    fn let_in(&mut self, house: &House) -> Vec<(Socket, Cookie)> {
        let now = Instant::now();
        let (mut begun, mut waiting): (Vec<(Socket, Cookie)>, VecDeque<Unknown>) =
            Default::default();
        for unknown in self.unknown.drain(..) {
            if unknown.gone || now >= unknown.came + self.patience {
                continue;
            }
            let Some(cookie) = unknown.cookie() else {
                waiting.push_back(unknown);
                continue;
            };
            // Streams are numbered in the order in which they were opened: one that came before this and has not shown its
            // cookie yet may be of the same test.
            let since = house.gathers_since(&cookie);
            let earlier = |other: &Unknown| {
                other.from == unknown.from
                    && since.is_some_and(|since| other.came >= since)
                    && other.cookie().is_none()
            };
            if waiting.iter().any(earlier) {
                waiting.push_back(unknown);
                continue;
            }
            match house.stream(&cookie, unknown.socket) {
                Visit::Taken => {}
                Visit::Begins(socket) => begun.push((socket, cookie)),
            }
        }
        self.unknown = waiting;
        begun
    }

    /// Makes a stream of the socket that a greeting came to, and listens on a new one: whatever that peer sends comes to
    /// its own socket from here on.
    fn greet(&mut self, house: &House) -> io::Result<()> {
        let mut greetings = VecDeque::new();
        while let Some(greeting) = next_greeting(&self.udp) {
            greetings.push_back(greeting);
        }
        while let Some((from, answer)) = greetings.pop_front() {
            let Some(place) = house.udp_place(from.ip().to_canonical()) else {
                continue;
            };
            // The new one before the old one is connected: at no moment is nobody there.
            let next = open(Transport::Udp, &self.address)?;
            next.set_reuse_address(true)?;
            dual_stack(&next, &self.address)?;
            next.set_nonblocking(true)?;
            next.bind(&SockAddr::from(self.address))?;
            let stream = std::mem::replace(&mut self.udp, next);
            if stream.connect(&SockAddr::from(from)).is_err() {
                continue;
            }
            while let Some(other) = next_greeting(&stream) {
                greetings.push_back(other);
            }
            // Lost only with the stream, and then the client says so.
            let _ = stream.send(&answer);
            let _ = place.send(stream);
        }
        Ok(())
    }
}

fn dual_stack(socket: &Socket, address: &SocketAddr) -> io::Result<()> {
    if address.is_ipv6() {
        socket.set_only_v6(false)
    } else {
        Ok(())
    }
}

/// The next datagram that is a greeting, and what answers it; others are dropped.
fn next_greeting(socket: &Socket) -> Option<(SocketAddr, [u8; 4])> {
    let mut bytes = [0; 8];
    loop {
        match rustix::net::recvfrom(socket, &mut bytes[..], RecvFlags::DONTWAIT) {
            Ok((count, _, Some(from))) => {
                let from = SocketAddr::try_from(from).ok();
                if let Some((from, answer)) = from.zip(answer_to(&bytes[..count])) {
                    return Some((from, answer));
                }
            }
            Ok((_, _, None)) | Err(rustix::io::Errno::INTR | rustix::io::Errno::CONNREFUSED) => {}
            Err(_) => return None,
        }
    }
}

impl Unknown {
    /// Reads what is missing of the cookie; false where nothing can come of it.
    fn hear(&mut self) -> bool {
        let missing = COOKIE_BYTES - self.said.len();
        if missing == 0 {
            return true;
        }
        let mut bytes = [0; COOKIE_BYTES];
        match rustix::net::recv(&self.socket, &mut bytes[..missing], RecvFlags::empty()) {
            Ok((0, _)) => false,
            Ok((count, _)) => {
                self.said.extend_from_slice(&bytes[..count]);
                true
            }
            Err(error) => matches!(error, rustix::io::Errno::AGAIN | rustix::io::Errno::INTR),
        }
    }

    fn cookie(&self) -> Option<Cookie> {
        self.said.as_slice().try_into().ok()
    }
}
