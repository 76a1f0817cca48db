//! Counters of this endpoint: every source read at one moment, and the difference between two such readings.

pub mod adapter;
mod cpu;
mod interface;
mod interfaces;
mod kvm_exits;
pub mod mptcp_info;
mod perf;
mod proc_file;
mod process;
mod snmp;
pub mod socket_drops;
mod softirq;
mod softnet;
pub mod tcp_info;
mod thread_cpu;
pub mod watched;
mod wrap;

use serde::ser::{Serialize, SerializeMap, Serializer};

pub use cpu::{CpuTimes, mean_clock_hz};
pub use perf::{ProcessCycles, availability};

use crate::error::Result;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Amount {
    Count(u64),
    /// Travels as seconds.
    Nanos(u64),
    /// Says how another counter was made; has no difference.
    Flag(u64),
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Counters(Vec<(&'static str, Amount)>);

impl Counters {
    pub fn push(&mut self, name: &'static str, amount: Amount) {
        self.0.push((name, amount));
    }

    /// What was counted since `earlier`. A counter that `earlier` lacks is left out.
    pub fn since(&self, earlier: &Self) -> Self {
        let before = |name| earlier.0.iter().find(|(n, _)| *n == name).map(|(_, a)| *a);
        let differences = self.0.iter().filter_map(|&(name, now)| {
            let amount = match (now, before(name)?) {
                (Amount::Count(now), Amount::Count(then)) => {
                    Amount::Count(now.saturating_sub(then))
                }
                (Amount::Nanos(now), Amount::Nanos(then)) => {
                    Amount::Nanos(now.saturating_sub(then))
                }
                (flag, _) => flag,
            };
            Some((name, amount))
        });
        Self(differences.collect())
    }
}

impl Serialize for Counters {
    fn serialize<S: Serializer>(&self, to: S) -> std::result::Result<S::Ok, S::Error> {
        let mut map = to.serialize_map(Some(self.0.len()))?;
        for (name, amount) in &self.0 {
            match amount {
                Amount::Count(count) | Amount::Flag(count) => map.serialize_entry(name, count)?,
                Amount::Nanos(nanos) => map.serialize_entry(name, &(*nanos as f64 / 1e9))?,
            }
        }
        map.end()
    }
}

/// Everything that the sources said at one moment.
#[derive(Debug, Clone, Default)]
pub struct Reading {
    pub counters: Counters,
    pub cpu: Vec<CpuTimes>,
    /// CPU time of this process, user and system: what its cycles may have to be estimated from.
    process_cpu_nanos: u64,
    /// Set where a source has gone for good in mid-trial, as a sentence.
    pub fault: Option<String>,
}

/// One place that counters come from. A source keeps its file open: the paths may mean another thing later.
trait Source: Send {
    fn read(&mut self, into: &mut Reading);
}

/// Whose cycles are counted.
pub enum CyclesOf<'a> {
    Process(&'a ProcessCycles),
    System,
}

pub struct Sources(Vec<Box<dyn Source>>);

impl Sources {
    /// Opens all sources that this kernel has; `system`: those of the whole kernel among them. An interface that is
    /// named must exist.
    pub fn open(interface: Option<&str>, cycles: CyclesOf<'_>, system: bool) -> Result<Self> {
        fn add<S: Source + 'static>(to: &mut Vec<Box<dyn Source>>, source: Option<S>) {
            if let Some(source) = source {
                to.push(Box::new(source));
            }
        }
        // The CPU times first: where there are no hardware counters, cycles are estimated from them.
        let mut sources: Vec<Box<dyn Source>> = vec![Box::new(process::Process)];
        let system = system || matches!(cycles, CyclesOf::System);
        if system {
            add(&mut sources, cpu::Cpu::open());
        }
        match cycles {
            CyclesOf::Process(process) => sources.push(Box::new(process.source())),
            CyclesOf::System => sources.push(Box::new(perf::SystemCycles::open())),
        }
        if system {
            add(&mut sources, softirq::Softirq::open());
            add(&mut sources, softnet::Softnet::open());
        }
        add(&mut sources, snmp::Snmp::open());
        if let Some(name) = interface {
            sources.push(Box::new(interface::Interface::open(name)?));
        }
        Ok(Self(sources))
    }

    pub fn read(&mut self) -> Reading {
        let mut reading = Reading::default();
        for source in &mut self.0 {
            source.read(&mut reading);
        }
        reading
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_difference_never_goes_below_zero_and_keeps_flags() {
        let mut then = Counters::default();
        then.push("a", Amount::Count(5));
        then.push("t", Amount::Nanos(1_000_000_000));
        then.push("f", Amount::Flag(1));
        let mut now = Counters::default();
        now.push("a", Amount::Count(3));
        now.push("t", Amount::Nanos(1_500_000_000));
        now.push("f", Amount::Flag(1));
        now.push("new", Amount::Count(9));
        let text = serde_json::to_string(&now.since(&then)).expect("serializes");
        assert_eq!(text, r#"{"a":0,"t":0.5,"f":1}"#);
    }
}
