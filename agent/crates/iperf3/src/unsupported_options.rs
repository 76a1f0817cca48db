//! The options of iperf3 that this implementation lacks: each is refused with a hint.

use std::ffi::OsStr;

use clap::builder::TypedValueParser;
use clap::error::ErrorKind;
use clap::{Arg, Command};

/// An option of iperf3 that this implementation lacks.
struct UnsupportedOption {
    short: Option<char>,
    long: &'static str,
    hint: &'static str,
}

const NO_AUTHENTICATION_HINT: &str = "vnetbench has no authentication";
const NO_SCTP_HINT: &str = "vnetbench has no SCTP. Use TCP or UDP";
const JSON_OUTPUT_HINT: &str = "-J prints all details";
const STANDARD_OUTPUT_HINT: &str =
    "vnetbench writes every line to standard output at once. Redirect it";
const RATE_LIMIT_HINT: &str = "use -b to limit the rate";
const NEWER_IPERF3_HINT: &str = "use a newer version of iperf3";

const fn unsupported(
    short: Option<char>,
    long: &'static str,
    hint: &'static str,
) -> UnsupportedOption {
    UnsupportedOption { short, long, hint }
}

const UNSUPPORTED_OPTIONS: [UnsupportedOption; 30] = [
    unsupported(
        Some('c'),
        "client",
        "name the server without it: vnetbench iperf3 client HOST",
    ),
    unsupported(Some('s'), "server", "run vnetbench iperf3 serve"),
    unsupported(
        Some('Z'),
        "zerocopy",
        "vnetbench always sends with plain system calls",
    ),
    unsupported(Some('F'), "file", "vnetbench always sends a fixed pattern"),
    unsupported(Some('A'), "affinity", "use taskset instead"),
    unsupported(
        Some('D'),
        "daemon",
        "use the shell to run it in the background",
    ),
    unsupported(Some('I'), "pidfile", "use the shell to find the process id"),
    unsupported(Some('L'), "flowlabel", "the kernel selects flow labels"),
    unsupported(Some('X'), "xbind", NO_SCTP_HINT),
    unsupported(None, "sctp", NO_SCTP_HINT),
    unsupported(None, "nstreams", NO_SCTP_HINT),
    unsupported(Some('V'), "verbose", JSON_OUTPUT_HINT),
    unsupported(Some('d'), "debug", JSON_OUTPUT_HINT),
    unsupported(None, "logfile", STANDARD_OUTPUT_HINT),
    unsupported(None, "forceflush", STANDARD_OUTPUT_HINT),
    unsupported(None, "timestamps", STANDARD_OUTPUT_HINT),
    unsupported(None, "fq-rate", RATE_LIMIT_HINT),
    unsupported(None, "pacing-timer", RATE_LIMIT_HINT),
    unsupported(
        None,
        "dont-fragment",
        "the kernel decides whether to fragment",
    ),
    unsupported(
        None,
        "snd-timeout",
        "--rcv-timeout applies to both directions",
    ),
    unsupported(None, "username", NO_AUTHENTICATION_HINT),
    unsupported(None, "rsa-public-key-path", NO_AUTHENTICATION_HINT),
    unsupported(None, "rsa-private-key-path", NO_AUTHENTICATION_HINT),
    unsupported(None, "authorized-users-path", NO_AUTHENTICATION_HINT),
    unsupported(None, "time-skew-threshold", NO_AUTHENTICATION_HINT),
    unsupported(None, "bind-dev", NEWER_IPERF3_HINT),
    unsupported(None, "server-bitrate-limit", NEWER_IPERF3_HINT),
    unsupported(None, "idle-timeout", NEWER_IPERF3_HINT),
    unsupported(None, "json-stream", NEWER_IPERF3_HINT),
    unsupported(Some('m'), "mptcp", NEWER_IPERF3_HINT),
];

/// Returns the unsupported options, hidden from the help.
///
/// They belong to the commands, so that an abbreviation means the same as in iperf3.
pub fn unsupported_options() -> impl Iterator<Item = Arg> {
    UNSUPPORTED_OPTIONS.iter().map(|option| {
        Arg::new(option.long)
            .long(option.long)
            .short(option.short)
            .hide(true)
            // Some take a value in iperf3, and some do not: each is refused either way.
            .num_args(0..=1)
            .default_missing_value("")
            .value_parser(RefusingParser { option })
    })
}

/// A value parser that refuses its option, whatever the value is.
#[derive(Clone)]
struct RefusingParser {
    option: &'static UnsupportedOption,
}

impl TypedValueParser for RefusingParser {
    type Value = ();

    fn parse_ref(
        &self,
        command: &Command,
        _: Option<&Arg>,
        _: &OsStr,
    ) -> Result<Self::Value, clap::Error> {
        let UnsupportedOption { short, long, hint } = self.option;
        let name = match short {
            Some(letter) => format!("-{letter}, --{long}"),
            None => format!("--{long}"),
        };
        let message = format!("{name} is not supported: {hint}");
        Err(command.clone().error(ErrorKind::UnknownArgument, message))
    }
}
