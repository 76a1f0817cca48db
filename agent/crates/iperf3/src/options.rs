//! The options of `iperf3-serve`, and those that both commands have.
//!
//! The options are iperf3's own. An option of iperf3 that this implementation lacks is refused with a hint.

use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

use crate::arguments::{Argument, ArgumentParser};
use crate::session_options::SessionOptions;
use crate::units::RateFormat;

/// The port of an iperf3 server.
pub const DEFAULT_PORT: u16 = 5201;
const DEFAULT_IDLE_TIMEOUT: Duration = Duration::from_secs(120);
const INTERVAL_S: std::ops::RangeInclusive<f64> = 0.1..=60.0;

/// The options of `iperf3-serve`.
#[derive(Debug)]
pub struct ServerOptions {
    /// Address to listen on.
    pub bind: IpAddr,
    /// Port to listen on; 0 for a free one.
    pub port: u16,
    /// Whether the server exits after its first client.
    pub one_off: bool,
    /// Output and timeout of each test.
    pub session: SessionOptions,
}

/// Options of iperf3 that this implementation does not support, each with a hint.
const UNSUPPORTED_OPTIONS: [(&[&str], &str); 15] = [
    (
        &["Z", "zerocopy"],
        "it always sends with plain system calls",
    ),
    (&["F", "file"], "it always sends a fixed pattern"),
    (&["A", "affinity"], "use taskset instead"),
    (
        &["D", "daemon"],
        "use the shell to run it in the background",
    ),
    (&["I", "pidfile"], "use the shell to find the process id"),
    (&["L", "flowlabel"], "the kernel selects flow labels"),
    (
        &["X", "xbind", "sctp", "nstreams"],
        "there is no SCTP; use TCP or UDP",
    ),
    (&["V", "verbose", "d", "debug"], "-J prints all details"),
    (
        &["logfile", "forceflush", "timestamps"],
        "every line goes to standard output at once; redirect it",
    ),
    (&["cport"], "the kernel selects the client's ports"),
    (&["fq-rate", "pacing-timer"], "use -b to limit the rate"),
    (&["dont-fragment"], "the kernel decides whether to fragment"),
    (&["snd-timeout"], "--rcv-timeout applies to both directions"),
    (
        &[
            "username",
            "rsa-public-key-path",
            "rsa-private-key-path",
            "authorized-users-path",
            "time-skew-threshold",
        ],
        "there is no authentication",
    ),
    (
        &[
            "bind-dev",
            "server-bitrate-limit",
            "idle-timeout",
            "json-stream",
            "mptcp",
            "m",
        ],
        "use a newer version of iperf3",
    ),
];

/// Returns the error message for an option that the command does not have.
pub fn unknown_option(option: &Argument) -> String {
    let name = match option {
        Argument::Positional(word) => return format!("unexpected argument \"{word}\""),
        Argument::Short(letter) => letter.to_string(),
        Argument::Long(name) => name.clone(),
    };
    let spelled = if name.len() == 1 {
        format!("-{name}")
    } else {
        format!("--{name}")
    };
    match UNSUPPORTED_OPTIONS
        .iter()
        .find(|(names, _)| names.contains(&name.as_str()))
    {
        Some((_, advice)) => format!("{spelled} is not supported: {advice}"),
        None => format!("unknown option {spelled}"),
    }
}

impl ServerOptions {
    /// Parses the command line.
    ///
    /// # Errors
    ///
    /// A message for the user.
    pub fn parse(arguments: &[String]) -> Result<Self, String> {
        let mut options = Self {
            bind: IpAddr::V4(Ipv4Addr::LOCALHOST),
            port: DEFAULT_PORT,
            one_off: false,
            session: default_session_options(),
        };
        let mut parser = ArgumentParser::new(arguments);
        while let Some(argument) = parser.next() {
            let name = argument.name();
            if parse_session_option(name, &mut parser, &mut options.session)? {
                continue;
            }
            match name {
                "p" | "port" => {
                    options.port = parser.parse_value("a port from 0 (a free one) to 65535")?
                }
                "B" | "bind" => {
                    options.bind = parser.parse_value("an IP address of this machine")?
                }
                "1" | "one-off" => options.one_off = true,
                _ => return Err(unknown_option(&argument)),
            }
        }
        Ok(options)
    }
}

/// Returns the defaults of the options that both commands have.
pub fn default_session_options() -> SessionOptions {
    SessionOptions {
        interval: Some(Duration::from_secs(1)),
        format: RateFormat::Adaptive,
        json: false,
        idle_timeout: DEFAULT_IDLE_TIMEOUT,
    }
}

/// Parses an option that both commands have; returns false for any other option.
pub fn parse_session_option(
    name: &str,
    parser: &mut ArgumentParser<'_>,
    session: &mut SessionOptions,
) -> Result<bool, String> {
    match name {
        "J" | "json" => session.json = true,
        "i" | "interval" => {
            let seconds: f64 = parser.parse_value("seconds")?;
            if seconds != 0.0 && !INTERVAL_S.contains(&seconds) {
                return Err(format!(
                    "-i must be 0 (a single interval) or from {} to {} seconds",
                    INTERVAL_S.start(),
                    INTERVAL_S.end()
                ));
            }
            session.interval = (seconds != 0.0).then(|| Duration::from_secs_f64(seconds));
        }
        "f" | "format" => {
            let letter = parser.value()?;
            session.format = RateFormat::parse(&letter)
                .ok_or("-f must be one of k m g t (bits) or K M G T (bytes)")?;
        }
        "rcv-timeout" => {
            let milliseconds = parser.parse_count_within(100..=86_400_000, "--rcv-timeout", 1)?;
            session.idle_timeout = Duration::from_millis(milliseconds);
        }
        _ => return Ok(false),
    }
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_listens_on_loopback_by_default() {
        assert!(
            ServerOptions::parse(&[])
                .expect("the options are valid")
                .bind
                .is_loopback()
        );
        let wide = ServerOptions::parse(&["-B".into(), "::".into(), "-1".into()])
            .expect("the options are valid");
        assert!(wide.bind.is_unspecified() && wide.one_off);
    }
}
