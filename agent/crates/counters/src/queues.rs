//! Packets and bytes of each queue of an interface, if its driver reports them to the kernel (Linux 6.9,
//! NETDEV_CMD_QSTATS_GET). `adapter` has the driver's own statistics.

use serde::Serialize;

use vnetbench_interfaces::interface::Interface;
use vnetbench_interfaces::netdev::{NetdevReplyEntry, request_netdev, u32_attribute};

// include/uapi/linux/netdev.h
const NETDEV_CMD_QSTATS_GET: u8 = 12;
const NETDEV_A_QSTATS_QUEUE_TYPE: u16 = 2;
const NETDEV_A_QSTATS_QUEUE_ID: u16 = 3;
const NETDEV_A_QSTATS_SCOPE: u16 = 4;
const NETDEV_QSTATS_SCOPE_QUEUE: u32 = 1;
/// Attributes of packets and bytes, indexed by queue type: NETDEV_QUEUE_TYPE_RX (0) and NETDEV_QUEUE_TYPE_TX (1).
const QUEUE_ATTRIBUTES: [(&str, u16, u16); 2] = [("rx", 8, 9), ("tx", 10, 11)];

/// Packets and bytes of one queue since it exists, or between two readings.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub struct QueueTraffic {
    /// `rx` or `tx`.
    direction: &'static str,
    queue: u32,
    packets: u64,
    bytes: u64,
}

/// Reads all queues. Returns `None` if the driver or the kernel does not report them.
pub fn read_queue_traffic(interface: &str) -> Option<Vec<QueueTraffic>> {
    let interface = Interface::open(interface).ok()?;
    let scope = u32_attribute(NETDEV_A_QSTATS_SCOPE, NETDEV_QSTATS_SCOPE_QUEUE);
    let replies = request_netdev(&interface, NETDEV_CMD_QSTATS_GET, vec![scope]).ok()?;
    let queues: Vec<QueueTraffic> = replies.iter().filter_map(parse_queue).collect();
    (!queues.is_empty()).then_some(queues)
}

fn parse_queue(reply: &NetdevReplyEntry) -> Option<QueueTraffic> {
    let queue_type = reply.find_u32(NETDEV_A_QSTATS_QUEUE_TYPE)?;
    let (direction, packets, bytes) = QUEUE_ATTRIBUTES.get(queue_type as usize)?;
    Some(QueueTraffic {
        direction,
        queue: reply.find_u32(NETDEV_A_QSTATS_QUEUE_ID)?,
        packets: reply.find_u32_or_u64(*packets)?,
        bytes: reply.find_u32_or_u64(*bytes)?,
    })
}

/// Returns the counts between two readings, of the queues that exist in both.
pub fn queue_traffic_since(earlier: &[QueueTraffic], now: &[QueueTraffic]) -> Vec<QueueTraffic> {
    let in_both = now.iter().filter_map(|now| {
        let is_same =
            |other: &&QueueTraffic| (other.direction, other.queue) == (now.direction, now.queue);
        Some((earlier.iter().find(is_same)?, now))
    });
    in_both
        .map(|(earlier, now)| QueueTraffic {
            direction: now.direction,
            queue: now.queue,
            packets: now.packets.saturating_sub(earlier.packets),
            bytes: now.bytes.saturating_sub(earlier.bytes),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use netlink_packet_core::DefaultNla;

    use super::*;

    #[test]
    fn counts_are_reported_for_each_queue_of_both_readings() {
        let counts = |direction, queue, packets, bytes| QueueTraffic {
            direction,
            queue,
            packets,
            bytes,
        };
        let earlier = [counts("rx", 0, 5, 500), counts("tx", 0, 1, 100)];
        let now = [
            counts("rx", 0, 7, 800),
            counts("rx", 1, 9, 900),
            counts("tx", 0, 1, 100),
        ];
        let expected = [counts("rx", 0, 2, 300), counts("tx", 0, 0, 0)];
        assert_eq!(queue_traffic_since(&earlier, &now), expected);
    }

    #[test]
    fn queue_counters_of_32_and_64_bits_are_parsed() {
        let attributes = [
            u32_attribute(2, 1),
            u32_attribute(3, 5),
            DefaultNla::new(10, 9u64.to_ne_bytes().into()),
            u32_attribute(11, 300),
        ];
        let expected = QueueTraffic {
            direction: "tx",
            queue: 5,
            packets: 9,
            bytes: 300,
        };
        let parsed = parse_queue(&NetdevReplyEntry::from_attributes_for_tests(&attributes));
        assert_eq!(parsed, Some(expected));
        let incomplete = NetdevReplyEntry::from_attributes_for_tests(&attributes[..3]);
        assert_eq!(parse_queue(&incomplete), None);
    }

    #[test]
    fn the_loopback_has_no_queue_counters() {
        assert_eq!(read_queue_traffic("lo"), None);
    }
}
