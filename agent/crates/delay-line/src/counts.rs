//! Counters of one direction since its last settings, including how late the delay line itself delivers frames.

use std::sync::atomic::{AtomicU64, Ordering};

use serde_json::{Value, json};

use crate::frame_queue::Backlog;
use vnetbench_system::histogram::{self, Histogram};

/// Counters of one direction. Only the direction's thread writes them.
#[derive(Debug)]
pub struct DirectionCounts {
    /// Frames delivered to the far port.
    pub frames: AtomicU64,
    /// Ethernet bytes delivered to the far port.
    pub bytes: AtomicU64,
    /// Segments received.
    pub segments: AtomicU64,
    /// Segments dropped by the loss impairment.
    pub lost: AtomicU64,
    /// Segments delayed by the reordering impairment.
    pub reordered: AtomicU64,
    pub queue_drops: AtomicU64,
    pub queue_drop_bytes: AtomicU64,
    pub port_drops: AtomicU64,
    pub backlog_frames: AtomicU64,
    pub backlog_bytes: AtomicU64,
    pub max_backlog_bytes: AtomicU64,
    /// Time from a frame's due time to its delivery.
    pub lateness: Histogram,
}

impl DirectionCounts {
    /// Returns counters of zero.
    pub fn new() -> Self {
        let zero = || AtomicU64::new(0);
        Self {
            frames: zero(),
            bytes: zero(),
            segments: zero(),
            lost: zero(),
            reordered: zero(),
            queue_drops: zero(),
            queue_drop_bytes: zero(),
            port_drops: zero(),
            backlog_frames: zero(),
            backlog_bytes: zero(),
            max_backlog_bytes: zero(),
            lateness: Histogram::new(),
        }
    }

    /// Returns counters of zero, but with the backlog of earlier ones: queued frames stay queued.
    pub fn zeroed_with_backlog(earlier: &Self) -> Self {
        let level = [&earlier.backlog_frames, &earlier.backlog_bytes];
        let [frames, bytes] = level.map(|counter| counter.load(Ordering::Relaxed) as usize);
        let counts = Self::new();
        counts.record_backlog(Backlog { frames, bytes });
        counts
    }

    /// Records the frames and bytes in the queue.
    pub fn record_backlog(&self, Backlog { frames, bytes }: Backlog) {
        let bytes = bytes as u64;
        self.backlog_frames.store(frames as u64, Ordering::Relaxed);
        self.backlog_bytes.store(bytes, Ordering::Relaxed);
        if bytes > self.max_backlog_bytes.load(Ordering::Relaxed) {
            self.max_backlog_bytes.store(bytes, Ordering::Relaxed);
        }
    }

    /// Returns the counters in the form of docs/protocol.md.
    pub fn to_json(&self) -> Value {
        let load = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let lateness = histogram::HistogramCounts::sum([&self.lateness].into_iter());
        let lateness = lateness.since(&histogram::HistogramCounts::empty());
        json!({
            "frames": load(&self.frames),
            "bytes": load(&self.bytes),
            "segments": load(&self.segments),
            "lost": load(&self.lost),
            "reordered": load(&self.reordered),
            "queue_drops": load(&self.queue_drops),
            "queue_drop_bytes": load(&self.queue_drop_bytes),
            "port_drops": load(&self.port_drops),
            "backlog_frames": load(&self.backlog_frames),
            "backlog_bytes": load(&self.backlog_bytes),
            "max_backlog_bytes": load(&self.max_backlog_bytes),
            "lateness_p50_us": lateness.p50_us,
            "lateness_p99_us": lateness.p99_us,
            "lateness_max_us": lateness.max_us,
        })
    }
}

/// Adds to a counter that has only one writer.
pub fn add_as_only_writer(counter: &AtomicU64, amount: u64) {
    counter.store(counter.load(Ordering::Relaxed) + amount, Ordering::Relaxed);
}
