//! Interarrival jitter (RFC 3550, section 6.4.1): the mean deviation of the transit time, smoothed by 1/16.

/// Estimates the jitter of one stream. The offset between the two clocks cancels out.
#[derive(Debug, Default)]
pub struct JitterEstimator {
    transit_nanos: Option<i64>,
    nanos: f64,
}

impl JitterEstimator {
    /// Records the transit time of a packet; any offset between the clocks is allowed.
    pub fn record(&mut self, transit_nanos: i64) {
        if let Some(before) = self.transit_nanos.replace(transit_nanos) {
            let deviation = transit_nanos.saturating_sub(before).unsigned_abs() as f64;
            self.nanos += (deviation - self.nanos) / 16.0;
        }
    }

    /// Records packets with the same transit time as the last.
    pub fn record_packets_with_last_transit(&mut self, packets: u64) {
        self.nanos *= (15.0_f64 / 16.0).powi(packets.try_into().unwrap_or(i32::MAX));
    }

    /// Returns the jitter in nanoseconds.
    pub fn jitter_nanos(&self) -> f64 {
        self.nanos
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn jitter_nanos(transits: &[i64]) -> f64 {
        let mut jitter = JitterEstimator::default();
        for transit in transits {
            jitter.record(*transit);
        }
        jitter.jitter_nanos()
    }

    #[test]
    fn a_constant_transit_time_has_no_jitter() {
        assert_eq!(jitter_nanos(&[-7_000_000, -7_000_000, -7_000_000]), 0.0);
    }

    #[test]
    fn each_deviation_has_a_weight_of_one_sixteenth() {
        assert_eq!(jitter_nanos(&[0, 1600]), 100.0);
        assert_eq!(jitter_nanos(&[0, 1600, 0]), 100.0 + 1500.0 / 16.0);
    }

    #[test]
    fn equal_transit_times_count_the_same_together_as_one_by_one() {
        let mut together = JitterEstimator::default();
        together.record(0);
        together.record(1600);
        together.record_packets_with_last_transit(3);
        assert!(
            (together.jitter_nanos() - jitter_nanos(&[0, 1600, 1600, 1600, 1600])).abs() < 1e-9
        );
    }
}
