//! What one direction of a line has counted since it was last set; the line measures itself by how late frames leave.

use std::sync::atomic::{AtomicU64, Ordering};

use serde_json::{Value, json};

use vnetbench_system::histogram::{self, Histogram};

/// Written by the direction's thread only.
#[derive(Debug)]
pub struct Counts {
    pub frames: AtomicU64,
    pub bytes: AtomicU64,
    pub segments: AtomicU64,
    pub lost: AtomicU64,
    pub held_back: AtomicU64,
    pub overflowed: AtomicU64,
    pub overflowed_bytes: AtomicU64,
    pub refused: AtomicU64,
    pub waiting: AtomicU64,
    pub waiting_bytes: AtomicU64,
    pub most_waiting_bytes: AtomicU64,
    /// From when a frame was due until it was given to the far port.
    pub late: Histogram,
}

impl Counts {
    pub fn new() -> Self {
        let zero = || AtomicU64::new(0);
        Self {
            frames: zero(),
            bytes: zero(),
            segments: zero(),
            lost: zero(),
            held_back: zero(),
            overflowed: zero(),
            overflowed_bytes: zero(),
            refused: zero(),
            waiting: zero(),
            waiting_bytes: zero(),
            most_waiting_bytes: zero(),
            late: Histogram::new(),
        }
    }

    /// Those that begin where others end: what waits goes on waiting.
    pub fn after(earlier: &Self) -> Self {
        let level = [&earlier.waiting, &earlier.waiting_bytes];
        let [frames, bytes] = level.map(|count| count.load(Ordering::Relaxed) as usize);
        let counts = Self::new();
        counts.note_level((frames, bytes));
        counts
    }

    pub fn note_level(&self, (frames, bytes): (usize, usize)) {
        let bytes = bytes as u64;
        self.waiting.store(frames as u64, Ordering::Relaxed);
        self.waiting_bytes.store(bytes, Ordering::Relaxed);
        if bytes > self.most_waiting_bytes.load(Ordering::Relaxed) {
            self.most_waiting_bytes.store(bytes, Ordering::Relaxed);
        }
    }

    /// As docs/protocol.md has them.
    pub fn told(&self) -> Value {
        let of = |count: &AtomicU64| count.load(Ordering::Relaxed);
        let late = histogram::Counts::of([&self.late].into_iter());
        let late = late.since(&histogram::Counts::none());
        json!({
            "frames": of(&self.frames),
            "bytes": of(&self.bytes),
            "segments": of(&self.segments),
            "lost": of(&self.lost),
            "held_back": of(&self.held_back),
            "overflowed": of(&self.overflowed),
            "overflowed_bytes": of(&self.overflowed_bytes),
            "refused": of(&self.refused),
            "waiting": of(&self.waiting),
            "waiting_bytes": of(&self.waiting_bytes),
            "most_waiting_bytes": of(&self.most_waiting_bytes),
            "late_p50_us": late.p50_us,
            "late_p99_us": late.p99_us,
            "late_max_us": late.max_us,
        })
    }
}

/// There is one writer.
pub fn add(count: &AtomicU64, more: u64) {
    count.store(count.load(Ordering::Relaxed) + more, Ordering::Relaxed);
}
