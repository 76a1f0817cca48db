//! A stream of frames as a trial sees it: what it counts, and what it came to.

use std::fmt::Debug;
use std::io;
use std::time::Instant;

use serde::Serialize;

use crate::end::StreamEnd;
use crate::frame_pacing::PacingOutcome;
use crate::orders::Commands;
use vnetbench_system::histogram;

/// What a stream has moved.
#[derive(Debug, Clone, Copy, Default)]
pub struct FrameCounts {
    /// Sent, or received without duplicates.
    pub frames: u64,
    /// With FCS.
    pub bytes: u64,
}

/// What a stream came to, beside its counts.
#[derive(Debug, Serialize)]
#[serde(untagged)]
pub enum FrameOutcome {
    Source(SourceOutcome),
    Sink(SinkOutcome),
}

/// What a source came to, beside how many the port took.
#[derive(Debug, Serialize)]
pub struct SourceOutcome {
    /// What the port did not take.
    pub refused: u64,
    /// Of one that has a rate.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pacing: Option<PacingOutcome>,
}

/// What a sink came to, beside how many it received.
#[derive(Debug, Serialize)]
pub struct SinkOutcome {
    pub duplicates: u64,
    pub out_of_order: u64,
    /// Of these, those so late that they may be duplicates, though they are counted as received.
    pub before_window: u64,
    #[serde(rename = "highest")]
    pub highest_number: Option<u64>,
    pub jitter_us: f64,
    /// Those whose time is none of this side's clock. Where there are any, it is not known how long frames were under way.
    #[serde(rename = "other_clock")]
    pub impossible_transits: u64,
}

/// One stream of frames at one port; there are several ways to make and to count them.
pub trait FrameEndpoint: Debug + Send + Sync {
    /// Carries it from the start to the end of the load, on the stream's own thread.
    fn run(&self, orders: &Commands) -> io::Result<StreamEnd>;

    /// Of a source: has it make no further frame, at once. Its thread may take some milliseconds to see its order.
    fn stop(&self) {}

    fn counts(&self) -> FrameCounts;

    /// Sets the start that all frames are due after.
    fn begin(&self, _at: Instant) {}

    /// Of a sink: how long frames were under way.
    fn delay(&self) -> Option<histogram::HistogramCounts> {
        None
    }

    /// Once it has ended; until `load_ended` frames were due.
    fn outcome(&self, load_ended: Instant) -> FrameOutcome;
}
