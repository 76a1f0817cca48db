//! Teams of links: a BPF program chooses the member that carries each frame.
//!
//! A team has a port, which is any interface, and members. What leaves the port is sent by a member instead, and what arrives
//! at a member is received by the port. So a bridge or a host uses the port as if it were a bond. The programs run at the hooks
//! of traffic control (tcx, or clsact before Linux 6.6), and end with the agent.
//!
//! | module | contents |
//! |---|---|
//! | `balance` | which port moves to which member, by the load of the members |
//! | `balancer` | the thread that measures the load and moves ports |
//! | `policy` | policies, fields and reductions, by their names in requests |
//! | `program` | loading and attaching the programs, their counters and their table |
//! | `requests` | `team.start`, `team.read` and `team.stop` |
//!
//! The programs are in `bpf/`: `team.bpf.c` with `bonding.h` (hashes of Linux bonding), `fields.h` (XOR of fields) and
//! `headers.h` (headers of frames).
//!
//! # What does not belong here
//!
//! The bonding driver in a guest (`guest.team`), and the shaping of links, which the bench does.

mod balance;
mod balancer;
mod policy;
mod program;
mod requests;

pub use requests::{TeamPortRequest, TeamStartRequest, Teams};
