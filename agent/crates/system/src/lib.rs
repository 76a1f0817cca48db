//! What every crate of the agent needs of the machine that it runs on.
//!
//! This is the lowest crate: every other one may use it, and it uses none of them.
//!
//! | module | knows |
//! |---|---|
//! | [`error`] | what can go wrong in a request: [`error::Error`] carries the sentence for a person and the code and kind for the protocol |
//! | [`clock`] | the monotonic clock, and its identity: only endpoints that share a clock can compare times |
//! | [`cpu_list`] | sets of CPUs in the kernel's notation (`0-3,8`), and how a thread is bound to them |
//! | [`priority`] | which threads run before others (real-time scheduling) |
//! | [`waiting`] | waiting for file descriptors with a time limit; [`waiting::Bell`] wakes a waiting thread |
//! | [`signals`] | running a function when a signal arrives |
//! | [`ports`] | the range of ports that sockets may use, where a firewall needs one |
//! | [`socket_option`] | `getsockopt` and `setsockopt` for options that other crates lack |
//! | [`histogram`] | [`histogram::Histogram`]: times counted in buckets by one thread while another reads them |
//!
//! # What does not belong here
//!
//! Anything that only one crate uses. A module moves here when a second crate needs it, and not before. Nothing
//! here knows of streams, trials, interfaces, or of the messages of the protocol; [`error`] only knows the codes
//! of failures.

pub mod clock;
pub mod cpu_list;
pub mod error;
pub mod histogram;
pub mod ports;
pub mod priority;
pub mod signals;
pub mod socket_option;
pub mod waiting;
