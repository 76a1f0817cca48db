//! A seeded generator of random numbers (SplitMix64: Steele, Lea & Flood, "Fast splittable pseudorandom number
//! generators", 2014). The sequence of a seed never changes, so a campaign can be replayed.

/// A generator; the same seed yields the same sequence.
pub struct RandomSource(u64);

impl RandomSource {
    /// Creates a generator from a seed.
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// Samples the uniform distribution on [0, 1).
    pub fn sample_uniform(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// Returns true with this probability.
    pub fn sample_bernoulli(&mut self, probability: f64) -> bool {
        probability > 0.0 && self.sample_uniform() < probability
    }

    /// Samples the standard normal distribution (Box and Muller, 1958).
    pub fn sample_normal(&mut self) -> f64 {
        let radius = (-2.0 * (1.0 - self.sample_uniform()).ln()).sqrt();
        radius * (std::f64::consts::TAU * self.sample_uniform()).cos()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_seeds_yield_equal_sequences_and_others_do_not() {
        let samples = |seed| {
            let mut random = RandomSource::new(seed);
            [
                random.sample_uniform(),
                random.sample_normal(),
                random.sample_uniform(),
            ]
        };
        assert_eq!(samples(1), samples(1));
        assert_ne!(samples(1), samples(2));
    }

    #[test]
    fn normal_samples_have_mean_0_and_standard_deviation_1() {
        let mut random = RandomSource::new(3);
        let samples: Vec<f64> = (0..100_000).map(|_| random.sample_normal()).collect();
        let mean = samples.iter().sum::<f64>() / samples.len() as f64;
        let squares: f64 = samples.iter().map(|x| (x - mean).powi(2)).sum();
        let deviation = (squares / samples.len() as f64).sqrt();
        assert!(mean.abs() < 0.02 && (deviation - 1.0).abs() < 0.02);
    }
}
