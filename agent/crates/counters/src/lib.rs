//! Counters of this endpoint: reads the kernel's sources at one moment, and computes the difference of two readings.
//!
//! [`CounterReader`] opens all sources that a [`CounterScope`] names. [`CounterReader::read`] returns a [`Reading`], and
//! [`Reading::counters_since`] returns the [`Counters`] between two readings. The counters of a source that this kernel
//! lacks are absent, never zero. A source keeps its file open, because the file's path may refer to another file later.
//!
//! Every module reads one source:
//!
//! - of the system: `cpu` (/proc/stat), `softirq`, `softnet`, `pressure`, `snmp` (protocols), `perf` (cycles, by
//!   `perf_event_open`), `cgroup` (CPU quota), `process`;
//! - of an interface: `interface` and `interfaces`, `qdisc`, `carrier`, and [`driver`] with `adapter` and `queues`, which are so slow
//!   that the agent reads them only at the start and the end of a trial;
//! - of a socket: [`tcp_info`], [`mptcp_info`], [`socket_memory`];
//! - of threads: [`load_thread`] (threads that carry the load), [`thread_time`] and `thread_cpu`, `kvm_exits`;
//! - of other programs: [`processes`] and `process_table`, which the agent also reads only at the start and the end;
//! - of a network namespace: [`path_state`] with `netfilter`, `rate_limits`, `rule_passes`, `traffic_control`, `traffic_filters`,
//!   `packet_taps` and `path_interfaces`, read like those;
//! - [`observer`]: what an observer reads in addition to the system.
//!
//! `reading` has the types that the sources fill, `sources` opens the sources, `namespace` enters another network
//! namespace, and `unwrapped_counter` extends 32-bit counters of the kernel. `nf_tables`
//! has the numbers of nf_tables that libc lacks.
//!
//! # What does not belong here
//!
//! When to read (the agent's `trial`), and what the counters mean (the bench). Counts that the load keeps of itself belong
//! to its streams (crate `vnetbench-streams`).

mod adapter;
mod carrier;
mod cgroup;
mod cpu;
mod cpu_work;
pub mod driver;
mod interface;
mod interfaces;
mod kvm_exits;
pub mod load_thread;
pub mod mptcp_info;
mod namespace;
mod netfilter;
mod nf_tables;
pub mod observer;
mod packet_taps;
mod path_interfaces;
pub mod path_state;
mod perf;
mod pressure;
mod proc_file;
mod process;
mod process_table;
pub mod processes;
mod qdisc;
mod queues;
mod rate_limits;
mod reading;
mod rule_passes;
mod snmp;
pub mod socket_memory;
mod softirq;
mod softnet;
mod sources;
pub mod tcp_info;
#[cfg(test)]
mod test_attributes;
mod thread_cpu;
pub mod thread_time;
mod traffic_control;
mod traffic_filters;
mod unwrapped_counter;

pub use cpu::read_mean_clock_hz;
pub use cpu_work::{CpuReceivedPackets, CpuWork};
pub use perf::{ProcessCycles, probe_cycle_counters};
pub use reading::{CounterValue, Counters, ReadScope, Reading};
pub use sources::{CounterReader, CounterScope, CycleScope};
