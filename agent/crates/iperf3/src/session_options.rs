//! The options of a test that each side sets for itself.

use std::time::Duration;

use crate::units::RateFormat;

/// What both sides set for themselves.
#[derive(Debug, Clone)]
pub struct SessionOptions {
    /// `None`: one interval, the whole test.
    pub interval: Option<Duration>,
    pub format: RateFormat,
    pub json: bool,
    /// A test in which nothing moves for so long is given up.
    pub idle_timeout: Duration,
}
