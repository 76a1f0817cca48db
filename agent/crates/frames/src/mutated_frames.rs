//! Properties of the parsers of frames, tested with mutated frames.
//!
//! No parser panics. A payload is a part of its frame, and the description of a frame that anybody may send has neither
//! control characters nor any length.

use vnetbench_mutations::{any_mutant_of, check_mutants};
use vnetbench_streams::datagram_header::{DatagramHeader, HEADER_BYTES};

use crate::foreign::{EXAMPLE_BYTES, ForeignFrames};
use crate::frame_class::{
    ForeignFrameClass, belongs_to_other_trial, find_udp_payload,
    tests::{frame, ipv4_udp_packet},
};

/// The longest description: two IPv6 addresses with the longest name of a protocol.
const MAX_EXPECTED_EXAMPLE_BYTES: usize = 160;

fn ipv6_udp_packet() -> Vec<u8> {
    let mut packet = vec![0; 48];
    packet[0] = 0x60;
    packet[6] = 17;
    packet[8..40].fill(0x20);
    packet.extend([7; HEADER_BYTES]);
    packet
}

/// Returns frames of every kind that the parsers know.
fn sample_frames() -> Vec<Vec<u8>> {
    let ipv4 = [&[8, 0][..], &ipv4_udp_packet([0x40, 0])].concat();
    let ipv6 = [&[0x86, 0xdd][..], &ipv6_udp_packet()].concat();
    let arp = [&[8, 6, 0, 1, 8, 0, 6, 4, 0, 1][..], &[9; 20]].concat();
    let tagged = [&[0x81, 0, 0, 5][..], &ipv4].concat();
    let twice_tagged = [&[0x88, 0xa8, 0, 6, 0x81, 0, 0, 5][..], &ipv6].concat();
    let lldp = [&[0x88, 0xcc][..], &[2; 46]].concat();
    let spanning_tree = [&[0, 38, 0x42, 0x42, 3][..], &[0; 43]].concat();
    [ipv4, ipv6, arp, tagged, twice_tagged, lldp, spanning_tree]
        .map(|rest| frame(&rest))
        .to_vec()
}

#[test]
fn mutated_frames_have_a_payload_of_their_own_or_a_class() {
    check_mutants(
        &any_mutant_of(sample_frames()),
        |frame| match find_udp_payload(&frame) {
            Ok(payload) => {
                assert!(frame.ends_with(payload.bytes));
                assert!((HEADER_BYTES..frame.len()).contains(&payload.bytes.len()));
                let header = DatagramHeader::read(payload.bytes).expect("a payload has a header");
                for now in [0, header.sent_nanos, u64::MAX] {
                    belongs_to_other_trial(header, now);
                }
            }
            Err(class) => {
                assert!(ForeignFrameClass::OTHER_SENDER_CLASSES.contains(&class));
            }
        },
    );
}

#[test]
fn mutated_frames_are_described_in_a_short_printable_line() {
    check_mutants(&any_mutant_of(sample_frames()), |frame| {
        let class = find_udp_payload(&frame).map_or_else(|class| class, |payload| payload.ip_class);
        let mut foreign = ForeignFrames::default();
        foreign.add(class, 2, &frame[..frame.len().min(EXAMPLE_BYTES)]);
        let counts = foreign.since(&ForeignFrames::default());
        assert_eq!(counts.other_senders, 2);
        let example = counts.example.expect("an example");
        assert!(!example.chars().any(char::is_control), "{example:?}");
        assert!(example.len() <= MAX_EXPECTED_EXAMPLE_BYTES, "{example:?}");
    });
}
