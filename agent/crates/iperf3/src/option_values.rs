//! Parsers of option values in iperf3's notation. clap adds the name of the option to their error messages.

use std::fmt::Display;
use std::ops::RangeInclusive;
use std::time::Duration;

use crate::limits::MAX_BURST_BLOCKS;
use crate::units::{RateFormat, parse_count};

/// Base of the suffixes K, M, G and T of an amount of data.
const BYTE_PREFIX_BASE: u64 = 1024;
/// Base of the suffixes K, M, G and T of a rate.
const RATE_PREFIX_BASE: u64 = 1000;
/// Allowed times between interval lines, apart from 0.
const ALLOWED_INTERVAL_S: RangeInclusive<f64> = 0.1..=60.0;

/// Returns a parser for a whole number within `allowed`.
pub fn make_integer_parser<T>(
    allowed: RangeInclusive<T>,
) -> impl Fn(&str) -> Result<T, String> + Clone + Send + Sync
where
    T: std::str::FromStr + PartialOrd + Display + Clone + Send + Sync,
{
    move |text| require_within(text.parse().ok(), &allowed)
}

/// Returns a parser for a number within `allowed`; a suffix K, M, G or T is a power of 1024.
pub fn make_count_parser<T>(
    allowed: RangeInclusive<T>,
) -> impl Fn(&str) -> Result<T, String> + Clone + Send + Sync
where
    T: TryFrom<u64> + PartialOrd + Display + Clone + Send + Sync,
{
    move |text| {
        let number =
            parse_count(text, BYTE_PREFIX_BASE).and_then(|number| T::try_from(number).ok());
        require_within(number, &allowed)
    }
}

fn require_within<T: PartialOrd + Display>(
    number: Option<T>,
    allowed: &RangeInclusive<T>,
) -> Result<T, String> {
    number
        .filter(|number| allowed.contains(number))
        .ok_or_else(|| format!("must be from {} to {}", allowed.start(), allowed.end()))
}

/// Returns a parser for a time in seconds, from 0 to `max_s`.
pub fn make_seconds_parser(
    max_s: f64,
) -> impl Fn(&str) -> Result<Duration, String> + Clone + Send + Sync {
    move |text| require_within(text.parse().ok(), &(0.0..=max_s)).map(Duration::from_secs_f64)
}

/// Returns a parser for a time in milliseconds within `allowed`.
pub fn make_milliseconds_parser(
    allowed: RangeInclusive<u64>,
) -> impl Fn(&str) -> Result<Duration, String> + Clone + Send + Sync {
    move |text| require_within(text.parse().ok(), &allowed).map(Duration::from_millis)
}

/// Parses the time between interval lines; 0 means a single interval.
pub fn parse_interval(text: &str) -> Result<Duration, String> {
    text.parse()
        .ok()
        .filter(|seconds| *seconds == 0.0 || ALLOWED_INTERVAL_S.contains(seconds))
        .map(Duration::from_secs_f64)
        .ok_or_else(|| {
            format!(
                "must be 0 (a single interval) or from {} to {} seconds",
                ALLOWED_INTERVAL_S.start(),
                ALLOWED_INTERVAL_S.end()
            )
        })
}

/// Parses the unit of printed rates.
pub fn parse_rate_format(text: &str) -> Result<RateFormat, String> {
    RateFormat::parse(text).ok_or_else(|| "must be one of k m g t (bits) or K M G T (bytes)".into())
}

/// The value of `-b`: the rate of each stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RateLimit {
    /// Rate in bit/s; 0 means unlimited.
    pub rate_bps: u64,
    /// Number of blocks sent back to back; 0 means 1.
    pub burst_blocks: u32,
}

/// Parses a rate: `10M`, or `10M/5` for bursts of five blocks.
pub fn parse_rate_limit(text: &str) -> Result<RateLimit, String> {
    let (rate, burst) = text.split_once('/').unwrap_or((text, "0"));
    parse_count(rate, RATE_PREFIX_BASE)
        .zip(burst.parse().ok().filter(|burst| *burst <= MAX_BURST_BLOCKS))
        .map(|(rate_bps, burst_blocks)| RateLimit {
            rate_bps,
            burst_blocks,
        })
        .ok_or_else(|| {
            format!(
                "must be a rate in bit/s such as 10M, or 10M/5 with a burst of at most {MAX_BURST_BLOCKS} blocks"
            )
        })
}

/// Parses a type of service in iperf3's notation: decimal, octal (leading 0) or hexadecimal (leading 0x).
pub fn parse_type_of_service(text: &str) -> Result<u32, String> {
    let lower = text.to_ascii_lowercase();
    let number = if let Some(digits) = lower.strip_prefix("0x") {
        u32::from_str_radix(digits, 16)
    } else if lower.len() > 1 && lower.starts_with('0') {
        u32::from_str_radix(&lower, 8)
    } else {
        lower.parse()
    };
    require_within(number.ok(), &(0..=255))
}
