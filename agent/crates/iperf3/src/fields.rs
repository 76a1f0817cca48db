//! Reads single fields of a client's parameters, checks their limits and refuses with iperf3's error codes.

use std::ops::RangeInclusive;
use std::time::Duration;

use serde_json::{Map, Value};

use crate::limits::{
    DEFAULT_BLOCK_BYTES, DEFAULT_DATAGRAM_BYTES, EndCondition, MAX_BLOCK_BYTES, MAX_DATAGRAM_BYTES,
    MAX_DURATION_S, MIN_DATAGRAM_BYTES, Transport,
};
use crate::results::is_printable;
use crate::states::{ErrorCode, TestError};
use vnetbench_system::cpu_list::CpuList;

const MAX_TEXT_BYTES: usize = 1_024;

/// The fields of one parameter document.
pub struct ParameterFields<'a>(pub &'a Map<String, Value>);

impl ParameterFields<'_> {
    /// Returns whether a flag is set; clients send `true` or a positive number.
    pub fn read_flag(&self, name: &str) -> bool {
        match self.0.get(name) {
            Some(Value::Bool(flag)) => *flag,
            Some(Value::Number(number)) => number.as_f64().is_some_and(|number| number > 0.0),
            _ => false,
        }
    }

    fn read_number(&self, name: &str, code: ErrorCode) -> Result<Option<f64>, TestError> {
        match self.0.get(name) {
            None | Some(Value::Null) => Ok(None),
            Some(value) => value.as_f64().map(Some).ok_or_else(|| {
                TestError::refused(code, format!("the parameter {name} is not a number"))
            }),
        }
    }

    /// Returns an integer within `allowed`, or the default if the field is missing.
    pub fn read_integer(
        &self,
        name: &str,
        default: u64,
        allowed: RangeInclusive<u64>,
        code: ErrorCode,
    ) -> Result<u64, TestError> {
        let Some(number) = self.read_number(name, code)? else {
            return Ok(default);
        };
        // A float has 53 bits of precision: prefer the exact integer.
        let exact = self.0.get(name).and_then(Value::as_u64);
        let value = exact.unwrap_or(number.trunc().max(0.0) as u64);
        if number < 0.0 || !allowed.contains(&value) {
            return Err(TestError::refused(
                code,
                format!(
                    "the parameter {name} is {number}, but must be from {} to {}",
                    allowed.start(),
                    allowed.end()
                ),
            ));
        }
        Ok(value)
    }

    /// Returns an integer within `allowed`; `None` if the field is missing or 0.
    pub fn read_nonzero_integer(
        &self,
        name: &str,
        allowed: RangeInclusive<u64>,
        code: ErrorCode,
    ) -> Result<Option<u64>, TestError> {
        let value = self.read_integer(name, 0, 0..=*allowed.end(), code)?;
        Ok((value > 0).then_some(value))
    }

    /// Returns a time in seconds, at most `max_s`.
    pub fn read_duration(
        &self,
        name: &str,
        max_s: f64,
        code: ErrorCode,
    ) -> Result<Duration, TestError> {
        let seconds = self.read_number(name, code)?.unwrap_or(0.0);
        if !(0.0..=max_s).contains(&seconds) {
            return Err(TestError::refused(
                code,
                format!("the parameter {name} is {seconds} s, but must be from 0 to {max_s} s"),
            ));
        }
        Ok(Duration::from_secs_f64(seconds))
    }

    /// Returns what ends the test.
    pub fn read_end_condition(&self) -> Result<EndCondition, TestError> {
        let bytes = self.read_integer("num", 0, 0..=u64::MAX, ErrorCode::EndConditions)?;
        let blocks = self.read_integer("blockcount", 0, 0..=u64::MAX, ErrorCode::EndConditions)?;
        let time = self.read_duration("time", MAX_DURATION_S, ErrorCode::Duration)?;
        match (bytes, blocks, time) {
            (1.., 1.., _) => Err(TestError::refused(
                ErrorCode::EndConditions,
                "the options -n and -k exclude each other",
            )),
            (1.., 0, _) => Ok(EndCondition::Bytes(bytes)),
            (0, 1.., _) => Ok(EndCondition::Blocks(blocks)),
            (0, 0, Duration::ZERO) => Ok(EndCondition::Never),
            (0, 0, time) => Ok(EndCondition::After(time)),
        }
    }

    /// Returns the size of a block or datagram.
    pub fn read_block_bytes(&self, transport: Transport) -> Result<usize, TestError> {
        let (default, allowed, code) = match transport {
            Transport::Tcp => (
                DEFAULT_BLOCK_BYTES,
                1..=MAX_BLOCK_BYTES as u64,
                ErrorCode::BlockSize,
            ),
            Transport::Udp => (
                DEFAULT_DATAGRAM_BYTES,
                MIN_DATAGRAM_BYTES as u64..=MAX_DATAGRAM_BYTES as u64,
                ErrorCode::UdpBlockSize,
            ),
        };
        Ok(self.read_integer("len", default as u64, allowed, code)? as usize)
    }

    /// Returns a text of limited length, without control characters: messages repeat it on the server's terminal.
    pub fn read_text(&self, name: &str) -> Result<Option<String>, TestError> {
        match self.0.get(name) {
            None | Some(Value::Null) => Ok(None),
            Some(Value::String(text)) if text.len() <= MAX_TEXT_BYTES => {
                Ok(Some(text.chars().filter(is_printable).collect()))
            }
            Some(_) => Err(TestError::refused(
                ErrorCode::ReceiveParameters,
                format!("the parameter {name} must be a text of at most {MAX_TEXT_BYTES} bytes"),
            )),
        }
    }

    /// Returns the CPUs on which the server's threads run; empty for all.
    pub fn read_server_cpus(&self) -> Result<CpuList, TestError> {
        let number = self.read_number("server_affinity", ErrorCode::Affinity)?;
        // A client without a preference sends -1.
        let Some(number) = number.filter(|number| *number >= 0.0) else {
            return Ok(CpuList::default());
        };
        CpuList::parse(&format!("{}", number.trunc()))
            .map_err(|error| TestError::refused(ErrorCode::Affinity, error.to_string()))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn read(text: &str) -> Result<Option<String>, TestError> {
        let document = json!({"congestion": text});
        ParameterFields(document.as_object().expect("an object")).read_text("congestion")
    }

    #[test]
    fn a_text_has_no_control_characters() {
        let read = |text| read(text).expect("a text").expect("a text");
        assert_eq!(read("cubic"), "cubic");
        assert_eq!(
            read("\x1b]0;owned\x07\x1b[2J\u{9b}31mcubic\r\n\0\u{202e}\u{2066}"),
            "]0;owned[2J31mcubic"
        );
        assert_eq!(read("größe 1 µs"), "größe 1 µs");
    }

    #[test]
    fn a_text_that_is_too_long_is_refused() {
        assert!(read(&"\x1b".repeat(MAX_TEXT_BYTES + 1)).is_err());
    }
}
