//! The options of `iperf3-client`.

use std::net::IpAddr;
use std::time::Duration;

use crate::arguments::{Argument, ArgumentParser};
use crate::limits::{
    EndCondition, MAX_BLOCK_BYTES, MAX_BUFFER_BYTES, MAX_BURST, MAX_DATAGRAM_BYTES, MAX_DURATION_S,
    MAX_MSS, MAX_OMIT_S, MAX_STREAMS, MIN_DATAGRAM_BYTES, Transport,
};
use crate::options::{DEFAULT_PORT, default_session_options, parse_session_option, unknown_option};
use crate::parameters::{Direction, TestParameters};
use crate::session_options::SessionOptions;
use crate::sockets::AddressFamily;
use crate::units::parse_count;

const DEFAULT_CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// iperf3's default rate for UDP.
const DEFAULT_UDP_RATE_BPS: u64 = 1 << 20;
const REVERSE_AND_BIDIR: &str = "-R and --bidir exclude each other: use only one of them";

/// The options of `iperf3-client`.
#[derive(Debug)]
pub struct ClientOptions {
    /// Name or address of the server.
    pub host: String,
    /// Port of the server.
    pub port: u16,
    /// Address family for resolving the host.
    pub family: AddressFamily,
    /// Local address to send from.
    pub bind: Option<IpAddr>,
    /// Time limit for each connection.
    pub connect_timeout: Duration,
    /// Parameters that the client sends to the server.
    pub parameters: TestParameters,
    /// Whether `-l` is present.
    pub has_block_length: bool,
    /// Output and timeout of the test.
    pub session: SessionOptions,
}

impl ClientOptions {
    /// Parses the command line.
    ///
    /// # Errors
    ///
    /// A message for the user.
    pub fn parse(arguments: &[String]) -> Result<Self, String> {
        let mut options = Self {
            host: String::new(),
            port: DEFAULT_PORT,
            family: AddressFamily::Any,
            bind: None,
            connect_timeout: DEFAULT_CONNECT_TIMEOUT,
            parameters: TestParameters::default(),
            has_block_length: false,
            session: default_session_options(),
        };
        let mut end_conditions = 0;
        let mut rate = None;
        let mut parser = ArgumentParser::new(arguments);
        while let Some(argument) = parser.next() {
            if let Argument::Positional(host) = &argument
                && options.host.is_empty()
            {
                options.host.clone_from(host);
                continue;
            }
            let name = argument.name();
            if parse_session_option(name, &mut parser, &mut options.session)? {
                continue;
            }
            match name {
                "t" | "time" | "n" | "bytes" | "k" | "blockcount" => {
                    end_conditions += 1;
                    options.parameters.end_condition = parse_end_condition(name, &mut parser)?;
                }
                "b" | "bitrate" | "bandwidth" => {
                    rate = Some(parse_rate_and_burst(&parser.value()?)?)
                }
                _ => {
                    if !options.parse_option(name, &mut parser)? {
                        return Err(unknown_option(&argument));
                    }
                }
            }
        }
        if end_conditions > 1 {
            return Err("-t, -n and -k exclude each other: use only one of them".into());
        }
        options.validate(rate)
    }

    fn parse_option(
        &mut self,
        name: &str,
        parser: &mut ArgumentParser<'_>,
    ) -> Result<bool, String> {
        let parameters = &mut self.parameters;
        match name {
            "p" | "port" => self.port = parser.parse_count_within(1..=65_535, "-p", 1)? as u16,
            "4" | "version4" => self.family = AddressFamily::V4,
            "6" | "version6" => self.family = AddressFamily::V6,
            "B" | "bind" => self.bind = Some(parser.parse_value("an IP address of this machine")?),
            "connect-timeout" => {
                let milliseconds =
                    parser.parse_count_within(1..=3_600_000, "--connect-timeout", 1)?;
                self.connect_timeout = Duration::from_millis(milliseconds);
            }
            "u" | "udp" => parameters.transport = Transport::Udp,
            "R" | "reverse" if parameters.direction == Direction::Bidirectional => {
                return Err(REVERSE_AND_BIDIR.into());
            }
            "R" | "reverse" => parameters.direction = Direction::Reverse,
            "bidir" if parameters.direction == Direction::Reverse => {
                return Err(REVERSE_AND_BIDIR.into());
            }
            "bidir" => parameters.direction = Direction::Bidirectional,
            "P" | "parallel" => {
                parameters.streams_per_direction =
                    parser.parse_count_within(1..=MAX_STREAMS as u64, "-P", 1)? as usize
            }
            "O" | "omit" => parameters.omit = parser.parse_seconds(MAX_OMIT_S, "-O")?,
            "l" | "length" => {
                parameters.block_bytes =
                    parser.parse_count_within(1..=MAX_BLOCK_BYTES as u64, "-l", 1024)? as usize;
                self.has_block_length = true;
            }
            "w" | "window" => {
                let bytes = parser.parse_count_within(1..=MAX_BUFFER_BYTES as u64, "-w", 1024)?;
                parameters.socket_buffer_bytes = Some(bytes as usize);
            }
            "M" | "set-mss" => {
                parameters.mss =
                    Some(parser.parse_count_within(88..=MAX_MSS.into(), "-M", 1)? as u32)
            }
            "C" | "congestion" => parameters.congestion_control = Some(parser.value()?),
            "N" | "no-delay" => parameters.no_delay = true,
            "S" | "tos" => parameters.tos = parse_type_of_service(&parser.value()?)?,
            "T" | "title" => parameters.title = Some(parser.value()?),
            "extra-data" => parameters.extra_data = Some(parser.value()?),
            "get-server-output" => parameters.wants_server_output = true,
            "udp-counters-64bit" => parameters.counters_64bit = true,
            "repeating-payload" => parameters.repeating_payload = true,
            "skip-rx-copy" => parameters.skip_receive_copy = true,
            _ => return Ok(false),
        }
        Ok(true)
    }

    fn validate(mut self, rate: Option<(u64, u32)>) -> Result<Self, String> {
        if self.host.is_empty() {
            return Err("the host is missing. Usage: vnetbench iperf3 client HOST".into());
        }
        let parameters = &mut self.parameters;
        let default_rate = if parameters.is_udp() {
            DEFAULT_UDP_RATE_BPS
        } else {
            0
        };
        (parameters.rate_bps, parameters.burst) = rate.unwrap_or((default_rate, 0));
        if parameters.is_udp() {
            let fits = (MIN_DATAGRAM_BYTES..=MAX_DATAGRAM_BYTES).contains(&parameters.block_bytes);
            if self.has_block_length && !fits {
                return Err(format!(
                    "-l must be from {MIN_DATAGRAM_BYTES} to {MAX_DATAGRAM_BYTES} bytes with -u"
                ));
            }
            let tcp_options = [
                ("-C", parameters.congestion_control.is_some()),
                ("-M", parameters.mss.is_some()),
                ("-N", parameters.no_delay),
            ];
            if let Some((option, _)) = tcp_options.iter().find(|(_, given)| *given) {
                return Err(format!(
                    "{option} applies only to TCP: remove it, or remove -u"
                ));
            }
        }
        Ok(self)
    }
}

fn parse_end_condition(
    name: &str,
    parser: &mut ArgumentParser<'_>,
) -> Result<EndCondition, String> {
    Ok(match name {
        "n" | "bytes" => {
            EndCondition::Bytes(parser.parse_count_within(1..=u64::MAX >> 1, "-n", 1024)?)
        }
        "k" | "blockcount" => {
            EndCondition::Blocks(parser.parse_count_within(1..=u64::MAX >> 1, "-k", 1024)?)
        }
        _ => match parser.parse_seconds(MAX_DURATION_S, "-t")? {
            Duration::ZERO => EndCondition::Never,
            time => EndCondition::After(time),
        },
    })
}

/// Parses a rate: `10M`, or `10M/5` for bursts of five blocks.
fn parse_rate_and_burst(text: &str) -> Result<(u64, u32), String> {
    let (rate, burst) = text.split_once('/').unwrap_or((text, "0"));
    parse_count(rate, 1000)
        .zip(burst.parse().ok().filter(|burst| *burst <= MAX_BURST))
        .ok_or_else(|| format!("-b must be a rate in bit/s such as 10M, or 10M/5 with a burst of at most {MAX_BURST} blocks, not \"{text}\""))
}

/// Parses a type of service in iperf3's notation: decimal, octal (leading 0) or hexadecimal (leading 0x).
fn parse_type_of_service(text: &str) -> Result<u32, String> {
    let lower = text.to_ascii_lowercase();
    let number = if let Some(digits) = lower.strip_prefix("0x") {
        u32::from_str_radix(digits, 16)
    } else if lower.len() > 1 && lower.starts_with('0') {
        u32::from_str_radix(&lower, 8)
    } else {
        lower.parse()
    };
    number
        .ok()
        .filter(|number| *number <= 255)
        .ok_or_else(|| format!("-S must be from 0 to 255, not \"{text}\""))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn client(line: &str) -> Result<ClientOptions, String> {
        let arguments: Vec<String> = line.split_whitespace().map(Into::into).collect();
        ClientOptions::parse(&arguments)
    }

    #[test]
    fn every_spelling_of_an_option_is_parsed() {
        let options = client("host -p5202 -uR --parallel=3 -t 0.5 -b 10M/5 -i.5 --rcv-timeout 500")
            .expect("the options are valid");
        assert_eq!((options.host.as_str(), options.port), ("host", 5202));
        assert_eq!(options.parameters.direction, Direction::Reverse);
        assert_eq!(
            (
                options.parameters.streams_per_direction,
                options.parameters.rate_bps,
                options.parameters.burst
            ),
            (3, 10_000_000, 5)
        );
        assert_eq!(
            options.parameters.end_condition,
            EndCondition::After(Duration::from_millis(500))
        );
        assert_eq!(options.session.interval, Some(Duration::from_millis(500)));
    }

    #[test]
    fn unsupported_and_invalid_options_are_refused_with_a_message() {
        for (line, expected) in [
            ("host -Z", "-Z is not supported"),
            ("host --sctp", "no SCTP"),
            ("host --frobnicate", "unknown option --frobnicate"),
            ("host -R --bidir", "exclude each other"),
            ("host -t 1 -n 5", "-t, -n and -k exclude"),
            ("host -u -C cubic", "-C applies only to TCP"),
            ("host -P 129", "from 1 to 128"),
            ("host -u -l 8", "from 16"),
            ("host -i 0.01", "-i must be"),
            ("host -b fast", "-b must be"),
            ("host -S 256", "-S must be"),
            ("host -t", "-t needs"),
            ("host again", "unexpected argument \"again\""),
            ("", "the host is missing"),
        ] {
            let error = client(line).expect_err(line);
            assert!(error.contains(expected), "{line}: {error}");
        }
    }
}
