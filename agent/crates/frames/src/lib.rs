//! The workload `frames`: Ethernet frames made and counted at one port, without IP sockets in between.
//!
//! A stream is the frames that one thread makes at one endpoint and that are counted at the other. What stands at
//! their head is in `bpf/frame.h`. The endpoints have no connection: each is ready when its own port is.
//!
//! [`open`] makes a port ready for the streams that [`Asked`] describes, and [`start`] starts their threads.
//! [`capabilities::able`] tries which ways of making and counting frames a port has.
//!
//! | module | knows |
//! |---|---|
//! | `parameters` | what is asked of the streams ([`Asked`]), and by which ways it was granted ([`Ways`]) |
//! | `workload` | opening the port, and running the streams |
//! | `generate`, `plan`, `dispatcher` | sources in the kernel: a BPF program makes the frames (`bpf/generate.bpf.c`) |
//! | `sink`, `sink_program`, `arrivals` | sinks: an XDP program counts the frames (`bpf/sink.bpf.c`) |
//! | `packet` | sources and sinks by packet sockets, where a program cannot be had |
//! | `filter` | which streams a side sends and which it counts |
//! | `foreign` | frames at the port that belong to no stream, by kind |
//! | [`headers`], [`template`] | what a frame looks like |
//! | `bpf_programs` | loading BPF programs and sharing memory with them |
//! | `port` | the interface that frames leave and come in by |
//!
//! `build.rs` compiles the BPF programs with clang, and `bpf_programs` and `sink_program` embed them.
//!
//! # What does not belong here
//!
//! TCP and UDP sockets (crate `vnetbench-traffic`), trials, and the parsing of requests, except for that of
//! `frames.able`. Limits of the parameters are the agent's (`trial`).

mod arrivals;
mod bpf_programs;
pub mod capabilities;
mod dispatcher;
mod filter;
mod foreign;
mod generate;
pub mod headers;
mod packet;
mod parameters;
mod plan;
mod port;
mod sink;
mod sink_program;
pub mod template;
#[cfg(test)]
mod test_frames;
#[cfg(test)]
mod test_network;
mod workload;

pub use parameters::{
    Backend, ChosenBackends, FCS_BYTES, FrameParameters, FrameSize, MAX_MIX_FRAMES, PacingMethod,
    RefusedFrames,
};
pub use sink::{PortCounts, PortObserver};
pub use workload::{FrameWorkload, open, start};
