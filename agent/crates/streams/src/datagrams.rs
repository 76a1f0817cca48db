//! The UDP part of a datagram stream: its socket and counters.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use socket2::Socket;

use crate::timing::Pacing;
use vnetbench_system::histogram::Histogram;

/// The UDP part of one stream. Only the stream's thread writes the counters.
#[derive(Debug)]
pub struct DatagramFlow {
    /// Connected to the socket of the other endpoint.
    pub socket: Socket,
    /// Key of the stream in each datagram.
    pub key: u32,
    /// The counters.
    pub counters: DatagramCounters,
    /// One-way delays, for a sink with the same clock as its source.
    pub delay: Option<Histogram>,
    /// The pacing of a source with a rate.
    pub pacing: Option<Pacing>,
    /// How far the gaps between datagrams deviate from the requested gap, known at the end of a source with a rate.
    pub pacing_deviation: OnceLock<PacingDeviation>,
}

/// The counters of a datagram stream.
#[derive(Debug, Default)]
#[repr(align(128))]
pub struct DatagramCounters {
    /// Datagrams that a source sent, or that a sink received including duplicates.
    pub datagrams: AtomicU64,
    /// Lost datagrams; a late arrival decrements it.
    pub lost: AtomicI64,
    /// Datagrams received more than once.
    pub duplicates: AtomicU64,
    /// Datagrams received after a later one (RFC 4737).
    pub reordered: AtomicU64,
    /// Datagrams that do not belong to the stream.
    pub foreign: AtomicU64,
    /// Jitter (RFC 3550).
    pub jitter_nanos: AtomicU64,
}

/// The values of the counters at one time; the fields are those of [`DatagramCounters`].
#[derive(Debug, Clone, Copy, Default)]
pub struct DatagramCounts {
    /// Datagrams sent or received.
    pub datagrams: u64,
    /// Lost datagrams.
    pub lost: i64,
    /// Duplicates.
    pub duplicates: u64,
    /// Reordered datagrams.
    pub reordered: u64,
    /// Foreign datagrams.
    pub foreign: u64,
    /// Jitter.
    pub jitter_nanos: u64,
}

impl DatagramCounters {
    /// Returns the current values.
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

    /// Sets all counters.
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

/// Statistics of how far the gaps between sent datagrams deviate from the requested gap.
///
/// It sums the differences from the requested gap: sums of the gaps themselves would lose the small differences to
/// rounding.
#[derive(Debug, Clone, Copy, Default)]
pub struct PacingDeviation {
    last_sent_at: Option<Instant>,
    count: u64,
    sum_nanos: f64,
    sum_of_squares: f64,
}

impl PacingDeviation {
    /// Counts datagrams that one system call sent at this time; `requested_gap` is the target.
    pub fn record(&mut self, at: Instant, count: usize, requested_gap: Duration) {
        let requested_gap = requested_gap.as_nanos() as f64;
        let mut add = |times: f64, gap: f64| {
            self.count += times as u64;
            self.sum_nanos += times * (gap - requested_gap);
            self.sum_of_squares += times * (gap - requested_gap) * (gap - requested_gap);
        };
        if let Some(last) = self.last_sent_at.replace(at) {
            add(1.0, (at - last).as_nanos() as f64);
        }
        add(count as f64 - 1.0, 0.0);
    }

    /// Returns the statistics of both sets of gaps together.
    pub fn merge(self, other: &Self) -> Self {
        Self {
            last_sent_at: None,
            count: self.count + other.count,
            sum_nanos: self.sum_nanos + other.sum_nanos,
            sum_of_squares: self.sum_of_squares + other.sum_of_squares,
        }
    }

    /// Returns the standard deviation of the gaps in microseconds; `None` if there are none.
    pub fn gap_standard_deviation_us(&self) -> Option<f64> {
        let mean = self.sum_nanos / self.count as f64;
        let variance = self.sum_of_squares / self.count as f64 - mean * mean;
        (self.count > 0).then(|| variance.max(0.0).sqrt() / 1e3)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const REQUESTED_GAP: Duration = Duration::from_micros(10);

    fn standard_deviation_us(sent_at_us: &[(u64, usize)]) -> Option<f64> {
        let start = Instant::now();
        let mut deviation = PacingDeviation::default();
        for (at, count) in sent_at_us {
            deviation.record(start + Duration::from_micros(*at), *count, REQUESTED_GAP);
        }
        deviation.gap_standard_deviation_us()
    }

    #[test]
    fn equal_gaps_have_no_deviation_whatever_their_size() {
        assert_eq!(
            standard_deviation_us(&[(0, 1), (10, 1), (20, 1)]),
            Some(0.0)
        );
        assert_eq!(
            standard_deviation_us(&[(0, 1), (70, 1), (140, 1)]),
            Some(0.0)
        );
    }

    #[test]
    fn datagrams_of_one_call_have_gaps_of_zero() {
        // Gaps of 20 and 0: a mean of 10, each 10 off.
        assert_eq!(standard_deviation_us(&[(0, 1), (20, 2)]), Some(10.0));
        assert_eq!(standard_deviation_us(&[(0, 1)]), None);
    }
}
