//! Extracts segments from segmentation-offload frames of TCP and UDP, as the kernel or an adapter segments them later
//! (net/ipv4/tcp_offload.c; include/uapi/linux/virtio_net.h).

use etherparse::checksum::Sum16BitWords;
use etherparse::{
    EtherType, Ethernet2Slice, IpNumber, Ipv4HeaderSlice, Ipv6Header, Ipv6HeaderSlice,
    SingleVlanSlice, TcpHeaderSlice, UdpHeader,
};

use crate::ports::VIRTIO_HEADER_BYTES;

/// The checksum is pending, so an extracted segment can have another one.
const VNET_FLAG_NEEDS_CHECKSUM: u8 = 1;
const GSO_NONE: u8 = 0;
const GSO_TCPV4: u8 = 1;
const GSO_TCPV6: u8 = 4;
const GSO_UDP_L4: u8 = 5;
/// Only the first segment keeps the CWR flag.
const GSO_ECN: u8 = 0x80;

const TCP_FLAG_FIN: u8 = 0x01;
const TCP_FLAG_PSH: u8 = 0x08;
const TCP_FLAG_CWR: u8 = 0x80;

/// Layout of a frame of several segments. Offsets start at the virtio header.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SegmentLayout {
    is_v4: bool,
    protocol: IpNumber,
    network_offset: usize,
    transport_offset: usize,
    payload_offset: usize,
    frame_end: usize,
    segment_bytes: usize,
}

impl SegmentLayout {
    /// Parses a frame. Returns `None` if it has only one segment, does not carry TCP or UDP directly over IP, or is
    /// malformed. A guest may have sent it, so malformed headers must not make this thread panic.
    pub fn parse(frame: &[u8]) -> Option<Self> {
        let virtio_header = frame.get(..VIRTIO_HEADER_BYTES)?;
        let gso_type = virtio_header[1] & !GSO_ECN;
        let segment_bytes = usize::from(u16::from_ne_bytes([virtio_header[4], virtio_header[5]]));
        if gso_type == GSO_NONE
            || segment_bytes == 0
            || virtio_header[0] & VNET_FLAG_NEEDS_CHECKSUM == 0
        {
            return None;
        }
        let ethernet_frame = &frame[VIRTIO_HEADER_BYTES..];
        let mut ethernet = Ethernet2Slice::from_slice_without_fcs(ethernet_frame)
            .ok()?
            .payload();
        while [EtherType::VLAN_TAGGED_FRAME, EtherType::PROVIDER_BRIDGING]
            .contains(&ethernet.ether_type)
        {
            ethernet = SingleVlanSlice::from_slice(ethernet.payload)
                .ok()?
                .payload();
        }
        let packet = ethernet.payload;
        let (is_v4, protocol, network_bytes) = match ethernet.ether_type {
            EtherType::IPV4 => {
                let header = Ipv4HeaderSlice::from_slice(packet).ok()?;
                (true, header.protocol(), header.slice().len())
            }
            EtherType::IPV6 => {
                let header = Ipv6HeaderSlice::from_slice(packet).ok()?;
                (false, header.next_header(), Ipv6Header::LEN)
            }
            _ => return None,
        };
        let transport_bytes = match (protocol, gso_type) {
            (IpNumber::TCP, GSO_TCPV4 | GSO_TCPV6) => {
                let header = TcpHeaderSlice::from_slice(&packet[network_bytes..]).ok()?;
                header.slice().len()
            }
            (IpNumber::UDP, GSO_UDP_L4) => UdpHeader::LEN,
            _ => return None,
        };
        let network = frame.len() - packet.len();
        let transport = network + network_bytes;
        let payload = transport + transport_bytes;
        (payload < frame.len()).then_some(Self {
            is_v4,
            protocol,
            network_offset: network,
            transport_offset: transport,
            payload_offset: payload,
            frame_end: frame.len(),
            segment_bytes,
        })
    }

    /// Returns the number of segments.
    pub fn segment_count(&self) -> usize {
        (self.frame_end - self.payload_offset).div_ceil(self.segment_bytes)
    }

    /// Returns a frame of only these segments.
    pub fn extract_segments(&self, frame: &[u8], segments: std::ops::Range<usize>) -> Vec<u8> {
        let from = self.payload_offset + segments.start * self.segment_bytes;
        let to = (self.payload_offset + segments.end * self.segment_bytes).min(self.frame_end);
        let mut cut = Vec::with_capacity(self.payload_offset + to - from);
        cut.extend_from_slice(&frame[..self.payload_offset]);
        cut.extend_from_slice(&frame[from..to]);
        if segments.len() == 1 {
            // One segment needs no segmentation.
            cut[1] = GSO_NONE;
            cut[4..6].fill(0);
        }
        // The header length may cover the whole original frame (virtio_net_hdr_from_skb). A tap rejects frames that are
        // shorter than their header length (tun_get_user).
        let headers = (self.payload_offset - VIRTIO_HEADER_BYTES) as u16;
        cut[2..4].copy_from_slice(&headers.to_ne_bytes());
        self.write_lengths_and_ipv4_header(&mut cut, segments.start as u16);
        if self.protocol == IpNumber::TCP {
            let is_last = to == self.frame_end;
            self.write_tcp_header(
                &mut cut,
                (from - self.payload_offset) as u32,
                segments.start == 0,
                is_last,
            );
        }
        self.write_pseudo_header_checksum(&mut cut);
        cut
    }

    fn write_lengths_and_ipv4_header(&self, segments: &mut [u8], index: u16) {
        let [network_length, transport_length] = [self.network_offset, self.transport_offset]
            .map(|start| ((segments.len() - start) as u16).to_be_bytes());
        if self.protocol == IpNumber::UDP {
            segments[self.transport_offset + 4..][..2].copy_from_slice(&transport_length);
        }
        if !self.is_v4 {
            let payload_length =
                ((segments.len() - self.network_offset - Ipv6Header::LEN) as u16).to_be_bytes();
            segments[self.network_offset + 4..][..2].copy_from_slice(&payload_length);
            return;
        }
        let header = &mut segments[self.network_offset..self.transport_offset];
        header[2..4].copy_from_slice(&network_length);
        let id = u16::from_be_bytes([header[4], header[5]]).wrapping_add(index);
        header[4..6].copy_from_slice(&id.to_be_bytes());
        header[10..12].fill(0);
        let checksum = Sum16BitWords::new().add_slice(header).ones_complement();
        header[10..12].copy_from_slice(&checksum.to_ne_bytes());
    }

    fn write_tcp_header(&self, segments: &mut [u8], offset: u32, is_first: bool, is_last: bool) {
        let header = &mut segments[self.transport_offset..self.payload_offset];
        let sequence = u32::from_be_bytes([header[4], header[5], header[6], header[7]]);
        header[4..8].copy_from_slice(&sequence.wrapping_add(offset).to_be_bytes());
        if !is_first {
            header[13] &= !TCP_FLAG_CWR;
        }
        if !is_last {
            header[13] &= !(TCP_FLAG_FIN | TCP_FLAG_PSH);
        }
    }

    /// Writes the checksum of the pseudo-header, as VIRTIO_NET_HDR_F_NEEDS_CSUM requires.
    fn write_pseudo_header_checksum(&self, segments: &mut [u8]) {
        let addresses = match self.is_v4 {
            true => self.network_offset + 12..self.network_offset + 20,
            false => self.network_offset + 8..self.network_offset + 40,
        };
        let length = (segments.len() - self.transport_offset) as u32;
        let sum = Sum16BitWords::new()
            .add_slice(&segments[addresses])
            .add_slice(&length.to_be_bytes())
            .add_2bytes([0, self.protocol.0]);
        let is_tcp = self.protocol == IpNumber::TCP;
        let checksum_offset = self.transport_offset + if is_tcp { 16 } else { 6 };
        segments[checksum_offset..][..2].copy_from_slice(&(!sum.ones_complement()).to_ne_bytes());
    }
}

#[cfg(test)]
pub mod tests {
    use etherparse::{Ethernet2Header, SingleVlanHeader};

    use super::*;

    const SEGMENT_BYTES: usize = 1000;
    const SEQUENCE: u32 = u32::MAX - 1500;

    /// Sums 16-bit words in one's complement arithmetic (RFC 1071).
    fn sum_words(bytes: &[u8]) -> u16 {
        let words = bytes
            .chunks_exact(2)
            .map(|word| u16::from_be_bytes([word[0], word[1]]));
        words.fold(0, |sum, word| {
            let (sum, has_carry) = sum.overflowing_add(word);
            sum + u16::from(has_carry)
        })
    }

    /// Returns a TCP frame with VLAN tags: two whole segments and a shorter one.
    pub fn tcp_frame(is_v4: bool, tags: usize) -> Vec<u8> {
        let mut frame = vec![1, if is_v4 { GSO_TCPV4 } else { GSO_TCPV6 } | GSO_ECN, 0, 0];
        frame.extend((SEGMENT_BYTES as u16).to_ne_bytes());
        frame.extend([0; 4]);
        frame.extend([2; 12]);
        for tag in 0..tags {
            let ether_types = [EtherType::PROVIDER_BRIDGING, EtherType::VLAN_TAGGED_FRAME];
            frame.extend(ether_types[tag].0.to_be_bytes());
            frame.extend([0, 7]);
        }
        if is_v4 {
            frame.extend(EtherType::IPV4.0.to_be_bytes());
            frame.extend([0x45, 0, 0, 0, 0xff, 0xff, 0x40, 0, 64, 6, 0, 0]);
            frame.extend([10, 77, 1, 1, 10, 77, 2, 1]);
        } else {
            frame.extend(EtherType::IPV6.0.to_be_bytes());
            frame.extend([0x60, 0, 0, 0, 0, 0, 6, 64]);
            frame.extend([0xfd; 32]);
        }
        frame.extend([0x12, 0x34, 0x56, 0x78]);
        frame.extend(SEQUENCE.to_be_bytes());
        frame.extend([
            0,
            0,
            0,
            1,
            0x80,
            TCP_FLAG_FIN | TCP_FLAG_PSH | TCP_FLAG_CWR | 0x10,
            1,
            0,
            0,
            0,
            0,
            0,
        ]);
        frame.extend([1; 12]);
        frame.extend((0..2300).map(|at| (at / SEGMENT_BYTES) as u8));
        frame
    }

    #[test]
    fn segments_are_found_with_vlan_tags_and_both_ip_versions() {
        for (is_v4, tags) in [(true, 0), (true, 2), (false, 0), (false, 1)] {
            let layout = SegmentLayout::parse(&tcp_frame(is_v4, tags)).expect("several segments");
            assert_eq!(layout.segment_count(), 3);
        }
    }

    #[test]
    fn an_extracted_segment_is_as_tcp_would_have_sent_it() {
        for is_v4 in [true, false] {
            let whole = tcp_frame(is_v4, 0);
            let layout = SegmentLayout::parse(&whole).expect("several segments");
            for (index, bytes) in [(0, SEGMENT_BYTES), (1, SEGMENT_BYTES), (2, 300)] {
                let cut = layout.extract_segments(&whole, index..index + 1);
                let (header, payload) = cut.split_at(layout.payload_offset);
                assert_eq!(payload, vec![index as u8; bytes]);
                assert_eq!((header[1], &header[4..6]), (GSO_NONE, &[0, 0][..]));
                let tcp = &header[layout.transport_offset..];
                let sequence = u32::from_be_bytes(tcp[4..8].try_into().expect("four bytes"));
                assert_eq!(
                    sequence,
                    SEQUENCE.wrapping_add((index * SEGMENT_BYTES) as u32)
                );
                assert_eq!(tcp[13] & TCP_FLAG_CWR != 0, index == 0);
                assert_eq!(tcp[13] & (TCP_FLAG_FIN | TCP_FLAG_PSH) != 0, index == 2);
                let length_field = usize::from(u16::from_be_bytes(match is_v4 {
                    true => [
                        header[layout.network_offset + 2],
                        header[layout.network_offset + 3],
                    ],
                    false => [
                        header[layout.network_offset + 4],
                        header[layout.network_offset + 5],
                    ],
                }));
                let from = if is_v4 {
                    layout.network_offset
                } else {
                    layout.transport_offset
                };
                assert_eq!(length_field, cut.len() - from);
            }
        }
    }

    #[test]
    fn an_extracted_frame_has_the_length_of_its_headers_as_header_length() {
        let mut whole = tcp_frame(true, 1);
        let all = (whole.len() - VIRTIO_HEADER_BYTES) as u16;
        whole[2..4].copy_from_slice(&all.to_ne_bytes());
        let layout = SegmentLayout::parse(&whole).expect("several segments");
        for segments in [0..1, 0..2, 2..3] {
            let cut = layout.extract_segments(&whole, segments);
            let header_length = usize::from(u16::from_ne_bytes([cut[2], cut[3]]));
            assert_eq!(
                header_length,
                Ethernet2Header::LEN + SingleVlanHeader::LEN + 20 + 32
            );
        }
    }

    #[test]
    fn extracted_segments_have_valid_checksums() {
        let whole = tcp_frame(true, 1);
        let layout = SegmentLayout::parse(&whole).expect("several segments");
        let cut = layout.extract_segments(&whole, 1..3);
        assert_eq!(
            sum_words(&cut[layout.network_offset..layout.transport_offset]),
            0xffff
        );
        assert_eq!(
            cut[layout.network_offset + 4..][..2],
            [0, 0],
            "the identification wraps after 65535"
        );
        let [high, low] = ((cut.len() - layout.transport_offset) as u16).to_be_bytes();
        let pseudo_header = [10, 77, 1, 1, 10, 77, 2, 1, 0, 6, high, low];
        let checksum = cut[layout.transport_offset + 16..].first_chunk();
        assert_eq!(
            checksum.map(|bytes| u16::from_be_bytes(*bytes)),
            Some(sum_words(&pseudo_header))
        );
        assert_eq!(
            SegmentLayout::parse(&cut)
                .expect("two segments")
                .segment_count(),
            2
        );
    }

    #[test]
    fn single_segments_and_unknown_frames_are_not_segmented() {
        let mut single = tcp_frame(true, 0);
        single[1] = GSO_NONE;
        let mut short = tcp_frame(true, 0);
        short.truncate(VIRTIO_HEADER_BYTES + 40);
        let mut other = tcp_frame(true, 0);
        other[VIRTIO_HEADER_BYTES + Ethernet2Header::LEN + 9] = 47;
        for frame in [single, short, other, Vec::new()] {
            assert_eq!(SegmentLayout::parse(&frame), None);
        }
    }

    #[test]
    fn frames_with_too_short_headers_are_not_segmented() {
        let ip_offset = VIRTIO_HEADER_BYTES + Ethernet2Header::LEN;
        let data_offset = ip_offset + 20 + 12;
        for (at, odd) in [
            (ip_offset, 0x40),
            (ip_offset, 0x44),
            (data_offset, 0x00),
            (data_offset, 0x40),
        ] {
            let mut frame = tcp_frame(true, 0);
            frame[at] = odd;
            assert_eq!(SegmentLayout::parse(&frame), None, "{odd:#x} at {at}");
        }
    }

    #[test]
    fn frames_with_a_complete_checksum_are_not_segmented() {
        let mut summed = tcp_frame(true, 0);
        summed[0] = 0;
        assert_eq!(SegmentLayout::parse(&summed), None);
    }
}
