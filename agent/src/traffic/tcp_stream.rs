//! The workload `tcp_stream`: each stream moves data in one direction, as fast as TCP takes it.
//!
//! A source sends until it is told to end, closes its sending half, and then waits for the sink to close the other; a sink
//! reads until the end of the data, and only then closes its half. So a source that has seen the end knows that every
//! byte was read, and both sides have counted the same.

use std::io;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::thread::JoinHandle;

use rustix::net::{RecvFlags, Shutdown, shutdown};
use serde::Deserialize;

use super::event_loop::run_many;
use super::receive::{Copy, Discard, Receiver};
use super::send::{Messages, Sender, message};
use super::{End, Order, Orders, Role, Stream};
use crate::cpu_list::CpuList;

/// A thread of the data path needs little; a thousand of them must not need much.
const STACK_BYTES: usize = 256 << 10;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Receive {
    Discard,
    Copy,
}

/// How the streams of one side are driven.
#[derive(Debug)]
pub struct Drive {
    pub message_bytes: usize,
    pub receive: Receive,
    /// At least 1; one thread a stream where it is no less than the streams.
    pub threads: usize,
    /// Where thread i may run, taken round robin; empty: where the process may.
    pub thread_cpus: Vec<CpuList>,
}

/// Starts the threads; they wait for `Order::Go`. `on_end` is called once for each stream, when it has ended.
pub fn start(
    streams: &[Arc<Stream>],
    drive: &Drive,
    orders: &Arc<Orders>,
    on_end: &Arc<dyn Fn() + Send + Sync>,
) -> io::Result<Vec<JoinHandle<()>>> {
    let started = start_threads(streams, drive, orders, on_end);
    if started.is_err() {
        // Those that were started before one could not be.
        orders.give(Order::EndAll);
        orders.enforce(streams);
    }
    started
}

fn start_threads(
    streams: &[Arc<Stream>],
    drive: &Drive,
    orders: &Arc<Orders>,
    on_end: &Arc<dyn Fn() + Send + Sync>,
) -> io::Result<Vec<JoinHandle<()>>> {
    let message = message(drive.message_bytes);
    let count = drive.threads.min(streams.len());
    let before = CpuList::of_thread(None)?;
    let (here, at_the_gate) = channel();
    let mut threads = Vec::with_capacity(count);
    for number in 0..count {
        let own: Vec<Running> = streams
            .iter()
            .skip(number)
            .step_by(count)
            .map(|stream| Running::new(stream, drive.receive, &message, on_end))
            .collect();
        for running in &own {
            running.stream.socket.set_nonblocking(own.len() > 1)?;
        }
        if !drive.thread_cpus.is_empty() {
            // Set on this thread, which the new one inherits from: a refusal is then known here.
            drive.thread_cpus[number % drive.thread_cpus.len()].apply_to(None)?;
        }
        let orders = Arc::clone(orders);
        let here = here.clone();
        threads.push(
            std::thread::Builder::new()
                .name(format!("stream {number}"))
                .stack_size(STACK_BYTES)
                .spawn(move || {
                    // Fails only where another thread could not be started, and then the order to end comes.
                    let _ = here.send(());
                    orders.wait_for_start();
                    match <[Running; 1]>::try_from(own) {
                        Ok([running]) => run_one(running, &orders),
                        Err(many) => run_many(many, &orders),
                    }
                })?,
        );
    }
    before.apply_to(None)?;
    // A thread that has been started does not run yet, and the start must not wait for it.
    for _ in &threads {
        let _ = at_the_gate.recv();
    }
    Ok(threads)
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
    on_end: Arc<dyn Fn() + Send + Sync>,
}

impl Running {
    fn new(
        stream: &Arc<Stream>,
        receive: Receive,
        message: &Arc<[u8]>,
        on_end: &Arc<dyn Fn() + Send + Sync>,
    ) -> Self {
        Self {
            way: match (stream.role, receive) {
                (Role::Source, _) => Way::Sending(Box::new(Messages::new(Arc::clone(message)))),
                (Role::Sink, Receive::Discard) => Way::Receiving(Box::new(Discard)),
                (Role::Sink, Receive::Copy) => Way::Receiving(Box::new(Copy::new())),
            },
            stream: Arc::clone(stream),
            on_end: Arc::clone(on_end),
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
            (Ok(count), Way::Sending(_)) => self.stream.tally.add(count),
            (Ok(count @ 1..), Way::Receiving(_)) => {
                self.stream.tally.add(count);
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

impl Drop for Running {
    fn drop(&mut self) {
        // Not set only where the thread is unwinding, or never came to run.
        self.stream
            .note_end(End::Broken(io::ErrorKind::Other.into()));
        (self.on_end)();
    }
}
