//! The classes of foreign frames, and what decides the class of a frame.

use etherparse::{
    EtherPayloadSlice, EtherType, Ethernet2Slice, IpNumber, Ipv4HeaderSlice, Ipv6Header,
    Ipv6HeaderSlice, SingleVlanSlice, UdpHeader,
};

use crate::template::MAX_VLAN_TAGS;
use vnetbench_streams::datagram_header::{DatagramHeader, HEADER_BYTES};

/// Frame numbers stay below 2^52 (NUMBER_BITS in bpf/arrivals.h).
pub const FRAME_NUMBER_BITS: u32 = 52;
/// Maximum age of a frame that is attributed to another trial (MAX_OTHER_TRIAL_AGE_NS in bpf/arrivals.h).
const MAX_OTHER_TRIAL_AGE_NANOS: i64 = 10_000_000_000;

/// A class of foreign frames, in the order of `enum frame_class` in bpf/arrivals.h.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ForeignFrameClass {
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

impl ForeignFrameClass {
    /// All classes, in order.
    pub const ALL: [Self; 6] = [
        Self::OwnReturned,
        Self::OtherTrial,
        Self::Arp,
        Self::Ipv4,
        Self::Ipv6,
        Self::Unknown,
    ];
    /// The classes of other senders than the trials' endpoints.
    pub const OTHER_SENDER_CLASSES: [Self; 4] = [Self::Arp, Self::Ipv4, Self::Ipv6, Self::Unknown];

    /// Returns the name of the class in the agent's protocol.
    pub fn name(self) -> &'static str {
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

/// A UDP payload that can belong to a trial.
#[derive(Debug, PartialEq, Eq)]
pub struct UdpPayload<'a> {
    /// The payload.
    pub bytes: &'a [u8],
    /// The class of the frame if it belongs to no trial.
    pub ip_class: ForeignFrameClass,
}

/// Returns the UDP payload of a frame that can belong to a trial.
///
/// Such a frame carries unfragmented UDP over IPv4 or IPv6, with at most two VLAN tags.
///
/// # Errors
///
/// Returns the class of a frame that cannot belong to a trial.
pub fn find_udp_payload(frame: &[u8]) -> Result<UdpPayload<'_>, ForeignFrameClass> {
    let ethernet = payload_after_vlan_tags(frame).ok_or(ForeignFrameClass::Unknown)?;
    let (ip_class, datagram) = match ethernet.ether_type {
        EtherType::IPV4 => (
            ForeignFrameClass::Ipv4,
            find_ipv4_udp_datagram(ethernet.payload),
        ),
        EtherType::IPV6 => (
            ForeignFrameClass::Ipv6,
            find_ipv6_udp_datagram(ethernet.payload),
        ),
        EtherType::ARP => return Err(ForeignFrameClass::Arp),
        _ => return Err(ForeignFrameClass::Unknown),
    };
    let payload = datagram.and_then(|datagram| datagram.get(UdpHeader::LEN..));
    let payload = payload.filter(|payload| payload.len() >= HEADER_BYTES);
    payload
        .map(|bytes| UdpPayload { bytes, ip_class })
        .ok_or(ip_class)
}

/// Returns the UDP datagram of an unfragmented IPv4 packet without options.
fn find_ipv4_udp_datagram(packet: &[u8]) -> Option<&[u8]> {
    let header = Ipv4HeaderSlice::from_slice(packet).ok()?;
    let is_datagram = header.protocol() == IpNumber::UDP
        && header.options().is_empty()
        && !header.is_fragmenting_payload();
    is_datagram.then(|| &packet[header.slice().len()..])
}

/// Returns the UDP datagram of an IPv6 packet without extension headers.
fn find_ipv6_udp_datagram(packet: &[u8]) -> Option<&[u8]> {
    let header = Ipv6HeaderSlice::from_slice(packet).ok()?;
    (header.next_header() == IpNumber::UDP).then(|| &packet[Ipv6Header::LEN..])
}

/// Returns whether an unknown stream's header belongs to another trial with the same clock.
///
/// About one of 10^8 random UDP datagrams has so low a number and so recent a time.
pub fn belongs_to_other_trial(header: DatagramHeader, now_nanos: u64) -> bool {
    header.number >> FRAME_NUMBER_BITS == 0
        && (0..MAX_OTHER_TRIAL_AGE_NANOS).contains(&header.transit_nanos(now_nanos))
}

/// Returns the EtherType and the packet of a frame, without VLAN tags.
pub fn payload_after_vlan_tags(frame: &[u8]) -> Option<EtherPayloadSlice<'_>> {
    let mut ethernet = Ethernet2Slice::from_slice_without_fcs(frame)
        .ok()?
        .payload();
    for _ in 0..MAX_VLAN_TAGS {
        if ![EtherType::VLAN_TAGGED_FRAME, EtherType::PROVIDER_BRIDGING]
            .contains(&ethernet.ether_type)
        {
            break;
        }
        ethernet = SingleVlanSlice::from_slice(ethernet.payload)
            .ok()?
            .payload();
    }
    Some(ethernet)
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    const ETHERNET: [u8; 12] = [2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 9];

    /// Builds a frame from the bytes after its addresses.
    pub fn frame(rest: &[u8]) -> Vec<u8> {
        [&ETHERNET, rest].concat()
    }

    /// Builds an IPv4 packet with a datagram, with these bits for fragments.
    pub fn ipv4_udp_packet(fragment: [u8; 2]) -> Vec<u8> {
        let mut packet = vec![0; 28];
        packet[0] = 0x45;
        packet[6..8].copy_from_slice(&fragment);
        packet[9] = IpNumber::UDP.0;
        packet[12..20].copy_from_slice(&[10, 0, 0, 1, 10, 0, 0, 2]);
        packet.extend([7; HEADER_BYTES]);
        packet
    }

    #[test]
    fn a_payload_can_follow_up_to_two_vlan_tags() {
        let plain = [&[8, 0][..], &ipv4_udp_packet([0x40, 0])].concat();
        let once = [&[0x81, 0, 0, 5][..], &plain].concat();
        let twice = [&[0x88, 0xa8, 0, 6][..], &once].concat();
        for rest in [&plain, &once, &twice] {
            assert_eq!(
                find_udp_payload(&frame(rest)),
                Ok(UdpPayload {
                    bytes: &[7; HEADER_BYTES],
                    ip_class: ForeignFrameClass::Ipv4
                })
            );
        }
        let thrice = [&[0x88, 0xa8, 0, 7][..], &twice].concat();
        assert_eq!(
            find_udp_payload(&frame(&thrice)),
            Err(ForeignFrameClass::Unknown)
        );
    }

    #[test]
    fn fragments_short_payloads_and_other_protocols_have_no_udp_payload() {
        for fragment in [[0x20, 0], [0, 1]] {
            let rest = [&[8, 0][..], &ipv4_udp_packet(fragment)].concat();
            assert_eq!(
                find_udp_payload(&frame(&rest)),
                Err(ForeignFrameClass::Ipv4)
            );
        }
        let mut short = frame(&[&[8, 0][..], &ipv4_udp_packet([0, 0])].concat());
        short.pop();
        assert_eq!(find_udp_payload(&short), Err(ForeignFrameClass::Ipv4));
        assert_eq!(
            find_udp_payload(&frame(&[8, 6, 0])),
            Err(ForeignFrameClass::Arp)
        );
        assert_eq!(
            find_udp_payload(&frame(&[0x86, 0xdd, 0x60])),
            Err(ForeignFrameClass::Ipv6)
        );
        assert_eq!(find_udp_payload(&ETHERNET), Err(ForeignFrameClass::Unknown));
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
            5_000 + MAX_OTHER_TRIAL_AGE_NANOS as u64
        ));
        assert!(!belongs_to_other_trial(
            DatagramHeader {
                number: 1 << FRAME_NUMBER_BITS,
                ..head
            },
            6_000
        ));
    }
}
