//! Delay lines: frames between two ports, both ways, with delay, jitter, loss and reordering, where the kernel
//! has no netem.
//!
//! A delay line is two taps that this process joins, in place of the two ends of a veth. It ends with its agent:
//! taps go with their file descriptors.
//!
//! [`DelayLines`] holds the lines of one agent, and carries out the requests `line.start`, `line.set`,
//! `line.read` and `line.stop`.
//!
//! | module | knows |
//! |---|---|
//! | `delay_lines` | [`DelayLines`]: the lines by name, and the requests |
//! | `direction` | the thread that carries one direction |
//! | `delay_queue` | what becomes of each frame of a direction |
//! | `frame_queue` | frames that are on their way, and the buffers that hold them |
//! | `impairments`, `random` | what is drawn for each frame: delay, jitter, loss, reordering |
//! | `segments` | single segments cut out of what TCP hands over as one |
//! | `ports` | the taps at both ends |
//! | `counts` | what a direction counted |
//!
//! # What does not belong here
//!
//! Where a delay line stands in a testbed, which the bench decides, and the load that passes it. This crate knows
//! no streams.

mod counts;
mod delay_lines;
mod delay_queue;
mod direction;
mod frame_queue;
mod impairments;
mod ports;
mod random;
mod segments;

pub use delay_lines::{DelayLines, LineRequest, StartRequest, UpdateRequest};
