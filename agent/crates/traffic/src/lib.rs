//! The socket workloads (TCP, MPTCP, VSOCK and UDP) and the load of a trial.
//!
//! A [`Load`] describes the requested streams of one endpoint, in one or two [`LoadPart`]s. The [`Workload`] of a part
//! describes what its streams do. [`LoadPart::start`] starts the threads of any workload, including `frames` (crate
//! `vnetbench-frames`).
//!
//! | module | contents |
//! |---|---|
//! | `load` | [`Load`], [`LoadPart`], [`Workload`]: the requested load, and which module runs it |
//! | [`route`] | addresses and transports |
//! | [`sockets`] | socket options, and opening a socket |
//! | [`connector`], [`listener`], `handshake` | connecting and listening, and the 64 bytes that identify a stream's connection |
//! | [`udp_handshake`], `udp_socket` | opening the sockets of a datagram flow, negotiating the flow and probing its path |
//! | [`source_ports`] | the source ports of the streams |
//! | [`tcp_stream`], [`transfers`], `tcp_driver`, `event_loop` | bulk transfers: one stream per thread, or several with epoll |
//! | [`tcp_rr`], `request_response`, [`tcp_crr`] | requests and responses, on one connection or with one connection each |
//! | `udp_stream`, [`flow_options`], `udp_calls` | datagrams, in batches of many per system call |
//! | [`send`], [`senders`], `send_pages`, `send_uring`, `send_zerocopy` | the send modes |
//! | [`receive`] | the receive modes |
//! | [`timed_messages`] | messages at a rate whose arrivals the sink of a TCP stream records |
//! | [`effective_options`] | the effective options of a connected socket |
//!
//! # What does not belong here
//!
//! - Anything common to all streams: crate `vnetbench-streams`.
//! - Building frames: crate `vnetbench-frames`.
//! - The iperf3 protocol: crate `vnetbench-iperf3`.
//! - Samples, events and states of a trial: the agent.

pub mod connector;
pub mod effective_options;
mod event_loop;
pub mod flow_options;
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
pub mod source_ports;
pub mod tcp_crr;
mod tcp_driver;
pub mod tcp_rr;
pub mod tcp_stream;
pub mod timed_messages;
pub mod transfers;
mod udp_calls;
pub mod udp_handshake;
mod udp_socket;
mod udp_stream;

pub use load::{Load, LoadPart, Workload};
