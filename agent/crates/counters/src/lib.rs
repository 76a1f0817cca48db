//! Counters of this endpoint: each source of the kernel read at one moment, and the difference between two
//! readings.
//!
//! [`Sources`] opens all sources that a [`Scope`] names. [`Sources::read`] returns a [`Reading`], and
//! [`Reading::counted_since`] the [`Counters`] between two readings. A source that this kernel lacks is left out,
//! so that its counters are absent and never zero. A source keeps its file open, because its path may name
//! another file later.
//!
//! Every module reads one source:
//!
//! - of the system: `cpu` (/proc/stat), `softirq`, `softnet`, `pressure`, `snmp` (protocols), `perf` (cycles, by
//!   `perf_event_open`), `cgroup` (CPU quota), `process`;
//! - of an interface: `interface` and `interfaces`, `qdisc`, and [`driver`] with `adapter` and `queues`, which
//!   take so long to read that they are read only at the start and the end of a trial;
//! - of a socket: [`tcp_info`], [`mptcp_info`], [`socket_memory`];
//! - of threads: [`load_thread`] (those that carry the load), [`thread_time`] and `thread_cpu`, `kvm_exits`;
//! - [`watched`]: what an observer is asked to watch beside the system.
//!
//! `reading` holds the types that the sources fill, `sources` opens them, and `wrap` continues counters of the
//! kernel that overflow at 32 bits.
//!
//! # What does not belong here
//!
//! When to read (the agent's `trial`), and what the counters mean (the bench). Counts that the load keeps of
//! itself belong to its streams (crate `vnetbench-streams`).

mod adapter;
mod cgroup;
mod cpu;
mod cpu_work;
pub mod driver;
mod interface;
mod interfaces;
mod kvm_exits;
pub mod load_thread;
pub mod mptcp_info;
mod perf;
mod pressure;
mod proc_file;
mod process;
mod qdisc;
mod queues;
mod reading;
mod snmp;
pub mod socket_memory;
mod softirq;
mod softnet;
mod sources;
pub mod tcp_info;
mod thread_cpu;
pub mod thread_time;
pub mod watched;
mod wrap;

pub use cpu::mean_clock_hz;
pub use cpu_work::{CpuPackets, CpuWork};
pub use perf::{ProcessCycles, availability};
pub use reading::{CounterValue, Counters, ReadScope, Reading};
pub use sources::{CycleScope, Scope, Sources};
