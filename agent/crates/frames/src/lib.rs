//! The workload `frames`: generates and counts Ethernet frames at a port, without IP sockets.
//!
//! One thread generates a stream's frames at one endpoint, and a sink counts them at the other. `bpf/frame.h` defines the
//! header of a frame's payload. The endpoints have no connection: each is ready as soon as its port is.
//!
//! [`open_frame_workload`] prepares a port for the streams that [`FrameParameters`] describes, and
//! [`start_frame_streams`] starts their threads. [`capabilities::probe_capabilities`] probes the backends that a port
//! supports.
//!
//! | module | contents |
//! |---|---|
//! | `parameters` | parameters of the streams, and the backends chosen for them |
//! | `workload` | opening the port and running the streams |
//! | `generate`, `call_size`, `generator_state`, `dispatcher` | XDP sources: a BPF program generates the frames (`bpf/generate.bpf.c`) |
//! | `sink`, `sink_program`, `arrivals` | XDP sinks: a BPF program counts the frames (`bpf/sink.bpf.c`) |
//! | `packet` | sources and sinks with packet sockets, for ports or users without XDP |
//! | `filter` | the streams that an endpoint sends and counts |
//! | `frame_class`, `foreign` | frames at the port that belong to no stream: their classes, their counts |
//! | [`template`] | the headers of a frame, built with `etherparse` |
//! | `mutated_frames` (tests) | the properties of the parsers of frames, with mutated frames |
//! | `port` | the interface that frames leave and arrive by |
//!
//! `build.rs` compiles the BPF programs with clang, and `generator_state` and `sink_program` embed them.
//! Crate `vnetbench-bpf` loads them.
//!
//! # What does not belong here
//!
//! TCP and UDP sockets (crate `vnetbench-traffic`), trials, and the parsing of requests, except for `frames.capabilities`. The
//! agent checks the limits of the parameters (`trial`).

mod arrivals;
mod call_size;
pub mod capabilities;
mod dispatcher;
mod filter;
mod foreign;
mod frame_class;
mod generate;
mod generator_state;
#[cfg(test)]
mod mutated_frames;
mod packet;
mod parameters;
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
    ChosenBackends, FCS_BYTES, FrameBackend, FrameParameters, FrameSize, MAX_MIX_SEQUENCE_FRAMES,
    PacingMethod, RejectedFrameCounting,
};
pub use sink::{OtherFrameCounts, OtherFrameObserver};
pub use workload::{FrameWorkload, OpenFrameStream, open_frame_workload, start_frame_streams};
