//! The workload `tcp_stream`: each stream moves data in one direction, as fast as TCP takes it.
//!
//! A source sends until it is told to end, closes its sending half, and then waits for the sink to close the other; a sink
//! reads until the end of the data, and only then closes its half. So a source that has seen the end knows that every
//! byte was read, and both sides have counted the same.

use std::io;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::thread::JoinHandle;

use rustix::net::{RecvFlags, Shutdown, shutdown};
use serde::Deserialize;

use super::event_loop::run_many;
use super::receive::{Copy, Discard, Receiver};
use super::send::{Messages, Sender, message};
use super::threads::{self, Threads};
use super::{End, Guard, OnEnd, Order, Orders, Role, Stream};

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Receive {
    Discard,
    Copy,
}

/// How data is sent and received.
#[derive(Debug)]
pub struct Transfer {
    pub message_bytes: usize,
    pub receive: Receive,
}

/// Starts the threads; they wait for `Order::Go`. `on_end` is called once for each stream, when it has ended.
pub(super) fn start(
    streams: &[Arc<Stream>],
    transfer: &Transfer,
    threads: &Threads,
    orders: &Arc<Orders>,
    on_end: &OnEnd,
) -> io::Result<Vec<JoinHandle<()>>> {
    let message = message(transfer.message_bytes);
    threads::start(streams, threads, orders, |own| {
        let own: Vec<Running> = own
            .iter()
            .map(|stream| Running::new(stream, transfer.receive, &message, on_end))
            .collect();
        for running in &own {
            running.stream.socket.set_nonblocking(own.len() > 1)?;
        }
        Ok(move |orders: &Orders| match <[Running; 1]>::try_from(own) {
            Ok([running]) => run_one(running, orders),
            Err(many) => run_many(many, orders),
        })
    })
}

/// Drives one stream whose socket blocks.
fn run_one(mut running: Running, orders: &Orders) {
    while running.step(orders) != Step::Ended {}
}

pub(super) enum Way {
    Sending(Box<dyn Sender>),
    AwaitingEnd,
    Receiving(Box<dyn Receiver>),
}

#[derive(Debug, PartialEq, Eq)]
pub(super) enum Step {
    Moved,
    /// The socket would block.
    Waits,
    Ended,
}

/// A stream that is being driven; dropping it ends the stream.
pub(super) struct Running {
    pub stream: Arc<Stream>,
    pub way: Way,
    _guard: Guard,
}

impl Running {
    fn new(stream: &Arc<Stream>, receive: Receive, message: &Arc<[u8]>, on_end: &OnEnd) -> Self {
        Self {
            way: match (stream.role, receive) {
                (Role::Source, _) => Way::Sending(Box::new(Messages::new(Arc::clone(message)))),
                (Role::Sink, Receive::Discard) => Way::Receiving(Box::new(Discard)),
                (Role::Sink, Receive::Copy) => Way::Receiving(Box::new(Copy::new())),
            },
            stream: Arc::clone(stream),
            _guard: Guard::new(stream, on_end),
        }
    }

    /// Makes one call to the kernel at most.
    pub fn step(&mut self, orders: &Orders) -> Step {
        let socket = self.stream.socket.as_fd();
        let outcome = match &mut self.way {
            Way::Sending(_) if orders.current() != Order::Go => {
                self.way = Way::AwaitingEnd;
                return Step::Moved;
            }
            Way::Sending(sender) => sender.send(socket),
            Way::AwaitingEnd => {
                let mut unexpected = [0; 64];
                rustix::net::recv(socket, &mut unexpected, RecvFlags::empty())
                    .map(|(count, _)| count)
                    .map_err(Into::into)
            }
            Way::Receiving(receiver) => receiver.receive(socket),
        };
        match (outcome, &self.way) {
            (Ok(count), Way::Sending(_)) => self.stream.tally.sent.add(count),
            (Ok(count @ 1..), Way::Receiving(_)) => {
                self.stream.tally.received.add(count);
                // A sink whose peer goes on sending would otherwise never come to its end.
                if orders.current() == Order::EndAll {
                    return self.end(End::Cut);
                }
            }
            (Ok(1..), Way::AwaitingEnd) => {}
            (Ok(0), _) => return self.end_of_data(orders),
            (Err(error), _) => return self.meet(error, orders),
        }
        Step::Moved
    }

    fn end_of_data(&self, orders: &Orders) -> Step {
        if orders.current() == Order::EndAll {
            return self.end(End::Cut);
        }
        if self.stream.role == Role::Sink {
            // Fails only where the source is gone, and then nobody waits for this.
            let _ = shutdown(&self.stream.socket, Shutdown::Write);
        }
        self.end(End::Drained)
    }

    fn meet(&mut self, error: io::Error, orders: &Orders) -> Step {
        match (error.raw_os_error(), orders.current()) {
            (Some(libc::EINTR), _) => Step::Moved,
            (Some(libc::EAGAIN), _) => Step::Waits,
            (_, Order::EndAll) => self.end(End::Cut),
            // The order to end came while the kernel held the call, and closed the sending half under it.
            (Some(libc::EPIPE), Order::EndSources) if matches!(self.way, Way::Sending(_)) => {
                self.way = Way::AwaitingEnd;
                Step::Moved
            }
            _ => self.end(End::Broken(error)),
        }
    }

    fn end(&self, end: End) -> Step {
        self.stream.note_end(end);
        Step::Ended
    }
}
