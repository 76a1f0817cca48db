//! Everything that the sources say at one moment, and the difference between two such readings.

use serde::ser::{Serialize, SerializeMap, Serializer};

use crate::cpu_work::{CpuPackets, CpuWork};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CounterValue {
    Count(u64),
    /// Travels as seconds.
    Nanos(u64),
    /// As it stands at the moment; has no difference.
    Level(u64),
    /// Says how another counter was made; has no difference.
    Flag(u64),
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Counters(pub(crate) Vec<(&'static str, CounterValue)>);

impl Counters {
    pub fn push(&mut self, name: &'static str, amount: CounterValue) {
        self.0.push((name, amount));
    }

    /// What was counted since `earlier`. A counter that `earlier` lacks is left out.
    pub fn since(&self, earlier: &Self) -> Self {
        // Nearly always at the same place.
        let before = |place, name| {
            let at_once = earlier.0.get(place).filter(|(n, _)| *n == name);
            at_once.or_else(|| earlier.0.iter().find(|(n, _)| *n == name))
        };
        let differences = self
            .0
            .iter()
            .enumerate()
            .filter_map(|(place, &(name, now))| {
                let amount = match (now, before(place, name)?.1) {
                    (CounterValue::Count(now), CounterValue::Count(then)) => {
                        CounterValue::Count(now.saturating_sub(then))
                    }
                    (CounterValue::Nanos(now), CounterValue::Nanos(then)) => {
                        CounterValue::Nanos(now.saturating_sub(then))
                    }
                    (as_it_stands, _) => as_it_stands,
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

/// What of a reading is not in each.
#[derive(Debug, Clone, Copy, Default)]
pub struct ReadScope {
    /// Queueing disciplines: to be asked for them the kernel takes a lock (RTNL) that whoever sets up an interface,
    /// address or route holds.
    pub queues: bool,
    /// What the kernel counts of its protocols: to read it takes as long as all the rest.
    pub protocols: bool,
}

impl ReadScope {
    pub const ALL: Self = Self {
        queues: true,
        protocols: true,
    };
}

/// Everything that the sources said at one moment.
#[derive(Debug, Clone, Default)]
pub struct Reading {
    pub(crate) counters: Counters,
    /// What waits to leave the interface, as it was read last.
    pub(crate) queue: Counters,
    /// What the kernel counts of its protocols, as it was read last.
    pub(crate) protocols: Counters,
    /// Which of both was read at this moment.
    pub(crate) depth: ReadScope,
    pub cpu: Vec<CpuWork>,
    /// CPU time of this process, user and system: what its cycles may have to be estimated from.
    pub(crate) process_cpu_nanos: u64,
    /// Set where a source has gone for good in mid-trial, as a sentence.
    pub fault: Option<String>,
}

impl Reading {
    /// What was counted since `earlier`; of what is not in each reading all since it was read before, where it was read now.
    pub fn counted_since(&self, earlier: &Self) -> Counters {
        let mut counters = self.counters.since(&earlier.counters);
        if self.depth.queues {
            counters.0.extend(self.queue.since(&earlier.queue).0);
        }
        if self.depth.protocols {
            counters
                .0
                .extend(self.protocols.since(&earlier.protocols).0);
        }
        counters
    }

    pub(crate) fn cpu_packets(&mut self, cpu: u32) -> Option<&mut CpuPackets> {
        let mut cpus = self.cpu.iter_mut();
        cpus.find(|work| work.cpu == cpu)
            .map(|work| &mut work.packets)
    }
}

/// One place that counters come from. A source keeps its file open: the paths may mean another thing later.
pub(crate) trait CounterSource: Send {
    fn read(&mut self, into: &mut Reading);
}

#[cfg(test)]
mod tests {
    use super::*;

    impl Reading {
        /// One that tells of so many CPUs.
        pub fn of_cpus(count: u32) -> Self {
            Self {
                cpu: (0..count).map(CpuWork::idle).collect(),
                ..Self::default()
            }
        }
    }

    #[test]
    fn a_difference_never_goes_below_zero_and_keeps_flags() {
        let mut then = Counters::default();
        then.push("a", CounterValue::Count(5));
        then.push("t", CounterValue::Nanos(1_000_000_000));
        then.push("f", CounterValue::Flag(1));
        let mut now = Counters::default();
        now.push("a", CounterValue::Count(3));
        now.push("t", CounterValue::Nanos(1_500_000_000));
        now.push("f", CounterValue::Flag(1));
        now.push("new", CounterValue::Count(9));
        let text = serde_json::to_string(&now.since(&then)).expect("serializes");
        assert_eq!(text, r#"{"a":0,"t":0.5,"f":1}"#);
    }
}
