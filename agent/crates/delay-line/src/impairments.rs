//! What a direction of a line does to frames on purpose: how long each takes, and which segments are lost or held back.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::random::Random;
use vnetbench_system::error::{Error, Result};

const MOST_DELAY_US: f64 = 60e6;
const MOST_BURST: f64 = 1e6;

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
            within(name, value, 0.0, MOST_DELAY_US)?;
        }
        within("loss", self.loss, 0.0, 1.0)?;
        within("reorder", self.reorder, 0.0, 1.0)?;
        if let Some(burst) = self.loss_burst {
            within("loss_burst", burst, 1.0, MOST_BURST)?;
            let leaves_good = self.loss / (1.0 - self.loss) / burst;
            if leaves_good > 1.0 || self.loss == 1.0 {
                return bad(format!(
                    "a loss of {} needs bursts longer than {burst}",
                    self.loss
                ));
            }
        }
        if self.jitter_us > self.delay_us {
            return bad(
                "jitter_us may be delay_us at most: no frame leaves before it comes".into(),
            );
        }
        Ok(())
    }
}

fn within(name: &str, value: f64, least: f64, most: f64) -> Result<()> {
    if (least..=most).contains(&value) {
        return Ok(());
    }
    bad(format!("{name} must lie within {least} and {most}"))
}

fn bad<T>(what: String) -> Result<T> {
    Err(Error::BadParameter(what))
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fate {
    Passed,
    Lost,
    HeldBack,
}

/// The drawing of what happens to each frame and segment in turn.
pub struct Fates {
    asked: Impairments,
    random: Random,
    is_in_burst: bool,
}

impl Fates {
    pub fn of(asked: Impairments, seed: u64) -> Self {
        Self {
            asked,
            random: Random::of(seed),
            is_in_burst: false,
        }
    }

    /// Of the next frame.
    pub fn delay(&mut self) -> Duration {
        let Impairments {
            delay_us,
            jitter_us,
            ..
        } = self.asked;
        let off = match self.asked.distribution {
            _ if jitter_us == 0.0 => 0.0,
            Distribution::Uniform => 2.0 * self.random.share() - 1.0,
            Distribution::Normal => self.random.normal(),
        };
        Duration::from_secs_f64((delay_us + off * jitter_us).max(0.0) / 1e6)
    }

    pub fn held_back_for(&self) -> Duration {
        Duration::from_secs_f64(self.asked.reorder_us / 1e6)
    }

    /// Whether all segments pass, whatever is drawn.
    pub fn pass_all(&self) -> bool {
        self.asked.loss == 0.0 && self.asked.reorder == 0.0
    }

    /// Of the next segment.
    pub fn next(&mut self) -> Fate {
        if self.loses() {
            return Fate::Lost;
        }
        if self.random.happens(self.asked.reorder) {
            return Fate::HeldBack;
        }
        Fate::Passed
    }

    fn loses(&mut self) -> bool {
        let loss = self.asked.loss;
        let Some(burst) = self.asked.loss_burst else {
            return self.random.happens(loss);
        };
        // So many are lost in the long run: entering and leaving a burst are in balance.
        let entering = loss / (1.0 - loss) / burst;
        let changes = if self.is_in_burst {
            1.0 / burst
        } else {
            entering
        };
        self.is_in_burst ^= self.random.happens(changes);
        self.is_in_burst
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DRAWN: usize = 400_000;

    fn asked() -> Impairments {
        Impairments {
            delay_us: 1000.0,
            ..Impairments::default()
        }
    }

    fn shares(asked: Impairments) -> (f64, f64, f64) {
        let mut fates = Fates::of(asked, 11);
        let drawn: Vec<Fate> = (0..DRAWN).map(|_| fates.next()).collect();
        let share = |fate| drawn.iter().filter(|each| **each == fate).count() as f64 / DRAWN as f64;
        let begun = drawn
            .windows(2)
            .filter(|pair| pair[0] != Fate::Lost && pair[1] == Fate::Lost);
        let lost = share(Fate::Lost);
        (
            lost,
            share(Fate::HeldBack),
            lost * DRAWN as f64 / begun.count() as f64,
        )
    }

    #[test]
    fn so_many_are_lost_and_held_back_as_are_asked_for() {
        let (lost, held, in_a_row) = shares(Impairments {
            loss: 0.02,
            reorder: 0.05,
            ..asked()
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
            ..asked()
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
                ..asked()
            };
            let mut fates = Fates::of(jittered, 5);
            let drawn: Vec<f64> = (0..DRAWN)
                .map(|_| fates.delay().as_secs_f64() * 1e6)
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
        let mut steady = Fates::of(asked(), 5);
        assert_eq!(steady.delay(), Duration::from_millis(1));
    }

    #[test]
    fn what_cannot_be_is_refused() {
        let wrong = [
            Impairments {
                delay_us: -1.0,
                ..asked()
            },
            Impairments {
                delay_us: f64::NAN,
                ..asked()
            },
            Impairments {
                jitter_us: 1001.0,
                ..asked()
            },
            Impairments {
                loss: 1.5,
                ..asked()
            },
            Impairments {
                loss: 0.6,
                loss_burst: Some(1.0),
                ..asked()
            },
            Impairments {
                loss: 1.0,
                loss_burst: Some(8.0),
                ..asked()
            },
            Impairments {
                reorder: -0.1,
                ..asked()
            },
        ];
        for each in wrong {
            assert!(each.check().is_err(), "{each:?}");
        }
        assert!(asked().check().is_ok());
    }
}
