//! Packets and bytes of each queue of an interface, if its driver reports them to the kernel (Linux 6.9,
//! NETDEV_CMD_QSTATS_GET). `adapter` has the driver's own statistics.

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
/// Attributes of packets and bytes, indexed by queue type: NETDEV_QUEUE_TYPE_RX (0) and NETDEV_QUEUE_TYPE_TX (1).
const QUEUE_ATTRIBUTES: [(&str, u16, u16); 2] = [("rx", 8, 9), ("tx", 10, 11)];

/// Packets and bytes by queue type and number.
pub type QueueReading = BTreeMap<(&'static str, u32), [u64; 2]>;

#[derive(Debug, PartialEq, Eq, Serialize)]
pub struct QueueTraffic {
    kind: &'static str,
    queue: u32,
    packets: u64,
    bytes: u64,
}

/// Reads all queues. Returns `None` if the driver or the kernel does not report them.
pub fn read(interface: &str) -> Option<QueueReading> {
    let interface = Interface::open(interface).ok()?;
    let scope = [(NETDEV_A_QSTATS_SCOPE, NETDEV_QSTATS_SCOPE_QUEUE)];
    let answers = netdev::request_netdev(&interface, NETDEV_CMD_QSTATS_GET, &scope).ok()?;
    let queues: QueueReading = answers.iter().filter_map(parse_queue).collect();
    (!queues.is_empty()).then_some(queues)
}

fn parse_queue(answer: &NetdevReply) -> Option<((&'static str, u32), [u64; 2])> {
    let kind = answer.u32(NETDEV_A_QSTATS_QUEUE_TYPE)?;
    let (kind, packets, bytes) = QUEUE_ATTRIBUTES.get(kind as usize)?;
    let counts = [answer.uint(*packets)?, answer.uint(*bytes)?];
    Some(((*kind, answer.u32(NETDEV_A_QSTATS_QUEUE_ID)?), counts))
}

/// Returns the traffic of the queues that exist in both readings.
pub fn queue_traffic(earlier: &QueueReading, now: &QueueReading) -> Vec<QueueTraffic> {
    let common = now
        .iter()
        .filter_map(|(queue, now)| Some((queue, earlier.get(queue)?, now)));
    common
        .map(|((kind, queue), earlier, now)| QueueTraffic {
            kind,
            queue: *queue,
            packets: now[0].saturating_sub(earlier[0]),
            bytes: now[1].saturating_sub(earlier[1]),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn traffic_is_reported_for_each_queue() {
        let earlier = QueueReading::from([(("rx", 0), [5, 500]), (("tx", 0), [1, 100])]);
        let now = QueueReading::from([
            (("rx", 0), [7, 800]),
            (("rx", 1), [9, 900]),
            (("tx", 0), [1, 100]),
        ]);
        let traffic = |kind, packets, bytes| QueueTraffic {
            kind,
            queue: 0,
            packets,
            bytes,
        };
        assert_eq!(
            queue_traffic(&earlier, &now),
            [traffic("rx", 2, 300), traffic("tx", 0, 0)]
        );
    }

    #[test]
    fn queue_counters_of_32_and_64_bits_are_parsed() {
        let (tx, number) = (1u32.to_ne_bytes(), 5u32.to_ne_bytes());
        let (long, short) = (9u64.to_ne_bytes(), 300u32.to_ne_bytes());
        let queue = [(2, &tx[..]), (3, &number), (10, &long), (11, &short)];
        let json = parse_queue(&NetdevReply::from_attributes(&queue));
        assert_eq!(json, Some((("tx", 5), [9, 300])));
        assert_eq!(
            parse_queue(&NetdevReply::from_attributes(&queue[..3])),
            None
        );
    }

    #[test]
    fn the_loopback_has_no_queue_counters() {
        assert_eq!(read("lo"), None);
    }
}
