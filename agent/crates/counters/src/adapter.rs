//! What an interface's driver counts (`ethtool -S`): all of it at one moment, and what moved between two.

use std::collections::BTreeMap;

use vnetbench_interfaces::ethtool_strings::{self, StringSet, buffer_words, names};
use vnetbench_interfaces::interface::Interface;

const ETHTOOL_GSTATS: u32 = 0x1d;

/// What moved, by name: a count by how much more there is, a level (a fill, a queue's length) by how far it is from where
/// it was. What the driver has several of under one name is added up.
pub type Moved = BTreeMap<String, i64>;

/// The statistics of one interface that has some.
pub struct Adapter {
    interface: Interface,
    names: Vec<String>,
}

impl Adapter {
    /// `None` where the driver counts nothing of its own.
    pub fn open(interface: &str) -> Option<Self> {
        let interface = Interface::open(interface).ok()?;
        let names = names(&interface, StringSet::Statistics).ok()?;
        (!names.is_empty()).then_some(Self { interface, names })
    }

    /// `None` where it has other statistics by now (more queues), or has gone.
    pub fn read(&self) -> Option<Vec<u64>> {
        let count = self.names.len();
        if ethtool_strings::count(&self.interface, StringSet::Statistics).ok()? != count {
            return None;
        }
        // `struct ethtool_stats`: command and count share the first word, each following word is a statistic.
        let mut words = vec![0u64; 1 + buffer_words(count)];
        words[0] = word_of([ETHTOOL_GSTATS, count as u32]);
        self.interface.ethtool(words.as_mut_slice()).ok()?;
        if words[0] != word_of([ETHTOOL_GSTATS, count as u32]) {
            return None;
        }
        words.truncate(1 + count);
        words.remove(0);
        Some(words)
    }

    pub fn moved(&self, then: &[u64], now: &[u64]) -> Moved {
        moved(&self.names, then, now)
    }
}

fn word_of(halves: [u32; 2]) -> u64 {
    let [first, second] = halves.map(u32::to_ne_bytes);
    let mut bytes = [0; 8];
    bytes[..4].copy_from_slice(&first);
    bytes[4..].copy_from_slice(&second);
    u64::from_ne_bytes(bytes)
}

/// A name that ends in `#` is a heading with the number of a queue, and what follows is that queue's (vmxnet3).
fn moved(names: &[String], then: &[u64], now: &[u64]) -> Moved {
    let mut moved = Moved::new();
    let mut heading = String::new();
    for ((name, then), now) in names.iter().zip(then).zip(now) {
        let name = name.trim();
        if name.ends_with('#') {
            heading = format!("{name}{now} ");
        } else if then != now {
            let by = now.wrapping_sub(*then).cast_signed();
            let sum = moved.entry(format!("{heading}{name}")).or_default();
            // A driver may have any number there, such as an address or -1.
            *sum = sum.saturating_add(by);
        }
    }
    moved
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_moved_is_told_each_queue_by_its_heading() {
        let names = [
            "Tx Queue#",
            "  pkts tx",
            "  drops",
            "Tx Queue#",
            "  pkts tx",
            "  drops",
        ]
        .map(str::to_owned);
        let then = [0, 10, 4, 1, 20, 0];
        let now = [0, 15, 4, 1, 21, 0];
        let expected = [("Tx Queue#0 pkts tx", 5), ("Tx Queue#1 pkts tx", 1)];
        let expected = expected.map(|(name, by)| (name.to_owned(), by));
        assert_eq!(moved(&names, &then, &now), Moved::from(expected));
    }

    #[test]
    fn names_that_a_driver_has_twice_are_added_up_and_a_level_may_fall() {
        let names = ["rx", "rx", "fill"].map(str::to_owned);
        let expected = [("fill", -3), ("rx", 7)].map(|(name, by)| (name.to_owned(), by));
        assert_eq!(moved(&names, &[1, 1, 5], &[3, 6, 2]), Moved::from(expected));
    }

    #[test]
    fn a_number_that_counts_nothing_is_no_fault() {
        let names = ["ip", "ip"].map(str::to_owned);
        let expected = Moved::from([("ip".to_owned(), i64::MAX)]);
        let most = u64::MAX / 2;
        assert_eq!(moved(&names, &[0, 0], &[most, most]), expected);
    }

    #[test]
    fn the_loopback_has_no_statistics() {
        assert!(Adapter::open("lo").is_none());
    }
}
