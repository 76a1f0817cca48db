//! A command line cut into options and words, in all spellings of getopt: `-p5201`, `-p 5201`, `-uR`, `--port=5201`.

use std::str::FromStr;
use std::time::Duration;

use crate::units::parse_count;

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Argument {
    Short(String),
    Long(String),
    Word(String),
}

impl Argument {
    /// An option's name without its dashes; empty for a word.
    pub fn name(&self) -> &str {
        match self {
            Self::Short(name) | Self::Long(name) => name,
            Self::Word(_) => "",
        }
    }
}

pub struct Arguments<'a> {
    words: std::slice::Iter<'a, String>,
    /// What is left of a word with several short options, or the value after `=`.
    rest: String,
    rest_is_value: bool,
    last: String,
}

impl<'a> Arguments<'a> {
    pub fn new(words: &'a [String]) -> Self {
        Self {
            words: words.iter(),
            rest: String::new(),
            rest_is_value: false,
            last: String::new(),
        }
    }

    pub fn next(&mut self) -> Option<Argument> {
        if !self.rest.is_empty() && !self.rest_is_value {
            return Some(self.short());
        }
        // A value that nobody took: an option that takes none was given one.
        if std::mem::take(&mut self.rest_is_value) {
            return Some(Argument::Word(format!(
                "={}",
                std::mem::take(&mut self.rest)
            )));
        }
        let word = self.words.next()?;
        if let Some(long) = word.strip_prefix("--") {
            let (name, value) = long
                .split_once('=')
                .map_or((long, None), |(name, value)| (name, Some(value)));
            self.last = format!("--{name}");
            self.rest = value.unwrap_or_default().into();
            self.rest_is_value = value.is_some();
            return Some(Argument::Long(name.into()));
        }
        match word.strip_prefix('-') {
            Some(letters) if !letters.is_empty() => {
                self.rest = letters.into();
                Some(self.short())
            }
            _ => Some(Argument::Word(word.clone())),
        }
    }

    fn short(&mut self) -> Argument {
        let letter: String = self.rest.chars().take(1).collect();
        self.rest = self.rest.chars().skip(1).collect();
        self.last = format!("-{letter}");
        Argument::Short(letter)
    }

    /// The value of the option that `next` returned last.
    pub fn value(&mut self) -> Result<String, String> {
        let taken = std::mem::take(&mut self.rest);
        if std::mem::take(&mut self.rest_is_value) || !taken.is_empty() {
            return Ok(taken);
        }
        self.words
            .next()
            .cloned()
            .ok_or_else(|| format!("{} needs a value", self.last))
    }

    /// `what` completes the sentence "… is".
    pub fn parsed<T: FromStr>(&mut self, what: &str) -> Result<T, String> {
        let value = self.value()?;
        value
            .parse()
            .map_err(|_| format!("{} is {what}, not \"{value}\"", self.last))
    }

    /// A count, with a suffix where `base` is not 1.
    pub fn limited(
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
                    "{name} is from {} to {}, not \"{value}\"",
                    allowed.start(),
                    allowed.end()
                )
            })
    }

    pub fn seconds(&mut self, most: f64, name: &str) -> Result<Duration, String> {
        let value = self.value()?;
        let seconds = value
            .parse()
            .ok()
            .filter(|seconds| (0.0..=most).contains(seconds));
        seconds
            .map(Duration::from_secs_f64)
            .ok_or_else(|| format!("{name} is from 0 to {most} s, not \"{value}\""))
    }
}
