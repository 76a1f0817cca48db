//! vnetbench-agent: the instrument of vnetbench, on one endpoint.
//!
//! The bench starts one agent on each endpoint and sends it requests, one line of JSON-RPC each
//! (docs/protocol.md). The agent drives the load of trials, counts what happens, and sends samples as events.
//! This file parses the arguments of the program.
//!
//! | module | knows |
//! |---|---|
//! | `agent` | the loop over requests: which method does what, and that each request is answered once |
//! | `rpc`, `lines`, `outbox` | the messages; lines of bounded length in; answers and events out, without blocking the load |
//! | `trial` | a trial from `trial.prepare` to `trial.end`: its states, its load, its samples |
//! | `knobs`, `knob_requests` | the settings of an endpoint; the requests that read and set them |
//! | `journal` | the settings of a user's host as they were, on disk until they are put back |
//! | `facts` | what the endpoint is: machine, services, interfaces |
//! | `path` | the proof of a path: which packet sizes pass |
//! | `guest` | the agent as the first process of a guest |
//!
//! The libraries `vnetbench-…` do the work: workloads (`traffic`, `frames`, `iperf3`), delay lines, counters.
//! None of them knows of trials or of the protocol between bench and agent; this crate connects them with both.

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

The instrument of vnetbench: drives and counts traffic on this endpoint. It is started and spoken to by vnetbench, in
JSON-RPC 2.0, one message a line (docs/protocol.md).

  stdio        take requests from standard input, answer on standard output, end when the input closes;
               --journal: put back then what was changed on this host, and remove the folder
  restore      put back what an agent that was killed has changed, and remove its folder
  init         be the first process of a guest, and do so through its virtio port vnetbench.agent
  iperf3-serve, iperf3-client HOST
               speak iperf3 with others (docs/iperf3.md); each has its own --help
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
        // A kernel starts the first process of an initramfs without any.
        [] if guest::is_first_process() => guest::init(serve_as_guest),
        [] => usage_error("what should it do?"),
        ["stdio", ..] => usage_error("stdio takes --journal FOLDER, or no further argument"),
        ["restore", ..] => usage_error("restore takes one folder"),
        ["init", ..] => usage_error("init takes no further argument"),
        [first, ..] => usage_error(&format!("there is no \"{first}\"")),
    }
}

fn serve_as_guest() -> ExitCode {
    agent::serve(agent::RunMode::Guest)
}

fn usage_error(what: &str) -> ExitCode {
    eprint!("vnetbench-agent: {what}\n\n{USAGE}");
    ExitCode::from(2)
}
