//! The workload `tcp_stream`: each stream moves data in one direction, as fast as TCP takes it.
//!
//! A source sends until it is told to end, closes its sending half, and then waits for the sink to close the other; a sink
//! reads until the end of the data, and only then closes its half. So a source that has seen the end knows that every
//! byte was read, and both sides have counted the same.

use std::io;
use std::sync::Arc;

use crate::event_loop::run_streams;
use crate::receive::ReceiveMode;
use crate::send::SendOptions;
use crate::senders::sender_factory;
use crate::tcp_driver::{RunningStream, StepOutcome};
use vnetbench_streams::threads::{self, StartedThread, ThreadPlan};
use vnetbench_streams::{Commands, OnEnd, Stream};

/// How data is sent and received.
#[derive(Debug)]
pub struct TransferOptions {
    pub message_bytes: usize,
    pub sending: SendOptions,
    pub receive: ReceiveMode,
}

/// Starts the threads; they wait for `Order::Go`. `on_end` is called once for each stream, when it has ended.
pub(crate) fn start(
    streams: &[Arc<Stream>],
    transfer: &TransferOptions,
    threads: &ThreadPlan,
    orders: &Arc<Commands>,
    on_end: &OnEnd,
) -> io::Result<Vec<StartedThread>> {
    let make_sender = sender_factory(transfer.message_bytes, transfer.sending)?;
    threads::start_threads(streams, threads, orders, |own| {
        let mut running = Vec::with_capacity(own.len());
        let is_alone = own.len() == 1;
        for stream in own {
            stream.socket.set_nonblocking(!is_alone)?;
            running.push(RunningStream::new(
                stream,
                transfer.receive,
                &make_sender,
                is_alone,
                on_end,
            )?);
        }
        Ok(
            move |orders: &Commands| match <[RunningStream; 1]>::try_from(running) {
                Ok([running]) => run_one(running, orders),
                Err(many) => run_streams(many, orders),
            },
        )
    })
}

/// Drives one stream whose socket blocks.
fn run_one(mut running: RunningStream, orders: &Commands) {
    while running.advance(orders) != StepOutcome::Ended {}
}
