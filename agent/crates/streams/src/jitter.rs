//! Interarrival jitter as RFC 3550 defines it (section 6.4.1): the mean deviation of the transit time, smoothed by 16.

/// What a receiver keeps of one stream. The offset between the two clocks cancels out.
#[derive(Debug, Default)]
pub struct JitterEstimator {
    transit_nanos: Option<i64>,
    nanos: f64,
}

impl JitterEstimator {
    /// A packet has come that was so long under way, by whatever clocks.
    pub fn record(&mut self, transit_nanos: i64) {
        if let Some(before) = self.transit_nanos.replace(transit_nanos) {
            let deviation = transit_nanos.saturating_sub(before).unsigned_abs() as f64;
            self.nanos += (deviation - self.nanos) / 16.0;
        }
    }

    /// So many more have come that were as long under way as the last.
    pub fn record_equal_transits(&mut self, packets: u64) {
        self.nanos *= (15.0_f64 / 16.0).powi(packets.try_into().unwrap_or(i32::MAX));
    }

    pub fn nanos(&self) -> f64 {
        self.nanos
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(transits: &[i64]) -> f64 {
        let mut jitter = JitterEstimator::default();
        for transit in transits {
            jitter.record(*transit);
        }
        jitter.nanos()
    }

    #[test]
    fn a_constant_transit_has_none_whatever_the_clocks_say() {
        assert_eq!(of(&[-7_000_000, -7_000_000, -7_000_000]), 0.0);
    }

    #[test]
    fn each_deviation_counts_a_sixteenth() {
        assert_eq!(of(&[0, 1600]), 100.0);
        assert_eq!(of(&[0, 1600, 0]), 100.0 + 1500.0 / 16.0);
    }

    #[test]
    fn those_alike_are_counted_together_as_one_by_one() {
        let mut together = JitterEstimator::default();
        together.record(0);
        together.record(1600);
        together.record_equal_transits(3);
        assert!((together.nanos() - of(&[0, 1600, 1600, 1600, 1600])).abs() < 1e-9);
    }
}
