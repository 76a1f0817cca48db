//! Impairments of a direction: delay, jitter, loss and reordering, and the sampling of their outcomes.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::random::RandomSource;
use vnetbench_system::error::{RequestError, Result};

const MAX_DELAY_US: f64 = 60e6;
const MAX_MEAN_LOSS_BURST_SEGMENTS: f64 = 1e6;

/// Distribution of the jitter.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum JitterDistribution {
    /// Uniform between delay minus jitter and delay plus jitter.
    #[default]
    Uniform,
    /// Normal with the jitter as its standard deviation, truncated at 0.
    Normal,
}

/// Impairments of one direction.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Impairments {
    /// Delay of each frame.
    delay_us: f64,
    /// Jitter; see [`JitterDistribution`].
    jitter_us: f64,
    distribution: JitterDistribution,
    /// Probability that a segment is lost.
    loss: f64,
    /// Mean number of consecutive losses (Gilbert, "Capacity of a burst-noise channel", 1960, where all segments are lost
    /// in the bad state); `None` for independent losses.
    loss_burst: Option<f64>,
    /// Probability that a segment is reordered.
    reorder: f64,
    /// Additional delay of reordered segments.
    reorder_us: f64,
}

impl Default for Impairments {
    fn default() -> Self {
        Self {
            delay_us: 0.0,
            jitter_us: 0.0,
            distribution: JitterDistribution::Uniform,
            loss: 0.0,
            loss_burst: None,
            reorder: 0.0,
            reorder_us: 250.0,
        }
    }
}

impl Impairments {
    /// Checks that all parameters are in range and can be combined.
    ///
    /// # Errors
    ///
    /// Returns the first parameter that is invalid.
    pub fn check_parameters(&self) -> Result<()> {
        let times = [
            ("delay_us", self.delay_us),
            ("jitter_us", self.jitter_us),
            ("reorder_us", self.reorder_us),
        ];
        for (name, value) in times {
            check_range(name, value, 0.0, MAX_DELAY_US)?;
        }
        check_range("loss", self.loss, 0.0, 1.0)?;
        check_range("reorder", self.reorder, 0.0, 1.0)?;
        if let Some(burst) = self.loss_burst {
            check_range("loss_burst", burst, 1.0, MAX_MEAN_LOSS_BURST_SEGMENTS)?;
            let entry_probability = self.loss / (1.0 - self.loss) / burst;
            if entry_probability > 1.0 || self.loss == 1.0 {
                return reject_parameter(format!(
                    "a loss of {} needs loss_burst above {burst}",
                    self.loss
                ));
            }
        }
        if self.jitter_us > self.delay_us {
            return reject_parameter(
                "jitter_us must be at most delay_us: a delay cannot be negative".into(),
            );
        }
        Ok(())
    }
}

fn check_range(name: &str, value: f64, min: f64, max: f64) -> Result<()> {
    if (min..=max).contains(&value) {
        return Ok(());
    }
    reject_parameter(format!("{name} must be between {min} and {max}"))
}

fn reject_parameter<T>(message: String) -> Result<T> {
    Err(RequestError::BadParameter(message))
}

/// Outcome of a segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SegmentOutcome {
    /// Delivered in order.
    Passed,
    /// Dropped.
    Lost,
    /// Delivered later than its frame.
    Reordered,
}

/// Samples the delay of each frame and the outcome of each segment, in order.
pub struct ImpairmentSampler {
    impairments: Impairments,
    random: RandomSource,
    is_in_burst: bool,
}

impl ImpairmentSampler {
    /// Creates a sampler; equal seeds yield equal outcomes.
    pub fn new(impairments: Impairments, seed: u64) -> Self {
        Self {
            impairments,
            random: RandomSource::new(seed),
            is_in_burst: false,
        }
    }

    /// Samples the delay of the next frame.
    pub fn sample_frame_delay(&mut self) -> Duration {
        let Impairments {
            delay_us,
            jitter_us,
            ..
        } = self.impairments;
        let jitter = match self.impairments.distribution {
            _ if jitter_us == 0.0 => 0.0,
            JitterDistribution::Uniform => 2.0 * self.random.sample_uniform() - 1.0,
            JitterDistribution::Normal => self.random.sample_normal(),
        };
        Duration::from_secs_f64((delay_us + jitter * jitter_us).max(0.0) / 1e6)
    }

    /// Returns the additional delay of a reordered segment.
    pub fn extra_reorder_delay(&self) -> Duration {
        Duration::from_secs_f64(self.impairments.reorder_us / 1e6)
    }

    /// Returns whether no segment can be lost or reordered.
    pub fn passes_every_segment(&self) -> bool {
        self.impairments.loss == 0.0 && self.impairments.reorder == 0.0
    }

    /// Samples the outcome of the next segment.
    pub fn sample_segment_outcome(&mut self) -> SegmentOutcome {
        if self.sample_segment_loss() {
            return SegmentOutcome::Lost;
        }
        if self.random.sample_bernoulli(self.impairments.reorder) {
            return SegmentOutcome::Reordered;
        }
        SegmentOutcome::Passed
    }

    fn sample_segment_loss(&mut self) -> bool {
        let loss = self.impairments.loss;
        let Some(burst) = self.impairments.loss_burst else {
            return self.random.sample_bernoulli(loss);
        };
        // In equilibrium, bursts start as often as they end; this gives the requested loss.
        let entry_probability = loss / (1.0 - loss) / burst;
        let change_probability = if self.is_in_burst {
            1.0 / burst
        } else {
            entry_probability
        };
        self.is_in_burst ^= self.random.sample_bernoulli(change_probability);
        self.is_in_burst
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SAMPLES: usize = 400_000;

    fn impairments() -> Impairments {
        Impairments {
            delay_us: 1000.0,
            ..Impairments::default()
        }
    }

    fn shares(impairments: Impairments) -> (f64, f64, f64) {
        let mut sampler = ImpairmentSampler::new(impairments, 11);
        let samples: Vec<SegmentOutcome> = (0..SAMPLES)
            .map(|_| sampler.sample_segment_outcome())
            .collect();
        let share = |outcome| {
            samples.iter().filter(|each| **each == outcome).count() as f64 / SAMPLES as f64
        };
        let burst_starts = samples
            .windows(2)
            .filter(|pair| pair[0] != SegmentOutcome::Lost && pair[1] == SegmentOutcome::Lost);
        let lost = share(SegmentOutcome::Lost);
        (
            lost,
            share(SegmentOutcome::Reordered),
            lost * SAMPLES as f64 / burst_starts.count() as f64,
        )
    }

    #[test]
    fn loss_and_reordering_have_the_requested_probability() {
        let (lost, reordered, mean_burst) = shares(Impairments {
            loss: 0.02,
            reorder: 0.05,
            ..impairments()
        });
        assert!((lost - 0.02).abs() < 0.002, "{lost}");
        assert!((reordered - 0.05 * 0.98).abs() < 0.003, "{reordered}");
        assert!((mean_burst - 1.0 / 0.98).abs() < 0.05, "{mean_burst}");
    }

    #[test]
    fn loss_bursts_have_the_requested_length_and_loss() {
        let (lost, _, mean_burst) = shares(Impairments {
            loss: 0.02,
            loss_burst: Some(8.0),
            ..impairments()
        });
        assert!((lost - 0.02).abs() < 0.004, "{lost}");
        assert!((mean_burst - 8.0).abs() < 0.8, "{mean_burst}");
    }

    #[test]
    fn delays_follow_the_requested_distribution() {
        let measure = |distribution| {
            let jittered = Impairments {
                jitter_us: 200.0,
                distribution,
                ..impairments()
            };
            let mut sampler = ImpairmentSampler::new(jittered, 5);
            let samples: Vec<f64> = (0..SAMPLES)
                .map(|_| sampler.sample_frame_delay().as_secs_f64() * 1e6)
                .collect();
            let mean = samples.iter().sum::<f64>() / SAMPLES as f64;
            let beyond = samples
                .iter()
                .filter(|us| (**us - 1000.0).abs() > 200.1)
                .count();
            (mean, beyond as f64 / SAMPLES as f64)
        };
        let (mean, beyond) = measure(JitterDistribution::Uniform);
        assert!((mean - 1000.0).abs() < 2.0 && beyond == 0.0);
        let (mean, beyond) = measure(JitterDistribution::Normal);
        assert!((mean - 1000.0).abs() < 2.0 && (beyond - 0.317).abs() < 0.01);
        let mut steady = ImpairmentSampler::new(impairments(), 5);
        assert_eq!(steady.sample_frame_delay(), Duration::from_millis(1));
    }

    #[test]
    fn invalid_impairments_are_rejected() {
        let wrong = [
            Impairments {
                delay_us: -1.0,
                ..impairments()
            },
            Impairments {
                delay_us: f64::NAN,
                ..impairments()
            },
            Impairments {
                jitter_us: 1001.0,
                ..impairments()
            },
            Impairments {
                loss: 1.5,
                ..impairments()
            },
            Impairments {
                loss: 0.6,
                loss_burst: Some(1.0),
                ..impairments()
            },
            Impairments {
                loss: 1.0,
                loss_burst: Some(8.0),
                ..impairments()
            },
            Impairments {
                reorder: -0.1,
                ..impairments()
            },
        ];
        for each in wrong {
            assert!(each.check_parameters().is_err(), "{each:?}");
        }
        assert!(impairments().check_parameters().is_ok());
    }
}
