//! The commands `iperf3-serve` and `iperf3-client`: their exit codes.

use std::process::ExitCode;

use crate::client_options::ClientArguments;
use crate::server::ServerEnd;
use crate::server_options::ServerOptions;
use crate::states::TestError;
use crate::{client, server};

/// Runs `iperf3-serve`.
///
/// Returns exit code 0 after success and 1 after a failed test.
pub fn run_server(options: &ServerOptions) -> ExitCode {
    match server::serve(options) {
        Ok(ServerEnd::Succeeded) => ExitCode::SUCCESS,
        Ok(ServerEnd::OneOffFailed) => ExitCode::FAILURE,
        Err(error) => print_failure(&error),
    }
}

/// Runs `iperf3-client`.
///
/// Returns the exit codes of [`run_server`], and 2 for options that exclude each other.
pub fn run_client(arguments: ClientArguments) -> ExitCode {
    let options = arguments
        .into_options()
        .unwrap_or_else(|error| error.exit());
    match client::run(&options) {
        Ok(()) => ExitCode::SUCCESS,
        // The JSON document contains the error.
        Err(_) if options.session.json => ExitCode::FAILURE,
        Err(error) => print_failure(&error),
    }
}

fn print_failure(error: &TestError) -> ExitCode {
    eprintln!("vnetbench iperf3: {error}");
    ExitCode::FAILURE
}

/// Parses words as the arguments of a command.
#[cfg(test)]
pub fn parse_words<A: clap::Args>(line: &str) -> Result<A, clap::Error> {
    let command = A::augment_args(clap::Command::new("test")).no_binary_name(true);
    A::from_arg_matches(&command.try_get_matches_from(line.split_whitespace())?)
}
