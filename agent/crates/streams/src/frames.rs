//! The interface of a stream of frames: its counts and its details.

use std::fmt::Debug;
use std::io;
use std::time::Instant;

use serde::Serialize;

use crate::commands::Commands;
use crate::end::StreamEnd;
use crate::frame_pacing::PacingOutcome;
use vnetbench_system::histogram;

/// The frames and bytes of a stream.
#[derive(Debug, Clone, Copy, Default)]
pub struct FrameCounts {
    /// Frames sent, or received without duplicates.
    pub frames: u64,
    /// Bytes including the FCS.
    pub bytes: u64,
}

/// The details of a stream in addition to its counts.
#[derive(Debug, Serialize)]
#[serde(untagged)]
pub enum FrameStreamDetails {
    /// Of a source.
    Source(FrameSourceDetails),
    /// Of a sink.
    Sink(FrameSinkDetails),
}

/// The details of a source in addition to the frames that the port accepted.
#[derive(Debug, Serialize)]
pub struct FrameSourceDetails {
    /// Frames that the port rejected.
    pub rejected: u64,
    /// The pacing of a source with a rate.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pacing: Option<PacingOutcome>,
}

/// The details of a sink in addition to the frames received.
#[derive(Debug, Serialize)]
pub struct FrameSinkDetails {
    /// Frames received more than once.
    pub duplicates: u64,
    /// Frames received after a later one.
    pub out_of_order: u64,
    /// Frames out of order and so late that they may be duplicates; they count as received.
    pub before_window: u64,
    /// Highest sequence number.
    pub highest_number: Option<u64>,
    /// Jitter (RFC 3550).
    pub jitter_us: f64,
    /// Frames whose timestamp is not from this endpoint's clock. If there are any, delays are unknown.
    pub impossible_transits: u64,
}

/// One stream of frames at one port; each backend implements it.
pub trait FrameEndpoint: Debug + Send + Sync {
    /// Runs the stream from the start to the end of the load, on the stream's thread.
    ///
    /// # Errors
    ///
    /// The system's error that ends the stream.
    fn run(&self, commands: &Commands) -> io::Result<StreamEnd>;

    /// Stops a source at once; its thread can take some milliseconds to see the command.
    fn stop_source(&self) {}

    /// Returns the current counts.
    fn counts(&self) -> FrameCounts;

    /// Sets the time of the start, from which frames are due.
    fn set_source_start(&self, _at: Instant) {}

    /// Returns the one-way delays at the port, from its first sink; `None` for others or if a clock differs.
    fn port_one_way_delays(&self) -> Option<histogram::HistogramCounts> {
        None
    }

    /// Returns the details after the end; frames were due until `load_ended`.
    fn details(&self, load_ended: Instant) -> FrameStreamDetails;
}
