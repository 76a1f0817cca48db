//! The workload `tcp_stream`: each stream sends data in one direction, as fast as TCP accepts it, or messages at a rate.
//!
//! At the end, a source closes its sending half and waits for the sink to close the other half. A sink reads to the end
//! of the data before it closes its half. When the source sees that, the sink has read every byte, and both endpoints
//! have counted the same bytes.

use std::io;
use std::sync::Arc;

use crate::event_loop::run_streams;
use crate::tcp_driver::{RunningStream, StepOutcome};
use crate::transfers::{TransferFactory, TransferOptions};
use vnetbench_streams::threads::{self, StartedThread, ThreadPlan};
use vnetbench_streams::{Commands, OnEnd, Stream};

/// Starts the threads, which wait for `Command::Go`. Each stream calls `on_end` once, at its end.
///
/// # Errors
///
/// The system refuses a thread, its CPUs or a socket option.
pub(crate) fn start(
    streams: &[Arc<Stream>],
    options: &TransferOptions,
    threads: &ThreadPlan,
    commands: &Arc<Commands>,
    on_end: &OnEnd,
) -> io::Result<Vec<StartedThread>> {
    let transfers = TransferFactory::new(options)?;
    threads::start_threads(streams, threads, commands, |thread_streams| {
        let mut running = Vec::with_capacity(thread_streams.len());
        let is_alone = thread_streams.len() == 1;
        for stream in thread_streams {
            stream.socket.set_nonblocking(!is_alone)?;
            running.push(RunningStream::new(stream, &transfers, is_alone, on_end)?);
        }
        Ok(
            move |commands: &Commands| match <[RunningStream; 1]>::try_from(running) {
                Ok([running]) => run_single_stream(running, commands),
                Err(running) => run_streams(running, commands),
            },
        )
    })
}

/// Drives one stream with a blocking socket.
fn run_single_stream(mut running: RunningStream, commands: &Commands) {
    while running.advance(commands) != StepOutcome::Ended {}
}
