//! The control connection of one test: sends and receives bytes with time limits.

use std::io;
use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::event::PollFlags;
use rustix::net::{RecvFlags, SendFlags};
use socket2::Socket;

use crate::states::{State, TestError};
use vnetbench_system::waiting::{WaitOutcome, Waker, wait};

/// Time limit for one step of the protocol.
pub const PROTOCOL_STEP_TIMEOUT: Duration = Duration::from_secs(10);
/// Time that a refused peer has to read the last message and close.
const REFUSED_PEER_CLOSE_TIMEOUT: Duration = Duration::from_secs(1);
const READ_CHUNK_BYTES: usize = 16 << 10;

/// One end of a control connection.
pub struct ControlConnection {
    socket: Socket,
    /// Address of the peer.
    pub peer: SocketAddr,
    /// Wakes all waits when the user interrupts the process.
    interrupt: Arc<Waker>,
}

impl ControlConnection {
    /// Wraps a connected socket and makes it non-blocking.
    pub fn new(socket: Socket, interrupt: Arc<Waker>) -> io::Result<Self> {
        socket.set_nonblocking(true)?;
        socket.set_tcp_nodelay(true)?;
        let peer = socket
            .peer_addr()?
            .as_socket()
            .ok_or(io::ErrorKind::Unsupported)?;
        Ok(Self {
            socket,
            peer,
            interrupt,
        })
    }

    /// Returns the connection's maximum segment size; 0 if unknown.
    pub fn read_mss_bytes(&self) -> u32 {
        self.socket.tcp_mss().unwrap_or(0)
    }

    /// Sends a state byte.
    pub fn send_state(&self, state: State) -> Result<(), TestError> {
        self.send(&[state.byte()])
    }

    /// Sends all bytes within `PROTOCOL_STEP_TIMEOUT`.
    pub fn send(&self, mut bytes: &[u8]) -> Result<(), TestError> {
        let deadline = Instant::now() + PROTOCOL_STEP_TIMEOUT;
        let mut ready = Vec::new();
        while !bytes.is_empty() {
            match rustix::net::send(&self.socket, bytes, SendFlags::NOSIGNAL) {
                Ok(count) => bytes = &bytes[count..],
                Err(rustix::io::Errno::AGAIN) => {
                    let writing = [(self.socket.as_fd(), PollFlags::OUT)];
                    match wait(&writing, &mut ready, &self.interrupt, Some(deadline)) {
                        Ok(WaitOutcome::TimedOut) => {
                            return Err(self.timeout_error("did not read the message in time"));
                        }
                        Ok(WaitOutcome::Woken) => return Err(TestError::Interrupted),
                        Ok(WaitOutcome::Ready) => {}
                        Err(error) => return Err(self.connection_error(&error)),
                    }
                }
                Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(self.connection_error(&error.into())),
            }
        }
        Ok(())
    }

    /// Waits until the peer sends bytes, the waker fires (if there is one), or the deadline passes.
    pub fn wait(&self, waker: Option<&Waker>, deadline: Instant) -> Result<WaitOutcome, TestError> {
        let mut ready = Vec::new();
        let polled = [
            (self.socket.as_fd(), PollFlags::IN),
            (self.interrupt.as_fd(), PollFlags::IN),
        ];
        let outcome = wait(
            &polled,
            &mut ready,
            waker.unwrap_or(&self.interrupt),
            Some(deadline),
        )
        .map_err(|error| self.connection_error(&error))?;
        match outcome {
            WaitOutcome::Woken if waker.is_none() => Err(TestError::Interrupted),
            WaitOutcome::Ready if ready[1] => Err(TestError::Interrupted),
            _ => Ok(outcome),
        }
    }

    /// Returns the bytes received; empty if there are none yet.
    pub fn read(&self) -> Result<Vec<u8>, TestError> {
        let mut chunk = [0; READ_CHUNK_BYTES];
        match rustix::net::recv(&self.socket, &mut chunk[..], RecvFlags::empty()) {
            Ok((0, _)) => Err(TestError::ConnectionLost(format!(
                "{} closed the control connection unexpectedly",
                self.peer
            ))),
            Ok((count, _)) => Ok(chunk[..count].to_vec()),
            Err(rustix::io::Errno::AGAIN | rustix::io::Errno::INTR) => Ok(Vec::new()),
            Err(error) => Err(self.connection_error(&error.into())),
        }
    }

    /// Reads until `decode` returns a message, for at most `timeout` and `PROTOCOL_STEP_TIMEOUT`.
    ///
    /// `action` completes the error message "… did not … in time".
    pub fn await_message<T>(
        &self,
        timeout: Duration,
        action: &str,
        mut decode: impl FnMut(&[u8]) -> Result<Option<T>, TestError>,
    ) -> Result<T, TestError> {
        let deadline = Instant::now() + timeout.min(PROTOCOL_STEP_TIMEOUT);
        loop {
            // Decode buffered bytes first: one read can contain two messages.
            if let Some(message) = decode(&[])? {
                return Ok(message);
            }
            let bytes = self.read()?;
            if let Some(message) = decode(&bytes)? {
                return Ok(message);
            }
            if bytes.is_empty() && self.wait(None, deadline)? == WaitOutcome::TimedOut {
                return Err(self.timeout_error(&format!("did not {action} in time")));
            }
            if Instant::now() >= deadline {
                return Err(self.timeout_error(&format!("did not {action} in time")));
            }
        }
    }

    /// Shuts the connection down, which ends every wait for the peer.
    pub fn shut_down(&self) {
        // Fails only on a closed connection.
        let _ = self.socket.shutdown(std::net::Shutdown::Both);
    }

    /// Closes the connection after the peer has read all data.
    ///
    /// Closing a socket with unread bytes makes the kernel reset the connection and discard the data sent before.
    pub fn close_after_peer_reads(&self) {
        let deadline = Instant::now() + REFUSED_PEER_CLOSE_TIMEOUT;
        // Not interruptible: the wait is short and the last step of a test.
        let Ok(waker) = Waker::new() else {
            return;
        };
        if self.socket.shutdown(std::net::Shutdown::Write).is_err() {
            return;
        }
        let reading = [(self.socket.as_fd(), PollFlags::IN)];
        let mut ready = Vec::new();
        while let Ok(bytes) = self.read() {
            if bytes.is_empty()
                && !matches!(
                    wait(&reading, &mut ready, &waker, Some(deadline)),
                    Ok(WaitOutcome::Ready)
                )
            {
                return;
            }
            if Instant::now() >= deadline {
                return;
            }
        }
    }

    fn timeout_error(&self, action: &str) -> TestError {
        TestError::failed(format!("{} {action}", self.peer))
    }

    fn connection_error(&self, error: &io::Error) -> TestError {
        TestError::ConnectionLost(format!(
            "the control connection with {} failed: {error}",
            self.peer
        ))
    }
}
