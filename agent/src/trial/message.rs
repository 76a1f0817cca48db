//! The messages that requests and streams send to a trial's thread.

use std::sync::mpsc::SyncSender;
use std::time::Duration;

use vnetbench_system::error::Result;

/// A message to a trial's [`Conductor`](super::conductor::Conductor).
pub enum MessageToConductor {
    /// Start the load.
    Start {
        /// How long the load runs.
        duration: Duration,
        /// Receives the start time (CLOCK_MONOTONIC, in nanoseconds), or the error that prevented the start.
        started: SyncSender<Result<u64>>,
    },
    /// End the trial.
    Stop,
    /// A stream has ended or failed.
    StreamEnded,
}
