//! What the conductor of a trial is told by requests and by streams.

use std::sync::mpsc::SyncSender;
use std::time::Duration;

use vnetbench_system::error::Result;

/// What the conductor of a trial is told.
pub enum ConductorMessage {
    Start {
        duration: Duration,
        /// Takes the monotonic clock, in nanoseconds, of the moment at which the trial started, or why it did not.
        started: SyncSender<Result<u64>>,
    },
    Stop,
    StreamEnded,
}
