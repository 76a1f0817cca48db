//! vnetbench-agent: generates and measures traffic on one endpoint for vnetbench.
//!
//! The bench starts one agent on each endpoint and sends it requests, one line of JSON-RPC each
//! (docs/protocol.md). The agent generates the load of trials, reads counters, and sends samples as events.
//! This file parses the program's arguments.
//!
//! | module | contains |
//! |---|---|
//! | `agent` | the request loop: dispatches each method and answers each request exactly once |
//! | `rpc`, `lines`, `outbox` | the message format; input lines of bounded length; output that never blocks the load |
//! | `trial` | a trial from `trial.prepare` to `trial.end`: its states, its load, its samples |
//! | `knobs`, `knob_requests` | the settings of an endpoint; the requests that read and set them |
//! | `journal` | the original settings of a user's host, on disk until they are restored |
//! | `facts` | a description of the endpoint: machine, services, interfaces |
//! | `path` | the path probe: which packet sizes pass |
//! | `guest` | the agent as the first process of a guest |
//!
//! The `vnetbench-…` crates implement workloads (`traffic`, `frames`, `iperf3`), delay lines and counters.
//! They do not depend on trials or on the protocol between bench and agent; this crate connects them with both.

mod agent;
mod facts;
mod guest;
mod journal;
mod knob_requests;
mod knobs;
mod lines;
mod outbox;
mod path;
mod rpc;
mod trial;

use std::path::Path;
use std::process::ExitCode;

const USAGE: &str = "\
Usage: vnetbench-agent stdio [--journal FOLDER] | restore FOLDER | init | iperf3-serve | iperf3-client HOST

Generates and measures traffic on this endpoint. vnetbench starts the agent and controls it in JSON-RPC 2.0, one
message per line (docs/protocol.md).

  stdio        read requests from standard input, answer on standard output, and exit when the input closes;
               --journal: on exit, restore the settings that were changed on this host and remove FOLDER
  restore      restore the settings that a killed agent has changed, and remove its folder
  init         run as the first process of a guest, and serve requests on its virtio port vnetbench.agent
  iperf3-serve, iperf3-client HOST
               run as an iperf3 server or client (docs/iperf3.md); each has its own --help
  --version    print the version
  --help       print this text
";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args_os()
        .skip(1)
        .map(|argument| argument.to_string_lossy().into_owned())
        .collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match words[..] {
        ["stdio"] => agent::serve(agent::RunMode::Host),
        ["stdio", "--journal", folder] => match journal::open_journal(Path::new(folder)) {
            Ok(()) => agent::serve(agent::RunMode::Host),
            Err(error) => {
                eprintln!("vnetbench-agent: {error}");
                ExitCode::FAILURE
            }
        },
        ["restore", folder] => journal::restore(Path::new(folder)),
        ["init"] => guest::init(serve_as_guest),
        ["--version" | "-V"] => {
            println!("vnetbench-agent {}", env!("CARGO_PKG_VERSION"));
            ExitCode::SUCCESS
        }
        ["iperf3-serve", ..] => vnetbench_iperf3::run_server(&arguments[1..]),
        ["iperf3-client", ..] => vnetbench_iperf3::run_client(&arguments[1..]),
        ["--help" | "-h"] => {
            print!("{USAGE}");
            ExitCode::SUCCESS
        }
        // The kernel starts the first process of an initramfs without arguments.
        [] if guest::is_first_process() => guest::init(serve_as_guest),
        [] => usage_error("a command is missing"),
        ["stdio", ..] => usage_error("stdio accepts only --journal FOLDER"),
        ["restore", ..] => usage_error("restore requires exactly one folder"),
        ["init", ..] => usage_error("init accepts no arguments"),
        [command, ..] => usage_error(&format!("unknown command \"{command}\"")),
    }
}

fn serve_as_guest() -> ExitCode {
    agent::serve(agent::RunMode::Guest)
}

fn usage_error(message: &str) -> ExitCode {
    eprint!("vnetbench-agent: {message}\n\n{USAGE}");
    ExitCode::from(2)
}
