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
    /// Source port of the first stream; each further stream uses the next port [default: the system's].
    #[arg(long, value_name = "PORT", value_parser = make_integer_parser(1..=u16::MAX))]
    cport: Option<u16>,
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
    /// Source port of the first stream; `None` leaves all of them to the kernel.
    pub first_source_port: Option<u16>,
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
    /// The block length is not that of a datagram, and the test uses UDP, or `--cport` leaves too few ports.
    pub fn into_options(self) -> Result<ClientOptions, clap::Error> {
        let has_block_length = self.load.length.is_some();
        let parameters = self.to_test_parameters();
        let is_datagram =
            (MIN_DATAGRAM_BYTES..=MAX_DATAGRAM_BYTES).contains(&parameters.block_bytes);
        if parameters.is_udp() && has_block_length && !is_datagram {
            return Err(refuse_value(format!(
                "--length must be from {MIN_DATAGRAM_BYTES} to {MAX_DATAGRAM_BYTES} bytes with --udp"
            )));
        }
        let stream_count = parameters.total_stream_count();
        if let Some(first) = self.connection.cport
            && usize::from(u16::MAX - first) + 1 < stream_count
        {
            let highest = usize::from(u16::MAX) + 1 - stream_count;
            return Err(refuse_value(format!(
                "--cport must be at most {highest} for {stream_count} streams: each uses the next port, up to 65535"
            )));
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
            first_source_port: self.connection.cport,
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

fn refuse_value(message: String) -> clap::Error {
    let mut command = ClientArguments::augment_args(Command::new("iperf3-client"));
    command.error(ErrorKind::ValueValidation, message)
}

#[cfg(test)]
#[path = "client_options_tests.rs"]
mod tests;
