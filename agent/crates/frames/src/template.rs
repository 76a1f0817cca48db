//! Builds frames: Ethernet, VLAN tags, IP, UDP and the datagram header, with checksums for each flow and size.

use std::net::IpAddr;

use etherparse::checksum::Sum16BitWords;
use etherparse::{
    EtherType, Ethernet2Header, IpNumber, Ipv4Header, Ipv6Header, SingleVlanHeader, UdpHeader,
    VlanId,
};

use crate::parameters::{FCS_BYTES, FrameParameters, FrameSize};
use crate::port::Port;
use vnetbench_streams::datagram_header::{FULL_PROBE_NUMBER, HEADER_BYTES};

/// Maximum number of VLAN tags of a frame (IEEE 802.1ad).
pub const MAX_VLAN_TAGS: usize = 2;
/// Bytes of the longest headers: two VLAN tags and IPv6.
pub const MAX_HEADER_BYTES: usize = Ethernet2Header::LEN
    + MAX_VLAN_TAGS * SingleVlanHeader::LEN
    + Ipv6Header::LEN
    + UdpHeader::LEN
    + HEADER_BYTES;
/// High enough that no router drops the frame (RFC 2544, appendix C.2.6.4).
const IP_HOP_LIMIT: u8 = 64;
/// First of the dynamic UDP ports (RFC 6335). Flows vary the source port first.
const FIRST_UDP_PORT: u16 = 49152;
const UDP_PORT_COUNT: u32 = 1 << 14;
/// Maximum number of flows of a stream.
pub const MAX_FLOWS: u32 = 1 << 20;

/// The headers of a stream's frames, up to the end of the datagram header.
///
/// Varying fields are zero: lengths, ports, the last byte of varying addresses, frame number, time and checksums.
#[derive(Debug, Clone)]
pub struct FrameTemplate {
    /// The bytes of the headers.
    pub header: Vec<u8>,
    /// Offset of the IP header.
    pub ip_offset: usize,
    /// Whether the frames carry IPv6.
    pub is_ipv6: bool,
    /// Whether the last byte of both addresses varies with the flow.
    pub varies_addresses: bool,
}

/// Header fields that depend on the frame's size (`struct size_fields` of bpf/generate.bpf.c).
#[repr(C)]
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SizeFields {
    /// Size of the frame without FCS.
    pub frame_bytes: u16,
    /// Length field of the IP header, big endian.
    pub ip_length: u16,
    /// Length field of the UDP header, big endian.
    pub udp_length: u16,
    /// Padding.
    pub unused: u16,
    /// Sum of the IPv4 header's 16-bit words in memory order (RFC 1071).
    pub ip_sum: u32,
    /// Sum for the UDP checksum with its pseudo-header (RFC 1071).
    pub udp_sum: u32,
}

impl FrameTemplate {
    /// Builds the headers of a stream's frames.
    pub fn new(parameters: &FrameParameters, source_mac: [u8; 6], stream_key: u32) -> Self {
        let tags = &parameters.vlan_tags;
        let is_ipv6 = parameters.from.is_ipv6();
        let ether_type_after = |tag_count: usize| match tags.len() - tag_count {
            0 if is_ipv6 => EtherType::IPV6,
            0 => EtherType::IPV4,
            1 => EtherType::VLAN_TAGGED_FRAME,
            _ => EtherType::PROVIDER_BRIDGING,
        };
        let ethernet = Ethernet2Header {
            source: source_mac,
            destination: parameters.mac_to,
            ether_type: ether_type_after(0),
        };
        let mut header = ethernet.to_bytes().to_vec();
        for (position, tag) in tags.iter().enumerate() {
            let tag = SingleVlanHeader {
                vlan_id: VlanId::try_new(*tag).expect("a VLAN id has 12 bits"),
                ether_type: ether_type_after(position + 1),
                ..SingleVlanHeader::default()
            };
            header.extend(tag.to_bytes());
        }
        let ip_offset = header.len();
        header.extend(build_ip_header(parameters.from, parameters.to));
        header.extend(UdpHeader::default().to_bytes());
        header.extend(stream_key.to_be_bytes());
        header.resize(header.len() + HEADER_BYTES - size_of_val(&stream_key), 0);
        let mut template = Self {
            header,
            ip_offset,
            is_ipv6,
            varies_addresses: parameters.vary_addresses,
        };
        if template.varies_addresses {
            for end in [template.source_address_end(), template.udp_offset()] {
                template.header[end - 1] = 0;
            }
        }
        template
    }

    fn ip_header_bytes(&self) -> usize {
        if self.is_ipv6 {
            Ipv6Header::LEN
        } else {
            Ipv4Header::MIN_LEN
        }
    }

    /// Returns the offset of the UDP header.
    pub fn udp_offset(&self) -> usize {
        self.ip_offset + self.ip_header_bytes()
    }

    /// Returns the offset of the UDP payload.
    pub fn payload_offset(&self) -> usize {
        self.udp_offset() + UdpHeader::LEN
    }

    /// Returns the offset of the source address. The destination address follows it.
    fn source_address_offset(&self) -> usize {
        self.ip_offset + if self.is_ipv6 { 8 } else { 12 }
    }

    fn source_address_end(&self) -> usize {
        self.source_address_offset().midpoint(self.udp_offset())
    }

    /// Returns the fields of a frame of this size, without FCS.
    pub fn compute_size_fields(&self, bytes: usize) -> SizeFields {
        let udp_length = (bytes - self.udp_offset()) as u16;
        // The IPv6 length excludes the IPv6 header.
        let ip_length = if self.is_ipv6 {
            udp_length
        } else {
            (bytes - self.ip_offset) as u16
        };
        let ip_sum = Sum16BitWords::new()
            .add_slice(&self.header[self.ip_offset..self.udp_offset()])
            .add_2bytes(ip_length.to_be_bytes());
        let udp_sum = self
            .sum_udp_words(&self.header, udp_length.to_be_bytes())
            .add_2bytes(udp_length.to_be_bytes());
        SizeFields {
            frame_bytes: bytes as u16,
            ip_length: ip_length.to_be(),
            udp_length: udp_length.to_be(),
            unused: 0,
            ip_sum: (!ip_sum.ones_complement()).into(),
            udp_sum: (!udp_sum.ones_complement()).into(),
        }
    }

    /// Sums the words of a frame that its UDP checksum covers: pseudo-header, UDP header and datagram header. The rest is zero.
    fn sum_udp_words(&self, frame: &[u8], udp_length: [u8; 2]) -> Sum16BitWords {
        Sum16BitWords::new()
            .add_slice(&frame[self.source_address_offset()..self.header.len()])
            .add_2bytes(udp_length)
            .add_2bytes([0, IpNumber::UDP.0])
    }

    /// Returns the repeating sequence of sizes, in which each size occurs `weight` times, spaced as evenly as possible.
    ///
    /// The next size is always the one that is furthest behind its share.
    pub fn interleave_sizes(&self, sizes: &[FrameSize]) -> Vec<SizeFields> {
        let total: u32 = sizes.iter().map(|size| size.weight).sum();
        let mut deficits = vec![0i64; sizes.len()];
        let mut sequence = Vec::new();
        for _ in 0..total {
            for (deficit, size) in deficits.iter_mut().zip(sizes) {
                *deficit += i64::from(size.weight);
            }
            let furthest = (0..sizes.len()).max_by_key(|i| (deficits[*i], std::cmp::Reverse(*i)));
            let next = furthest.expect("a stream has at least one size");
            deficits[next] -= i64::from(total);
            sequence.push(self.compute_size_fields(sizes[next].bytes - FCS_BYTES));
        }
        sequence
    }

    /// Builds a whole frame of this size, without FCS.
    pub fn build_frame(&self, bytes: usize, flow: u32, number: u64, sent_nanos: u64) -> Vec<u8> {
        let mut frame = vec![0; bytes];
        self.write_header(
            &mut frame,
            &self.compute_size_fields(bytes),
            flow,
            number,
            sent_nanos,
        );
        frame
    }

    /// Writes the headers of a frame, up to the end of the datagram header.
    pub fn write_header(
        &self,
        frame: &mut [u8],
        fields: &SizeFields,
        flow: u32,
        number: u64,
        sent_nanos: u64,
    ) {
        let (udp_offset, header_offset) = (self.udp_offset(), self.payload_offset());
        frame[..self.header.len()].copy_from_slice(&self.header);
        if self.varies_addresses {
            frame[self.source_address_end() - 1] = flow as u8;
            frame[udp_offset - 1] = (flow >> 8) as u8;
        }
        let [from, to] = flow_udp_ports(flow);
        frame[udp_offset..udp_offset + 2].copy_from_slice(&from.to_be_bytes());
        frame[udp_offset + 2..udp_offset + 4].copy_from_slice(&to.to_be_bytes());
        frame[udp_offset + 4..udp_offset + 6].copy_from_slice(&fields.udp_length.to_ne_bytes());
        frame[header_offset + 4..header_offset + 12].copy_from_slice(&number.to_be_bytes());
        frame[header_offset + 12..header_offset + 18]
            .copy_from_slice(&sent_nanos.to_be_bytes()[2..]);
        if self.is_ipv6 {
            frame[self.ip_offset + 4..self.ip_offset + 6]
                .copy_from_slice(&fields.ip_length.to_ne_bytes());
            // Zero would mean "no checksum" (RFC 8200, section 8.1).
            let checksum = self
                .sum_udp_words(frame, fields.udp_length.to_ne_bytes())
                .to_ones_complement_with_no_zero();
            frame[udp_offset + 6..udp_offset + 8].copy_from_slice(&checksum.to_ne_bytes());
        } else {
            frame[self.ip_offset + 2..self.ip_offset + 4]
                .copy_from_slice(&fields.ip_length.to_ne_bytes());
            let checksum = Sum16BitWords::new()
                .add_slice(&frame[self.ip_offset..udp_offset])
                .ones_complement();
            frame[self.ip_offset + 10..self.ip_offset + 12]
                .copy_from_slice(&checksum.to_ne_bytes());
        }
    }
}

/// Builds an IP header for UDP. Length and checksum are zero.
fn build_ip_header(from: IpAddr, to: IpAddr) -> Vec<u8> {
    match (from, to) {
        (IpAddr::V4(from), IpAddr::V4(to)) => Ipv4Header {
            dont_fragment: true,
            time_to_live: IP_HOP_LIMIT,
            protocol: IpNumber::UDP,
            source: from.octets(),
            destination: to.octets(),
            ..Ipv4Header::default()
        }
        .to_bytes()
        .to_vec(),
        (IpAddr::V6(from), IpAddr::V6(to)) => Ipv6Header {
            hop_limit: IP_HOP_LIMIT,
            next_header: IpNumber::UDP,
            source: from.octets(),
            destination: to.octets(),
            ..Ipv6Header::default()
        }
        .to_bytes()
        .to_vec(),
        _ => unreachable!("both addresses have the same IP version"),
    }
}

/// Returns the source port and destination port of a flow.
fn flow_udp_ports(flow: u32) -> [u16; 2] {
    [flow % UDP_PORT_COUNT, flow / UDP_PORT_COUNT].map(|port| FIRST_UDP_PORT + port as u16)
}

/// Returns the size of the smallest possible frame, with FCS.
pub fn min_bytes_with_fcs(parameters: &FrameParameters) -> usize {
    FrameTemplate::new(parameters, [0; 6], 0).header.len() + FCS_BYTES
}

/// Builds a probe frame, which teaches the device the port's address and which no sink counts.
pub fn build_learning_frame(port: &Port, parameters: &FrameParameters, stream_key: u32) -> Vec<u8> {
    let template = FrameTemplate::new(parameters, port.mac, stream_key);
    template.build_frame(template.header.len(), 0, FULL_PROBE_NUMBER, 0)
}

#[cfg(test)]
pub(crate) mod tests {
    use etherparse::{NetSlice, SlicedPacket, TransportSlice};

    use super::*;
    use crate::parameters::{FrameBackend, PacingMethod, RejectedFrameCounting};
    use std::time::Duration;

    pub(crate) fn test_parameters(ip: [&str; 2], tags: &[u16]) -> FrameParameters {
        let [from, to] = ip.map(|address| address.parse().expect("an address"));
        FrameParameters {
            interface: "eth0".into(),
            sizes: Vec::new(),
            frames_per_s: None,
            max_frames: None,
            flows: 1,
            vary_addresses: false,
            rejected_frames: RejectedFrameCounting::Unsent,
            from,
            to,
            vlan_tags: tags.into(),
            mac_to: [2, 0, 0, 0, 0, 2],
            generator: FrameBackend::Auto,
            sink: FrameBackend::Auto,
            pacing: PacingMethod::Auto,
            end_after_silence: Duration::ZERO,
            shares_cpus: false,
        }
    }

    pub(crate) const IPV4: [&str; 2] = ["198.18.0.1", "198.19.0.1"];
    pub(crate) const IPV6: [&str; 2] = ["2001:2::1", "2001:2::2"];

    #[test]
    fn the_smallest_frame_has_room_for_all_headers() {
        for (addresses, tags, bytes) in [
            (IPV4, &[][..], 64),
            (IPV4, &[7][..], 68),
            (IPV6, &[][..], 84),
            (IPV6, &[7, 8][..], 92),
        ] {
            assert_eq!(min_bytes_with_fcs(&test_parameters(addresses, tags)), bytes);
        }
    }

    #[test]
    fn the_outer_of_two_vlan_tags_comes_first() {
        let template = FrameTemplate::new(
            &test_parameters(IPV4, &[0x123, 0x456]),
            [2, 0, 0, 0, 0, 1],
            7,
        );
        let frame = template.build_frame(100, 0, 0, 0);
        let macs = [2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1];
        assert_eq!(frame[..12], macs);
        assert_eq!(
            frame[12..22],
            [0x88, 0xa8, 0x01, 0x23, 0x81, 0x00, 0x04, 0x56, 0x08, 0x00]
        );
    }

    #[test]
    fn frame_sizes_are_interleaved_evenly_by_weight() {
        let sizes =
            [(64, 7), (594, 4), (1518, 1)].map(|(bytes, weight)| FrameSize { bytes, weight });
        let sequence =
            FrameTemplate::new(&test_parameters(IPV4, &[]), [2; 6], 7).interleave_sizes(&sizes);
        let bytes: Vec<u16> = sequence
            .iter()
            .map(|fields| fields.frame_bytes + 4)
            .collect();
        assert_eq!(
            bytes,
            [64, 594, 64, 64, 594, 64, 1518, 64, 594, 64, 594, 64]
        );
    }

    #[test]
    fn checksums_are_valid_for_every_size_and_flow() {
        for (addresses, vary_addresses) in
            [(IPV4, false), (IPV4, true), (IPV6, false), (IPV6, true)]
        {
            let parameters = FrameParameters {
                vary_addresses,
                ..test_parameters(addresses, &[5])
            };
            let template = FrameTemplate::new(&parameters, [2; 6], 0xdead_beef);
            for (bytes, flow, number) in [
                (88, 0, 0),
                (1514, 70_000, u64::MAX - 9),
                (333, MAX_FLOWS - 1, 1 << 40),
            ] {
                let frame = template.build_frame(bytes, flow, number, 0x1234_5678_9abc);
                let packet = SlicedPacket::from_ethernet(&frame).expect("all lengths are true");
                let Some(TransportSlice::Udp(udp)) = packet.transport else {
                    panic!("not UDP: {packet:?}");
                };
                let sum = match packet.net.expect("an IP header") {
                    NetSlice::Ipv4(ip) => {
                        let header = ip.header().to_header();
                        assert_eq!(header.calc_header_checksum(), header.header_checksum);
                        0
                    }
                    NetSlice::Ipv6(ip) => {
                        let header = ip.header().to_header();
                        let sum = udp.to_header().calc_checksum_ipv6(&header, udp.payload());
                        sum.expect("a datagram has a length of 16 bits")
                    }
                    net => panic!("not IP: {net:?}"),
                };
                assert_eq!(udp.checksum(), sum, "{addresses:?} {bytes} {flow}");
                assert_eq!(template.payload_offset() + udp.payload().len(), bytes);
            }
        }
    }
}
