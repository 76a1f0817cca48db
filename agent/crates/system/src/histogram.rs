//! A log-linear histogram of durations. One thread fills it, without locks or allocation, while another reads it.
//!
//! Each power of two (octave) has 128 buckets of equal width, as in HdrHistogram (<http://hdrhistogram.org>). Below 256 ns
//! a bucket is 1 ns wide. Above, it is at most 1/128 of its values wide, so its midpoint is within 0.4 % of each value.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use serde::Serialize;

const OCTAVE_BITS: u32 = 7;
/// Buckets of one octave, and of the values below the first octave.
const BUCKETS_PER_OCTAVE: usize = 1 << OCTAVE_BITS;
/// Durations from 2^36 ns (68.7 s) on are counted in the last bucket.
const RANGE_BITS: u32 = 36;
/// Upper limit of the range: longer durations are counted in the last bucket.
pub const MAX_RECORDED_DURATION: Duration = Duration::from_nanos(1 << RANGE_BITS);
const OCTAVE_COUNT: usize = (RANGE_BITS - OCTAVE_BITS + 1) as usize;
/// Number of buckets.
pub const BUCKET_COUNT: usize = OCTAVE_COUNT * BUCKETS_PER_OCTAVE;

fn bucket_index(nanos: u64) -> usize {
    let nanos = nanos.min((1 << RANGE_BITS) - 1);
    if nanos < BUCKETS_PER_OCTAVE as u64 {
        return nanos as usize;
    }
    let shift = nanos.ilog2() - OCTAVE_BITS;
    // The leading bit of the shifted value adds one octave.
    shift as usize * BUCKETS_PER_OCTAVE + (nanos >> shift) as usize
}

/// Returns the midpoint of a bucket in nanoseconds, rounded down.
fn bucket_midpoint(bucket: usize) -> u64 {
    if bucket < 2 * BUCKETS_PER_OCTAVE {
        return bucket as u64;
    }
    let shift = (bucket / BUCKETS_PER_OCTAVE - 1) as u32;
    let lowest = ((bucket % BUCKETS_PER_OCTAVE + BUCKETS_PER_OCTAVE) as u64) << shift;
    lowest + ((1 << shift) - 1) / 2
}

/// A histogram that only one thread fills.
#[derive(Debug)]
pub struct Histogram {
    buckets: Box<[AtomicU64]>,
    /// A bit for each octave with a nonzero count; readers skip the others.
    nonempty_octaves: AtomicU64,
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
    /// Creates an empty histogram.
    pub fn new() -> Self {
        Self {
            buckets: (0..BUCKET_COUNT).map(|_| AtomicU64::new(0)).collect(),
            nonempty_octaves: AtomicU64::new(0),
            count: AtomicU64::new(0),
            sum_nanos: AtomicU64::new(0),
            max_nanos: AtomicU64::new(0),
        }
    }

    /// Records a duration.
    pub fn record(&self, duration: Duration) {
        self.record_many(duration, 1);
    }

    /// Records a duration several times.
    pub fn record_many(&self, duration: Duration, times: u64) {
        let nanos = u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
        let bucket = bucket_index(nanos);
        // With one writer, loads and stores suffice.
        let add = |to: &AtomicU64, amount: u64| {
            to.store(
                to.load(Ordering::Relaxed).saturating_add(amount),
                Ordering::Relaxed,
            );
        };
        add(&self.buckets[bucket], times);
        let octave = 1 << (bucket / BUCKETS_PER_OCTAVE);
        let nonempty_octaves = self.nonempty_octaves.load(Ordering::Relaxed);
        if nonempty_octaves & octave == 0 {
            self.nonempty_octaves
                .store(nonempty_octaves | octave, Ordering::Relaxed);
        }
        add(&self.count, times);
        add(&self.sum_nanos, nanos.saturating_mul(times));
        if nanos > self.max_nanos.load(Ordering::Relaxed) {
            self.max_nanos.store(nanos, Ordering::Relaxed);
        }
    }

    /// Returns the number of durations.
    pub fn count(&self) -> u64 {
        self.count.load(Ordering::Relaxed)
    }

    /// Returns the sum of all durations.
    pub fn sum(&self) -> Duration {
        Duration::from_nanos(self.sum_nanos.load(Ordering::Relaxed))
    }

    /// Returns the longest duration.
    pub fn max(&self) -> Duration {
        Duration::from_nanos(self.max_nanos.load(Ordering::Relaxed))
    }
}

/// The sum of histograms at one moment.
#[derive(Debug, Clone)]
pub struct HistogramCounts(Vec<u64>);

impl HistogramCounts {
    /// Returns counts of zero.
    pub fn empty() -> Self {
        Self(vec![0; BUCKET_COUNT])
    }

    /// Returns the current sum of histograms.
    pub fn sum<'a>(histograms: impl Iterator<Item = &'a Histogram>) -> Self {
        let mut sums = Self::empty();
        for histogram in histograms {
            sums.add(&histogram.buckets, &histogram.nonempty_octaves);
        }
        sums
    }

    /// Adds the counts of all buckets. `nonempty_octaves` has a bit for each octave with a nonzero count.
    pub fn add(&mut self, counts: &[AtomicU64], nonempty_octaves: &AtomicU64) {
        let nonempty_octaves = nonempty_octaves.load(Ordering::Relaxed);
        for octave in (0..OCTAVE_COUNT).filter(|octave| nonempty_octaves >> octave & 1 == 1) {
            let buckets = octave * BUCKETS_PER_OCTAVE..(octave + 1) * BUCKETS_PER_OCTAVE;
            for (sum, count) in self.0[buckets.clone()].iter_mut().zip(&counts[buckets]) {
                *sum += count.load(Ordering::Relaxed);
            }
        }
    }

    /// Takes over buckets of the same layout.
    pub fn from_buckets(buckets: [u64; BUCKET_COUNT]) -> Self {
        Self(buckets.into())
    }

    /// Returns the durations recorded since an earlier reading.
    pub fn since(&self, earlier: &Self) -> DurationDistribution {
        let buckets: Vec<BucketMidpointCount> = (0..BUCKET_COUNT)
            .filter(|bucket| self.0[*bucket] > earlier.0[*bucket])
            .map(|bucket| BucketMidpointCount {
                midpoint_nanos: bucket_midpoint(bucket),
                count: self.0[bucket] - earlier.0[bucket],
            })
            .collect();
        DurationDistribution::from_buckets(buckets)
    }
}

/// A nonempty bucket: an array of two numbers in the agent's protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(into = "(u64, u64)")]
pub struct BucketMidpointCount {
    /// The middle of the bucket's range of durations.
    pub midpoint_nanos: u64,
    /// Number of durations in this range.
    pub count: u64,
}

impl From<BucketMidpointCount> for (u64, u64) {
    fn from(bucket: BucketMidpointCount) -> Self {
        (bucket.midpoint_nanos, bucket.count)
    }
}

/// Distribution of durations in the form of the agent's protocol.
#[derive(Debug, Serialize)]
pub struct DurationDistribution {
    /// Number of durations.
    pub count: u64,
    /// Median.
    pub p50_us: Option<f64>,
    /// 99th percentile.
    pub p99_us: Option<f64>,
    /// Maximum.
    pub max_us: Option<f64>,
    /// The nonempty buckets, by duration.
    pub buckets: Vec<BucketMidpointCount>,
}

impl DurationDistribution {
    fn from_buckets(buckets: Vec<BucketMidpointCount>) -> Self {
        let count = buckets.iter().map(|bucket| bucket.count).sum();
        Self {
            count,
            p50_us: quantile_us(&buckets, count, 0.5),
            p99_us: quantile_us(&buckets, count, 0.99),
            max_us: quantile_us(&buckets, count, 1.0),
            buckets,
        }
    }
}

/// Returns the nearest-rank quantile, or `None` without values.
fn quantile_us(buckets: &[BucketMidpointCount], count: u64, share: f64) -> Option<f64> {
    let rank = ((count as f64 * share).ceil() as u64).clamp(1, count.max(1));
    let mut below = 0;
    buckets.iter().find_map(|bucket| {
        below += bucket.count;
        (below >= rank).then_some(bucket.midpoint_nanos as f64 / 1e3)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns values over the whole range, the same in every run (Steele, Lea & Flood's SplitMix64).
    fn pseudo_random_values(count: usize) -> Vec<u64> {
        let mut state = 7u64;
        let mut next = || {
            state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let mut z = state;
            z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
            z ^ (z >> 31)
        };
        (0..count)
            .map(|_| {
                let bits = next() % u64::from(RANGE_BITS);
                next() & ((2 << bits) - 1)
            })
            .collect()
    }

    fn filled_histogram(values: &[u64]) -> Histogram {
        let histogram = Histogram::new();
        for nanos in values {
            histogram.record(Duration::from_nanos(*nanos));
        }
        histogram
    }

    #[test]
    fn every_value_is_close_to_the_midpoint_of_its_bucket() {
        let edges = (0..RANGE_BITS).flat_map(|bits| [(1 << bits) - 1, 1 << bits, (1 << bits) + 1]);
        for nanos in edges.chain(pseudo_random_values(100_000)) {
            let midpoint = bucket_midpoint(bucket_index(nanos));
            assert!(
                midpoint.abs_diff(nanos) * 256 <= nanos,
                "{nanos} ns is reported as {midpoint} ns"
            );
        }
    }

    #[test]
    fn buckets_have_no_gaps_or_overlaps() {
        for bucket in 1..BUCKET_COUNT {
            assert!(bucket_midpoint(bucket) > bucket_midpoint(bucket - 1));
            assert_eq!(bucket_index(bucket_midpoint(bucket)), bucket);
        }
    }

    #[test]
    fn quantiles_match_the_values() {
        let mut sorted = pseudo_random_values(10_001);
        let distribution = HistogramCounts::sum([filled_histogram(&sorted)].iter())
            .since(&HistogramCounts::empty());
        sorted.sort_unstable();
        assert_eq!(distribution.count, 10_001);
        for (reported_us, rank) in [
            (distribution.p50_us, 5_001),
            (distribution.p99_us, 9_901),
            (distribution.max_us, 10_001),
        ] {
            let exact = sorted[rank - 1] as f64 / 1e3;
            let reported_us = reported_us.expect("there are values");
            assert!(
                (reported_us - exact).abs() <= exact / 256.0,
                "{reported_us} for {exact}"
            );
        }
    }

    #[test]
    fn a_difference_holds_only_durations_between_two_readings() {
        let histogram = filled_histogram(&[1_000, 2_000]);
        let earlier = HistogramCounts::sum(std::iter::once(&histogram));
        histogram.record(Duration::from_nanos(2_000));
        let distribution = HistogramCounts::sum(std::iter::once(&histogram)).since(&earlier);
        assert_eq!(
            distribution.buckets,
            [BucketMidpointCount {
                midpoint_nanos: bucket_midpoint(bucket_index(2_000)),
                count: 1
            }]
        );
        assert_eq!(distribution.count, 1);
    }

    #[test]
    fn an_empty_histogram_has_no_quantiles() {
        let distribution = HistogramCounts::empty().since(&HistogramCounts::empty());
        assert_eq!(
            (distribution.count, distribution.p50_us, distribution.max_us),
            (0, None, None)
        );
    }

    #[test]
    fn durations_beyond_the_range_are_counted_in_the_last_bucket() {
        let histogram = filled_histogram(&[u64::MAX, 1 << 40]);
        let distribution =
            HistogramCounts::sum(std::iter::once(&histogram)).since(&HistogramCounts::empty());
        let last = BucketMidpointCount {
            midpoint_nanos: bucket_midpoint(BUCKET_COUNT - 1),
            count: 2,
        };
        assert_eq!(distribution.buckets, [last]);
        assert_eq!(histogram.max(), Duration::from_nanos(u64::MAX));
    }
}
