//! The control connection of one test: bytes out within a time, bytes in as they come.

use std::io;
use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::event::PollFlags;
use rustix::net::{RecvFlags, SendFlags};
use socket2::Socket;

use crate::states::{Failure, State};
use vnetbench_system::waiting::{Waker, WaitOutcome, wait};

/// How long a peer may take for one step of the protocol.
pub const STEP_TIMEOUT: Duration = Duration::from_secs(10);
/// How long a peer that was refused may take to leave.
const PARTING: Duration = Duration::from_secs(1);
const CHUNK_BYTES: usize = 16 << 10;

pub struct Control {
    socket: Socket,
    pub peer: SocketAddr,
    /// Rung when everything is to end by hand.
    by_hand: Arc<Waker>,
}

impl Control {
    pub fn new(socket: Socket, by_hand: Arc<Waker>) -> io::Result<Self> {
        socket.set_nonblocking(true)?;
        socket.set_tcp_nodelay(true)?;
        let peer = socket
            .peer_addr()?
            .as_socket()
            .ok_or(io::ErrorKind::Unsupported)?;
        Ok(Self {
            socket,
            peer,
            by_hand,
        })
    }

    pub fn mss(&self) -> u32 {
        self.socket.tcp_mss().unwrap_or(0)
    }

    pub fn say(&self, state: State) -> Result<(), Failure> {
        self.send(&[state.byte()])
    }

    pub fn send(&self, mut bytes: &[u8]) -> Result<(), Failure> {
        let until = Instant::now() + STEP_TIMEOUT;
        let mut ready = Vec::new();
        while !bytes.is_empty() {
            match rustix::net::send(&self.socket, bytes, SendFlags::NOSIGNAL) {
                Ok(count) => bytes = &bytes[count..],
                Err(rustix::io::Errno::AGAIN) => {
                    let writing = [(self.socket.as_fd(), PollFlags::OUT)];
                    match wait(&writing, &mut ready, &self.by_hand, Some(until)) {
                        Ok(WaitOutcome::TimedOut) => {
                            return Err(self.stalled("did not take what was sent"));
                        }
                        Ok(WaitOutcome::Rung) => return Err(Failure::ByHand),
                        Ok(WaitOutcome::Ready) => {}
                        Err(error) => return Err(self.lost(&error)),
                    }
                }
                Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(self.lost(&error.into())),
            }
        }
        Ok(())
    }

    /// Waits for the peer to speak, for the bell (`None`: for no bell), or until the moment.
    pub fn wait(&self, bell: Option<&Waker>, until: Instant) -> Result<WaitOutcome, Failure> {
        let mut ready = Vec::new();
        let polled = [
            (self.socket.as_fd(), PollFlags::IN),
            (self.by_hand.as_fd(), PollFlags::IN),
        ];
        let waited = wait(
            &polled,
            &mut ready,
            bell.unwrap_or(&self.by_hand),
            Some(until),
        )
        .map_err(|error| self.lost(&error))?;
        match waited {
            WaitOutcome::Rung if bell.is_none() => Err(Failure::ByHand),
            WaitOutcome::Ready if ready[1] => Err(Failure::ByHand),
            _ => Ok(waited),
        }
    }

    /// What has come; empty where nothing has.
    pub fn read(&self) -> Result<Vec<u8>, Failure> {
        let mut chunk = [0; CHUNK_BYTES];
        match rustix::net::recv(&self.socket, &mut chunk[..], RecvFlags::empty()) {
            Ok((0, _)) => Err(Failure::Lost(format!(
                "{} has closed the control connection unexpectedly",
                self.peer
            ))),
            Ok((count, _)) => Ok(chunk[..count].to_vec()),
            Err(rustix::io::Errno::AGAIN | rustix::io::Errno::INTR) => Ok(Vec::new()),
            Err(error) => Err(self.lost(&error.into())),
        }
    }

    /// Reads until `hear` has made something of it, for `STEP_TIMEOUT` at most and `patience` if that is less.
    /// `what` completes the sentence "did not … in time".
    pub fn await_message<T>(
        &self,
        patience: Duration,
        what: &str,
        mut hear: impl FnMut(&[u8]) -> Result<Option<T>, Failure>,
    ) -> Result<T, Failure> {
        let until = Instant::now() + patience.min(STEP_TIMEOUT);
        loop {
            // First what was heard before: one read can bring two messages.
            if let Some(heard) = hear(&[])? {
                return Ok(heard);
            }
            let bytes = self.read()?;
            if let Some(heard) = hear(&bytes)? {
                return Ok(heard);
            }
            if bytes.is_empty() && self.wait(None, until)? == WaitOutcome::TimedOut {
                return Err(self.stalled(&format!("did not {what} in time")));
            }
            if Instant::now() >= until {
                return Err(self.stalled(&format!("did not {what} in time")));
            }
        }
    }

    /// Ends every wait for the peer.
    pub fn close(&self) {
        // Fails only on a connection that is gone.
        let _ = self.socket.shutdown(std::net::Shutdown::Both);
    }

    /// Lets the peer read all that was said before the connection is closed: what it sent itself and nobody has read
    /// would otherwise have the system throw that away.
    pub fn part(&self) {
        let until = Instant::now() + PARTING;
        // Nothing else ends this: it is short, and comes last.
        let Ok(quiet) = Waker::new() else {
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
                    wait(&reading, &mut ready, &quiet, Some(until)),
                    Ok(WaitOutcome::Ready)
                )
            {
                return;
            }
            if Instant::now() >= until {
                return;
            }
        }
    }

    fn stalled(&self, what: &str) -> Failure {
        Failure::broken(format!("{} {what}", self.peer))
    }

    fn lost(&self, error: &io::Error) -> Failure {
        Failure::Lost(format!(
            "the control connection with {} broke: {error}",
            self.peer
        ))
    }
}
