//! A seeded source of random samples: PCG XSL 128/64 (O'Neill, "PCG: A family of simple fast space-efficient statistically
//! good algorithms for random number generation", 2014), with exact versions of its crates. So the sequence of a seed does
//! not change between builds, and a campaign can be replayed.

use rand::{Rng, SeedableRng};
use rand_distr::StandardNormal;
use rand_pcg::Pcg64Mcg;

/// A source of random samples; the same seed yields the same sequence.
pub struct RandomSource(Pcg64Mcg);

impl RandomSource {
    /// Creates a source from a seed.
    pub fn new(seed: u64) -> Self {
        Self(Pcg64Mcg::seed_from_u64(seed))
    }

    /// Samples the uniform distribution on [0, 1).
    pub fn sample_uniform(&mut self) -> f64 {
        self.0.random()
    }

    /// Returns true with this probability.
    pub fn sample_bernoulli(&mut self, probability: f64) -> bool {
        probability > 0.0 && self.sample_uniform() < probability
    }

    /// Samples the standard normal distribution.
    pub fn sample_normal(&mut self) -> f64 {
        self.0.sample(StandardNormal)
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
    fn the_sequence_of_a_seed_does_not_change_between_builds() {
        let mut random = RandomSource::new(1);
        let samples = [random.sample_uniform(), random.sample_normal()];
        assert_eq!(samples, [0.8567171327003362, -1.117874864158608]);
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
