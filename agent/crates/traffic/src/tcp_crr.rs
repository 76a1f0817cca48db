//! The workload `tcp_crr`: each transaction connects, sends a request, receives the response and closes.
//!
//! The source times the transactions. The stream's own connection carries only the port of the sink's listener, and the
//! end. The sink closes each transaction first, so that TIME_WAIT (RFC 9293 section 3.3.2) is at the sink, and the
//! source does not run out of ports. Each thread drives one stream with blocking calls.

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
use vnetbench_system::error::RequestError;
use vnetbench_system::ports;

/// Time limit of blocking calls, after which the thread checks its command.
const STOP_CHECK_INTERVAL: Duration = Duration::from_millis(100);
/// Length of the accept queue. A source has one connection at a time.
const LISTEN_BACKLOG: i32 = 16;
/// Maximum bytes that one call receives.
const MAX_RECEIVE_BYTES: usize = 64 << 10;

/// The options of transactions and their sockets.
#[derive(Debug)]
pub struct TransactionOptions {
    /// Size of a request.
    pub request_bytes: usize,
    /// Size of a response.
    pub response_bytes: usize,
    /// Options of each connection's socket.
    pub socket_options: SocketOptions,
}

/// Starts the threads, which wait for `Command::Go`. Each stream calls `on_end` once, at its end.
///
/// # Errors
///
/// The system refuses a thread, its CPUs or a socket option.
pub(crate) fn start(
    streams: &[Arc<Stream>],
    options: &TransactionOptions,
    threads: &ThreadPlan,
    commands: &Arc<Commands>,
    on_end: &OnEnd,
) -> io::Result<Vec<StartedThread>> {
    let request = make_message(options.request_bytes);
    let response = make_message(options.response_bytes);
    threads::start_threads(streams, threads, commands, |thread_streams| {
        let stream = Arc::clone(&thread_streams[0]);
        stream.socket.set_nonblocking(false)?;
        stream.socket.set_read_timeout(Some(STOP_CHECK_INTERVAL))?;
        let guard = EndGuard::new(&stream, on_end);
        let connection_loop = TransactionLoop {
            stream,
            request: Arc::clone(&request),
            response: Arc::clone(&response),
            socket_options: options.socket_options.clone(),
            buffer: vec![0; MAX_RECEIVE_BYTES],
        };
        Ok(move |commands: &Commands| {
            let guard = guard;
            let end = match guard.stream.role {
                Role::Source => connection_loop.run_source(commands),
                Role::Sink => connection_loop.run_sink(commands),
            };
            guard.stream.record_end(match end {
                Ok(LoopEnd::Drained) => StreamEnd::Drained,
                Ok(LoopEnd::Cut) => StreamEnd::Cut,
                Err(_) if commands.current() == Command::EndAll => StreamEnd::Cut,
                Err(error) => StreamEnd::Broken(error),
            });
        })
    })
}

/// How a connection loop ended.
enum LoopEnd {
    /// After all data was received.
    Drained,
    /// At `Command::EndAll`.
    Cut,
}

/// Runs the transactions of one stream.
struct TransactionLoop {
    stream: Arc<Stream>,
    request: Arc<[u8]>,
    response: Arc<[u8]>,
    socket_options: SocketOptions,
    buffer: Vec<u8>,
}

impl TransactionLoop {
    /// Runs a source: makes transactions, one after the other.
    fn run_source(mut self, commands: &Commands) -> io::Result<LoopEnd> {
        let mut port = [0; 2];
        if let ReceiveOutcome::Cut = self.receive_port(&mut port, commands)? {
            return Ok(LoopEnd::Cut);
        }
        let mut destination = require_ip_address(self.stream.socket.peer_addr())?;
        destination.set_port(u16::from_be_bytes(port));
        let mut local = require_ip_address(self.stream.socket.local_addr())?;
        local.set_port(0);
        let timing = self
            .stream
            .timing
            .as_ref()
            .expect("every source stream has a timing");
        let connect_times = timing
            .connect
            .as_ref()
            .expect("every source stream of tcp_crr has a connection timing");
        while commands.current() == Command::Go {
            let started_at = Instant::now();
            timing.count_sent_request();
            let socket = open_bound_socket(local, &self.socket_options)?;
            if !connect_unless_ended(&socket, &SockAddr::from(destination), commands)? {
                return Ok(LoopEnd::Cut);
            }
            connect_times.record(started_at.elapsed());
            let counters = &self.stream.counters;
            if !send_all_unless_ended(&socket, &self.request, counters, commands)? {
                return Ok(LoopEnd::Cut);
            }
            let length = self.response.len();
            match receive_all(&socket, length, &mut self.buffer, counters, commands)? {
                ReceiveOutcome::All => {}
                ReceiveOutcome::Cut => return Ok(LoopEnd::Cut),
                ReceiveOutcome::Closed => return Err(io::ErrorKind::UnexpectedEof.into()),
            }
            timing.latency.record(started_at.elapsed());
            // Waits until the sink closes first: see the module documentation.
            if let ReceiveOutcome::Cut =
                receive_all(&socket, 1, &mut self.buffer, counters, commands)?
            {
                return Ok(LoopEnd::Cut);
            }
        }
        // Fails only if the sink is gone, which the wait below reports.
        let _ = shutdown(&self.stream.socket, Shutdown::Write);
        self.wait_for_sink_close(commands)
    }

    /// Receives the port of the sink's listener.
    fn receive_port(&self, port: &mut [u8; 2], commands: &Commands) -> io::Result<ReceiveOutcome> {
        let mut count = 0;
        while count < port.len() {
            match receive_until_time_limit(self.stream.socket.as_fd(), &mut port[count..])? {
                Some(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Some(more) => count += more,
                None if commands.current() == Command::EndAll => return Ok(ReceiveOutcome::Cut),
                None => {}
            }
        }
        Ok(ReceiveOutcome::All)
    }

    /// Waits until the sink closes its half of the stream's own connection.
    fn wait_for_sink_close(&self, commands: &Commands) -> io::Result<LoopEnd> {
        let mut unexpected = [0; 64];
        loop {
            let received = receive_until_time_limit(self.stream.socket.as_fd(), &mut unexpected)?;
            if commands.current() == Command::EndAll {
                return Ok(LoopEnd::Cut);
            }
            if received == Some(0) {
                return Ok(LoopEnd::Drained);
            }
        }
    }

    /// Runs a sink: serves each connection until the source closes the stream.
    fn run_sink(mut self, commands: &Commands) -> io::Result<LoopEnd> {
        let source = require_ip_address(self.stream.socket.peer_addr())?;
        let mut local = require_ip_address(self.stream.socket.local_addr())?;
        let listener = ports::open_on_allowed_port(|port| {
            local.set_port(port);
            listen(local, &self.socket_options)
                .map_err(|error| RequestError::system("listen", error))
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
            // Checked here too, because continuous requests would keep the sink from the check below.
            if commands.current() == Command::EndAll {
                return Ok(LoopEnd::Cut);
            }
            let [has_connection, has_stream_data] = polled.map(|each| !each.revents().is_empty());
            if has_connection {
                let Some((socket, peer)) = accept_unless_lost(&listener)? else {
                    continue;
                };
                if peer.ip() == source.ip()
                    && let ReceiveOutcome::Cut = self.serve_connection(&socket, commands)?
                {
                    return Ok(LoopEnd::Cut);
                }
            } else if has_stream_data {
                let received =
                    receive_until_time_limit(self.stream.socket.as_fd(), &mut self.buffer)?;
                if commands.current() == Command::EndAll {
                    return Ok(LoopEnd::Cut);
                }
                if received == Some(0) {
                    // Fails only if the source is gone, which then does not wait for it.
                    let _ = shutdown(&self.stream.socket, Shutdown::Write);
                    return Ok(LoopEnd::Drained);
                }
            }
        }
    }

    /// Serves one connection; the source reports its errors.
    fn serve_connection(
        &mut self,
        socket: &Socket,
        commands: &Commands,
    ) -> io::Result<ReceiveOutcome> {
        let (length, counters) = (self.request.len(), &self.stream.counters);
        match receive_all(socket, length, &mut self.buffer, counters, commands) {
            Ok(ReceiveOutcome::All) => {}
            Ok(outcome) => return Ok(outcome),
            Err(_) => return Ok(ReceiveOutcome::Closed),
        }
        match send_all_unless_ended(socket, &self.response, counters, commands) {
            Ok(false) => Ok(ReceiveOutcome::Cut),
            Ok(true) | Err(_) => Ok(ReceiveOutcome::Closed),
        }
    }
}

/// Opens a socket with the load's options, whose calls return after `STOP_CHECK_INTERVAL`.
///
/// Accepted connections inherit the options and time limits.
fn open_with_timeouts(local: SocketAddr, options: &SocketOptions) -> io::Result<Socket> {
    let socket = sockets::open_socket(Domain::for_address(local), options)
        .map_err(|error| io::Error::other(error.to_string()))?;
    socket.set_read_timeout(Some(STOP_CHECK_INTERVAL))?;
    socket.set_write_timeout(Some(STOP_CHECK_INTERVAL))?;
    Ok(socket)
}

/// Opens a socket that connects from this address.
///
/// It gets its port when it connects, so that only the full pair of addresses has to be unique.
fn open_bound_socket(local: SocketAddr, options: &SocketOptions) -> io::Result<Socket> {
    let socket = open_with_timeouts(local, options)?;
    sockets::defer_port_choice(&socket)?;
    socket.bind(&SockAddr::from(local))?;
    Ok(socket)
}

/// Listens on an address, even if connections of an earlier trial are in TIME_WAIT on its port.
fn listen(local: SocketAddr, options: &SocketOptions) -> io::Result<Socket> {
    let listener = open_with_timeouts(local, options)?;
    listener.set_reuse_address(true)?;
    listener.bind(&SockAddr::from(local))?;
    listener.listen(LISTEN_BACKLOG)?;
    Ok(listener)
}

/// Connects a socket; returns false if `Command::EndAll` comes first.
fn connect_unless_ended(
    socket: &Socket,
    destination: &SockAddr,
    commands: &Commands,
) -> io::Result<bool> {
    loop {
        let Err(error) = socket.connect(destination) else {
            return Ok(true);
        };
        match error.raw_os_error() {
            // Not connected within the time limit; the next call continues to wait.
            Some(libc::EINPROGRESS | libc::EALREADY | libc::EINTR) => {}
            Some(libc::EISCONN) => return Ok(true),
            _ => return Err(error),
        }
        if commands.current() == Command::EndAll {
            return Ok(false);
        }
    }
}

/// Accepts a connection and its peer address; returns `None` if the connection is already gone.
fn accept_unless_lost(listener: &Socket) -> io::Result<Option<(Socket, SocketAddr)>> {
    match listener.accept() {
        Ok((socket, peer)) => Ok(Some((socket, require_ip_address(Ok(peer))?))),
        Err(error) if sockets::is_accept_of_gone_connection(&error) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Receives bytes; returns `None` at the time limit.
fn receive_until_time_limit(
    socket: BorrowedFd<'_>,
    buffer: &mut [u8],
) -> io::Result<Option<usize>> {
    match rustix::net::recv(socket, buffer, RecvFlags::empty()) {
        Ok((count, _)) => Ok(Some(count)),
        Err(rustix::io::Errno::AGAIN | rustix::io::Errno::INTR) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// The outcome of receiving a message.
enum ReceiveOutcome {
    /// The whole message arrived.
    All,
    /// The other endpoint closed the connection first.
    Closed,
    /// `Command::EndAll` came first.
    Cut,
}

/// Receives a message of `length` bytes.
fn receive_all(
    socket: &Socket,
    length: usize,
    buffer: &mut [u8],
    counters: &StreamCounters,
    commands: &Commands,
) -> io::Result<ReceiveOutcome> {
    let mut count = 0;
    while count < length {
        let limit = buffer.len().min(length - count);
        match receive_until_time_limit(socket.as_fd(), &mut buffer[..limit])? {
            Some(0) => return Ok(ReceiveOutcome::Closed),
            Some(more) => {
                counters.received.add(more);
                count += more;
            }
            None if commands.current() == Command::EndAll => return Ok(ReceiveOutcome::Cut),
            None => {}
        }
    }
    Ok(ReceiveOutcome::All)
}

/// Sends a whole message; returns false if `Command::EndAll` comes first.
fn send_all_unless_ended(
    socket: &Socket,
    bytes: &[u8],
    counters: &StreamCounters,
    commands: &Commands,
) -> io::Result<bool> {
    let mut sent = 0;
    while sent < bytes.len() {
        match rustix::net::send(socket, &bytes[sent..], SendFlags::NOSIGNAL) {
            Ok(count) => {
                counters.sent.add(count);
                sent += count;
            }
            Err(rustix::io::Errno::AGAIN | rustix::io::Errno::INTR) => {
                if commands.current() == Command::EndAll {
                    return Ok(false);
                }
            }
            Err(error) => return Err(error.into()),
        }
    }
    Ok(true)
}
