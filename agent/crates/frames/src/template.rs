//! Builds frames: Ethernet, VLAN tags, IP, UDP and the datagram header, with checksums for each flow and size.

use std::net::IpAddr;

use crate::headers::{
    ETHERNET_BYTES, ETHERTYPE_IPV4, ETHERTYPE_IPV6, ETHERTYPE_QINQ, ETHERTYPE_VLAN, IPV4_BYTES,
    IPV6_BYTES, MAX_VLAN_TAGS, PROTOCOL_UDP, UDP_BYTES, VLAN_TAG_BYTES,
};
use crate::parameters::{FCS_BYTES, FrameParameters, FrameSize};
use crate::port::Port;
use vnetbench_streams::datagram_header::{HEADER_BYTES, PROBE_NUMBER};

/// Bytes of the longest headers: two VLAN tags and IPv6.
pub const MAX_HEADER_BYTES: usize =
    ETHERNET_BYTES + MAX_VLAN_TAGS * VLAN_TAG_BYTES + IPV6_BYTES + UDP_BYTES + HEADER_BYTES;
/// High enough that no router drops the frame (RFC 2544, appendix C.2.6.4).
const HOP_LIMIT: u8 = 64;
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
    /// Sum of the IPv4 header's 16-bit words in memory order, not folded (RFC 1071).
    pub ip_sum: u32,
    /// Sum for the UDP checksum with its pseudo-header, not folded (RFC 1071).
    pub udp_sum: u32,
}

impl FrameTemplate {
    /// Builds the headers of a stream's frames.
    pub fn new(parameters: &FrameParameters, mac_from: [u8; 6], stream_key: u32) -> Self {
        let mut header = Vec::with_capacity(MAX_HEADER_BYTES);
        header.extend(parameters.mac_to);
        header.extend(mac_from);
        for (position, tag) in parameters.vlan_tags.iter().enumerate() {
            let is_outer = position + 1 < parameters.vlan_tags.len();
            let tagged = if is_outer {
                ETHERTYPE_QINQ
            } else {
                ETHERTYPE_VLAN
            };
            header.extend(tagged.to_be_bytes());
            header.extend(tag.to_be_bytes());
        }
        let is_ipv6 = parameters.from.is_ipv6();
        header.extend(
            if is_ipv6 {
                ETHERTYPE_IPV6
            } else {
                ETHERTYPE_IPV4
            }
            .to_be_bytes(),
        );
        let ip_offset = header.len();
        if is_ipv6 {
            header.extend([0x60, 0, 0, 0, 0, 0, PROTOCOL_UDP, HOP_LIMIT]);
        } else {
            // 0x40 is the flag "don't fragment".
            header.extend([0x45, 0, 0, 0, 0, 0, 0x40, 0, HOP_LIMIT, PROTOCOL_UDP, 0, 0]);
        }
        for address in [parameters.from, parameters.to] {
            match address {
                IpAddr::V4(address) => header.extend(address.octets()),
                IpAddr::V6(address) => header.extend(address.octets()),
            }
            if parameters.vary_addresses {
                header.pop();
                header.push(0);
            }
        }
        header.extend([0; UDP_BYTES]);
        header.extend(stream_key.to_be_bytes());
        header.resize(header.len() + HEADER_BYTES - 4, 0);
        Self {
            header,
            ip_offset,
            is_ipv6,
            varies_addresses: parameters.vary_addresses,
        }
    }

    fn ip_bytes(&self) -> usize {
        if self.is_ipv6 { IPV6_BYTES } else { IPV4_BYTES }
    }

    /// Returns the offset of the UDP header.
    pub fn udp_offset(&self) -> usize {
        self.ip_offset + self.ip_bytes()
    }

    /// Returns the offset of the UDP payload.
    pub fn payload_offset(&self) -> usize {
        self.udp_offset() + UDP_BYTES
    }

    /// Returns the end of the source address. The destination address follows it.
    fn source_end(&self) -> usize {
        self.ip_offset + if self.is_ipv6 { 24 } else { 16 }
    }

    /// Returns the fields of a frame of this size, without FCS.
    pub fn size_fields(&self, bytes: usize) -> SizeFields {
        let udp_length = (bytes - self.udp_offset()) as u16;
        // The IPv6 length excludes the IPv6 header.
        let ip_length = if self.is_ipv6 {
            udp_length
        } else {
            (bytes - self.ip_offset) as u16
        };
        let addresses_at = if self.is_ipv6 {
            self.ip_offset + 8
        } else {
            self.ip_offset + 12
        };
        let pseudo_header = sum_words(&self.header[addresses_at..self.udp_offset()])
            + u32::from(udp_length.to_be())
            + u32::from(u16::from(PROTOCOL_UDP).to_be());
        SizeFields {
            frame_bytes: bytes as u16,
            ip_length: ip_length.to_be(),
            udp_length: udp_length.to_be(),
            unused: 0,
            ip_sum: sum_words(&self.header[self.ip_offset..self.udp_offset()])
                + u32::from(ip_length.to_be()),
            udp_sum: pseudo_header
                + sum_words(&self.header[self.udp_offset()..])
                + u32::from(udp_length.to_be()),
        }
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
            sequence.push(self.size_fields(sizes[next].bytes - FCS_BYTES));
        }
        sequence
    }

    /// Builds a whole frame of this size, without FCS.
    pub fn build_frame(&self, bytes: usize, flow: u32, number: u64, sent_nanos: u64) -> Vec<u8> {
        let mut frame = vec![0; bytes];
        self.write_header(
            &mut frame,
            &self.size_fields(bytes),
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
            frame[self.source_end() - 1] = flow as u8;
            frame[udp_offset - 1] = (flow >> 8) as u8;
        }
        let [from, to] = udp_ports(flow);
        frame[udp_offset..udp_offset + 2].copy_from_slice(&from.to_be_bytes());
        frame[udp_offset + 2..udp_offset + 4].copy_from_slice(&to.to_be_bytes());
        frame[udp_offset + 4..udp_offset + 6].copy_from_slice(&fields.udp_length.to_ne_bytes());
        frame[header_offset + 4..header_offset + 12].copy_from_slice(&number.to_be_bytes());
        frame[header_offset + 12..header_offset + 18]
            .copy_from_slice(&sent_nanos.to_be_bytes()[2..]);
        let addresses = sum_words(&frame[self.source_end() - 2..self.source_end()])
            + sum_words(&frame[udp_offset - 2..udp_offset])
            - sum_words(&self.header[self.source_end() - 2..self.source_end()])
            - sum_words(&self.header[udp_offset - 2..udp_offset]);
        if self.is_ipv6 {
            frame[self.ip_offset + 4..self.ip_offset + 6]
                .copy_from_slice(&fields.ip_length.to_ne_bytes());
            let varying = sum_words(&frame[udp_offset..udp_offset + 4])
                + sum_words(&frame[header_offset + 4..header_offset + HEADER_BYTES]);
            let checksum = match fold_checksum(fields.udp_sum + addresses + varying) {
                // Zero means "no checksum" (RFC 8200, section 8.1).
                0 => 0xffff,
                checksum => checksum,
            };
            frame[udp_offset + 6..udp_offset + 8].copy_from_slice(&checksum.to_ne_bytes());
        } else {
            frame[self.ip_offset + 2..self.ip_offset + 4]
                .copy_from_slice(&fields.ip_length.to_ne_bytes());
            let checksum = fold_checksum(fields.ip_sum + addresses);
            frame[self.ip_offset + 10..self.ip_offset + 12]
                .copy_from_slice(&checksum.to_ne_bytes());
        }
    }
}

/// Returns the source port and destination port of a flow.
fn udp_ports(flow: u32) -> [u16; 2] {
    [flow % UDP_PORT_COUNT, flow / UDP_PORT_COUNT].map(|port| FIRST_UDP_PORT + port as u16)
}

fn sum_words(bytes: &[u8]) -> u32 {
    let words = bytes
        .chunks_exact(2)
        .map(|word| u16::from_ne_bytes([word[0], word[1]]));
    words.map(u32::from).sum()
}

/// Folds a sum of 16-bit words into an Internet checksum (RFC 1071).
fn fold_checksum(sum: u32) -> u16 {
    let folded = (sum & 0xffff) + (sum >> 16);
    !((folded & 0xffff) + (folded >> 16)) as u16
}

/// Returns the size of the smallest possible frame, with FCS.
pub fn min_frame_bytes(parameters: &FrameParameters) -> usize {
    FrameTemplate::new(parameters, [0; 6], 0).header.len() + FCS_BYTES
}

/// Builds a probe frame, which teaches the device the port's address and which no sink counts.
pub fn build_learning_frame(port: &Port, parameters: &FrameParameters, stream_key: u32) -> Vec<u8> {
    let template = FrameTemplate::new(parameters, port.mac, stream_key);
    template.build_frame(template.header.len(), 0, PROBE_NUMBER, 0)
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::parameters::{Backend, PacingMethod, RefusedFrames};
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
            refused_frames: RefusedFrames::Unsent,
            from,
            to,
            vlan_tags: tags.into(),
            mac_to: [2, 0, 0, 0, 0, 2],
            generator: Backend::Auto,
            sink: Backend::Auto,
            pacing: PacingMethod::Auto,
            settle: Duration::ZERO,
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
            assert_eq!(min_frame_bytes(&test_parameters(addresses, tags)), bytes);
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
                assert_eq!(frame.len(), bytes);
                let (ip, udp) = (
                    &frame[template.ip_offset..],
                    &frame[template.udp_offset()..],
                );
                if template.is_ipv6 {
                    let mut pseudo = ip[8..40].to_vec();
                    pseudo.extend((udp.len() as u32).to_be_bytes());
                    pseudo.extend([0, 0, 0, PROTOCOL_UDP]);
                    pseudo.extend(udp);
                    pseudo.resize(pseudo.len().next_multiple_of(2), 0);
                    assert_eq!(
                        fold_checksum(sum_words(&pseudo)),
                        0,
                        "{addresses:?} {bytes} {flow}"
                    );
                    assert_eq!(ip[4..6], (udp.len() as u16).to_be_bytes());
                } else {
                    assert_eq!(
                        fold_checksum(sum_words(&ip[..20])),
                        0,
                        "{addresses:?} {bytes} {flow}"
                    );
                    assert_eq!(ip[2..4], (ip.len() as u16).to_be_bytes());
                }
                assert_eq!(udp[4..6], (udp.len() as u16).to_be_bytes());
            }
        }
    }
}
