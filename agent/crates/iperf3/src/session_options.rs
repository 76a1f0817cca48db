//! Options of a test that each host sets for itself.

use std::time::Duration;

use clap::{Arg, Args};

use crate::option_values::{make_milliseconds_parser, parse_interval, parse_rate_format};
use crate::units::RateFormat;

/// Output and timeout of a test on this host.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Output and timeout")]
pub struct SessionOptions {
    /// Seconds between interval lines, from 0.1 to 60; 0 for a single interval.
    #[arg(short, long, value_name = "S", default_value = "1", value_parser = parse_interval)]
    pub interval: Duration,
    /// Unit of rates: k m g t (bit/s) or K M G T (byte/s) [default: the bit/s unit that fits].
    #[arg(short, long, value_name = "LETTER", value_parser = parse_rate_format)]
    pub format: Option<RateFormat>,
    /// Print JSON instead of text.
    #[arg(short = 'J', long)]
    pub json: bool,
    /// Abort a test that transfers no data for this time, in milliseconds.
    #[arg(
        long = "rcv-timeout",
        value_name = "MS",
        default_value = "120000",
        value_parser = make_milliseconds_parser(100..=86_400_000)
    )]
    pub idle_timeout: Duration,
}

impl SessionOptions {
    /// Returns the time between interval lines; `None` for a single interval.
    pub fn line_interval(&self) -> Option<Duration> {
        (!self.interval.is_zero()).then_some(self.interval)
    }
}

/// Makes the next word the value of an option, even if it begins with a dash, as getopt does.
///
/// One difference remains: of `-T=x`, clap takes the value `x`, and getopt `=x`.
pub fn allow_leading_dash(argument: Arg) -> Arg {
    let has_value = !argument.is_positional() && argument.get_action().takes_values();
    argument.allow_hyphen_values(has_value)
}
