//! Readings of all sources at one moment, and their differences.

use serde::ser::{Serialize, SerializeMap, Serializer};

use crate::cpu_work::{CpuReceivedPackets, CpuWork};

/// The value of a counter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CounterValue {
    /// A number of events.
    Count(u64),
    /// A duration; serialized in seconds.
    Nanos(u64),
    /// A gauge; a difference keeps the later value.
    Level(u64),
    /// Describes how another counter was obtained; a difference keeps the later value.
    Flag(u64),
}

/// Counters by name, in the order of their sources.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Counters(pub(crate) Vec<(&'static str, CounterValue)>);

impl Counters {
    /// Appends a counter.
    pub fn push(&mut self, name: &'static str, amount: CounterValue) {
        self.0.push((name, amount));
    }

    /// Returns the increments since `earlier`, without counters that `earlier` lacks.
    pub fn since(&self, earlier: &Self) -> Self {
        // Nearly always at the same index.
        let before = |index, name| {
            let same_index = earlier.0.get(index).filter(|(n, _)| *n == name);
            same_index.or_else(|| earlier.0.iter().find(|(n, _)| *n == name))
        };
        let differences = self
            .0
            .iter()
            .enumerate()
            .filter_map(|(index, &(name, now))| {
                let amount = match (now, before(index, name)?.1) {
                    (CounterValue::Count(now), CounterValue::Count(earlier)) => {
                        CounterValue::Count(now.saturating_sub(earlier))
                    }
                    (CounterValue::Nanos(now), CounterValue::Nanos(earlier)) => {
                        CounterValue::Nanos(now.saturating_sub(earlier))
                    }
                    (value, _) => value,
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
                CounterValue::Count(count)
                | CounterValue::Level(count)
                | CounterValue::Flag(count) => {
                    map.serialize_entry(name, count)?;
                }
                CounterValue::Nanos(nanos) => map.serialize_entry(name, &(*nanos as f64 / 1e9))?,
            }
        }
        map.end()
    }
}

/// Optional parts of a reading.
#[derive(Debug, Clone, Copy, Default)]
pub struct ReadScope {
    /// Queueing disciplines. The kernel needs the RTNL lock to read them, which every change of an interface, address or
    /// route holds.
    pub qdiscs: bool,
    /// Protocol counters. Reading them takes as long as all other sources together.
    pub protocols: bool,
}

impl ReadScope {
    /// Everything.
    pub const ALL: Self = Self {
        qdiscs: true,
        protocols: true,
    };
}

/// The values of all sources at one moment.
#[derive(Debug, Clone, Default)]
pub struct Reading {
    pub(crate) counters: Counters,
    /// The last reading of the interface's qdisc.
    pub(crate) qdisc: Counters,
    /// The last reading of the protocol counters.
    pub(crate) protocols: Counters,
    /// Which of these two were read at this moment.
    pub(crate) scope: ReadScope,
    /// Work of each CPU.
    pub cpu: Vec<CpuWork>,
    /// User and system time of this process, from which its cycles may be estimated.
    pub(crate) process_cpu_nanos: u64,
    /// Set if a source has vanished during a trial, as a sentence.
    pub failure_message: Option<String>,
}

impl Reading {
    /// Returns the increments since `earlier`. Optional parts are included if this reading has them.
    pub fn counters_since(&self, earlier: &Self) -> Counters {
        let mut counters = self.counters.since(&earlier.counters);
        if self.scope.qdiscs {
            counters.0.extend(self.qdisc.since(&earlier.qdisc).0);
        }
        if self.scope.protocols {
            counters
                .0
                .extend(self.protocols.since(&earlier.protocols).0);
        }
        counters
    }

    pub(crate) fn cpu_packets(&mut self, cpu: u32) -> Option<&mut CpuReceivedPackets> {
        let mut cpus = self.cpu.iter_mut();
        cpus.find(|work| work.cpu == cpu)
            .map(|work| &mut work.packets)
    }
}

/// A source of counters. A source keeps its file open, because its path may refer to another file later.
pub(crate) trait CounterSource: Send {
    fn read(&mut self, into: &mut Reading);
}

#[cfg(test)]
mod tests {
    use super::*;

    impl Reading {
        /// Returns a reading of `count` idle CPUs.
        pub fn with_cpus(count: u32) -> Self {
            Self {
                cpu: (0..count).map(CpuWork::idle).collect(),
                ..Self::default()
            }
        }
    }

    #[test]
    fn differences_are_never_negative_and_keep_flags() {
        let mut earlier = Counters::default();
        earlier.push("a", CounterValue::Count(5));
        earlier.push("t", CounterValue::Nanos(1_000_000_000));
        earlier.push("f", CounterValue::Flag(1));
        let mut now = Counters::default();
        now.push("a", CounterValue::Count(3));
        now.push("t", CounterValue::Nanos(1_500_000_000));
        now.push("f", CounterValue::Flag(1));
        now.push("new", CounterValue::Count(9));
        let text = serde_json::to_string(&now.since(&earlier)).expect("serializes");
        assert_eq!(text, r#"{"a":0,"t":0.5,"f":1}"#);
    }
}
