//! The wire protocol of iperf3, both roles: a server for stock clients, and a client for stock servers
//! (docs/iperf3.md).
//!
//! There are three ways in:
//!
//! - [`run_server`] and [`run_client`] are the commands `iperf3-serve` and `iperf3-client`;
//! - [`server_probe::greet`] asks a server whether it is one, and what it can do;
//! - [`trial`] has a stock server as the other endpoint of a trial.
//!
//! | modules | know |
//! |---|---|
//! | `wire`, `states` | which messages there are and when each may come; why a test fails |
//! | `limits`, [`parameters`], `fields`, `results` | the parameters and results of a test, as JSON, within named limits |
//! | `control_connection`, `client_control` | the control connection: time limits, and the client's side of it |
//! | `server`, `listener`, `test_registry`, `session` | the server: its listener, the tests under way, one test |
//! | `client` | the client |
//! | `running`, `streams`, `udp`, `pacing`, `cpu_time` | the load of one test, the same in both roles |
//! | `record`, `report`, `text`, `json`, `units`, `printer` | what is counted, and how it is printed |
//! | `command_line`, `options`, `session_options`, `arguments` | the commands and their options |
//! | `sockets`, `interrupt` | sockets as the parameters ask for them; ending by a signal |
//! | `mutated_messages` (tests) | the fuzz test of all parsers |
//!
//! # What does not belong here
//!
//! Trials beyond the part that [`trial`] plays in one, and the protocol between bench and agent. Of the crate
//! `vnetbench-traffic` it uses what moves data (senders, receivers) and the types of a load.

mod arguments;
mod client;
mod client_control;
mod command_line;
mod control_connection;
mod cpu_time;
mod fields;
mod interrupt;
mod json;
mod limits;
mod listener;
#[cfg(test)]
mod mutated_messages;
mod options;
mod pacing;
pub mod parameters;
mod printer;
#[cfg(test)]
#[path = "../../../tests/agent/random.rs"]
mod random;
mod record;
mod report;
mod results;
mod running;
mod server;
pub mod server_probe;
mod session;
mod session_options;
mod sockets;
mod states;
mod streams;
mod test_registry;
mod text;
pub mod trial;
mod udp;
mod units;
mod wire;

pub use command_line::{run_client, run_server};
