//! Functions of the operating system that several crates of the agent use.
//!
//! This is the lowest crate: every other crate may use it, and it uses none of them.
//!
//! | module | contents |
//! |---|---|
//! | [`error`] | errors of requests: [`error::RequestError`] has the message for the user, and the code and kind for the protocol |
//! | [`clock`] | the monotonic clock and its identity: only endpoints that share a clock can compare times |
//! | [`cpu_list`] | sets of CPUs in the kernel's notation (`0-3,8`), and the affinity of threads |
//! | [`priority`] | real-time priority of threads |
//! | [`waiting`] | waiting for file descriptors with a deadline; [`waiting::Waker`] wakes a waiting thread |
//! | [`signals`] | calling a function when a signal arrives |
//! | [`ports`] | the range of ports that sockets may use, for firewalls |
//! | [`socket_option`] | `getsockopt` and `setsockopt` for options that other crates lack |
//! | [`histogram`] | [`histogram::Histogram`]: durations counted in buckets by one thread while another reads them |
//!
//! # What does not belong here
//!
//! Anything that only one crate uses: a module moves here when a second crate needs it. Nothing here knows streams, trials,
//! interfaces or messages of the protocol; [`error`] only knows the codes of errors.

pub mod clock;
pub mod cpu_list;
pub mod error;
pub mod histogram;
pub mod ports;
pub mod priority;
pub mod signals;
pub mod socket_option;
pub mod waiting;
