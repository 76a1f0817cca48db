//! Delay lines: forward frames between two ports with delay, jitter, loss and reordering, for kernels without netem.
//!
//! A delay line is a pair of taps that the agent joins, in place of a veth pair. It ends with its agent, because the
//! kernel removes taps with their file descriptors.
//!
//! [`DelayLines`] holds the delay lines of one agent and answers the requests `delay_line.start`, `delay_line.set`, `delay_line.read` and
//! `delay_line.stop`.
//!
//! | module | contents |
//! |---|---|
//! | `delay_lines` | [`DelayLines`]: the delay lines by name, and the requests |
//! | `direction` | the thread that forwards one direction |
//! | `delay_queue` | delays, drops and reorders the frames of a direction |
//! | `frame_queue` | queued frames in order of their due times, and their buffers |
//! | `impairments`, `random` | sampling of delay, jitter, loss and reordering |
//! | `segments` | extraction of single segments from segmentation-offload frames |
//! | `ports` | the taps at both ends |
//! | `counts` | counters of a direction |
//!
//! # What does not belong here
//!
//! The position of a delay line in a testbed, which the bench decides, and the load that passes through it. This crate
//! does not know streams.

mod counts;
mod delay_lines;
mod delay_queue;
mod direction;
mod frame_queue;
mod impairments;
mod ports;
mod random;
mod segments;

pub use delay_lines::{
    DelayLineNameRequest, DelayLineSetRequest, DelayLineStartRequest, DelayLines,
};
