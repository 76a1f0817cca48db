//! One stream of load, whatever carries it: its role, orders, thread, times and counts.
//!
//! A [`Stream`] moves data in one direction between two endpoints; each endpoint has one [`Role`] in it. One
//! thread drives it, and only that thread writes its counts; the sampler reads them while it runs.
//!
//! | module | knows |
//! |---|---|
//! | `role`, `secret` | which end of a stream this is; the secret that tells the streams of one trial from all others |
//! | `orders`, `enforcement` | [`Orders`]: what the streams of one part do now ([`Order`]), from waiting for the start to their end |
//! | `stream`, `end` | [`Stream`], its counts ([`Tally`]), and how it ended ([`End`]) |
//! | [`threads`] | starting the threads, placing them on CPUs, and holding them until the start |
//! | [`timing`] | what a source of requests measures, and when requests are due |
//! | [`datagrams`] | what a flow of datagrams counts |
//! | [`datagram_header`] | the header of each datagram and of each test frame: stream, number, time of sending |
//! | [`reception`], [`jitter`] | lost, duplicate and reordered datagrams by their numbers; jitter (RFC 3550) |
//! | [`frames`] | [`frames::Frames`]: a stream of frames as a trial sees it, and its outcome |
//! | [`frame_pacing`] | the times at which frames are due, and how well they were kept |
//!
//! # What does not belong here
//!
//! How data is sent and received: sockets are in `vnetbench-traffic`, frames in `vnetbench-frames`. Both use this
//! crate, and neither this crate nor `vnetbench-frames` knows of the workloads of sockets. This crate knows
//! nothing of trials or of the protocol between bench and agent, except that some results are serialised as they
//! are.

pub mod datagram_header;
pub mod datagrams;
mod end;
mod enforcement;
pub mod frame_pacing;
pub mod frames;
pub mod jitter;
mod orders;
pub mod reception;
mod role;
mod secret;
mod stream;
pub mod threads;
pub mod timing;

pub use end::StreamEnd;
pub use orders::{Command, Commands};
pub use role::Role;
pub use secret::Secret;
pub use stream::{CallCounter, EndGuard, OnEnd, Stream, StreamCounters, ZeroCopyCounts};
