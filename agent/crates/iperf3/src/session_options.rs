//! Options of a test that each host sets for itself.

use std::time::Duration;

use crate::units::RateFormat;

/// Output and timeout of a test on this host.
#[derive(Debug, Clone)]
pub struct SessionOptions {
    /// Time between interval lines; `None` for a single interval.
    pub interval: Option<Duration>,
    /// Unit of printed rates.
    pub format: RateFormat,
    /// Whether the output is JSON.
    pub json: bool,
    /// Time after which a test without data transfer is aborted.
    pub idle_timeout: Duration,
}
