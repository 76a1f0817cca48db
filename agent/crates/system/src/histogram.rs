//! Durations counted by size: a log-linear histogram that one thread fills, without locks or allocation, while another
//! reads it.
//!
//! Each power of two is cut into 128 buckets of equal width (the layout of HdrHistogram, <http://hdrhistogram.org>). Below
//! 256 ns a bucket is one nanosecond; above, it is at most 1/128 of its values wide, so that its middle is within 0.4 %
//! of every one of them.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use serde::Serialize;

const BITS: u32 = 7;
/// Buckets of one power of two, and of what lies below the first.
const STEP: usize = 1 << BITS;
/// From 2^36 ns (68.7 s) on a duration is counted in the last bucket.
const MAX_BITS: u32 = 36;
/// What is shorter has a bucket of its own length.
pub const RANGE: Duration = Duration::from_nanos(1 << MAX_BITS);
const STEPS: usize = (MAX_BITS - BITS + 1) as usize;
pub const BUCKETS: usize = STEPS * STEP;

fn bucket_index(nanos: u64) -> usize {
    let nanos = nanos.min((1 << MAX_BITS) - 1);
    if nanos < STEP as u64 {
        return nanos as usize;
    }
    let shift = nanos.ilog2() - BITS;
    // The leading bit of the shifted value counts one step by itself.
    shift as usize * STEP + (nanos >> shift) as usize
}

/// The middle of a bucket, rounded down.
fn bucket_middle(bucket: usize) -> u64 {
    if bucket < 2 * STEP {
        return bucket as u64;
    }
    let shift = (bucket / STEP - 1) as u32;
    let lowest = ((bucket % STEP + STEP) as u64) << shift;
    lowest + ((1 << shift) - 1) / 2
}

/// Filled by one thread only.
#[derive(Debug)]
pub struct Histogram {
    counts: Box<[AtomicU64]>,
    /// A bit for each step that has a count: a reader passes over the others.
    touched: AtomicU64,
    count: AtomicU64,
    sum_nanos: AtomicU64,
    max_nanos: AtomicU64,
}

impl Default for Histogram {
    fn default() -> Self {
        Self::new()
    }
}

impl Histogram {
    pub fn new() -> Self {
        Self {
            counts: (0..BUCKETS).map(|_| AtomicU64::new(0)).collect(),
            touched: AtomicU64::new(0),
            count: AtomicU64::new(0),
            sum_nanos: AtomicU64::new(0),
            max_nanos: AtomicU64::new(0),
        }
    }

    pub fn record(&self, duration: Duration) {
        self.record_many(duration, 1);
    }

    /// Records so many of one duration.
    pub fn record_many(&self, duration: Duration, times: u64) {
        let nanos = u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
        let bucket = bucket_index(nanos);
        // Loads and stores and no read-modify-write: there is one writer.
        let add = |to: &AtomicU64, more: u64| {
            to.store(
                to.load(Ordering::Relaxed).saturating_add(more),
                Ordering::Relaxed,
            );
        };
        add(&self.counts[bucket], times);
        let step = 1 << (bucket / STEP);
        let touched = self.touched.load(Ordering::Relaxed);
        if touched & step == 0 {
            self.touched.store(touched | step, Ordering::Relaxed);
        }
        add(&self.count, times);
        add(&self.sum_nanos, nanos.saturating_mul(times));
        if nanos > self.max_nanos.load(Ordering::Relaxed) {
            self.max_nanos.store(nanos, Ordering::Relaxed);
        }
    }

    pub fn count(&self) -> u64 {
        self.count.load(Ordering::Relaxed)
    }

    pub fn sum(&self) -> Duration {
        Duration::from_nanos(self.sum_nanos.load(Ordering::Relaxed))
    }

    pub fn max(&self) -> Duration {
        Duration::from_nanos(self.max_nanos.load(Ordering::Relaxed))
    }
}

/// What histograms held at one moment, added up.
#[derive(Debug, Clone)]
pub struct HistogramCounts(Vec<u64>);

impl HistogramCounts {
    pub fn empty() -> Self {
        Self(vec![0; BUCKETS])
    }

    pub fn sum<'a>(histograms: impl Iterator<Item = &'a Histogram>) -> Self {
        let mut sums = Self::empty();
        for histogram in histograms {
            sums.add(&histogram.counts, &histogram.touched);
        }
        sums
    }

    /// Adds what stands in buckets; `touched` has a bit for each step that has a count.
    pub fn add(&mut self, counts: &[AtomicU64], touched: &AtomicU64) {
        let touched = touched.load(Ordering::Relaxed);
        for step in (0..STEPS).filter(|step| touched >> step & 1 == 1) {
            let buckets = step * STEP..(step + 1) * STEP;
            for (sum, count) in self.0[buckets.clone()].iter_mut().zip(&counts[buckets]) {
                *sum += count.load(Ordering::Relaxed);
            }
        }
    }

    /// Of buckets that another has filled in the same layout.
    pub fn from_buckets(buckets: [u64; BUCKETS]) -> Self {
        Self(buckets.into())
    }

    /// What has come since `then`.
    pub fn since(&self, then: &Self) -> Distribution {
        let buckets: Vec<(u64, u64)> = (0..BUCKETS)
            .filter(|bucket| self.0[*bucket] > then.0[*bucket])
            .map(|bucket| (bucket_middle(bucket), self.0[bucket] - then.0[bucket]))
            .collect();
        Distribution::from_buckets(buckets)
    }
}

/// Durations as the protocol tells them.
#[derive(Debug, Serialize)]
pub struct Distribution {
    pub count: u64,
    pub p50_us: Option<f64>,
    pub p99_us: Option<f64>,
    pub max_us: Option<f64>,
    /// The middle of each bucket that has a count, in nanoseconds, and the count.
    pub buckets: Vec<(u64, u64)>,
}

impl Distribution {
    fn from_buckets(buckets: Vec<(u64, u64)>) -> Self {
        let count = buckets.iter().map(|(_, count)| count).sum();
        Self {
            count,
            p50_us: quantile_us(&buckets, count, 0.5),
            p99_us: quantile_us(&buckets, count, 0.99),
            max_us: quantile_us(&buckets, count, 1.0),
            buckets,
        }
    }
}

/// The smallest value that at least this share of all do not exceed (nearest rank); `None` of nothing.
fn quantile_us(buckets: &[(u64, u64)], count: u64, share: f64) -> Option<f64> {
    let rank = ((count as f64 * share).ceil() as u64).clamp(1, count.max(1));
    let mut below = 0;
    buckets.iter().find_map(|(nanos, count)| {
        below += count;
        (below >= rank).then_some(*nanos as f64 / 1e3)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Values all over the range, the same in every run (Steele, Lea & Flood's SplitMix64).
    fn values(many: usize) -> Vec<u64> {
        let mut state = 7u64;
        let mut next = || {
            state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let mut z = state;
            z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
            z ^ (z >> 31)
        };
        (0..many)
            .map(|_| {
                let bits = next() % u64::from(MAX_BITS);
                next() & ((2 << bits) - 1)
            })
            .collect()
    }

    fn filled(values: &[u64]) -> Histogram {
        let histogram = Histogram::new();
        for nanos in values {
            histogram.record(Duration::from_nanos(*nanos));
        }
        histogram
    }

    #[test]
    fn every_value_is_within_its_buckets_precision_of_its_middle() {
        let edges = (0..MAX_BITS).flat_map(|bits| [(1 << bits) - 1, 1 << bits, (1 << bits) + 1]);
        for nanos in edges.chain(values(100_000)) {
            let middle = bucket_middle(bucket_index(nanos));
            assert!(
                middle.abs_diff(nanos) * 256 <= nanos,
                "{nanos} ns is told as {middle} ns"
            );
        }
    }

    #[test]
    fn buckets_follow_each_other_without_gap_or_overlap() {
        for bucket in 1..BUCKETS {
            assert!(bucket_middle(bucket) > bucket_middle(bucket - 1));
            assert_eq!(bucket_index(bucket_middle(bucket)), bucket);
        }
    }

    #[test]
    fn quantiles_are_those_of_the_values_themselves() {
        let mut sorted = values(10_001);
        let told = HistogramCounts::sum([filled(&sorted)].iter()).since(&HistogramCounts::empty());
        sorted.sort_unstable();
        assert_eq!(told.count, 10_001);
        for (told_us, rank) in [
            (told.p50_us, 5_001),
            (told.p99_us, 9_901),
            (told.max_us, 10_001),
        ] {
            let exact = sorted[rank - 1] as f64 / 1e3;
            let told_us = told_us.expect("there are values");
            assert!(
                (told_us - exact).abs() <= exact / 256.0,
                "{told_us} for {exact}"
            );
        }
    }

    #[test]
    fn only_what_came_between_two_readings_is_told() {
        let histogram = filled(&[1_000, 2_000]);
        let then = HistogramCounts::sum(std::iter::once(&histogram));
        histogram.record(Duration::from_nanos(2_000));
        let told = HistogramCounts::sum(std::iter::once(&histogram)).since(&then);
        assert_eq!(told.buckets, [(bucket_middle(bucket_index(2_000)), 1)]);
        assert_eq!(told.count, 1);
    }

    #[test]
    fn nothing_has_no_quantiles() {
        let told = HistogramCounts::empty().since(&HistogramCounts::empty());
        assert_eq!((told.count, told.p50_us, told.max_us), (0, None, None));
    }

    #[test]
    fn what_is_longer_than_the_range_is_counted_in_the_last_bucket() {
        let histogram = filled(&[u64::MAX, 1 << 40]);
        let told =
            HistogramCounts::sum(std::iter::once(&histogram)).since(&HistogramCounts::empty());
        assert_eq!(told.buckets, [(bucket_middle(BUCKETS - 1), 2)]);
        assert_eq!(histogram.max(), Duration::from_nanos(u64::MAX));
    }
}
