//! The workloads of sockets (TCP, MPTCP, VSOCK and UDP), and the load of a trial.
//!
//! A [`Load`] is the streams of one endpoint as they are requested, in one or two [`Part`]s. [`Work`] says what
//! the streams of a part do; [`Part::start`] starts the threads that do it, those of the workload `frames` (crate
//! `vnetbench-frames`) too.
//!
//! | module | knows |
//! |---|---|
//! | `load` | [`Load`], [`Part`], [`Work`]: what is requested, and which workload carries it out |
//! | [`route`] | addresses and transports |
//! | [`sockets`] | socket options, and how a socket is opened |
//! | [`connector`], [`listener`], `handshake` | connecting and listening, and the 64 bytes that tell whose connection it is |
//! | [`udp_handshake`] | agreeing on a flow of datagrams and proving that they pass |
//! | [`tcp_stream`], `tcp_driver`, `event_loop` | bulk transfers: one stream a thread, or many by epoll |
//! | [`tcp_rr`], `request_response`, [`tcp_crr`] | requests and responses, on one connection or with a connection each |
//! | [`udp_stream`], `udp_calls` | datagrams, many in one system call |
//! | [`send`], [`senders`], `send_pages`, `send_uring`, `send_zerocopy` | the modes of sending |
//! | [`receive`] | the modes of receiving |
//! | [`effective_options`] | what a connected socket really has, read back |
//!
//! # What does not belong here
//!
//! What every stream has, whatever carries it (crate `vnetbench-streams`), how frames are made
//! (`vnetbench-frames`), the protocol of iperf3 (`vnetbench-iperf3`), and everything of a trial but its load:
//! samples, events and the states of a trial are the agent's.

pub mod connector;
pub mod effective_options;
mod event_loop;
mod handshake;
pub mod listener;
mod load;
pub mod receive;
mod request_response;
pub mod route;
pub mod send;
mod send_pages;
mod send_uring;
mod send_zerocopy;
pub mod senders;
pub mod sockets;
pub mod tcp_crr;
mod tcp_driver;
pub mod tcp_rr;
pub mod tcp_stream;
mod udp_calls;
pub mod udp_handshake;
pub mod udp_stream;

pub use load::{Load, LoadPart, Workload};
