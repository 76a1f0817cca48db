//! The iperf3 wire protocol: a server for stock clients and a client for stock servers (docs/iperf3.md).
//!
//! The crate has three entry points:
//!
//! - [`run_server`] and [`run_client`] run the commands `iperf3-serve` and `iperf3-client`.
//! - [`server_probe::probe_server`] checks that an iperf3 server answers and returns its version.
//! - [`trial`] uses a stock server as the remote endpoint of a trial.
//!
//! | modules | contents |
//! |---|---|
//! | `wire`, `client_messages`, `server_messages`, `states` | protocol messages, their order, and the errors of a test |
//! | `limits`, [`parameters`], `fields`, `results` | test parameters and results as JSON, with their limits |
//! | `control_connection`, `client_control` | the control connection with its timeouts, and the client's protocol steps |
//! | `server`, `listener`, `test_registry`, `session` | the server: its sockets, the running tests, one test |
//! | `client` | the client |
//! | `running`, `schedule`, `load_threads`, `streams`, `udp`, `pacing`, `cpu_time` | the load of one test, the same in both roles |
//! | `record`, `report`, `text`, `json`, `units`, `printer` | counters, intervals and their output |
//! | `command_line`, `server_options`, `client_options`, `session_options` | the commands and their options |
//! | `option_values`, `unsupported_options` | iperf3's notation of values; the options of iperf3 that this crate lacks |
//! | [`trial`], `trial_parameters`, `server_report` | the trial with a stock server: its test, its load, the server's results |
//! | `sockets`, `interrupt` | socket setup and Ctrl-C |
//! | `mutated_messages` (tests) | the properties of all parsers, with mutated messages |
//!
//! # Out of scope
//!
//! Trials belong to the agent; this crate contributes only [`trial`]. The protocol between bench and agent is not
//! part of it either. From `vnetbench-traffic` the crate uses the senders, the receivers and the load types.

mod client;
mod client_control;
mod client_messages;
mod client_options;
mod command_line;
mod control_connection;
mod cpu_time;
mod fields;
mod interrupt;
mod json;
mod limits;
mod listener;
mod load_threads;
#[cfg(test)]
mod mutated_messages;
mod option_values;
mod pacing;
pub mod parameters;
mod printer;
mod record;
mod report;
mod results;
mod running;
mod schedule;
mod server;
mod server_messages;
mod server_options;
pub mod server_probe;
mod server_report;
mod session;
mod session_options;
mod sockets;
mod states;
mod streams;
mod test_registry;
mod text;
pub mod trial;
mod trial_parameters;
mod udp;
mod units;
mod unsupported_options;
mod wire;

pub use client_options::ClientArguments;
pub use command_line::{run_client, run_server};
pub use server_options::ServerOptions;
