//! The workload `tcp_crr`: each transaction connects, asks, is answered and closes; the source times it.
//!
//! The stream's own connection only carries the port on which its sink answers, and the end. The sink closes first: the
//! connection's last state (TIME_WAIT, RFC 9293 section 3.3.2) is then the sink's, and the source never runs out of ports.
//! A thread drives one stream, with calls that wait.

use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::net::{RecvFlags, SendFlags, Shutdown, shutdown};
use socket2::{Domain, SockAddr, Socket};

use crate::route::require_ip_address;
use crate::send::make_message;
use crate::sockets::{self, SocketOptions};
use vnetbench_streams::threads::{self, StartedThread, ThreadPlan};
use vnetbench_streams::{
    Command, Commands, EndGuard, OnEnd, Role, Stream, StreamCounters, StreamEnd,
};
use vnetbench_system::error::Error;
use vnetbench_system::ports;

/// How often a call that waits looks whether the trial is over.
const STOP_CHECK_INTERVAL: Duration = Duration::from_millis(100);
/// Connections that wait to be taken. A source has one at a time.
const BACKLOG: i32 = 16;
const RECEIVE_BYTES: usize = 64 << 10;

/// What is asked and answered on each connection, and the options of its sockets.
#[derive(Debug)]
pub struct ConnectionOptions {
    pub request_bytes: usize,
    pub response_bytes: usize,
    pub options: SocketOptions,
}

/// Starts the threads; they wait for `Order::Go`. `on_end` is called once for each stream, when it has ended.
pub(crate) fn start(
    streams: &[Arc<Stream>],
    connections: &ConnectionOptions,
    threads: &ThreadPlan,
    orders: &Arc<Commands>,
    on_end: &OnEnd,
) -> io::Result<Vec<StartedThread>> {
    let request = make_message(connections.request_bytes);
    let response = make_message(connections.response_bytes);
    threads::start_threads(streams, threads, orders, |own| {
        let stream = Arc::clone(&own[0]);
        stream.socket.set_nonblocking(false)?;
        stream.socket.set_read_timeout(Some(STOP_CHECK_INTERVAL))?;
        let guard = EndGuard::new(&stream, on_end);
        let side = ConnectionLoop {
            stream,
            request: Arc::clone(&request),
            response: Arc::clone(&response),
            options: connections.options.clone(),
            buffer: vec![0; RECEIVE_BYTES],
        };
        Ok(move |orders: &Commands| {
            let guard = guard;
            let end = match guard.stream.role {
                Role::Source => side.run_client(orders),
                Role::Sink => side.run_server(orders),
            };
            guard.stream.record_end(match end {
                Ok(LoopEnd::Drained) => StreamEnd::Drained,
                Ok(LoopEnd::Cut) => StreamEnd::Cut,
                Err(_) if orders.current() == Command::EndAll => StreamEnd::Cut,
                Err(error) => StreamEnd::Broken(error),
            });
        })
    })
}

enum LoopEnd {
    Drained,
    /// Told to end at once.
    Cut,
}

struct ConnectionLoop {
    stream: Arc<Stream>,
    request: Arc<[u8]>,
    response: Arc<[u8]>,
    options: SocketOptions,
    buffer: Vec<u8>,
}

impl ConnectionLoop {
    /// A source: transactions, one after the other.
    fn run_client(mut self, orders: &Commands) -> io::Result<LoopEnd> {
        let mut port = [0; 2];
        if let ReceiveOutcome::Cut = self.receive_port(&mut port, orders)? {
            return Ok(LoopEnd::Cut);
        }
        let mut to = require_ip_address(self.stream.socket.peer_addr())?;
        to.set_port(u16::from_be_bytes(port));
        let mut from = require_ip_address(self.stream.socket.local_addr())?;
        from.set_port(0);
        let timing = self.stream.timing.as_ref().expect("a source times");
        let connect_times = timing.connect.as_ref().expect("and its connections");
        while orders.current() == Command::Go {
            let began = Instant::now();
            timing.count_request();
            let socket = open(from, &self.options)?;
            if !connect(&socket, &SockAddr::from(to), orders)? {
                return Ok(LoopEnd::Cut);
            }
            connect_times.record(began.elapsed());
            let tally = &self.stream.counters;
            if !send_all(&socket, &self.request, tally, orders)? {
                return Ok(LoopEnd::Cut);
            }
            let wanted = self.response.len();
            match receive_all(&socket, wanted, &mut self.buffer, tally, orders)? {
                ReceiveOutcome::All => {}
                ReceiveOutcome::Cut => return Ok(LoopEnd::Cut),
                ReceiveOutcome::Closed => return Err(io::ErrorKind::UnexpectedEof.into()),
            }
            timing.latency.record(began.elapsed());
            // Not before the sink has closed: see above.
            if let ReceiveOutcome::Cut = receive_all(&socket, 1, &mut self.buffer, tally, orders)? {
                return Ok(LoopEnd::Cut);
            }
        }
        // Fails only where the sink is gone, and then waiting for it says so.
        let _ = shutdown(&self.stream.socket, Shutdown::Write);
        self.wait_for_end(orders)
    }

    fn receive_port(&self, port: &mut [u8; 2], orders: &Commands) -> io::Result<ReceiveOutcome> {
        let mut count = 0;
        while count < port.len() {
            match receive(self.stream.socket.as_fd(), &mut port[count..])? {
                Some(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Some(more) => count += more,
                None if orders.current() == Command::EndAll => return Ok(ReceiveOutcome::Cut),
                None => {}
            }
        }
        Ok(ReceiveOutcome::All)
    }

    /// Until the sink has closed its half of the stream's own connection.
    fn wait_for_end(&self, orders: &Commands) -> io::Result<LoopEnd> {
        let mut unexpected = [0; 64];
        loop {
            let received = receive(self.stream.socket.as_fd(), &mut unexpected)?;
            if orders.current() == Command::EndAll {
                return Ok(LoopEnd::Cut);
            }
            if received == Some(0) {
                return Ok(LoopEnd::Drained);
            }
        }
    }

    /// A sink: takes each connection that comes and answers on it, until the source closes the stream.
    fn run_server(mut self, orders: &Commands) -> io::Result<LoopEnd> {
        let source = require_ip_address(self.stream.socket.peer_addr())?;
        let mut here = require_ip_address(self.stream.socket.local_addr())?;
        let listener = ports::try_ports(|port| {
            here.set_port(port);
            listen(here, &self.options).map_err(|error| Error::system("listen", error))
        });
        let listener = listener.map_err(|error| io::Error::other(error.to_string()))?;
        let port = require_ip_address(listener.local_addr())?
            .port()
            .to_be_bytes();
        rustix::net::send(&self.stream.socket, &port, SendFlags::NOSIGNAL)?;
        loop {
            let mut polled = [
                PollFd::new(&listener, PollFlags::IN),
                PollFd::new(&self.stream.socket, PollFlags::IN),
            ];
            match poll(&mut polled, None) {
                Ok(_) | Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
            // Looked at here too: one who asks on and on would keep the sink from it.
            if orders.current() == Command::EndAll {
                return Ok(LoopEnd::Cut);
            }
            let [comes, ends] = polled.map(|each| !each.revents().is_empty());
            if comes {
                let Some((socket, from)) = accept(&listener)? else {
                    continue;
                };
                if from.ip() == source.ip()
                    && let ReceiveOutcome::Cut = self.serve_connection(&socket, orders)?
                {
                    return Ok(LoopEnd::Cut);
                }
            } else if ends {
                let received = receive(self.stream.socket.as_fd(), &mut self.buffer)?;
                if orders.current() == Command::EndAll {
                    return Ok(LoopEnd::Cut);
                }
                if received == Some(0) {
                    // Fails only where the source is gone, and then nobody waits for this.
                    let _ = shutdown(&self.stream.socket, Shutdown::Write);
                    return Ok(LoopEnd::Drained);
                }
            }
        }
    }

    /// Answers one connection; what goes wrong on it is the source's to tell.
    fn serve_connection(
        &mut self,
        socket: &Socket,
        orders: &Commands,
    ) -> io::Result<ReceiveOutcome> {
        let (wanted, tally) = (self.request.len(), &self.stream.counters);
        match receive_all(socket, wanted, &mut self.buffer, tally, orders) {
            Ok(ReceiveOutcome::All) => {}
            Ok(heard) => return Ok(heard),
            Err(_) => return Ok(ReceiveOutcome::Closed),
        }
        match send_all(socket, &self.response, tally, orders) {
            Ok(false) => Ok(ReceiveOutcome::Cut),
            Ok(true) | Err(_) => Ok(ReceiveOutcome::Closed),
        }
    }
}

/// A socket with the load's options whose calls come back after LOOK_EVERY; connections that a listener takes inherit
/// all that.
fn socket(at: SocketAddr, options: &SocketOptions) -> io::Result<Socket> {
    let socket = sockets::open_socket(Domain::for_address(at), options)
        .map_err(|error| io::Error::other(error.to_string()))?;
    socket.set_read_timeout(Some(STOP_CHECK_INTERVAL))?;
    socket.set_write_timeout(Some(STOP_CHECK_INTERVAL))?;
    Ok(socket)
}

/// One that connects from this address, and gets its port when it does, so that only full addresses have to differ.
fn open(at: SocketAddr, options: &SocketOptions) -> io::Result<Socket> {
    let socket = socket(at, options)?;
    sockets::defer_port_choice(&socket)?;
    socket.bind(&SockAddr::from(at))?;
    Ok(socket)
}

/// Connections of an earlier trial may still be in TIME_WAIT on a port that is used again.
fn listen(at: SocketAddr, options: &SocketOptions) -> io::Result<Socket> {
    let listener = socket(at, options)?;
    listener.set_reuse_address(true)?;
    listener.bind(&SockAddr::from(at))?;
    listener.listen(BACKLOG)?;
    Ok(listener)
}

/// False where the order to end came first.
fn connect(socket: &Socket, to: &SockAddr, orders: &Commands) -> io::Result<bool> {
    loop {
        let Err(error) = socket.connect(to) else {
            return Ok(true);
        };
        match error.raw_os_error() {
            // Not connected yet when the time to look came; the next call waits on.
            Some(libc::EINPROGRESS | libc::EALREADY | libc::EINTR) => {}
            Some(libc::EISCONN) => return Ok(true),
            _ => return Err(error),
        }
        if orders.current() == Command::EndAll {
            return Ok(false);
        }
    }
}

/// `None` where the connection was gone again before it was taken (accept(2), "Error handling").
fn accept(listener: &Socket) -> io::Result<Option<(Socket, SocketAddr)>> {
    match listener.accept() {
        Ok((socket, from)) => Ok(Some((socket, require_ip_address(Ok(from))?))),
        Err(error) if sockets::is_connection_lost(&error) => Ok(None),
        Err(error) => Err(error),
    }
}

/// `None` where the time to look came first.
fn receive(socket: BorrowedFd<'_>, buffer: &mut [u8]) -> io::Result<Option<usize>> {
    match rustix::net::recv(socket, buffer, RecvFlags::empty()) {
        Ok((count, _)) => Ok(Some(count)),
        Err(rustix::io::Errno::AGAIN | rustix::io::Errno::INTR) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

enum ReceiveOutcome {
    All,
    /// The other side closed before that.
    Closed,
    /// The order to end came before.
    Cut,
}

fn receive_all(
    socket: &Socket,
    wanted: usize,
    buffer: &mut [u8],
    tally: &StreamCounters,
    orders: &Commands,
) -> io::Result<ReceiveOutcome> {
    let mut count = 0;
    while count < wanted {
        let most = buffer.len().min(wanted - count);
        match receive(socket.as_fd(), &mut buffer[..most])? {
            Some(0) => return Ok(ReceiveOutcome::Closed),
            Some(more) => {
                tally.received.add(more);
                count += more;
            }
            None if orders.current() == Command::EndAll => return Ok(ReceiveOutcome::Cut),
            None => {}
        }
    }
    Ok(ReceiveOutcome::All)
}

/// False where the order to end came first.
fn send_all(
    socket: &Socket,
    bytes: &[u8],
    tally: &StreamCounters,
    orders: &Commands,
) -> io::Result<bool> {
    let mut sent = 0;
    while sent < bytes.len() {
        match rustix::net::send(socket, &bytes[sent..], SendFlags::NOSIGNAL) {
            Ok(count) => {
                tally.sent.add(count);
                sent += count;
            }
            Err(rustix::io::Errno::AGAIN | rustix::io::Errno::INTR) => {
                if orders.current() == Command::EndAll {
                    return Ok(false);
                }
            }
            Err(error) => return Err(error.into()),
        }
    }
    Ok(true)
}
