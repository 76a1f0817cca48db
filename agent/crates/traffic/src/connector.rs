//! The connecting side of streams: begun all at once, each opened as soon as it can be, or one after the other.

use std::io;
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use rustix::event::PollFlags;
use socket2::Socket;

use crate::handshake::{self, HandshakeReader, ReadState};
use crate::load::Load;
use crate::route::{Route, format_address};
use crate::sockets::{SocketOptions, abort_on_close, open};
use vnetbench_streams::Secret;
use vnetbench_system::error::{Error, Result};
use vnetbench_system::waiting::{WaitOutcome, Waker, wait};

/// Connects all streams at once, and returns them in the order of the load; `None` when the bell was rung before.
pub fn connect_all(
    route: &Route,
    load: &Load,
    waker: &Waker,
    timeout: Duration,
) -> Result<Option<Vec<Socket>>> {
    let to_name = format_address(&route.to);
    let until = Instant::now() + timeout;
    let mut begun = Vec::with_capacity(load.roles.len());
    for _ in &load.roles {
        begun.push(begin(route, &load.options)?);
    }
    complete_handshakes(&begun, &to_name, load, waker, until, timeout)
        .map(|whole| whole.then_some(begun))
}

/// Has each connection say whose it is as soon as it can, and waits until each is answered: the far side does not wait for
/// one that another one here keeps silent. False when the bell was rung before.
fn complete_handshakes(
    begun: &[Socket],
    to: &str,
    load: &Load,
    waker: &Waker,
    until: Instant,
    timeout: Duration,
) -> Result<bool> {
    let failed = |error: io::Error| Error::system(format!("connect to {to}"), error);
    // By place: those to be opened yet, and what has been heard on those that are.
    let mut waiting: Vec<(usize, Option<HandshakeReader>)> =
        (0..begun.len()).map(|at| (at, None)).collect();
    let mut ready = Vec::new();
    while !waiting.is_empty() {
        let polled: Vec<_> = waiting
            .iter()
            .map(|(at, hearing)| {
                let awaited = if hearing.is_some() {
                    PollFlags::IN
                } else {
                    PollFlags::OUT
                };
                (begun[*at].as_fd(), awaited)
            })
            .collect();
        match wait(&polled, &mut ready, waker, Some(until)).map_err(failed)? {
            WaitOutcome::Woken => return Ok(false),
            WaitOutcome::TimedOut => {
                let connected = waiting.iter().all(|(_, hearing)| hearing.is_some());
                let what = if connected {
                    "the agent's answer from"
                } else {
                    "connecting to"
                };
                return Err(timeout_error(what, to, timeout));
            }
            WaitOutcome::Ready => {}
        }
        let mut still_waiting = Vec::with_capacity(waiting.len());
        for ((at, hearing), is_ready) in waiting.into_iter().zip(&ready) {
            if !is_ready {
                still_waiting.push((at, hearing));
                continue;
            }
            let (socket, id) = (&begun[at], load.roles[at].0);
            if let Some(hearing) = advance_handshake(socket, id, &load.secret, hearing, to)? {
                still_waiting.push((at, Some(hearing)));
            }
        }
        waiting = still_waiting;
    }
    Ok(true)
}

/// Asks on a connection that is ready, or hears the answer; returns what has been heard where there is more to come.
fn advance_handshake(
    socket: &Socket,
    id: u32,
    secret: &Secret,
    hearing: Option<HandshakeReader>,
    to: &str,
) -> Result<Option<HandshakeReader>> {
    let Some(mut hearing) = hearing else {
        handshake::send_request(socket, id, secret)
            .map_err(|error| Error::system(format!("connect to {to}"), error))?;
        return Ok(Some(HandshakeReader::default()));
    };
    let foreign_sender = |reason| {
        Err(Error::UnexpectedPeer {
            address: to.to_owned(),
            reason,
        })
    };
    match hearing.read(socket) {
        ReadState::NotYet => Ok(Some(hearing)),
        ReadState::All if hearing.is_answer_to(id, secret) => Ok(None),
        ReadState::All => foreign_sender(format!("it answered {}", hearing.quoted())),
        ReadState::Closed => foreign_sender(format!(
            "it closed the connection after {}",
            hearing.quoted()
        )),
    }
}

/// A connection that is being made.
fn begin(route: &Route, options: &SocketOptions) -> Result<Socket> {
    let failed = |error: io::Error| {
        Error::system(format!("connect to {}", format_address(&route.to)), error)
    };
    let socket = open(route.to.domain(), options)?;
    socket
        .set_nonblocking(true)
        .and_then(|()| abort_on_close(&socket))
        .map_err(failed)?;
    if let Some(from) = &route.from {
        socket
            .bind(from)
            .map_err(|error| Error::system(format!("send from {}", format_address(from)), error))?;
    }
    match socket.connect(&route.to) {
        Err(error) if error.raw_os_error() != Some(libc::EINPROGRESS) => Err(failed(error)),
        _ => Ok(socket),
    }
}

/// Connects streams one after the other, to a side that knows them by their order; `None` when the bell was rung before.
pub fn connect_in_turn(
    route: &Route,
    count: usize,
    options: &SocketOptions,
    waker: &Waker,
    timeout: Duration,
) -> Result<Option<Vec<Socket>>> {
    let to = format_address(&route.to);
    let failed = |error: io::Error| Error::system(format!("connect to {to}"), error);
    let until = Instant::now() + timeout;
    let mut connected = Vec::with_capacity(count);
    for _ in 0..count {
        let socket = begin(route, options)?;
        let polled = [(socket.as_fd(), PollFlags::OUT)];
        match wait(&polled, &mut Vec::new(), waker, Some(until)).map_err(failed)? {
            WaitOutcome::Woken => return Ok(None),
            WaitOutcome::TimedOut => return Err(timeout_error("connecting to", &to, timeout)),
            WaitOutcome::Ready => {}
        }
        if let Some(error) = socket.take_error().map_err(failed)? {
            return Err(failed(error));
        }
        connected.push(socket);
    }
    Ok(Some(connected))
}

fn timeout_error(what: &str, to: &str, timeout: Duration) -> Error {
    Error::TimedOut {
        operation: format!("{what} {to}"),
        after_s: timeout.as_secs_f64(),
        kind: None,
    }
}
