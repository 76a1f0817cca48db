//! What one direction of a line has counted since it was last set; the line measures itself by how late frames leave.

use std::sync::atomic::{AtomicU64, Ordering};

use serde_json::{Value, json};

use vnetbench_system::histogram::{self, Histogram};

/// Written by the direction's thread only.
#[derive(Debug)]
pub struct DirectionCounts {
    pub frames: AtomicU64,
    pub bytes: AtomicU64,
    pub segments: AtomicU64,
    pub lost: AtomicU64,
    pub reordered: AtomicU64,
    pub overflowed: AtomicU64,
    pub overflowed_bytes: AtomicU64,
    pub refused: AtomicU64,
    pub backlog_frames: AtomicU64,
    pub backlog_bytes: AtomicU64,
    pub max_backlog_bytes: AtomicU64,
    /// From when a frame was due until it was given to the far port.
    pub late: Histogram,
}

impl DirectionCounts {
    pub fn new() -> Self {
        let zero = || AtomicU64::new(0);
        Self {
            frames: zero(),
            bytes: zero(),
            segments: zero(),
            lost: zero(),
            reordered: zero(),
            overflowed: zero(),
            overflowed_bytes: zero(),
            refused: zero(),
            backlog_frames: zero(),
            backlog_bytes: zero(),
            max_backlog_bytes: zero(),
            late: Histogram::new(),
        }
    }

    /// Those that begin where others end: what waits goes on waiting.
    pub fn continuing(earlier: &Self) -> Self {
        let level = [&earlier.backlog_frames, &earlier.backlog_bytes];
        let [frames, bytes] = level.map(|count| count.load(Ordering::Relaxed) as usize);
        let counts = Self::new();
        counts.record_backlog((frames, bytes));
        counts
    }

    pub fn record_backlog(&self, (frames, bytes): (usize, usize)) {
        let bytes = bytes as u64;
        self.backlog_frames.store(frames as u64, Ordering::Relaxed);
        self.backlog_bytes.store(bytes, Ordering::Relaxed);
        if bytes > self.max_backlog_bytes.load(Ordering::Relaxed) {
            self.max_backlog_bytes.store(bytes, Ordering::Relaxed);
        }
    }

    /// As docs/protocol.md has them.
    pub fn to_json(&self) -> Value {
        let of = |count: &AtomicU64| count.load(Ordering::Relaxed);
        let late = histogram::HistogramCounts::sum([&self.late].into_iter());
        let late = late.since(&histogram::HistogramCounts::empty());
        json!({
            "frames": of(&self.frames),
            "bytes": of(&self.bytes),
            "segments": of(&self.segments),
            "lost": of(&self.lost),
            "held_back": of(&self.reordered),
            "overflowed": of(&self.overflowed),
            "overflowed_bytes": of(&self.overflowed_bytes),
            "refused": of(&self.refused),
            "waiting": of(&self.backlog_frames),
            "waiting_bytes": of(&self.backlog_bytes),
            "most_waiting_bytes": of(&self.max_backlog_bytes),
            "late_p50_us": late.p50_us,
            "late_p99_us": late.p99_us,
            "late_max_us": late.max_us,
        })
    }
}

/// There is one writer.
pub fn increment(count: &AtomicU64, more: u64) {
    count.store(count.load(Ordering::Relaxed) + more, Ordering::Relaxed);
}
