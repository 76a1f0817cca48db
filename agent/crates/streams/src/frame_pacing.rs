//! How a stream's frames are paced, and how well that was kept.

use std::time::{Duration, Instant};

use serde::Serialize;

use vnetbench_system::histogram::Distribution;

/// What is late is made up for with gaps so much shorter, and no more than so many frames at once: else the device would be
/// offered another load than the one that is told.
const SHORTENED_GAP_SHARE: f64 = 0.8;
const MAX_CATCH_UP: f64 = 16.0;
/// Bursts are counted by powers of two: BURST_CLASSES of bpf/generate.bpf.c.
pub const BURST_CLASSES: usize = 24;

/// The time between two frames as the program reckons with it: in nanoseconds, and 2^-32 of one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FrameGap {
    pub nanos: u64,
    pub fraction: u64,
    /// Between two of those that are late, after so long without any.
    pub shortened: u64,
    pub slack: u64,
}

impl FrameGap {
    pub fn from_rate(per_s: f64) -> Self {
        let nanos = 1e9 / per_s;
        let shortened = nanos * SHORTENED_GAP_SHARE;
        Self {
            nanos: nanos as u64,
            fraction: (nanos.fract() * (1u64 << 32) as f64) as u64,
            shortened: shortened as u64,
            slack: (shortened * MAX_CATCH_UP) as u64,
        }
    }

    /// Frames that follow each other in less are of one burst.
    pub fn half(&self) -> Duration {
        Duration::from_nanos(self.nanos / 2)
    }
}

/// How well a source kept its times.
#[derive(Debug, Serialize)]
pub struct PacingOutcome {
    /// `program` or `batches`.
    #[serde(rename = "by")]
    pub method: &'static str,
    /// Until the end of the load.
    pub due: u64,
    /// Of these, those that were never made.
    pub unsent: u64,
    pub late_mean_us: Option<f64>,
    pub late_p50_us: Option<f64>,
    pub late_p99_us: Option<f64>,
    pub late_max_us: Option<f64>,
    #[serde(flatten)]
    pub bursts: BurstSizes,
}

/// Frames that followed each other in less than half the gap between two.
#[derive(Debug, Default, Serialize)]
pub struct BurstSizes {
    pub burst_mean: Option<f64>,
    pub burst_max: Option<u64>,
    /// How many bursts were of so many frames or more, and less than twice as many.
    pub bursts: Vec<(u64, u64)>,
}

impl BurstSizes {
    /// Of classes by powers of two, and of the last one, which is in none of them yet.
    pub fn from_classes(frames: u64, mut classes: Vec<u64>, last: u64, max: u64) -> Self {
        if last > 0 {
            classes[burst_class(last)] += 1;
        }
        let count: u64 = classes.iter().sum();
        let classes = classes.into_iter().enumerate();
        Self {
            burst_mean: (count > 0).then(|| frames as f64 / count as f64),
            burst_max: (count > 0).then_some(max),
            bursts: classes
                .filter(|(_, count)| *count > 0)
                .map(|(class, count)| (1 << class, count))
                .collect(),
        }
    }
}

/// The last class is of all that are larger, too.
fn burst_class(burst: u64) -> usize {
    (burst.max(1).ilog2() as usize).min(BURST_CLASSES - 1)
}

/// Bursts as a thread counts them that hands over frames itself.
#[derive(Debug, Clone)]
pub struct BurstCounter {
    left_at: Option<Instant>,
    burst: u64,
    max: u64,
    classes: Vec<u64>,
}

impl Default for BurstCounter {
    fn default() -> Self {
        Self {
            left_at: None,
            burst: 0,
            max: 0,
            classes: vec![0; BURST_CLASSES],
        }
    }
}

impl BurstCounter {
    /// So many frames leave at once at that time.
    pub fn record(&mut self, now: Instant, frames: u64, half_gap: Duration) {
        if self
            .left_at
            .is_some_and(|left_at| now - left_at >= half_gap)
        {
            self.classes[burst_class(self.burst)] += 1;
            self.burst = 0;
        }
        self.left_at = Some(now);
        self.burst += frames;
        self.max = self.max.max(self.burst);
    }

    /// Of so many frames in all.
    pub fn finish(self, frames: u64) -> BurstSizes {
        BurstSizes::from_classes(frames, self.classes, self.burst, self.max)
    }
}

impl PacingOutcome {
    /// `late_nanos` of all frames: their sum, and the latest.
    pub fn new(
        method: &'static str,
        due: u64,
        unsent: u64,
        late: &Distribution,
        late_nanos: (u64, u64),
        bursts: BurstSizes,
    ) -> Self {
        let (sum, max) = late_nanos;
        let any = late.count > 0;
        Self {
            method,
            due,
            unsent,
            late_mean_us: any.then(|| sum as f64 / late.count as f64 / 1e3),
            late_p50_us: late.p50_us,
            late_p99_us: late.p99_us,
            late_max_us: any.then_some(max as f64 / 1e3),
            bursts,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gaps_add_up_to_the_rate_for_as_long_as_a_trial_takes() {
        for per_s in [3.0, 10_000.0, 1_488_095.0, 14_880_952.0] {
            let gap = FrameGap::from_rate(per_s);
            let frames = per_s * 3600.0;
            let exact = (gap.nanos as f64 + gap.fraction as f64 / 2f64.powi(32)) * frames;
            assert!(
                (exact - 3600e9).abs() < 1e6,
                "{per_s}: an hour is {exact} ns"
            );
        }
    }

    #[test]
    fn frames_that_leave_within_half_a_gap_are_one_burst() {
        let start = Instant::now();
        let mut counter = BurstCounter::default();
        for (at_us, frames) in [(0, 1), (10, 1), (14, 2), (18, 1), (30, 3)] {
            let now = start + Duration::from_micros(at_us);
            counter.record(now, frames, Duration::from_micros(5));
        }
        let json = counter.finish(8);
        assert_eq!(json.bursts, [(1, 1), (2, 1), (4, 1)]);
        assert_eq!(json.burst_max, Some(4));
    }

    #[test]
    fn bursts_are_told_by_their_least_size() {
        let mut classes = vec![0; BURST_CLASSES];
        classes[0] = 5;
        let bursts = BurstSizes::from_classes(12, classes, 7, 7);
        assert_eq!(bursts.bursts, [(1, 5), (4, 1)]);
        assert_eq!((bursts.burst_mean, bursts.burst_max), (Some(2.0), Some(7)));
        let none = BurstSizes::from_classes(0, vec![0; BURST_CLASSES], 0, 0);
        assert_eq!((none.burst_mean, none.burst_max), (None, None));
    }
}
