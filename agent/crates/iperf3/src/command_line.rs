//! The commands `iperf3-serve` and `iperf3-client`: help texts and exit codes.

use std::process::ExitCode;

use crate::client_options::ClientOptions;
use crate::options::ServerOptions;
use crate::{client, printer, server};

const SERVE_HELP: &str = "\
Usage: vnetbench iperf3 serve [OPTIONS]

Serves stock iperf3 clients over TCP and UDP, several at the same time.

  -B, --bind ADDRESS     address to listen on; :: or 0.0.0.0 for all  [127.0.0.1]
  -p, --port PORT        port to listen on; 0 for a free one  [5201]
  -1, --one-off          exit after the first client
  -i, --interval S       seconds between interval lines; 0 for none  [1]
  -f, --format LETTER    unit of rates: k m g t (bits) or K M G T (bytes)
  -J, --json             print one line of JSON for each test
      --rcv-timeout MS   abort a test that transfers no data for this time  [120000]
";

const CLIENT_HELP: &str = "\
Usage: vnetbench iperf3 client [OPTIONS] HOST

Runs one test against an iperf3 server.

  -p, --port PORT        port of the server  [5201]
  -4, -6                 use only IPv4 or only IPv6
  -B, --bind ADDRESS     local address to send from
  -u, --udp              use UDP instead of TCP
  -R, --reverse          the server sends
      --bidir            both sides send
  -P, --parallel N       streams in each direction  [1]
  -t, --time S           duration in seconds; 0 for no limit  [10]
  -n, --bytes N[KMG]     end after this number of bytes
  -k, --blockcount N     end after this number of blocks
  -O, --omit S           omit the first S seconds from the results
  -b, --bitrate N[KMG][/BURST]   rate of each stream  [UDP 1M, TCP unlimited]
  -l, --length N[KMG]    block size in bytes  [TCP 128K, UDP one segment]
  -w, --window N[KMG]    socket buffer size
  -M, --set-mss N        maximum segment size
  -C, --congestion NAME  TCP congestion control algorithm
  -N, --no-delay         disable Nagle's algorithm
  -S, --tos N            IP type of service
  -i, --interval S       seconds between interval lines; 0 for none  [1]
  -f, --format LETTER    unit of rates: k m g t (bits) or K M G T (bytes)
  -J, --json             print one JSON document
  -T, --title TEXT       print this before every line
      --extra-data TEXT  include this text in the JSON of client and server
      --get-server-output    print the server's output, too
      --udp-counters-64bit   use 64-bit counters in UDP datagrams
      --repeating-payload    send a repeating pattern of digits
      --skip-rx-copy     receivers discard the data in the kernel
      --connect-timeout MS   time limit for connecting  [10000]
      --rcv-timeout MS   abort a test that transfers no data for this time  [120000]
";

/// Runs `iperf3-serve`.
///
/// Returns exit code 0 after success, 1 after a failed test and 2 after a usage error.
pub fn run_server(arguments: &[String]) -> ExitCode {
    run_command(arguments, SERVE_HELP, |arguments| {
        let options = ServerOptions::parse(arguments).map_err(CommandError::Usage)?;
        server::serve(&options).map_err(|error| CommandError::Failed(error.to_string()))
    })
}

/// Runs `iperf3-client`; the exit codes are those of [`run_server`].
pub fn run_client(arguments: &[String]) -> ExitCode {
    run_command(arguments, CLIENT_HELP, |arguments| {
        let options = ClientOptions::parse(arguments).map_err(CommandError::Usage)?;
        match client::run(&options) {
            Ok(()) => Ok(true),
            // The JSON document contains the error.
            Err(_) if options.session.json => Ok(false),
            Err(error) => Err(CommandError::Failed(error.to_string())),
        }
    })
}

enum CommandError {
    Usage(String),
    Failed(String),
}

fn run_command(
    arguments: &[String],
    help: &str,
    command: impl FnOnce(&[String]) -> Result<bool, CommandError>,
) -> ExitCode {
    if arguments
        .iter()
        .any(|word| word == "-h" || word == "--help")
    {
        printer::write_stdout(help);
        return ExitCode::SUCCESS;
    }
    let (message, code) = match command(arguments) {
        Ok(true) => return ExitCode::SUCCESS,
        Ok(false) => return ExitCode::FAILURE,
        Err(CommandError::Usage(message)) => {
            (format!("{message}\n  fix: --help lists the options"), 2)
        }
        Err(CommandError::Failed(words)) => (words, 1),
    };
    eprintln!("vnetbench iperf3: {message}");
    ExitCode::from(code)
}
