//! The pacing of frames: the gap between frames, delays and bursts.

use std::time::{Duration, Instant};

use serde::Serialize;

use vnetbench_system::histogram::DurationDistribution;

/// Late frames follow each other in gaps of this share of the regular gap.
///
/// Together with `MAX_LATE_FRAMES_SENT_BACK_TO_BACK` it limits bursts: otherwise the offered load would differ from the reported one.
const CATCH_UP_GAP_SHARE: f64 = 0.8;
/// Maximum number of late frames sent without a gap.
const MAX_LATE_FRAMES_SENT_BACK_TO_BACK: f64 = 16.0;
/// Number of classes of burst sizes, by powers of two; equals BURST_CLASSES of bpf/generate.bpf.c.
pub const BURST_CLASSES: usize = 24;

/// The time between two frames, as a fixed-point number for the BPF program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FrameGap {
    /// Whole nanoseconds.
    pub nanos: u64,
    /// Fraction of a nanosecond in units of 2^-32.
    pub nanos_fraction_32_bits: u64,
    /// Gap between late frames that catch up.
    pub catch_up_gap_nanos: u64,
    /// Lateness that late frames may catch up without any gap.
    pub catch_up_without_gap_nanos: u64,
}

impl FrameGap {
    /// Returns the gap for a rate in frames a second.
    pub fn from_rate(frames_per_s: f64) -> Self {
        let nanos = 1e9 / frames_per_s;
        let catch_up_gap_nanos = nanos * CATCH_UP_GAP_SHARE;
        Self {
            nanos: nanos as u64,
            nanos_fraction_32_bits: (nanos.fract() * (1u64 << 32) as f64) as u64,
            catch_up_gap_nanos: catch_up_gap_nanos as u64,
            catch_up_without_gap_nanos: (catch_up_gap_nanos * MAX_LATE_FRAMES_SENT_BACK_TO_BACK)
                as u64,
        }
    }

    /// Returns half the gap: frames that follow each other sooner belong to one burst.
    pub fn max_gap_in_burst(&self) -> Duration {
        Duration::from_nanos(self.nanos / 2)
    }
}

/// The deviation of a source from its schedule.
#[derive(Debug, Serialize)]
pub struct PacingOutcome {
    /// Pacing method: `program` or `batches`.
    pub method: &'static str,
    /// Frames due until the end of the load.
    pub due: u64,
    /// Due frames that were not sent.
    pub unsent: u64,
    /// Mean lateness.
    pub lateness_mean_us: Option<f64>,
    /// Median lateness.
    pub lateness_p50_us: Option<f64>,
    /// 99th percentile of the lateness.
    pub lateness_p99_us: Option<f64>,
    /// Maximum lateness.
    pub lateness_max_us: Option<f64>,
    /// Sizes of bursts.
    #[serde(flatten)]
    pub bursts: BurstSizes,
}

/// Sizes of bursts: frames that follow each other in less than half the gap.
#[derive(Debug, Default, Serialize)]
pub struct BurstSizes {
    /// Mean number of frames in a burst.
    pub burst_mean: Option<f64>,
    /// Maximum number of frames in a burst.
    pub burst_max: Option<u64>,
    /// Number of bursts by size.
    pub bursts: Vec<BurstClass>,
}

/// The bursts of one class of sizes, as the pair `[smallest, count]` in JSON.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(into = "(u64, u64)")]
pub struct BurstClass {
    /// Smallest size in frames; the class ends below twice this size.
    pub smallest: u64,
    /// Number of bursts.
    pub count: u64,
}

impl From<BurstClass> for (u64, u64) {
    fn from(class: BurstClass) -> Self {
        (class.smallest, class.count)
    }
}

impl BurstSizes {
    /// Returns the sizes from counts by powers of two; the last burst is not yet in the counts.
    pub fn from_counts_by_power_of_two(
        frames: u64,
        mut classes: Vec<u64>,
        last_burst_size: u64,
        max_burst_size: u64,
    ) -> Self {
        if last_burst_size > 0 {
            classes[burst_class_index(last_burst_size)] += 1;
        }
        let count: u64 = classes.iter().sum();
        let classes = classes.into_iter().enumerate();
        Self {
            burst_mean: (count > 0).then(|| frames as f64 / count as f64),
            burst_max: (count > 0).then_some(max_burst_size),
            bursts: classes
                .filter(|(_, count)| *count > 0)
                .map(|(class, count)| BurstClass {
                    smallest: 1 << class,
                    count,
                })
                .collect(),
        }
    }
}

/// Returns the class of a burst; the last class includes all larger bursts.
fn burst_class_index(burst: u64) -> usize {
    (burst.max(1).ilog2() as usize).min(BURST_CLASSES - 1)
}

/// Counts the bursts of a thread that sends frames itself.
#[derive(Debug, Clone)]
pub struct BurstCounter {
    last_sent_at: Option<Instant>,
    burst: u64,
    max: u64,
    classes: Vec<u64>,
}

impl Default for BurstCounter {
    fn default() -> Self {
        Self {
            last_sent_at: None,
            burst: 0,
            max: 0,
            classes: vec![0; BURST_CLASSES],
        }
    }
}

impl BurstCounter {
    /// Counts frames that leave together at this time.
    pub fn record(&mut self, now: Instant, frames: u64, max_gap_in_burst: Duration) {
        if self
            .last_sent_at
            .is_some_and(|last_sent_at| now - last_sent_at >= max_gap_in_burst)
        {
            self.classes[burst_class_index(self.burst)] += 1;
            self.burst = 0;
        }
        self.last_sent_at = Some(now);
        self.burst += frames;
        self.max = self.max.max(self.burst);
    }

    /// Returns the sizes of the bursts; `frames` is the total.
    pub fn finish(self, frames: u64) -> BurstSizes {
        BurstSizes::from_counts_by_power_of_two(frames, self.classes, self.burst, self.max)
    }
}

/// The sum and the maximum of the lateness of all frames.
#[derive(Debug, Clone, Copy)]
pub struct LatenessTotals {
    /// Sum in nanoseconds.
    pub sum_nanos: u64,
    /// Maximum in nanoseconds.
    pub max_nanos: u64,
}

impl PacingOutcome {
    /// Creates the outcome from the distribution of the lateness and its totals.
    pub fn new(
        method: &'static str,
        due: u64,
        unsent: u64,
        late: &DurationDistribution,
        totals: LatenessTotals,
        bursts: BurstSizes,
    ) -> Self {
        let LatenessTotals {
            sum_nanos,
            max_nanos,
        } = totals;
        let has_frames = late.count > 0;
        Self {
            method,
            due,
            unsent,
            lateness_mean_us: has_frames.then(|| sum_nanos as f64 / late.count as f64 / 1e3),
            lateness_p50_us: late.p50_us,
            lateness_p99_us: late.p99_us,
            lateness_max_us: has_frames.then_some(max_nanos as f64 / 1e3),
            bursts,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gaps_keep_the_rate_for_an_hour() {
        for per_s in [3.0, 10_000.0, 1_488_095.0, 14_880_952.0] {
            let gap = FrameGap::from_rate(per_s);
            let frames = per_s * 3600.0;
            let exact =
                (gap.nanos as f64 + gap.nanos_fraction_32_bits as f64 / 2f64.powi(32)) * frames;
            assert!(
                (exact - 3600e9).abs() < 1e6,
                "{per_s}: an hour is {exact} ns"
            );
        }
    }

    #[test]
    fn frames_within_half_a_gap_form_one_burst() {
        let start = Instant::now();
        let mut counter = BurstCounter::default();
        for (at_us, frames) in [(0, 1), (10, 1), (14, 2), (18, 1), (30, 3)] {
            let now = start + Duration::from_micros(at_us);
            counter.record(now, frames, Duration::from_micros(5));
        }
        let json = counter.finish(8);
        let pairs: Vec<(u64, u64)> = json.bursts.iter().map(|class| (*class).into()).collect();
        assert_eq!(pairs, [(1, 1), (2, 1), (4, 1)]);
        assert_eq!(json.burst_max, Some(4));
    }

    #[test]
    fn bursts_are_counted_by_the_smallest_size_of_their_class() {
        let mut classes = vec![0; BURST_CLASSES];
        classes[0] = 5;
        let bursts = BurstSizes::from_counts_by_power_of_two(12, classes, 7, 7);
        let pairs: Vec<(u64, u64)> = bursts.bursts.iter().map(|class| (*class).into()).collect();
        assert_eq!(pairs, [(1, 5), (4, 1)]);
        assert_eq!((bursts.burst_mean, bursts.burst_max), (Some(2.0), Some(7)));
        let none = BurstSizes::from_counts_by_power_of_two(0, vec![0; BURST_CLASSES], 0, 0);
        assert_eq!((none.burst_mean, none.burst_max), (None, None));
    }
}
