//! One stream of load: its role, commands, thread, schedule and counters.
//!
//! A [`Stream`] moves data in one direction between two endpoints; each endpoint has one [`Role`] in it. One
//! thread drives the stream, and only that thread writes its counters; the sampler reads them meanwhile.
//!
//! | module | contents |
//! |---|---|
//! | `role`, `secret` | the role of an endpoint; the secret that identifies the streams of one trial |
//! | `commands`, `enforcement` | [`Commands`]: the command ([`Command`]) that the streams of one load part follow |
//! | `stream`, `end` | [`Stream`], its counters ([`StreamCounters`]), and how it ended ([`StreamEnd`]) |
//! | [`threads`] | starts the threads, places them on CPUs, and holds them until the start |
//! | [`timing`] | latencies of requests, and the times at which requests are due |
//! | [`datagrams`] | the counters of a UDP stream |
//! | [`arrival_gaps`] | the longest gaps between arrivals of a UDP stream, and its arrivals over time |
//! | [`datagram_header`] | the header of a datagram or test frame: stream, sequence number, time of sending |
//! | [`reception`], [`jitter`] | lost, duplicate and reordered packets by sequence number; jitter (RFC 3550) |
//! | [`frames`] | [`frames::FrameEndpoint`]: the interface of a stream of frames, and its details |
//! | [`frame_pacing`] | the times at which frames are due, and the deviations from them |
//!
//! # Out of scope
//!
//! `vnetbench-traffic` sends and receives over sockets, `vnetbench-frames` sends and receives frames; both use this
//! crate. Trials and the protocol between bench and agent belong to the agent; this crate only derives the JSON form of
//! some results.

pub mod arrival_gaps;
mod commands;
pub mod datagram_header;
pub mod datagrams;
mod end;
mod enforcement;
pub mod frame_pacing;
pub mod frames;
pub mod jitter;

pub mod reception;
mod role;
mod secret;
mod stream;
pub mod threads;
pub mod timing;

pub use commands::{Command, Commands};
pub use end::StreamEnd;
pub use role::{Role, StreamRole};
pub use secret::Secret;
pub use stream::{
    CallCounter, EndGuard, OnEnd, Stream, StreamBytes, StreamCounters, ZeroCopyCounts,
};
