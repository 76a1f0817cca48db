//! Foreign frames: frames at a port that belong to none of its sinks, counted by class, with an example.

use std::collections::BTreeMap;
use std::fmt::{self, Display, Formatter};

use etherparse::{
    ArpEthIpv4Packet, ArpOperation, ArpPacketSlice, EtherType, IpNumber, Ipv4HeaderSlice,
    Ipv6HeaderSlice,
};
use serde::Serialize;

use crate::frame_class::{ForeignFrameClass, payload_after_vlan_tags};

/// Bytes kept of an example frame (EXAMPLE_BYTES in bpf/arrivals.h).
pub const EXAMPLE_BYTES: usize = 64;
/// EtherType of LLDP.
const LLDP: EtherType = EtherType(0x88cc);
/// Smaller values of the EtherType field are lengths of IEEE 802.2 frames.
const MIN_ETHERTYPE: u16 = 0x0600;
const BRIDGE_GROUP_PREFIX: [u8; 6] = [0x01, 0x80, 0xc2, 0, 0, 0];

/// Foreign frames that arrived since the port was opened.
#[derive(Debug, Clone, Default)]
pub struct ForeignFrames([ClassCount; ForeignFrameClass::ALL.len()]);

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
    pub fn add(&mut self, class: ForeignFrameClass, count: u64, example: &[u8]) {
        let entry = &mut self.0[class as usize];
        if entry.count == 0 && count > 0 {
            let bytes = example.len().min(EXAMPLE_BYTES);
            entry.example[..bytes].copy_from_slice(&example[..bytes]);
        }
        entry.count += count;
    }

    fn class_count(&self, class: ForeignFrameClass) -> u64 {
        self.0[class as usize].count
    }

    /// Returns the frames that arrived since an earlier reading.
    pub fn since(&self, earlier: &Self) -> ForeignFrameCounts {
        let increase =
            |kind: &ForeignFrameClass| self.class_count(*kind) - earlier.class_count(*kind);
        let by_protocol: Vec<(ForeignFrameClass, u64)> = ForeignFrameClass::OTHER_SENDER_CLASSES
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
            own_returned: increase(&ForeignFrameClass::OwnReturned),
            other_trial: increase(&ForeignFrameClass::OtherTrial),
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
    pub other_senders: u64,
    /// Frames of other senders, by protocol.
    pub by_protocol: BTreeMap<&'static str, u64>,
    /// Frames that this endpoint sent and that came back.
    pub own_returned: u64,
    /// Frames of other trials.
    pub other_trial: u64,
    /// Description of one frame of the most frequent protocol.
    pub example: Option<String>,
}

/// Describes a frame for a reader, from its first bytes.
struct FrameDescription<'a>(&'a [u8; EXAMPLE_BYTES]);

impl Display for FrameDescription<'_> {
    fn fmt(&self, to: &mut Formatter<'_>) -> fmt::Result {
        let frame = self.0;
        let from = MacAddress(
            frame[6..]
                .first_chunk()
                .expect("an example has more bytes than two MAC addresses"),
        );
        let Some(ethernet) = payload_after_vlan_tags(frame) else {
            return write!(to, "a frame from {from}");
        };
        let packet = ethernet.payload;
        match ethernet.ether_type {
            EtherType::ARP => match parse_arp(packet) {
                Some(arp) if arp.operation == ArpOperation::REQUEST => {
                    write!(to, "ARP from {from}: who has {}?", arp.target_ipv4_addr())
                }
                Some(arp) => write!(to, "ARP from {from}: it has {}", arp.sender_ipv4_addr()),
                None => write!(to, "ARP from {from}"),
            },
            EtherType::IPV4 => match Ipv4HeaderSlice::from_slice(packet) {
                Ok(ip) => write!(
                    to,
                    "{} from {from}, {} to {}",
                    protocol_name(ip.protocol()),
                    ip.source_addr(),
                    ip.destination_addr()
                ),
                Err(_) => write!(to, "a malformed IPv4 packet from {from}"),
            },
            EtherType::IPV6 => match Ipv6HeaderSlice::from_slice(packet) {
                Ok(ip) => write!(
                    to,
                    "{} from {from}, {} to {}",
                    protocol_name(ip.next_header()),
                    ip.source_addr(),
                    ip.destination_addr()
                ),
                Err(_) => write!(to, "a malformed IPv6 packet from {from}"),
            },
            LLDP => write!(to, "LLDP from {from}"),
            _ if frame[..6] == BRIDGE_GROUP_PREFIX => {
                write!(to, "a spanning tree frame from {from}")
            }
            EtherType(..MIN_ETHERTYPE) => write!(to, "a frame of IEEE 802.2 from {from}"),
            EtherType(number) => write!(to, "a frame of type {number:#06x} from {from}"),
        }
    }
}

/// Returns an ARP packet for IPv4 over Ethernet, or `None` for any other.
fn parse_arp(packet: &[u8]) -> Option<ArpEthIpv4Packet> {
    let arp = ArpPacketSlice::from_slice(packet).ok()?;
    arp.to_packet().try_eth_ipv4().ok()
}

/// Returns the name of an IP protocol.
fn protocol_name(protocol: IpNumber) -> String {
    match protocol {
        // In practice, a packet that starts with hop-by-hop options is a multicast listener report.
        IpNumber::IPV6_HEADER_HOP_BY_HOP => "MLD".into(),
        IpNumber::IPV6_ICMP => "ICMPv6".into(),
        IpNumber(number) => protocol
            .keyword_str()
            .map_or_else(|| format!("IP protocol {number}"), String::from),
    }
}

struct MacAddress<'a>(&'a [u8; 6]);

impl Display for MacAddress<'_> {
    fn fmt(&self, to: &mut Formatter<'_>) -> fmt::Result {
        let [a, b, c, d, e, f] = self.0;
        write!(to, "{a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{f:02x}")
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv6Addr;

    use super::*;
    use crate::frame_class::find_udp_payload;
    use crate::frame_class::tests::{frame, ipv4_udp_packet};

    fn count_frame(frame: &[u8]) -> ForeignFrameCounts {
        let mut foreign = ForeignFrames::default();
        let class = find_udp_payload(frame).map_or_else(|class| class, |payload| payload.ip_class);
        foreign.add(class, 1, frame);
        foreign.since(&ForeignFrames::default())
    }

    fn describe_frame(frame: &[u8]) -> String {
        count_frame(frame).example.expect("one frame was counted")
    }

    #[test]
    fn an_example_names_the_protocol_and_the_sender() {
        let mut request = vec![8, 6, 0, 1, 8, 0, 6, 4, 0, 1];
        request.extend([2, 0, 0, 0, 0, 9, 10, 0, 0, 9, 0, 0, 0, 0, 0, 0, 10, 0, 0, 5]);
        assert_eq!(
            describe_frame(&frame(&request)),
            "ARP from 02:00:00:00:00:09: who has 10.0.0.5?"
        );
        request[9] = 2;
        assert_eq!(
            describe_frame(&frame(&request)),
            "ARP from 02:00:00:00:00:09: it has 10.0.0.9"
        );
        let datagram = [&[8, 0][..], &ipv4_udp_packet([0, 0])].concat();
        assert_eq!(
            describe_frame(&frame(&datagram)),
            "UDP from 02:00:00:00:00:09, 10.0.0.1 to 10.0.0.2"
        );
        let mut report = vec![0x86, 0xdd, 0x60, 0, 0, 0, 0, 36, 0, 1];
        report.extend(
            [Ipv6Addr::LOCALHOST, Ipv6Addr::UNSPECIFIED]
                .map(|ip| ip.octets())
                .concat(),
        );
        assert_eq!(
            describe_frame(&frame(&report)),
            "MLD from 02:00:00:00:00:09, ::1 to ::"
        );
        let malformed = frame(&[8, 0, 0x65]);
        assert_eq!(
            describe_frame(&malformed),
            "a malformed IPv4 packet from 02:00:00:00:00:09"
        );
        let mut tree = frame(&[0, 38, 0x42, 0x42]);
        tree[..6].copy_from_slice(&BRIDGE_GROUP_PREFIX);
        assert_eq!(
            describe_frame(&tree),
            "a spanning tree frame from 02:00:00:00:00:09"
        );
        let unknown = frame(&[0x12, 0x34]);
        assert_eq!(
            describe_frame(&unknown),
            "a frame of type 0x1234 from 02:00:00:00:00:09"
        );
    }

    #[test]
    fn frames_of_other_senders_are_counted_by_protocol_between_two_readings() {
        let mut foreign = ForeignFrames::default();
        foreign.add(ForeignFrameClass::Arp, 2, &[]);
        let then = foreign.clone();
        foreign.add(ForeignFrameClass::Ipv6, 3, &[]);
        foreign.add(ForeignFrameClass::Arp, 1, &[]);
        foreign.add(ForeignFrameClass::OwnReturned, 9, &[]);
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
}
