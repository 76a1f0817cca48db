//! What a stream of datagrams has beside its connection: its socket, and what its thread counts for the sampler.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use socket2::Socket;

use crate::timing::Pacing;
use vnetbench_system::histogram::Histogram;

/// The UDP side of one stream. Only its own thread writes the counts.
#[derive(Debug)]
pub struct DatagramFlow {
    /// Connected to the other side's.
    pub socket: Socket,
    pub key: u32,
    pub tally: DatagramCounters,
    /// Of a sink that reads the same clock as its source: how long datagrams were under way.
    pub delay: Option<Histogram>,
    /// Of a source that has a rate.
    pub pacing: Option<Pacing>,
    /// How far apart they were sent; known when a source that has a rate has ended.
    pub gaps: OnceLock<GapDeviation>,
}

/// In datagrams, but for the jitter.
#[derive(Debug, Default)]
#[repr(align(128))]
pub struct DatagramCounters {
    /// Sent by a source; by a sink received, duplicates included.
    pub datagrams: AtomicU64,
    /// Fewer where one comes late after all.
    pub lost: AtomicI64,
    pub duplicates: AtomicU64,
    pub reordered: AtomicU64,
    /// What came on the socket and was none of the stream's.
    pub foreign: AtomicU64,
    pub jitter_nanos: AtomicU64,
}

#[derive(Debug, Clone, Copy, Default)]
pub struct DatagramCounts {
    pub datagrams: u64,
    pub lost: i64,
    pub duplicates: u64,
    pub reordered: u64,
    pub foreign: u64,
    pub jitter_nanos: u64,
}

impl DatagramCounters {
    pub fn counts(&self) -> DatagramCounts {
        DatagramCounts {
            datagrams: self.datagrams.load(Ordering::Relaxed),
            lost: self.lost.load(Ordering::Relaxed),
            duplicates: self.duplicates.load(Ordering::Relaxed),
            reordered: self.reordered.load(Ordering::Relaxed),
            foreign: self.foreign.load(Ordering::Relaxed),
            jitter_nanos: self.jitter_nanos.load(Ordering::Relaxed),
        }
    }

    pub fn set(&self, counts: DatagramCounts) {
        self.datagrams.store(counts.datagrams, Ordering::Relaxed);
        self.lost.store(counts.lost, Ordering::Relaxed);
        self.duplicates.store(counts.duplicates, Ordering::Relaxed);
        self.reordered.store(counts.reordered, Ordering::Relaxed);
        self.foreign.store(counts.foreign, Ordering::Relaxed);
        self.jitter_nanos
            .store(counts.jitter_nanos, Ordering::Relaxed);
    }
}

/// The gaps between what was sent one after the other, as moments about the gap that was asked for: sums of their own
/// size would drown the differences.
#[derive(Debug, Clone, Copy, Default)]
pub struct GapDeviation {
    last: Option<Instant>,
    count: u64,
    sum_nanos: f64,
    squares: f64,
}

impl GapDeviation {
    /// So many were handed to the kernel in one go, at that time.
    pub fn record(&mut self, at: Instant, count: usize, request: Duration) {
        let request = request.as_nanos() as f64;
        let mut add = |times: f64, gap: f64| {
            self.count += times as u64;
            self.sum_nanos += times * (gap - request);
            self.squares += times * (gap - request) * (gap - request);
        };
        if let Some(last) = self.last.replace(at) {
            add(1.0, (at - last).as_nanos() as f64);
        }
        add(count as f64 - 1.0, 0.0);
    }

    pub fn merge(self, other: &Self) -> Self {
        Self {
            last: None,
            count: self.count + other.count,
            sum_nanos: self.sum_nanos + other.sum_nanos,
            squares: self.squares + other.squares,
        }
    }

    /// The standard deviation of all gaps, in microseconds; `None` without any.
    pub fn deviation_us(&self) -> Option<f64> {
        let mean = self.sum_nanos / self.count as f64;
        let variance = self.squares / self.count as f64 - mean * mean;
        (self.count > 0).then(|| variance.max(0.0).sqrt() / 1e3)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ASKED: Duration = Duration::from_micros(10);

    fn deviation_of(sent_at_us: &[(u64, usize)]) -> Option<f64> {
        let start = Instant::now();
        let mut gaps = GapDeviation::default();
        for (at, count) in sent_at_us {
            gaps.record(start + Duration::from_micros(*at), *count, ASKED);
        }
        gaps.deviation_us()
    }

    #[test]
    fn equal_gaps_do_not_deviate_whether_they_are_as_asked_or_not() {
        assert_eq!(deviation_of(&[(0, 1), (10, 1), (20, 1)]), Some(0.0));
        assert_eq!(deviation_of(&[(0, 1), (70, 1), (140, 1)]), Some(0.0));
    }

    #[test]
    fn what_is_sent_in_one_go_has_gaps_of_zero() {
        // Gaps of 20 and 0: a mean of 10, each 10 off.
        assert_eq!(deviation_of(&[(0, 1), (20, 2)]), Some(10.0));
        assert_eq!(deviation_of(&[(0, 1)]), None);
    }
}
