//! What each queue of an interface has carried, where its driver tells the kernel (Linux 6.9, NETDEV_CMD_QSTATS_GET). What a
//! driver counts by itself, by queue too, is the adapter's.

use std::collections::BTreeMap;

use serde::Serialize;

use vnetbench_interfaces::interface::Interface;
use vnetbench_interfaces::netdev::{self, NetdevReply};

// include/uapi/linux/netdev.h
const NETDEV_CMD_QSTATS_GET: u8 = 12;
const NETDEV_A_QSTATS_QUEUE_TYPE: u16 = 2;
const NETDEV_A_QSTATS_QUEUE_ID: u16 = 3;
const NETDEV_A_QSTATS_SCOPE: u16 = 4;
const NETDEV_QSTATS_SCOPE_QUEUE: u32 = 1;
/// Of a receive queue (NETDEV_QUEUE_TYPE_RX, 0), and of a transmit queue: packets and bytes.
const COUNTS: [(&str, u16, u16); 2] = [("rx", 8, 9), ("tx", 10, 11)];

/// By kind and number: packets and bytes.
pub type Reading = BTreeMap<(&'static str, u32), [u64; 2]>;

#[derive(Debug, PartialEq, Eq, Serialize)]
pub struct Moved {
    kind: &'static str,
    queue: u32,
    packets: u64,
    bytes: u64,
}

/// `None` where the driver, or the kernel, does not tell.
pub fn read(interface: &str) -> Option<Reading> {
    let interface = Interface::open(interface).ok()?;
    let scope = [(NETDEV_A_QSTATS_SCOPE, NETDEV_QSTATS_SCOPE_QUEUE)];
    let answers = netdev::request_for(&interface, NETDEV_CMD_QSTATS_GET, &scope).ok()?;
    let queues: Reading = answers.iter().filter_map(queue_of).collect();
    (!queues.is_empty()).then_some(queues)
}

fn queue_of(answer: &NetdevReply) -> Option<((&'static str, u32), [u64; 2])> {
    let kind = answer.u32(NETDEV_A_QSTATS_QUEUE_TYPE)?;
    let (kind, packets, bytes) = COUNTS.get(kind as usize)?;
    let counts = [answer.uint(*packets)?, answer.uint(*bytes)?];
    Some(((*kind, answer.u32(NETDEV_A_QSTATS_QUEUE_ID)?), counts))
}

/// What came to the queues that were there at both moments.
pub fn between(then: &Reading, now: &Reading) -> Vec<Moved> {
    let both = now
        .iter()
        .filter_map(|(queue, now)| Some((queue, then.get(queue)?, now)));
    both.map(|((kind, queue), then, now)| Moved {
        kind,
        queue: *queue,
        packets: now[0].saturating_sub(then[0]),
        bytes: now[1].saturating_sub(then[1]),
    })
    .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_queue_is_told_by_itself() {
        let then = Reading::from([(("rx", 0), [5, 500]), (("tx", 0), [1, 100])]);
        let now = Reading::from([
            (("rx", 0), [7, 800]),
            (("rx", 1), [9, 900]),
            (("tx", 0), [1, 100]),
        ]);
        let moved = |kind, packets, bytes| Moved {
            kind,
            queue: 0,
            packets,
            bytes,
        };
        assert_eq!(
            between(&then, &now),
            [moved("rx", 2, 300), moved("tx", 0, 0)]
        );
    }

    #[test]
    fn what_a_queue_carried_is_read_whatever_its_numbers_width() {
        let (tx, number) = (1u32.to_ne_bytes(), 5u32.to_ne_bytes());
        let (long, short) = (9u64.to_ne_bytes(), 300u32.to_ne_bytes());
        let queue = [(2, &tx[..]), (3, &number), (10, &long), (11, &short)];
        let json = queue_of(&NetdevReply::from_attributes(&queue));
        assert_eq!(json, Some((("tx", 5), [9, 300])));
        assert_eq!(queue_of(&NetdevReply::from_attributes(&queue[..3])), None);
    }

    #[test]
    fn the_loopback_tells_of_none() {
        assert_eq!(read("lo"), None);
    }
}
