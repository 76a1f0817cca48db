//! The options of `iperf3-client`, which are iperf3's own.

use std::net::IpAddr;
use std::time::Duration;

use clap::error::ErrorKind;
use clap::{Args, Command};

use crate::limits::{
    EndCondition, MAX_BLOCK_BYTES, MAX_DATAGRAM_BYTES, MAX_DURATION_S, MAX_MSS_BYTES, MAX_OMIT_S,
    MAX_STREAMS_PER_DIRECTION, MAX_WINDOW_BYTES, MIN_DATAGRAM_BYTES, Transport,
};
use crate::option_values::{
    RateLimit, make_count_parser, make_integer_parser, make_milliseconds_parser,
    make_seconds_parser, parse_rate_limit, parse_type_of_service,
};
use crate::parameters::{Direction, TestParameters};
use crate::server_options::DEFAULT_PORT;
use crate::session_options::{SessionOptions, allow_leading_dash};
use crate::sockets::AddressFamily;
use crate::unsupported_options::unsupported_options;

/// iperf3's default rate for UDP.
const DEFAULT_UDP_RATE_BPS: u64 = 1 << 20;

/// Run one test against an iperf3 server.
#[derive(Debug, Args)]
#[command(
    override_usage = "vnetbench iperf3 client [OPTIONS] <HOST>",
    args = unsupported_options(),
    infer_long_args = true,
    args_override_self = true,
    mut_args = allow_leading_dash,
    after_help = "The suffixes K, M, G and T are powers of 1024, and powers of 1000 for --bitrate."
)]
pub struct ClientArguments {
    /// Name or address of the server.
    host: String,
    #[command(flatten)]
    connection: ConnectionArguments,
    #[command(flatten)]
    load: LoadArguments,
    #[command(flatten)]
    ip: IpArguments,
    #[command(flatten)]
    text: TextArguments,
    #[command(flatten)]
    session: SessionOptions,
}

#[derive(Debug, Args)]
#[command(next_help_heading = "Connection")]
struct ConnectionArguments {
    /// Port of the server, TCP and UDP.
    #[arg(short, long, default_value_t = DEFAULT_PORT, value_parser = make_integer_parser(1..=u16::MAX))]
    port: u16,
    /// Use only IPv4.
    #[arg(short = '4', long, overrides_with = "version6")]
    version4: bool,
    /// Use only IPv6.
    #[arg(short = '6', long, overrides_with = "version4")]
    version6: bool,
    /// Send from this local address.
    #[arg(short = 'B', long, value_name = "ADDRESS")]
    bind: Option<IpAddr>,
    /// Time limit for connecting, in milliseconds.
    #[arg(long, value_name = "MS", default_value = "10000", value_parser = make_milliseconds_parser(1..=3_600_000))]
    connect_timeout: Duration,
}

#[derive(Debug, Args)]
#[command(next_help_heading = "Load")]
struct LoadArguments {
    /// Use UDP instead of TCP.
    #[arg(short, long, conflicts_with_all = ["congestion", "set_mss", "no_delay"])]
    udp: bool,
    /// The server sends.
    #[arg(short = 'R', long, conflicts_with = "bidir")]
    reverse: bool,
    /// Both sides send.
    #[arg(long)]
    bidir: bool,
    /// Streams in each direction, at most 128.
    #[arg(short = 'P', long, value_name = "N", default_value = "1", value_parser = make_integer_parser(1..=MAX_STREAMS_PER_DIRECTION))]
    parallel: usize,
    /// Duration in seconds; 0 for no limit.
    #[arg(short, long, value_name = "S", default_value = "10", value_parser = make_seconds_parser(MAX_DURATION_S))]
    time: Duration,
    /// End after this number of bytes instead of -t.
    #[arg(short = 'n', long, value_name = "N[KMGT]", conflicts_with = "time", value_parser = make_count_parser(1..=u64::MAX >> 1))]
    bytes: Option<u64>,
    /// End after this number of blocks instead of -t.
    #[arg(short = 'k', long, value_name = "N[KMGT]", conflicts_with_all = ["time", "bytes"], value_parser = make_count_parser(1..=u64::MAX >> 1))]
    blockcount: Option<u64>,
    /// Omit the first S seconds from the results, at most 600.
    #[arg(short = 'O', long, value_name = "S", default_value = "0", value_parser = make_seconds_parser(MAX_OMIT_S))]
    omit: Duration,
    /// Rate of each stream in bit/s, with a burst in blocks; 0 for no limit [default: UDP 1M, TCP no limit].
    #[arg(short, long, alias = "bandwidth", value_name = "N[KMGT][/BURST]", value_parser = parse_rate_limit)]
    bitrate: Option<RateLimit>,
    /// Bytes of a block or datagram [default: TCP 128K, UDP one segment].
    #[arg(short, long, value_name = "N[KMGT]", value_parser = make_count_parser(1..=MAX_BLOCK_BYTES))]
    length: Option<usize>,
    /// Send a repeating pattern of digits.
    #[arg(long)]
    repeating_payload: bool,
    /// Use 64-bit counters in UDP datagrams.
    #[arg(long)]
    udp_counters_64bit: bool,
    /// Receivers discard TCP data in the kernel.
    #[arg(long)]
    skip_rx_copy: bool,
}

#[derive(Debug, Args)]
#[command(next_help_heading = "TCP and IP")]
struct IpArguments {
    /// Bytes of each socket buffer [default: the system's].
    #[arg(short, long, value_name = "N[KMGT]", value_parser = make_count_parser(1..=MAX_WINDOW_BYTES))]
    window: Option<usize>,
    /// Maximum segment size in bytes, TCP only [default: the path's].
    #[arg(short = 'M', long, value_name = "N", value_parser = make_integer_parser(88..=MAX_MSS_BYTES))]
    set_mss: Option<u32>,
    /// Congestion control algorithm, TCP only [default: the system's].
    #[arg(short = 'C', long, value_name = "NAME")]
    congestion: Option<String>,
    /// Disable Nagle's algorithm, TCP only.
    #[arg(short = 'N', long)]
    no_delay: bool,
    /// IP type of service from 0 to 255; a leading 0 means octal, 0x hexadecimal.
    #[arg(short = 'S', long, value_name = "N", default_value = "0", value_parser = parse_type_of_service)]
    tos: u32,
}

#[derive(Debug, Args)]
#[command(next_help_heading = "Output and timeout")]
struct TextArguments {
    /// Print this text before every line.
    #[arg(short = 'T', long, value_name = "TEXT")]
    title: Option<String>,
    /// Include this text in the JSON of client and server.
    #[arg(long, value_name = "TEXT")]
    extra_data: Option<String>,
    /// Print the server's output, too.
    #[arg(long)]
    get_server_output: bool,
}

/// The validated options of `iperf3-client`.
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

impl ClientArguments {
    /// Returns the options that the arguments set.
    ///
    /// # Errors
    ///
    /// The block length is not that of a datagram, and the test uses UDP.
    pub fn into_options(self) -> Result<ClientOptions, clap::Error> {
        let has_block_length = self.load.length.is_some();
        let parameters = self.to_test_parameters();
        let is_datagram =
            (MIN_DATAGRAM_BYTES..=MAX_DATAGRAM_BYTES).contains(&parameters.block_bytes);
        if parameters.is_udp() && has_block_length && !is_datagram {
            let message = format!(
                "--length must be from {MIN_DATAGRAM_BYTES} to {MAX_DATAGRAM_BYTES} bytes with --udp"
            );
            let mut command = Self::augment_args(Command::new("iperf3-client"));
            return Err(command.error(ErrorKind::ValueValidation, message));
        }
        Ok(ClientOptions {
            host: self.host,
            port: self.connection.port,
            family: match (self.connection.version4, self.connection.version6) {
                (true, _) => AddressFamily::V4,
                (_, true) => AddressFamily::V6,
                (false, false) => AddressFamily::Any,
            },
            bind: self.connection.bind,
            connect_timeout: self.connection.connect_timeout,
            parameters,
            has_block_length,
            session: self.session,
        })
    }

    fn to_test_parameters(&self) -> TestParameters {
        let Self { load, ip, text, .. } = self;
        let defaults = TestParameters::default();
        let (transport, default_rate_bps) = if load.udp {
            (Transport::Udp, DEFAULT_UDP_RATE_BPS)
        } else {
            (Transport::Tcp, 0)
        };
        let rate = load.bitrate.unwrap_or(RateLimit {
            rate_bps: default_rate_bps,
            burst_blocks: 0,
        });
        TestParameters {
            transport,
            direction: match (load.reverse, load.bidir) {
                (true, _) => Direction::Reverse,
                (_, true) => Direction::Bidirectional,
                (false, false) => Direction::Forward,
            },
            streams_per_direction: load.parallel,
            omit: load.omit,
            end_condition: match (load.bytes, load.blockcount) {
                (Some(bytes), _) => EndCondition::Bytes(bytes),
                (_, Some(blocks)) => EndCondition::Blocks(blocks),
                _ if load.time.is_zero() => EndCondition::Never,
                _ => EndCondition::After(load.time),
            },
            block_bytes: load.length.unwrap_or(defaults.block_bytes),
            rate_bps: rate.rate_bps,
            burst: rate.burst_blocks,
            socket_buffer_bytes: ip.window,
            mss: ip.set_mss,
            no_delay: ip.no_delay,
            congestion_control: ip.congestion.clone(),
            tos: ip.tos,
            counters_64bit: load.udp_counters_64bit,
            repeating_payload: load.repeating_payload,
            skip_receive_copy: load.skip_rx_copy,
            wants_server_output: text.get_server_output,
            title: text.title.clone(),
            extra_data: text.extra_data.clone(),
            ..defaults
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command_line::parse_words;

    fn parse_client(line: &str) -> Result<ClientOptions, clap::Error> {
        parse_words::<ClientArguments>(line)?.into_options()
    }

    #[test]
    fn every_spelling_of_an_option_is_parsed() {
        let options =
            parse_client("host -p5202 -uR --parallel=3 -t 0.5 -b 10M/5 -i.5 --rcv-timeout 500")
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
        assert_eq!(
            options.session.line_interval(),
            Some(Duration::from_millis(500))
        );
        assert_eq!(options.session.idle_timeout, Duration::from_millis(500));
    }

    #[test]
    fn options_are_parsed_as_getopt_long_does() {
        let abbreviated = parse_client("--par 2 --rev --len 8K --band 1M host").expect("valid");
        assert_eq!(abbreviated.parameters.streams_per_direction, 2);
        assert_eq!(abbreviated.parameters.direction, Direction::Reverse);
        assert_eq!(abbreviated.parameters.block_bytes, 8_192);
        assert_eq!(abbreviated.parameters.rate_bps, 1_000_000);
        // `--re` may be `--reverse` or `--repeating-payload`; `--fo` may be the unsupported `--forceflush`.
        for ambiguous in ["--re host", "--fo m host"] {
            parse_client(ambiguous).expect_err(ambiguous);
        }
        let repeated = parse_client("host -u -u -t 1 -t 2 -4 -6 -P 2 -P 3").expect("valid");
        assert_eq!(
            repeated.parameters.end_condition,
            EndCondition::After(Duration::from_secs(2))
        );
        assert_eq!(repeated.parameters.streams_per_direction, 3);
        assert_eq!(repeated.family, AddressFamily::V6);
        let dashed = parse_client("-T -R --extra-data --json host").expect("valid");
        assert_eq!(dashed.parameters.title.as_deref(), Some("-R"));
        assert_eq!(dashed.parameters.extra_data.as_deref(), Some("--json"));
        assert_eq!(dashed.parameters.direction, Direction::Forward);
        let after_dashes = parse_client("-R -- host").expect("valid");
        assert_eq!(after_dashes.host, "host");
    }

    #[test]
    fn defaults_are_those_of_iperf3() {
        let tcp = parse_client("host").expect("valid");
        assert_eq!(tcp.port, 5201);
        assert_eq!(tcp.connect_timeout, Duration::from_secs(10));
        assert_eq!(tcp.parameters, TestParameters::default());
        assert_eq!(tcp.session.line_interval(), Some(Duration::from_secs(1)));
        assert_eq!(tcp.session.idle_timeout, Duration::from_secs(120));
        let udp = parse_client("host -u -t 0 -i 0").expect("valid");
        assert_eq!(udp.parameters.rate_bps, 1 << 20);
        assert_eq!(udp.parameters.end_condition, EndCondition::Never);
        assert_eq!(udp.session.line_interval(), None);
    }

    #[test]
    fn numbers_are_parsed_in_the_notation_of_iperf3() {
        let parameters = parse_client("host -n 1.5M -l 64k -w 512M -S 0x10")
            .expect("valid")
            .parameters;
        assert_eq!(parameters.end_condition, EndCondition::Bytes(3 << 19));
        assert_eq!(parameters.block_bytes, 64 << 10);
        assert_eq!(parameters.socket_buffer_bytes, Some(512 << 20));
        assert_eq!(parameters.tos, 16);
        assert_eq!(
            parse_client("host -S 010").expect("valid").parameters.tos,
            8
        );
    }

    #[test]
    fn unsupported_and_invalid_options_are_refused_with_a_message() {
        for (line, expected) in [
            ("host -Z", "-Z, --zerocopy is not supported: "),
            ("host -uZ", "-Z, --zerocopy is not supported: "),
            (
                "host --sctp",
                "--sctp is not supported: vnetbench has no SCTP",
            ),
            ("host --logfile f", "--logfile is not supported: "),
            ("host --frobnicate", "unexpected argument '--frobnicate'"),
            (
                "host -R --bidir",
                "'--reverse' cannot be used with '--bidir'",
            ),
            (
                "host -t 1 -n 5",
                "'--time <S>' cannot be used with '--bytes",
            ),
            ("host -k 1 -n 5", "cannot be used with"),
            (
                "host -u -C cubic",
                "'--udp' cannot be used with '--congestion",
            ),
            ("host -P 129", "'--parallel <N>': must be from 1 to 128"),
            ("host -p 0", "'--port <PORT>': must be from 1 to 65535"),
            ("host -p -5", "'--port <PORT>': must be from 1 to 65535"),
            ("host -u -l 8", "from 16 to 65507 bytes with --udp"),
            ("host -i 0.01", "'--interval <S>': must be 0"),
            ("host -b fast", "must be a rate in bit/s"),
            (
                "host -w 1G",
                "'--window <N[KMGT]>': must be from 1 to 536870912",
            ),
            ("host -n 5X", "'--bytes <N[KMGT]>': must be from 1"),
            ("-c host", "-c, --client is not supported: "),
            ("host -f x", "'--format <LETTER>': must be one of"),
            ("host -S 256", "'--tos <N>': must be from 0 to 255"),
            ("host -O 601", "'--omit <S>': must be from 0 to 600"),
            ("host -t", "a value is required for '--time <S>'"),
            ("host --parallle 2", "argument exists: '--parallel'"),
            ("host again", "unexpected argument 'again'"),
            ("", "<HOST>"),
        ] {
            let error = parse_client(line).expect_err(line);
            assert_eq!(error.exit_code(), 2, "{line}");
            let message = error.to_string();
            assert!(message.contains(expected), "{line}: {message}");
            assert!(message.contains("try '--help'"), "{message}");
        }
    }
}
