//! Foreign frames: frames at a port that belong to none of its sinks, counted by class, with an example.

use std::collections::BTreeMap;
use std::fmt::{self, Display, Formatter};
use std::net::{Ipv4Addr, Ipv6Addr};

use serde::Serialize;

use crate::headers::{
    ETHERNET_BYTES, ETHERTYPE_ARP, ETHERTYPE_IPV4, ETHERTYPE_IPV6, ETHERTYPE_LLDP, ETHERTYPE_QINQ,
    ETHERTYPE_VLAN, IPV4_BYTES, IPV6_BYTES, MAX_VLAN_TAGS, PROTOCOL_UDP, UDP_BYTES, VLAN_TAG_BYTES,
};
use vnetbench_streams::datagram_header::{DatagramHeader, HEADER_BYTES};

/// Bytes kept of an example frame (EXAMPLE_BYTES in bpf/arrivals.h).
pub const EXAMPLE_BYTES: usize = 64;
/// Frame numbers stay below 2^52 (NUMBER_BITS in bpf/arrivals.h).
pub const NUMBER_BITS: u32 = 52;
/// Maximum age of a frame that is attributed to another trial (MAX_FRAME_AGE_NS in bpf/arrivals.h).
const MAX_FRAME_AGE_NANOS: i64 = 10_000_000_000;

/// Smaller values of the EtherType field are lengths of IEEE 802.2 frames.
const FIRST_ETHERTYPE: u16 = 0x0600;
const BRIDGE_GROUP_PREFIX: [u8; 6] = [0x01, 0x80, 0xc2, 0, 0, 0];

/// A class of foreign frames, in the order of `enum frame_class` in bpf/arrivals.h.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FrameClass {
    /// A frame that this endpoint sent and that came back.
    OwnReturned,
    /// A frame of a simultaneous trial, or of another pair of ports.
    OtherTrial,
    /// ARP.
    Arp,
    /// IPv4, unless it belongs to a trial.
    Ipv4,
    /// IPv6, unless it belongs to a trial.
    Ipv6,
    /// Any other protocol, or a malformed frame.
    Unknown,
}

impl FrameClass {
    /// All classes, in order.
    pub const ALL: [Self; 6] = [
        Self::OwnReturned,
        Self::OtherTrial,
        Self::Arp,
        Self::Ipv4,
        Self::Ipv6,
        Self::Unknown,
    ];
    const FOREIGN_PROTOCOLS: [Self; 4] = [Self::Arp, Self::Ipv4, Self::Ipv6, Self::Unknown];

    fn name(self) -> &'static str {
        match self {
            Self::OwnReturned => "own",
            Self::OtherTrial => "other trial",
            Self::Arp => "ARP",
            Self::Ipv4 => "IPv4",
            Self::Ipv6 => "IPv6",
            Self::Unknown => "unknown",
        }
    }
}

/// Foreign frames that arrived since the port was opened.
#[derive(Debug, Clone, Default)]
pub struct ForeignFrames([ClassCount; FrameClass::ALL.len()]);

#[derive(Debug, Clone, Copy)]
struct ClassCount {
    count: u64,
    example: [u8; EXAMPLE_BYTES],
}

impl Default for ClassCount {
    fn default() -> Self {
        Self {
            count: 0,
            example: [0; EXAMPLE_BYTES],
        }
    }
}

impl ForeignFrames {
    /// Adds frames of a class. `example` holds the first bytes of the first one.
    pub fn add(&mut self, class: FrameClass, count: u64, example: &[u8]) {
        let entry = &mut self.0[class as usize];
        if entry.count == 0 && count > 0 {
            let bytes = example.len().min(EXAMPLE_BYTES);
            entry.example[..bytes].copy_from_slice(&example[..bytes]);
        }
        entry.count += count;
    }

    fn count(&self, class: FrameClass) -> u64 {
        self.0[class as usize].count
    }

    /// Returns the frames that arrived since an earlier reading.
    pub fn since(&self, earlier: &Self) -> ForeignFrameCounts {
        let increase = |kind: &FrameClass| self.count(*kind) - earlier.count(*kind);
        let by_protocol: Vec<(FrameClass, u64)> = FrameClass::FOREIGN_PROTOCOLS
            .map(|kind| (kind, increase(&kind)))
            .to_vec();
        let most_frequent = by_protocol.iter().max_by_key(|(_, count)| count);
        ForeignFrameCounts {
            other_senders: by_protocol.iter().map(|(_, count)| count).sum(),
            by_protocol: by_protocol
                .iter()
                .filter(|(_, count)| *count > 0)
                .map(|(kind, count)| (kind.name(), *count))
                .collect(),
            own_returned: increase(&FrameClass::OwnReturned),
            other_trial: increase(&FrameClass::OtherTrial),
            example: most_frequent
                .filter(|(_, count)| *count > 0)
                .map(|(kind, _)| FrameDescription(&self.0[*kind as usize].example).to_string()),
        }
    }
}

/// Foreign frames as the agent's protocol reports them.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct ForeignFrameCounts {
    /// Frames of other senders than the trials' endpoints.
    #[serde(rename = "others")]
    pub other_senders: u64,
    /// Frames of other senders, by protocol.
    #[serde(rename = "kinds")]
    pub by_protocol: BTreeMap<&'static str, u64>,
    /// Frames that this endpoint sent and that came back.
    #[serde(rename = "own")]
    pub own_returned: u64,
    /// Frames of other trials.
    pub other_trial: u64,
    /// Description of one frame of the most frequent protocol.
    pub example: Option<String>,
}

/// Returns the UDP payload of a frame that can belong to a trial, and the class of the frame if it does not.
///
/// Such a frame carries unfragmented UDP over IPv4 or IPv6, with at most two VLAN tags.
///
/// # Errors
///
/// Returns the class of a frame that cannot belong to a trial.
pub fn udp_payload(frame: &[u8]) -> Result<(&[u8], FrameClass), FrameClass> {
    let (ether_type, packet) = payload_after_vlan_tags(frame).ok_or(FrameClass::Unknown)?;
    let (class, header_bytes, is_udp) = match ether_type {
        ETHERTYPE_IPV4 => {
            let is_whole = packet
                .get(6..8)
                .is_some_and(|bits| bits[0] & 0x3f == 0 && bits[1] == 0);
            let is_plain = packet.first() == Some(&0x45) && is_whole;
            (
                FrameClass::Ipv4,
                IPV4_BYTES,
                is_plain && packet.get(9) == Some(&PROTOCOL_UDP),
            )
        }
        ETHERTYPE_IPV6 => (
            FrameClass::Ipv6,
            IPV6_BYTES,
            packet.get(6) == Some(&PROTOCOL_UDP),
        ),
        ETHERTYPE_ARP => return Err(FrameClass::Arp),
        _ => return Err(FrameClass::Unknown),
    };
    let payload = packet.get(header_bytes + UDP_BYTES..).filter(|_| is_udp);
    let payload = payload.filter(|payload| payload.len() >= HEADER_BYTES);
    payload.map(|payload| (payload, class)).ok_or(class)
}

/// Returns whether an unknown stream's header belongs to another trial with the same clock.
///
/// About one of 10^8 random UDP datagrams has so low a number and so recent a time.
pub fn belongs_to_other_trial(header: DatagramHeader, now_nanos: u64) -> bool {
    header.number >> NUMBER_BITS == 0
        && (0..MAX_FRAME_AGE_NANOS).contains(&header.transit_nanos(now_nanos))
}

/// Returns the EtherType and the packet of a frame, without VLAN tags.
fn payload_after_vlan_tags(frame: &[u8]) -> Option<(u16, &[u8])> {
    let mut at = ETHERNET_BYTES;
    for _ in 0..MAX_VLAN_TAGS {
        if ![ETHERTYPE_VLAN, ETHERTYPE_QINQ].contains(&u16_at(frame, at - 2)?) {
            break;
        }
        at += VLAN_TAG_BYTES;
    }
    Some((u16_at(frame, at - 2)?, frame.get(at..)?))
}

fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    let bytes = bytes.get(at..)?.first_chunk()?;
    Some(u16::from_be_bytes(*bytes))
}

/// Describes a frame for a reader, from its first bytes.
struct FrameDescription<'a>(&'a [u8; EXAMPLE_BYTES]);

impl Display for FrameDescription<'_> {
    fn fmt(&self, to: &mut Formatter<'_>) -> fmt::Result {
        let frame = self.0;
        let from = MacAddress(frame[6..].first_chunk().expect("it is longer"));
        let Some((of_type, packet)) = payload_after_vlan_tags(frame) else {
            return write!(to, "a frame from {from}");
        };
        let ipv4 = |at: usize| Ipv4Addr::from(*packet[at..].first_chunk().expect("it is longer"));
        let ipv6 = |at: usize| Ipv6Addr::from(*packet[at..].first_chunk().expect("it is longer"));
        match of_type {
            ETHERTYPE_ARP if packet[7] == 1 => write!(to, "ARP from {from}: who has {}?", ipv4(24)),
            ETHERTYPE_ARP => write!(to, "ARP from {from}: it has {}", ipv4(14)),
            ETHERTYPE_IPV4 => {
                let protocol = Protocol(packet[9]);
                write!(to, "{protocol} from {from}, {} to {}", ipv4(12), ipv4(16))
            }
            ETHERTYPE_IPV6 => {
                let protocol = Protocol(packet[6]);
                write!(to, "{protocol} from {from}, {} to {}", ipv6(8), ipv6(24))
            }
            ETHERTYPE_LLDP => write!(to, "LLDP from {from}"),
            _ if frame[..6] == BRIDGE_GROUP_PREFIX => write!(to, "spanning tree from {from}"),
            ..FIRST_ETHERTYPE => write!(to, "a frame of IEEE 802.2 from {from}"),
            of_type => write!(to, "a frame of type {of_type:#06x} from {from}"),
        }
    }
}

struct MacAddress<'a>(&'a [u8; 6]);

impl Display for MacAddress<'_> {
    fn fmt(&self, to: &mut Formatter<'_>) -> fmt::Result {
        let [a, b, c, d, e, f] = self.0;
        write!(to, "{a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{f:02x}")
    }
}

/// A protocol by its IP protocol number.
struct Protocol(u8);

impl Display for Protocol {
    fn fmt(&self, to: &mut Formatter<'_>) -> fmt::Result {
        match self.0 {
            // In practice, a packet that starts with hop-by-hop options is a multicast listener report.
            0 => to.write_str("MLD"),
            1 => to.write_str("ICMP"),
            2 => to.write_str("IGMP"),
            6 => to.write_str("TCP"),
            PROTOCOL_UDP => to.write_str("UDP"),
            58 => to.write_str("ICMPv6"),
            number => write!(to, "IP protocol {number}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ETHERNET: [u8; 12] = [2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 9];

    fn frame(rest: &[u8]) -> Vec<u8> {
        [&ETHERNET, rest].concat()
    }

    fn ipv4_udp(fragment: [u8; 2]) -> Vec<u8> {
        let mut packet = vec![0; 28];
        packet[0] = 0x45;
        packet[6..8].copy_from_slice(&fragment);
        packet[9] = PROTOCOL_UDP;
        packet[12..20].copy_from_slice(&[10, 0, 0, 1, 10, 0, 0, 2]);
        packet.extend([7; HEADER_BYTES]);
        packet
    }

    fn json(frame: &[u8]) -> ForeignFrameCounts {
        let mut foreign = ForeignFrames::default();
        let kind = udp_payload(frame).map_or_else(|kind| kind, |(_, kind)| kind);
        foreign.add(kind, 1, frame);
        foreign.since(&ForeignFrames::default())
    }

    fn example(frame: &[u8]) -> String {
        json(frame).example.expect("one frame was counted")
    }

    #[test]
    fn a_payload_can_follow_up_to_two_vlan_tags() {
        let plain = [&[8, 0][..], &ipv4_udp([0x40, 0])].concat();
        let once = [&[0x81, 0, 0, 5][..], &plain].concat();
        let twice = [&[0x88, 0xa8, 0, 6][..], &once].concat();
        for rest in [&plain, &once, &twice] {
            assert_eq!(
                udp_payload(&frame(rest)),
                Ok((&[7; HEADER_BYTES][..], FrameClass::Ipv4))
            );
        }
        let thrice = [&[0x88, 0xa8, 0, 7][..], &twice].concat();
        assert_eq!(udp_payload(&frame(&thrice)), Err(FrameClass::Unknown));
    }

    #[test]
    fn fragments_short_payloads_and_other_protocols_have_no_udp_payload() {
        for fragment in [[0x20, 0], [0, 1]] {
            let rest = [&[8, 0][..], &ipv4_udp(fragment)].concat();
            assert_eq!(udp_payload(&frame(&rest)), Err(FrameClass::Ipv4));
        }
        let mut short = frame(&[&[8, 0][..], &ipv4_udp([0, 0])].concat());
        short.pop();
        assert_eq!(udp_payload(&short), Err(FrameClass::Ipv4));
        assert_eq!(udp_payload(&frame(&[8, 6, 0])), Err(FrameClass::Arp));
        assert_eq!(
            udp_payload(&frame(&[0x86, 0xdd, 0x60])),
            Err(FrameClass::Ipv6)
        );
        assert_eq!(udp_payload(&ETHERNET), Err(FrameClass::Unknown));
    }

    #[test]
    fn an_example_names_the_protocol_and_the_sender() {
        let mut request = vec![8, 6, 0, 1, 8, 0, 6, 4, 0, 1];
        request.extend([2, 0, 0, 0, 0, 9, 10, 0, 0, 9, 0, 0, 0, 0, 0, 0, 10, 0, 0, 5]);
        assert_eq!(
            example(&frame(&request)),
            "ARP from 02:00:00:00:00:09: who has 10.0.0.5?"
        );
        request[9] = 2;
        assert_eq!(
            example(&frame(&request)),
            "ARP from 02:00:00:00:00:09: it has 10.0.0.9"
        );
        let datagram = [&[8, 0][..], &ipv4_udp([0, 0])].concat();
        assert_eq!(
            example(&frame(&datagram)),
            "UDP from 02:00:00:00:00:09, 10.0.0.1 to 10.0.0.2"
        );
        let mut tree = frame(&[0, 38, 0x42, 0x42]);
        tree[..6].copy_from_slice(&BRIDGE_GROUP_PREFIX);
        assert_eq!(example(&tree), "spanning tree from 02:00:00:00:00:09");
        let unknown = frame(&[0x12, 0x34]);
        assert_eq!(
            example(&unknown),
            "a frame of type 0x1234 from 02:00:00:00:00:09"
        );
    }

    #[test]
    fn frames_of_other_senders_are_counted_by_protocol_between_two_readings() {
        let mut foreign = ForeignFrames::default();
        foreign.add(FrameClass::Arp, 2, &[]);
        let then = foreign.clone();
        foreign.add(FrameClass::Ipv6, 3, &[]);
        foreign.add(FrameClass::Arp, 1, &[]);
        foreign.add(FrameClass::OwnReturned, 9, &[]);
        let foreign = foreign.since(&then);
        assert_eq!(
            (
                foreign.other_senders,
                foreign.own_returned,
                foreign.other_trial
            ),
            (4, 9, 0)
        );
        assert_eq!(
            foreign.by_protocol,
            BTreeMap::from([("ARP", 1), ("IPv6", 3)])
        );
        assert_eq!(then.since(&then), ForeignFrameCounts::default());
    }

    #[test]
    fn a_frame_of_another_trial_has_a_recent_time_stamp() {
        let head = DatagramHeader {
            key: 1,
            number: 70_000,
            sent_nanos: 5_000,
        };
        assert!(belongs_to_other_trial(head, 6_000));
        assert!(!belongs_to_other_trial(head, 4_000));
        assert!(!belongs_to_other_trial(
            head,
            5_000 + MAX_FRAME_AGE_NANOS as u64
        ));
        assert!(!belongs_to_other_trial(
            DatagramHeader {
                number: 1 << NUMBER_BITS,
                ..head
            },
            6_000
        ));
    }
}
