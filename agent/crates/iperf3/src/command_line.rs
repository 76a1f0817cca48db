//! The commands `iperf3-serve` and `iperf3-client`: their help, and the exit code.

use std::process::ExitCode;

use crate::{client, options, printer, server};

const SERVE_HELP: &str = "\
Usage: vnetbench iperf3 serve [OPTIONS]

Serves stock iperf3 clients, TCP and UDP, several at once.

  -B, --bind ADDRESS     listen there  [127.0.0.1; :: or 0.0.0.0 for all]
  -p, --port PORT        [5201; 0 for a free one]
  -1, --one-off          leave after the first client
  -i, --interval S       between lines; 0 for none  [1]
  -f, --format LETTER    rates in k m g t (bits) or K M G T (bytes)
  -J, --json             a line of JSON for each test
      --rcv-timeout MS   give up a test in which nothing moves  [120000]
";

const CLIENT_HELP: &str = "\
Usage: vnetbench iperf3 client [OPTIONS] HOST

Runs a test against any iperf3 server.

  -p, --port PORT        [5201]
  -4, -6                 only IPv4, only IPv6
  -B, --bind ADDRESS     send from there
  -u, --udp              instead of TCP
  -R, --reverse          the server is_sender
      --bidir            both send
  -P, --parallel N       streams each way  [1]
  -t, --time S           0 for no end  [10]
  -n, --bytes N[KMG]     end after so many bytes
  -k, --blockcount N     end after so many blocks
  -O, --omit S           leave the first seconds out of the results
  -b, --bitrate N[KMG][/BURST]   of each stream  [UDP 1M, TCP without limit]
  -l, --length N[KMG]    bytes of a block  [TCP 128K, UDP one segment]
  -w, --window N[KMG]    socket buffers
  -M, --set-mss N        segment size
  -C, --congestion NAME  congestion control
  -N, --no-delay         without Nagle's algorithm
  -S, --tos N            type of service
  -i, --interval S       between lines; 0 for none  [1]
  -f, --format LETTER    rates in k m g t (bits) or K M G T (bytes)
  -J, --json             one JSON document
  -T, --title TEXT       before every line
      --extra-data TEXT  goes into both sides' JSON
      --get-server-output
      --udp-counters-64bit
      --repeating-payload
      --skip-rx-copy     receivers leave the data in the kernel
      --connect-timeout MS   [10000]
      --rcv-timeout MS   give up a test in which nothing moves  [120000]
";

/// 0 where all went well, 1 where a test came to nothing, 2 where the command line is wrong.
pub fn run_server(arguments: &[String]) -> ExitCode {
    run_command(arguments, SERVE_HELP, |arguments| {
        let options = options::ServerOptions::parse(arguments).map_err(CommandError::Usage)?;
        server::serve(&options).map_err(|failure| CommandError::Failed(failure.to_string()))
    })
}

/// As for `run_server`.
pub fn run_client(arguments: &[String]) -> ExitCode {
    run_command(arguments, CLIENT_HELP, |arguments| {
        let options = options::ClientOptions::parse(arguments).map_err(CommandError::Usage)?;
        match client::run(&options) {
            Ok(()) => Ok(true),
            // It is in the document.
            Err(_) if options.session.json => Ok(false),
            Err(failure) => Err(CommandError::Failed(failure.to_string())),
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
        Err(CommandError::Usage(message)) => (
            format!("{message}\n  fix: --help shows what can be asked"),
            2,
        ),
        Err(CommandError::Failed(words)) => (words, 1),
    };
    eprintln!("vnetbench iperf3: {message}");
    ExitCode::from(code)
}
