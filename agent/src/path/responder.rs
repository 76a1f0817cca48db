//! The responder: answers each probe with a message of the same length and with a small one.

use std::collections::HashMap;
use std::io;
use std::net::{IpAddr, TcpListener};
use std::os::fd::AsFd;
use std::sync::{Arc, Mutex, PoisonError};

use rustix::event::PollFlags;
use rustix::net::{RecvFlags, SendFlags, recvfrom, sendto};
use serde::Deserialize;
use serde_json::{Value, json};
use socket2::Socket;

use super::connection;
use super::protocol::ProbeProtocol;
use super::socket::{MAX_PACKET_BYTES, open_unfragmented_udp_socket};
use super::wire::{
    self, FULL_SIZE_ANSWER_MAGIC, PROBE_MAGIC, SMALL_ANSWER_BYTES, SMALL_ANSWER_MAGIC,
};
use vnetbench_system::error::{RequestError, Result};
use vnetbench_system::ports;
use vnetbench_system::waiting::{WaitOutcome, Waker, wait};

/// The maximum number of responders at one time.
const MAX_RESPONDERS: usize = 256;

/// The request `path.listen`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PathListenRequest {
    address: IpAddr,
    #[serde(default)]
    protocol: ProbeProtocol,
}

/// The socket of a responder.
enum ResponderSocket {
    Udp(Socket),
    Tcp(TcpListener),
}

impl ResponderSocket {
    fn open(request: &PathListenRequest, port: u16) -> Result<Self> {
        match request.protocol {
            ProbeProtocol::Udp => {
                open_unfragmented_udp_socket(request.address, port).map(Self::Udp)
            }
            ProbeProtocol::Tcp => connection::listen(request.address, port).map(Self::Tcp),
        }
    }

    fn port(&self) -> io::Result<u16> {
        match self {
            Self::Udp(socket) => Ok(socket
                .local_addr()?
                .as_socket()
                .ok_or(io::ErrorKind::Other)?
                .port()),
            Self::Tcp(listener) => Ok(listener.local_addr()?.port()),
        }
    }

    fn answer_until_woken(&self, waker: &Waker) {
        match self {
            Self::Udp(socket) => answer_until_woken(socket, waker),
            Self::Tcp(listener) => connection::answer_until_woken(listener, waker),
        }
    }
}

/// The request `path.close`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PathCloseRequest {
    path: String,
}

#[derive(Default)]
struct OpenResponders {
    created_count: u64,
    wakers: HashMap<String, Arc<Waker>>,
}

/// The responders that currently run.
#[derive(Default)]
pub struct PathResponders(Mutex<OpenResponders>);

impl PathResponders {
    /// Starts a responder, and returns its name and port.
    pub fn listen(&self, request: PathListenRequest) -> Result<Value> {
        let mut open = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if open.wakers.len() >= MAX_RESPONDERS {
            return Err(RequestError::BadParameter(format!(
                "{MAX_RESPONDERS} paths are already open, which is the maximum. Close one of them first"
            )));
        }
        let socket = ports::open_on_allowed_port(|port| ResponderSocket::open(&request, port))?;
        let start = || {
            let port = socket.port()?;
            let waker = Arc::new(Waker::new()?);
            let thread_waker = Arc::clone(&waker);
            std::thread::Builder::new()
                .name("path".into())
                .spawn(move || socket.answer_until_woken(&thread_waker))?;
            Ok((port, waker))
        };
        let (port, waker) =
            start().map_err(|e: io::Error| RequestError::system("answer probes", e))?;
        open.created_count += 1;
        let name = format!("p{}", open.created_count);
        open.wakers.insert(name.clone(), waker);
        Ok(json!({"path": name, "port": port}))
    }

    /// Ends a responder.
    pub fn close(&self, request: PathCloseRequest) -> Result<Value> {
        let mut open = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match open.wakers.remove(&request.path) {
            Some(waker) => {
                waker.wake();
                Ok(json!({"path": request.path}))
            }
            None => Err(RequestError::BadParameter(format!(
                "unknown path \"{}\"",
                request.path
            ))),
        }
    }
}

fn answer_until_woken(socket: &Socket, waker: &Waker) {
    let mut buffer = vec![0; MAX_PACKET_BYTES];
    let mut ready = Vec::new();
    while let Ok(WaitOutcome::Ready) =
        wait(&[(socket.as_fd(), PollFlags::IN)], &mut ready, waker, None)
    {
        // Ignores errors: the socket may report the failure of an earlier answer, and the next probe may succeed.
        let _ = answer_next_probe(socket, &mut buffer);
    }
}

fn answer_next_probe(socket: &Socket, buffer: &mut [u8]) -> rustix::io::Result<()> {
    let (length, _, from) = recvfrom(socket, &mut *buffer, RecvFlags::empty())?;
    let (Some((PROBE_MAGIC, token)), Some(from)) = (wire::read_header(&buffer[..length]), from)
    else {
        return Ok(());
    };
    let token = *token;
    wire::write_header(buffer, FULL_SIZE_ANSWER_MAGIC, &token);
    let errno = match sendto(socket, &buffer[..length], SendFlags::empty(), &from) {
        Ok(_) => 0,
        Err(error) => error.raw_os_error(),
    };
    let mut small = [0; SMALL_ANSWER_BYTES];
    wire::write_header(&mut small, SMALL_ANSWER_MAGIC, &token);
    small[wire::HEADER_BYTES..].copy_from_slice(&errno.to_be_bytes());
    sendto(socket, &small, SendFlags::empty(), &from)?;
    Ok(())
}
