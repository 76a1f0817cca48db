//! Segments cut out of what TCP or UDP handed over as one frame, as the kernel or an adapter would cut it later
//! (net/ipv4/tcp_offload.c; include/uapi/linux/virtio_net.h).

use crate::ports::VNET_HEADER_BYTES;

/// The checksum is still to be made: what is cut can have another.
const NEEDS_CHECKSUM: u8 = 1;
const GSO_NONE: u8 = 0;
const GSO_TCPV4: u8 = 1;
const GSO_TCPV6: u8 = 4;
const GSO_UDP_L4: u8 = 5;
/// Only the first segment has CWR.
const GSO_ECN: u8 = 0x80;

const ETHERNET_BYTES: usize = 14;
const TAG_BYTES: usize = 4;
const ETHERTYPES_OF_TAGS: [[u8; 2]; 2] = [[0x81, 0x00], [0x88, 0xa8]];
const ETHERTYPE_IPV4: [u8; 2] = [0x08, 0x00];
const ETHERTYPE_IPV6: [u8; 2] = [0x86, 0xdd];
const IPV4_LEAST_BYTES: usize = 20;
const IPV6_BYTES: usize = 40;
const TCP_LEAST_BYTES: usize = 20;
const UDP_BYTES: usize = 8;
const TCP: u8 = 6;
const UDP: u8 = 17;
const FIN: u8 = 0x01;
const PSH: u8 = 0x08;
const CWR: u8 = 0x80;

/// Where things are in a frame of several segments. Offsets count from the note on.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SegmentLayout {
    is_v4: bool,
    protocol: u8,
    network: usize,
    transport: usize,
    payload: usize,
    end: usize,
    segment_bytes: usize,
}

impl SegmentLayout {
    /// `None` of a frame that is one segment, that is neither TCP nor UDP right behind IP, or that cannot be cut. A guest may
    /// have made it, and a fault of its headers must not be one of this thread.
    pub fn parse(frame: &[u8]) -> Option<Self> {
        let note = frame.get(..VNET_HEADER_BYTES)?;
        let kind = note[1] & !GSO_ECN;
        let segment_bytes = usize::from(u16::from_ne_bytes([note[4], note[5]]));
        if kind == GSO_NONE || segment_bytes == 0 || note[0] & NEEDS_CHECKSUM == 0 {
            return None;
        }
        let mut network = VNET_HEADER_BYTES + ETHERNET_BYTES;
        let ethertype = |network: usize| frame.get(network - 2..network);
        while ETHERTYPES_OF_TAGS
            .iter()
            .any(|tag| ethertype(network) == Some(tag))
        {
            network += TAG_BYTES;
        }
        let is_v4 = ethertype(network)? == ETHERTYPE_IPV4;
        if !is_v4 && ethertype(network)? != ETHERTYPE_IPV6 {
            return None;
        }
        let (protocol, network_bytes) = match is_v4 {
            true => (
                *frame.get(network + 9)?,
                usize::from(frame[network] & 0xf) * 4,
            ),
            false => (*frame.get(network + 6)?, IPV6_BYTES),
        };
        let transport = network + network_bytes;
        let transport_bytes = match (protocol, kind) {
            (TCP, GSO_TCPV4 | GSO_TCPV6) => usize::from(*frame.get(transport + 12)? >> 4) * 4,
            (UDP, GSO_UDP_L4) => UDP_BYTES,
            _ => return None,
        };
        let is_short = is_v4 && network_bytes < IPV4_LEAST_BYTES
            || protocol == TCP && transport_bytes < TCP_LEAST_BYTES;
        if is_short {
            return None;
        }
        let payload = transport + transport_bytes;
        (payload < frame.len()).then_some(Self {
            is_v4,
            protocol,
            network,
            transport,
            payload,
            end: frame.len(),
            segment_bytes,
        })
    }

    pub fn segment_count(&self) -> usize {
        (self.end - self.payload).div_ceil(self.segment_bytes)
    }

    /// A frame of these segments alone.
    pub fn extract(&self, frame: &[u8], segments: std::ops::Range<usize>) -> Vec<u8> {
        let from = self.payload + segments.start * self.segment_bytes;
        let to = (self.payload + segments.end * self.segment_bytes).min(self.end);
        let mut cut = Vec::with_capacity(self.payload + to - from);
        cut.extend_from_slice(&frame[..self.payload]);
        cut.extend_from_slice(&frame[from..to]);
        if segments.len() == 1 {
            // Neither kind nor size of segments.
            cut[1] = GSO_NONE;
            cut[4..6].fill(0);
        }
        // How much stood in one piece may be the whole frame (virtio_net_hdr_from_skb). A tap refuses one that is shorter
        // than that (tun_get_user).
        let headers = (self.payload - VNET_HEADER_BYTES) as u16;
        cut[2..4].copy_from_slice(&headers.to_ne_bytes());
        self.write_lengths(&mut cut, segments.start as u16);
        if self.protocol == TCP {
            let is_last = to == self.end;
            self.write_tcp(
                &mut cut,
                (from - self.payload) as u32,
                segments.start == 0,
                is_last,
            );
        }
        self.write_checksum(&mut cut);
        cut
    }

    fn write_lengths(&self, cut: &mut [u8], number: u16) {
        let [of_network, of_transport] =
            [self.network, self.transport].map(|start| ((cut.len() - start) as u16).to_be_bytes());
        if self.protocol == UDP {
            cut[self.transport + 4..][..2].copy_from_slice(&of_transport);
        }
        if !self.is_v4 {
            let behind = ((cut.len() - self.network - IPV6_BYTES) as u16).to_be_bytes();
            cut[self.network + 4..][..2].copy_from_slice(&behind);
            return;
        }
        let header = &mut cut[self.network..self.transport];
        header[2..4].copy_from_slice(&of_network);
        let id = u16::from_be_bytes([header[4], header[5]]).wrapping_add(number);
        header[4..6].copy_from_slice(&id.to_be_bytes());
        header[10..12].fill(0);
        let sum = !fold_checksum(sum_words(header));
        header[10..12].copy_from_slice(&sum.to_be_bytes());
    }

    fn write_tcp(&self, cut: &mut [u8], offset: u32, is_first: bool, is_last: bool) {
        let header = &mut cut[self.transport..self.payload];
        let sequence = u32::from_be_bytes([header[4], header[5], header[6], header[7]]);
        header[4..8].copy_from_slice(&sequence.wrapping_add(offset).to_be_bytes());
        if !is_first {
            header[13] &= !CWR;
        }
        if !is_last {
            header[13] &= !(FIN | PSH);
        }
    }

    /// Of the pseudo-header alone, as it is where the rest is still to be summed up (VIRTIO_NET_HDR_F_NEEDS_CSUM).
    fn write_checksum(&self, cut: &mut [u8]) {
        let addresses = match self.is_v4 {
            true => self.network + 12..self.network + 20,
            false => self.network + 8..self.network + 40,
        };
        let length = (cut.len() - self.transport) as u32;
        let sum = fold_checksum(sum_words(&cut[addresses]) + length + u32::from(self.protocol));
        let place = self.transport + if self.protocol == TCP { 16 } else { 6 };
        cut[place..][..2].copy_from_slice(&sum.to_be_bytes());
    }
}

/// Of 16-bit words; `bytes` are even, and so few that 32 bits hold it.
fn sum_words(bytes: &[u8]) -> u32 {
    let words = bytes.chunks_exact(2);
    words
        .map(|word| u32::from(u16::from_be_bytes([word[0], word[1]])))
        .sum()
}

/// RFC 1071.
fn fold_checksum(mut sum: u32) -> u16 {
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    sum as u16
}

#[cfg(test)]
pub mod tests {
    use super::*;

    const SEGMENT: usize = 1000;
    const SEQUENCE: u32 = u32::MAX - 1500;

    /// TCP over IPv4 or IPv6 with so many tags, of two whole segments and a part of one.
    pub fn tcp(is_v4: bool, tags: usize) -> Vec<u8> {
        let mut frame = vec![1, if is_v4 { GSO_TCPV4 } else { GSO_TCPV6 } | GSO_ECN, 0, 0];
        frame.extend((SEGMENT as u16).to_ne_bytes());
        frame.extend([0; 4]);
        frame.extend([2; 12]);
        for tag in 0..tags {
            frame.extend(ETHERTYPES_OF_TAGS[1 - tag]);
            frame.extend([0, 7]);
        }
        if is_v4 {
            frame.extend(ETHERTYPE_IPV4);
            frame.extend([0x45, 0, 0, 0, 0xff, 0xff, 0x40, 0, 64, TCP, 0, 0]);
            frame.extend([10, 77, 1, 1, 10, 77, 2, 1]);
        } else {
            frame.extend(ETHERTYPE_IPV6);
            frame.extend([0x60, 0, 0, 0, 0, 0, TCP, 64]);
            frame.extend([0xfd; 32]);
        }
        frame.extend([0x12, 0x34, 0x56, 0x78]);
        frame.extend(SEQUENCE.to_be_bytes());
        frame.extend([0, 0, 0, 1, 0x80, FIN | PSH | CWR | 0x10, 1, 0, 0, 0, 0, 0]);
        frame.extend([1; 12]);
        frame.extend((0..2300).map(|at| (at / SEGMENT) as u8));
        frame
    }

    #[test]
    fn the_segments_of_a_frame_are_found_behind_tags_and_both_versions_of_ip() {
        for (is_v4, tags) in [(true, 0), (true, 2), (false, 0), (false, 1)] {
            let layout = SegmentLayout::parse(&tcp(is_v4, tags)).expect("several segments");
            assert_eq!(layout.segment_count(), 3);
        }
    }

    #[test]
    fn a_cut_segment_is_what_tcp_would_have_sent() {
        for is_v4 in [true, false] {
            let whole = tcp(is_v4, 0);
            let layout = SegmentLayout::parse(&whole).expect("several segments");
            for (number, bytes) in [(0, SEGMENT), (1, SEGMENT), (2, 300)] {
                let cut = layout.extract(&whole, number..number + 1);
                let (header, payload) = cut.split_at(layout.payload);
                assert_eq!(payload, vec![number as u8; bytes]);
                assert_eq!((header[1], &header[4..6]), (GSO_NONE, &[0, 0][..]));
                let tcp = &header[layout.transport..];
                let sequence = u32::from_be_bytes(tcp[4..8].try_into().expect("four bytes"));
                assert_eq!(sequence, SEQUENCE.wrapping_add((number * SEGMENT) as u32));
                assert_eq!(tcp[13] & CWR != 0, number == 0);
                assert_eq!(tcp[13] & (FIN | PSH) != 0, number == 2);
                let json = usize::from(u16::from_be_bytes(match is_v4 {
                    true => [header[layout.network + 2], header[layout.network + 3]],
                    false => [header[layout.network + 4], header[layout.network + 5]],
                }));
                let from = if is_v4 {
                    layout.network
                } else {
                    layout.transport
                };
                assert_eq!(json, cut.len() - from);
            }
        }
    }

    #[test]
    fn what_is_cut_asks_for_no_more_in_one_piece_than_its_headers() {
        let mut whole = tcp(true, 1);
        let all = (whole.len() - VNET_HEADER_BYTES) as u16;
        whole[2..4].copy_from_slice(&all.to_ne_bytes());
        let layout = SegmentLayout::parse(&whole).expect("several segments");
        for segments in [0..1, 0..2, 2..3] {
            let cut = layout.extract(&whole, segments);
            let piece = usize::from(u16::from_ne_bytes([cut[2], cut[3]]));
            assert_eq!(piece, ETHERNET_BYTES + TAG_BYTES + 20 + 32);
        }
    }

    #[test]
    fn checksums_are_right_for_what_is_left() {
        let whole = tcp(true, 1);
        let layout = SegmentLayout::parse(&whole).expect("several segments");
        let cut = layout.extract(&whole, 1..3);
        assert_eq!(
            fold_checksum(sum_words(&cut[layout.network..layout.transport])),
            0xffff
        );
        assert_eq!(
            cut[layout.network + 4..][..2],
            [0, 0],
            "the id goes on from 65535"
        );
        let length = (cut.len() - layout.transport) as u32;
        let addresses = sum_words(&cut[layout.network + 12..][..8]);
        let json = u16::from_be_bytes([cut[layout.transport + 16], cut[layout.transport + 17]]);
        assert_eq!(json, fold_checksum(addresses + length + u32::from(TCP)));
        assert_eq!(
            SegmentLayout::parse(&cut)
                .expect("two segments")
                .segment_count(),
            2
        );
    }

    #[test]
    fn what_is_one_segment_or_not_understood_is_left_whole() {
        let mut single = tcp(true, 0);
        single[1] = GSO_NONE;
        let mut short = tcp(true, 0);
        short.truncate(VNET_HEADER_BYTES + 40);
        let mut other = tcp(true, 0);
        other[VNET_HEADER_BYTES + ETHERNET_BYTES + 9] = 47;
        for frame in [single, short, other, Vec::new()] {
            assert_eq!(SegmentLayout::parse(&frame), None);
        }
    }

    #[test]
    fn headers_that_are_shorter_than_can_be_are_left_whole() {
        let of_ip = VNET_HEADER_BYTES + ETHERNET_BYTES;
        let of_tcp = of_ip + 20 + 12;
        for (at, odd) in [(of_ip, 0x40), (of_ip, 0x44), (of_tcp, 0x00), (of_tcp, 0x40)] {
            let mut frame = tcp(true, 0);
            frame[at] = odd;
            assert_eq!(SegmentLayout::parse(&frame), None, "{odd:#x} at {at}");
        }
    }

    #[test]
    fn a_frame_whose_checksum_is_not_still_to_be_made_is_left_whole() {
        let mut summed = tcp(true, 0);
        summed[0] = 0;
        assert_eq!(SegmentLayout::parse(&summed), None);
    }
}
