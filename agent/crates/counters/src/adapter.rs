//! Driver statistics of an interface (`ethtool -S`): readings, and the changes between two readings.

use std::collections::BTreeMap;

use vnetbench_interfaces::ethtool_strings::{self, StringSet, capacity_with_reserve, read_strings};
use vnetbench_interfaces::interface::Interface;

const ETHTOOL_GSTATS: u32 = 0x1d;

/// Nonzero changes of driver statistics, by name: increments of counters and differences of gauges, such as a queue length.
/// Statistics with equal names are summed.
pub type NonzeroChangesByName = BTreeMap<String, i64>;

/// Reads the driver statistics of one interface.
pub struct AdapterStatisticsReader {
    interface: Interface,
    names: Vec<String>,
}

impl AdapterStatisticsReader {
    /// Opens an interface. Returns `None` if its driver has no statistics.
    pub fn open(interface: &str) -> Option<Self> {
        let interface = Interface::open(interface).ok()?;
        let names = read_strings(&interface, StringSet::Statistics).ok()?;
        (!names.is_empty()).then_some(Self { interface, names })
    }

    /// Reads all statistics. Returns `None` if their number has changed (more queues) or the interface is gone.
    pub fn read(&self) -> Option<Vec<u64>> {
        let count = self.names.len();
        if ethtool_strings::count_strings(&self.interface, StringSet::Statistics).ok()? != count {
            return None;
        }
        // `struct ethtool_stats`: command and count share the first word, each following word is a statistic.
        let mut words = vec![0u64; 1 + capacity_with_reserve(count)];
        words[0] = join_u32_halves([ETHTOOL_GSTATS, count as u32]);
        self.interface
            .run_ethtool_command(words.as_mut_slice())
            .ok()?;
        if words[0] != join_u32_halves([ETHTOOL_GSTATS, count as u32]) {
            return None;
        }
        words.truncate(1 + count);
        words.remove(0);
        Some(words)
    }

    pub fn changes_between(&self, before: &[u64], after: &[u64]) -> NonzeroChangesByName {
        compute_changes(&self.names, before, after)
    }
}

fn join_u32_halves(halves: [u32; 2]) -> u64 {
    let [first, second] = halves.map(u32::to_ne_bytes);
    let mut bytes = [0; 8];
    bytes[..4].copy_from_slice(&first);
    bytes[4..].copy_from_slice(&second);
    u64::from_ne_bytes(bytes)
}

/// Computes the changes. A name that ends in `#` is a queue's heading; the statistics that follow belong to it (vmxnet3).
fn compute_changes(names: &[String], before: &[u64], after: &[u64]) -> NonzeroChangesByName {
    let mut changes = NonzeroChangesByName::new();
    let mut heading = String::new();
    for ((name, before), after) in names.iter().zip(before).zip(after) {
        let name = name.trim();
        if name.ends_with('#') {
            heading = format!("{name}{after} ");
        } else if before != after {
            let difference = after.wrapping_sub(*before).cast_signed();
            let sum = changes.entry(format!("{heading}{name}")).or_default();
            // Some drivers report other numbers here, such as an address or -1.
            *sum = sum.saturating_add(difference);
        }
    }
    changes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_changes_are_reported_with_the_heading_of_their_queue() {
        let names = [
            "Tx Queue#",
            "  pkts tx",
            "  drops",
            "Tx Queue#",
            "  pkts tx",
            "  drops",
        ]
        .map(str::to_owned);
        let before = [0, 10, 4, 1, 20, 0];
        let after = [0, 15, 4, 1, 21, 0];
        let expected = [("Tx Queue#0 pkts tx", 5), ("Tx Queue#1 pkts tx", 1)];
        let expected = expected.map(|(name, difference)| (name.to_owned(), difference));
        assert_eq!(
            compute_changes(&names, &before, &after),
            NonzeroChangesByName::from(expected)
        );
    }

    #[test]
    fn statistics_with_equal_names_are_summed_and_a_gauge_can_fall() {
        let names = ["rx", "rx", "fill"].map(str::to_owned);
        let expected =
            [("fill", -3), ("rx", 7)].map(|(name, difference)| (name.to_owned(), difference));
        assert_eq!(
            compute_changes(&names, &[1, 1, 5], &[3, 6, 2]),
            NonzeroChangesByName::from(expected)
        );
    }

    #[test]
    fn an_arbitrary_number_does_not_overflow() {
        let names = ["ip", "ip"].map(str::to_owned);
        let expected = NonzeroChangesByName::from([("ip".to_owned(), i64::MAX)]);
        let half = u64::MAX / 2;
        assert_eq!(compute_changes(&names, &[0, 0], &[half, half]), expected);
    }

    #[test]
    fn the_loopback_has_no_statistics() {
        assert!(AdapterStatisticsReader::open("lo").is_none());
    }
}
