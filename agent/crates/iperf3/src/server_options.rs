//! The options of `iperf3-serve`, which are iperf3's own.

use std::net::{IpAddr, Ipv4Addr};

use clap::Args;

use crate::session_options::{SessionOptions, allow_leading_dash};
use crate::unsupported_options::unsupported_options;

/// The port of an iperf3 server.
pub const DEFAULT_PORT: u16 = 5201;

/// Serve stock iperf3 clients over TCP and UDP, several at the same time.
#[derive(Debug, Args)]
#[command(
    override_usage = "vnetbench iperf3 serve [OPTIONS]",
    args = unsupported_options(),
    infer_long_args = true,
    args_override_self = true,
    mut_args = allow_leading_dash,
    next_help_heading = "Server"
)]
pub struct ServerOptions {
    /// Listen on this address; :: or 0.0.0.0 for all.
    #[arg(short = 'B', long, value_name = "ADDRESS", default_value_t = IpAddr::V4(Ipv4Addr::LOCALHOST))]
    pub(crate) bind: IpAddr,
    /// Listen on this port, TCP and UDP; 0 for a free one.
    #[arg(short, long, default_value_t = DEFAULT_PORT)]
    pub(crate) port: u16,
    /// Exit after the first client.
    #[arg(short = '1', long)]
    pub(crate) one_off: bool,
    #[command(flatten)]
    pub(crate) session: SessionOptions,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command_line::parse_words;

    #[test]
    fn a_server_listens_on_loopback_by_default() {
        let options: ServerOptions = parse_words("").expect("the options are valid");
        assert!(options.bind.is_loopback());
        let options: ServerOptions = parse_words("-B :: -1").expect("the options are valid");
        assert!(options.bind.is_unspecified() && options.one_off);
    }
}
