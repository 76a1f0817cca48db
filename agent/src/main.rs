//! vnetbench-agent: generates and measures traffic on one endpoint for vnetbench.
//!
//! The bench starts one agent on each endpoint and sends it requests, one line of JSON-RPC each
//! (docs/protocol.md). The agent generates the load of trials, reads counters, and sends samples as events.
//! This file declares the program's commands.
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

// `missing_docs` covers only what other crates see, which is nothing of a program.
#![warn(clippy::missing_docs_in_private_items)]

mod agent;
mod facts;
mod guest;
mod journal;
mod knob_requests;
mod knobs;
mod lines;
#[cfg(test)]
mod mutated_requests;
mod outbox;
mod path;
mod rpc;
mod trial;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// Generate and measure traffic on this endpoint, controlled by vnetbench in JSON-RPC 2.0 (docs/protocol.md).
#[derive(Parser)]
#[command(version, disable_help_subcommand = true)]
struct CommandLine {
    /// What the program does.
    #[command(subcommand)]
    command: Command,
}

/// The commands, which are what the bench starts and what a user can start.
#[derive(Subcommand)]
enum Command {
    /// Read requests from standard input, answer on standard output, and exit when the input closes.
    Stdio {
        /// On exit, restore the settings that were changed on this host and remove FOLDER.
        #[arg(long, value_name = "FOLDER")]
        journal: Option<PathBuf>,
    },
    /// Restore the settings that a killed agent has changed, and remove its folder.
    Restore {
        /// The journal of the killed agent.
        folder: PathBuf,
    },
    /// Run as the first process of a guest, and serve requests on its virtio port vnetbench.agent.
    Init,
    /// Serve stock iperf3 clients over TCP and UDP, several at the same time.
    #[command(name = "iperf3-serve")]
    Iperf3Serve(vnetbench_iperf3::ServerOptions),
    /// Run one test against an iperf3 server.
    #[command(name = "iperf3-client")]
    Iperf3Client(Box<vnetbench_iperf3::ClientArguments>),
}

fn main() -> ExitCode {
    // The kernel starts the first process of an initramfs without arguments.
    if std::env::args_os().len() <= 1 && guest::is_initramfs_init() {
        return guest::run_guest(serve_as_guest);
    }
    match CommandLine::parse().command {
        Command::Stdio { journal } => serve_on_host(journal.as_deref()),
        Command::Restore { folder } => journal::restore_from_folder(&folder),
        Command::Init => guest::run_guest(serve_as_guest),
        Command::Iperf3Serve(options) => vnetbench_iperf3::run_server(&options),
        Command::Iperf3Client(arguments) => vnetbench_iperf3::run_client(*arguments),
    }
}

/// Serves requests on the standard streams, with a journal if a folder for it is given.
fn serve_on_host(journal_folder: Option<&Path>) -> ExitCode {
    match journal_folder.map_or(Ok(()), journal::start_recording_settings) {
        Ok(()) => agent::serve(agent::RunMode::Host),
        Err(error) => {
            eprintln!("vnetbench-agent: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Serves requests as the guest's process for one host.
fn serve_as_guest() -> ExitCode {
    agent::serve(agent::RunMode::Guest)
}
