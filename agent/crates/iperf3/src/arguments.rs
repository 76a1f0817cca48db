//! Splits a command line into options and positional arguments.
//!
//! All spellings of getopt are accepted: `-p5201`, `-p 5201`, `-uR`, `--port=5201`.

use std::str::FromStr;
use std::time::Duration;

use crate::units::parse_count;

/// One option or positional argument.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Argument {
    /// A one-letter option, without its dash.
    Short(String),
    /// A long option, without its dashes.
    Long(String),
    /// An argument that is no option.
    Positional(String),
}

impl Argument {
    /// Returns the option's name without dashes; empty for a positional argument.
    pub fn name(&self) -> &str {
        match self {
            Self::Short(name) | Self::Long(name) => name,
            Self::Positional(_) => "",
        }
    }
}

/// Iterates over the arguments of a command line.
pub struct ArgumentParser<'a> {
    words: std::slice::Iter<'a, String>,
    /// The unread short options of the current word, or the value after `=`.
    remainder: String,
    is_remainder_value: bool,
    last_option: String,
}

impl<'a> ArgumentParser<'a> {
    /// Creates a parser for these words.
    pub fn new(words: &'a [String]) -> Self {
        Self {
            words: words.iter(),
            remainder: String::new(),
            is_remainder_value: false,
            last_option: String::new(),
        }
    }

    /// Returns the next option or positional argument.
    pub fn next(&mut self) -> Option<Argument> {
        if !self.remainder.is_empty() && !self.is_remainder_value {
            return Some(self.next_short());
        }
        // The value was not read: the option takes none. Return it, so that it is reported as unexpected.
        if std::mem::take(&mut self.is_remainder_value) {
            return Some(Argument::Positional(format!(
                "={}",
                std::mem::take(&mut self.remainder)
            )));
        }
        let word = self.words.next()?;
        if let Some(long) = word.strip_prefix("--") {
            let (name, value) = long
                .split_once('=')
                .map_or((long, None), |(name, value)| (name, Some(value)));
            self.last_option = format!("--{name}");
            self.remainder = value.unwrap_or_default().into();
            self.is_remainder_value = value.is_some();
            return Some(Argument::Long(name.into()));
        }
        match word.strip_prefix('-') {
            Some(letters) if !letters.is_empty() => {
                self.remainder = letters.into();
                Some(self.next_short())
            }
            _ => Some(Argument::Positional(word.clone())),
        }
    }

    fn next_short(&mut self) -> Argument {
        let letter: String = self.remainder.chars().take(1).collect();
        self.remainder = self.remainder.chars().skip(1).collect();
        self.last_option = format!("-{letter}");
        Argument::Short(letter)
    }

    /// Returns the value of the option that `next` returned last.
    pub fn value(&mut self) -> Result<String, String> {
        let value = std::mem::take(&mut self.remainder);
        if std::mem::take(&mut self.is_remainder_value) || !value.is_empty() {
            return Ok(value);
        }
        self.words
            .next()
            .cloned()
            .ok_or_else(|| format!("{} needs a value", self.last_option))
    }

    /// Parses the option's value; `expected` completes the error message "-p must be …".
    pub fn parse_value<T: FromStr>(&mut self, expected: &str) -> Result<T, String> {
        let value = self.value()?;
        value
            .parse()
            .map_err(|_| format!("{} must be {expected}, not \"{value}\"", self.last_option))
    }

    /// Parses a count within `allowed`; with a `base` other than 1 it may have a suffix (K, M, G, T).
    pub fn parse_count_within(
        &mut self,
        allowed: std::ops::RangeInclusive<u64>,
        name: &str,
        base: u64,
    ) -> Result<u64, String> {
        let value = self.value()?;
        let number = if base == 1 {
            value.parse().ok()
        } else {
            parse_count(&value, base)
        };
        number
            .filter(|number| allowed.contains(number))
            .ok_or_else(|| {
                format!(
                    "{name} must be from {} to {}, not \"{value}\"",
                    allowed.start(),
                    allowed.end()
                )
            })
    }

    /// Parses a time in seconds, from 0 to `max_s`.
    pub fn parse_seconds(&mut self, max_s: f64, name: &str) -> Result<Duration, String> {
        let value = self.value()?;
        let seconds = value
            .parse()
            .ok()
            .filter(|seconds| (0.0..=max_s).contains(seconds));
        seconds
            .map(Duration::from_secs_f64)
            .ok_or_else(|| format!("{name} must be from 0 to {max_s} seconds, not \"{value}\""))
    }
}
