//! What a frame looks like: Ethernet, VLAN tags, IP, UDP and the head, with the checksums that vary with the flow and size.

use std::net::IpAddr;

use crate::headers::{
    ETHERNET_BYTES, IPV4, IPV4_BYTES, IPV6, IPV6_BYTES, MAX_TAGS, OUTER_TAG, TAG, TAG_BYTES, UDP,
    UDP_BYTES,
};
use crate::parameters::{FCS_BYTES, FrameParameters, FrameSize};
use crate::port::Port;
use vnetbench_streams::datagram_header::{HEADER_BYTES, PROBE_NUMBER};

/// The longest, with all tags and IPv6.
pub const MAX_HEADER_BYTES: usize =
    ETHERNET_BYTES + MAX_TAGS * TAG_BYTES + IPV6_BYTES + UDP_BYTES + HEADER_BYTES;
/// RFC 2544, appendix C.2.6.4 has it so that no router on the way drops the frame.
const HOP_LIMIT: u8 = 64;
/// The ports of RFC 6335 that are nobody's; flows count through the source's first.
const FIRST_PORT: u16 = 49152;
const PORTS: u32 = 1 << 14;
/// What the flows of a stream can be told by.
pub const MAX_FLOWS: u32 = 1 << 20;

/// The start of a stream's frames, up to the end of the head. What varies is zero: lengths, ports, the last byte of
/// addresses that vary, number, time and checksums.
#[derive(Debug, Clone)]
pub struct FrameTemplate {
    pub header: Vec<u8>,
    pub ip_offset: usize,
    pub is_ipv6: bool,
    pub varies_addresses: bool,
}

/// What of a frame depends on its size. Sums are of 16-bit words as they lie in memory, not folded (RFC 1071).
#[repr(C)]
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SizeFields {
    pub bytes: u16,
    /// These two are big endian.
    pub ip_length: u16,
    pub udp_length: u16,
    pub unused: u16,
    pub ip_sum: u32,
    pub udp_sum: u32,
}

impl FrameTemplate {
    pub fn new(parameters: &FrameParameters, mac_from: [u8; 6], key: u32) -> Self {
        let mut header = Vec::with_capacity(MAX_HEADER_BYTES);
        header.extend(parameters.mac_to);
        header.extend(mac_from);
        for (place, tag) in parameters.vlan_tags.iter().enumerate() {
            let is_outer = place + 1 < parameters.vlan_tags.len();
            let tagged = if is_outer { OUTER_TAG } else { TAG };
            header.extend(tagged.to_be_bytes());
            header.extend(tag.to_be_bytes());
        }
        let is_ipv6 = parameters.from.is_ipv6();
        header.extend(if is_ipv6 { IPV6 } else { IPV4 }.to_be_bytes());
        let ip_offset = header.len();
        if is_ipv6 {
            header.extend([0x60, 0, 0, 0, 0, 0, UDP, HOP_LIMIT]);
        } else {
            // Not to be fragmented.
            header.extend([0x45, 0, 0, 0, 0, 0, 0x40, 0, HOP_LIMIT, UDP, 0, 0]);
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
        header.extend(key.to_be_bytes());
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

    pub fn udp_offset(&self) -> usize {
        self.ip_offset + self.ip_bytes()
    }

    pub fn payload_offset(&self) -> usize {
        self.udp_offset() + UDP_BYTES
    }

    /// The end of the source's address, which the destination's follows.
    fn source_end(&self) -> usize {
        self.ip_offset + if self.is_ipv6 { 24 } else { 16 }
    }

    /// Of a frame of so many bytes, without FCS.
    pub fn shape(&self, bytes: usize) -> SizeFields {
        let udp_length = (bytes - self.udp_offset()) as u16;
        // IPv6 counts what follows its header.
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
            + u32::from(u16::from(UDP).to_be());
        SizeFields {
            bytes: bytes as u16,
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

    /// The shapes of frames in the order in which they are made, each size as often as its weight says and as evenly as
    /// it goes: always the one that is furthest behind its share.
    pub fn interleave_sizes(&self, sizes: &[FrameSize]) -> Vec<SizeFields> {
        let total: u32 = sizes.iter().map(|size| size.weight).sum();
        let mut behind = vec![0i64; sizes.len()];
        let mut shapes = Vec::new();
        for _ in 0..total {
            for (behind, size) in behind.iter_mut().zip(sizes) {
                *behind += i64::from(size.weight);
            }
            let furthest = (0..sizes.len()).max_by_key(|i| (behind[*i], std::cmp::Reverse(*i)));
            let next = furthest.expect("there is a size");
            behind[next] -= i64::from(total);
            shapes.push(self.shape(sizes[next].bytes - FCS_BYTES));
        }
        shapes
    }

    /// A whole frame of so many bytes, without FCS.
    pub fn frame(&self, bytes: usize, flow: u32, number: u64, sent_nanos: u64) -> Vec<u8> {
        let mut frame = vec![0; bytes];
        self.write(&mut frame, &self.shape(bytes), flow, number, sent_nanos);
        frame
    }

    /// Writes a frame of that shape up to the end of its head.
    pub fn write(
        &self,
        frame: &mut [u8],
        shape: &SizeFields,
        flow: u32,
        number: u64,
        sent_nanos: u64,
    ) {
        let (udp_at, head_at) = (self.udp_offset(), self.payload_offset());
        frame[..self.header.len()].copy_from_slice(&self.header);
        if self.varies_addresses {
            frame[self.source_end() - 1] = flow as u8;
            frame[udp_at - 1] = (flow >> 8) as u8;
        }
        let [from, to] = udp_ports(flow);
        frame[udp_at..udp_at + 2].copy_from_slice(&from.to_be_bytes());
        frame[udp_at + 2..udp_at + 4].copy_from_slice(&to.to_be_bytes());
        frame[udp_at + 4..udp_at + 6].copy_from_slice(&shape.udp_length.to_ne_bytes());
        frame[head_at + 4..head_at + 12].copy_from_slice(&number.to_be_bytes());
        frame[head_at + 12..head_at + 18].copy_from_slice(&sent_nanos.to_be_bytes()[2..]);
        let addresses = sum_words(&frame[self.source_end() - 2..self.source_end()])
            + sum_words(&frame[udp_at - 2..udp_at])
            - sum_words(&self.header[self.source_end() - 2..self.source_end()])
            - sum_words(&self.header[udp_at - 2..udp_at]);
        if self.is_ipv6 {
            frame[self.ip_offset + 4..self.ip_offset + 6]
                .copy_from_slice(&shape.ip_length.to_ne_bytes());
            let varying = sum_words(&frame[udp_at..udp_at + 4])
                + sum_words(&frame[head_at + 4..head_at + HEADER_BYTES]);
            let checksum = match fold_checksum(shape.udp_sum + addresses + varying) {
                // Zero would say that there is none (RFC 8200, section 8.1).
                0 => 0xffff,
                checksum => checksum,
            };
            frame[udp_at + 6..udp_at + 8].copy_from_slice(&checksum.to_ne_bytes());
        } else {
            frame[self.ip_offset + 2..self.ip_offset + 4]
                .copy_from_slice(&shape.ip_length.to_ne_bytes());
            let checksum = fold_checksum(shape.ip_sum + addresses);
            frame[self.ip_offset + 10..self.ip_offset + 12]
                .copy_from_slice(&checksum.to_ne_bytes());
        }
    }
}

/// Source's and destination's of a flow.
fn udp_ports(flow: u32) -> [u16; 2] {
    [flow % PORTS, flow / PORTS].map(|port| FIRST_PORT + port as u16)
}

fn sum_words(bytes: &[u8]) -> u32 {
    let words = bytes
        .chunks_exact(2)
        .map(|word| u16::from_ne_bytes([word[0], word[1]]));
    words.map(u32::from).sum()
}

/// The checksum of a sum.
fn fold_checksum(sum: u32) -> u16 {
    let once = (sum & 0xffff) + (sum >> 16);
    !((once & 0xffff) + (once >> 16)) as u16
}

/// The least that a frame may have, with FCS.
pub fn min_frame_bytes(parameters: &FrameParameters) -> usize {
    FrameTemplate::new(parameters, [0; 6], 0).header.len() + FCS_BYTES
}

/// One of a side's frames that no sink counts.
pub fn learning_frame(port: &Port, parameters: &FrameParameters, key: u32) -> Vec<u8> {
    let template = FrameTemplate::new(parameters, port.mac, key);
    template.frame(template.header.len(), 0, PROBE_NUMBER, 0)
}

#[cfg(test)]
pub mod tests {
    use super::*;
    use crate::parameters::{Backend, PacingMethod, RefusedFrames};
    use std::time::Duration;

    pub fn parameters(ip: [&str; 2], tags: &[u16]) -> FrameParameters {
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

    const IPV4: [&str; 2] = ["198.18.0.1", "198.19.0.1"];
    const IPV6: [&str; 2] = ["2001:2::1", "2001:2::2"];

    #[test]
    fn the_smallest_frames_are_those_that_the_head_leaves_room_for() {
        for (addresses, tags, bytes) in [
            (IPV4, &[][..], 64),
            (IPV4, &[7][..], 68),
            (IPV6, &[][..], 84),
            (IPV6, &[7, 8][..], 92),
        ] {
            assert_eq!(min_frame_bytes(&parameters(addresses, tags)), bytes);
        }
    }

    #[test]
    fn a_frame_with_two_tags_has_them_outermost_first() {
        let template =
            FrameTemplate::new(&parameters(IPV4, &[0x123, 0x456]), [2, 0, 0, 0, 0, 1], 7);
        let frame = template.frame(100, 0, 0, 0);
        let macs = [2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1];
        assert_eq!(frame[..12], macs);
        assert_eq!(
            frame[12..22],
            [0x88, 0xa8, 0x01, 0x23, 0x81, 0x00, 0x04, 0x56, 0x08, 0x00]
        );
    }

    #[test]
    fn sizes_take_turns_as_evenly_as_their_weights_allow() {
        let sizes =
            [(64, 7), (594, 4), (1518, 1)].map(|(bytes, weight)| FrameSize { bytes, weight });
        let shapes = FrameTemplate::new(&parameters(IPV4, &[]), [2; 6], 7).interleave_sizes(&sizes);
        let bytes: Vec<u16> = shapes.iter().map(|shape| shape.bytes + 4).collect();
        assert_eq!(
            bytes,
            [64, 594, 64, 64, 594, 64, 1518, 64, 594, 64, 594, 64]
        );
    }

    #[test]
    fn checksums_are_right_for_every_size_and_flow() {
        for (addresses, vary_addresses) in
            [(IPV4, false), (IPV4, true), (IPV6, false), (IPV6, true)]
        {
            let parameters = FrameParameters {
                vary_addresses,
                ..parameters(addresses, &[5])
            };
            let template = FrameTemplate::new(&parameters, [2; 6], 0xdead_beef);
            for (bytes, flow, number) in [
                (88, 0, 0),
                (1514, 70_000, u64::MAX - 9),
                (333, MAX_FLOWS - 1, 1 << 40),
            ] {
                let frame = template.frame(bytes, flow, number, 0x1234_5678_9abc);
                assert_eq!(frame.len(), bytes);
                let (ip, udp) = (
                    &frame[template.ip_offset..],
                    &frame[template.udp_offset()..],
                );
                if template.is_ipv6 {
                    let mut pseudo = ip[8..40].to_vec();
                    pseudo.extend((udp.len() as u32).to_be_bytes());
                    pseudo.extend([0, 0, 0, UDP]);
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
