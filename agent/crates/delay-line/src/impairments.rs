//! What a direction of a line does to frames on purpose: how long each takes, and which segments are lost or held back.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::random::Random;
use vnetbench_system::error::{Error, Result};

const MAX_DELAY_US: f64 = 60e6;
const MAX_LOSS_BURST: f64 = 1e6;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Distribution {
    /// As likely anywhere from the delay less the jitter to the delay and the jitter.
    #[default]
    Uniform,
    /// The jitter is the standard deviation; no delay is below 0.
    Normal,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Impairments {
    delay_us: f64,
    jitter_us: f64,
    distribution: Distribution,
    /// Share of the segments.
    loss: f64,
    /// Segments that are lost in a row, on average (Gilbert, "Capacity of a burst-noise channel", 1960, with all lost in the
    /// bad state); `None`: each by itself.
    loss_burst: Option<f64>,
    /// Share of the segments.
    reorder: f64,
    /// By so much these are held back.
    reorder_us: f64,
}

impl Default for Impairments {
    fn default() -> Self {
        Self {
            delay_us: 0.0,
            jitter_us: 0.0,
            distribution: Distribution::Uniform,
            loss: 0.0,
            loss_burst: None,
            reorder: 0.0,
            reorder_us: 250.0,
        }
    }
}

impl Impairments {
    pub fn check(&self) -> Result<()> {
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
            check_range("loss_burst", burst, 1.0, MAX_LOSS_BURST)?;
            let leaves_good = self.loss / (1.0 - self.loss) / burst;
            if leaves_good > 1.0 || self.loss == 1.0 {
                return bad_parameter(format!(
                    "a loss of {} needs bursts longer than {burst}",
                    self.loss
                ));
            }
        }
        if self.jitter_us > self.delay_us {
            return bad_parameter(
                "jitter_us may be delay_us at most: no frame leaves before it comes".into(),
            );
        }
        Ok(())
    }
}

fn check_range(name: &str, value: f64, least: f64, most: f64) -> Result<()> {
    if (least..=most).contains(&value) {
        return Ok(());
    }
    bad_parameter(format!("{name} must lie within {least} and {most}"))
}

fn bad_parameter<T>(what: String) -> Result<T> {
    Err(Error::BadParameter(what))
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SegmentOutcome {
    Passed,
    Lost,
    Reordered,
}

/// The drawing of what happens to each frame and segment in turn.
pub struct ImpairmentSampler {
    impairments: Impairments,
    random: Random,
    is_in_burst: bool,
}

impl ImpairmentSampler {
    pub fn new(impairments: Impairments, seed: u64) -> Self {
        Self {
            impairments,
            random: Random::new(seed),
            is_in_burst: false,
        }
    }

    /// Of the next frame.
    pub fn sample_delay(&mut self) -> Duration {
        let Impairments {
            delay_us,
            jitter_us,
            ..
        } = self.impairments;
        let off = match self.impairments.distribution {
            _ if jitter_us == 0.0 => 0.0,
            Distribution::Uniform => 2.0 * self.random.uniform() - 1.0,
            Distribution::Normal => self.random.normal(),
        };
        Duration::from_secs_f64((delay_us + off * jitter_us).max(0.0) / 1e6)
    }

    pub fn reorder_delay(&self) -> Duration {
        Duration::from_secs_f64(self.impairments.reorder_us / 1e6)
    }

    /// Whether all segments pass, whatever is drawn.
    pub fn passes_every_segment(&self) -> bool {
        self.impairments.loss == 0.0 && self.impairments.reorder == 0.0
    }

    /// Of the next segment.
    pub fn sample_segment(&mut self) -> SegmentOutcome {
        if self.sample_loss() {
            return SegmentOutcome::Lost;
        }
        if self.random.is_drawn(self.impairments.reorder) {
            return SegmentOutcome::Reordered;
        }
        SegmentOutcome::Passed
    }

    fn sample_loss(&mut self) -> bool {
        let loss = self.impairments.loss;
        let Some(burst) = self.impairments.loss_burst else {
            return self.random.is_drawn(loss);
        };
        // So many are lost in the long run: entering and leaving a burst are in balance.
        let entering = loss / (1.0 - loss) / burst;
        let changes = if self.is_in_burst {
            1.0 / burst
        } else {
            entering
        };
        self.is_in_burst ^= self.random.is_drawn(changes);
        self.is_in_burst
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DRAWN: usize = 400_000;

    fn impairments() -> Impairments {
        Impairments {
            delay_us: 1000.0,
            ..Impairments::default()
        }
    }

    fn shares(impairments: Impairments) -> (f64, f64, f64) {
        let mut sampler = ImpairmentSampler::new(impairments, 11);
        let drawn: Vec<SegmentOutcome> = (0..DRAWN).map(|_| sampler.sample_segment()).collect();
        let share = |fate| drawn.iter().filter(|each| **each == fate).count() as f64 / DRAWN as f64;
        let begun = drawn
            .windows(2)
            .filter(|pair| pair[0] != SegmentOutcome::Lost && pair[1] == SegmentOutcome::Lost);
        let lost = share(SegmentOutcome::Lost);
        (
            lost,
            share(SegmentOutcome::Reordered),
            lost * DRAWN as f64 / begun.count() as f64,
        )
    }

    #[test]
    fn so_many_are_lost_and_held_back_as_are_asked_for() {
        let (lost, held, in_a_row) = shares(Impairments {
            loss: 0.02,
            reorder: 0.05,
            ..impairments()
        });
        assert!((lost - 0.02).abs() < 0.002, "{lost}");
        assert!((held - 0.05 * 0.98).abs() < 0.003, "{held}");
        assert!((in_a_row - 1.0 / 0.98).abs() < 0.05, "{in_a_row}");
    }

    #[test]
    fn bursts_are_as_long_as_asked_for_and_lose_no_more() {
        let (lost, _, in_a_row) = shares(Impairments {
            loss: 0.02,
            loss_burst: Some(8.0),
            ..impairments()
        });
        assert!((lost - 0.02).abs() < 0.004, "{lost}");
        assert!((in_a_row - 8.0).abs() < 0.8, "{in_a_row}");
    }

    #[test]
    fn delays_lie_about_what_is_asked_for() {
        let of = |distribution| {
            let jittered = Impairments {
                jitter_us: 200.0,
                distribution,
                ..impairments()
            };
            let mut sampler = ImpairmentSampler::new(jittered, 5);
            let drawn: Vec<f64> = (0..DRAWN)
                .map(|_| sampler.sample_delay().as_secs_f64() * 1e6)
                .collect();
            let mean = drawn.iter().sum::<f64>() / DRAWN as f64;
            let beyond = drawn
                .iter()
                .filter(|us| (**us - 1000.0).abs() > 200.1)
                .count();
            (mean, beyond as f64 / DRAWN as f64)
        };
        let (mean, beyond) = of(Distribution::Uniform);
        assert!((mean - 1000.0).abs() < 2.0 && beyond == 0.0);
        let (mean, beyond) = of(Distribution::Normal);
        assert!((mean - 1000.0).abs() < 2.0 && (beyond - 0.317).abs() < 0.01);
        let mut steady = ImpairmentSampler::new(impairments(), 5);
        assert_eq!(steady.sample_delay(), Duration::from_millis(1));
    }

    #[test]
    fn what_cannot_be_is_refused() {
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
            assert!(each.check().is_err(), "{each:?}");
        }
        assert!(impairments().check().is_ok());
    }
}
