//! Fuzz test of the parsers with thousands of mutated messages (`make fuzz`: a million).
//!
//! Decoders must return the same messages for any split of the bytes, buffer no more than their limits, and yield only
//! values in range.

use std::time::Duration;

use serde_json::{Value, json};

use crate::limits::{
    MAX_BLOCK_BYTES, MAX_BUFFER_BYTES, MAX_BURST, MAX_DURATION_S, MAX_OMIT_S, MAX_STREAMS,
};
use crate::parameters::{Direction, TestParameters};
use crate::random::Random;
use crate::results::{StreamResult, TestResults};
use crate::states::{ErrorCode, State};
use crate::udp::{
    DatagramCounters, DatagramHeader, DatagramReceiver, HEADER_BYTES_64BIT, connect_reply,
};
use crate::wire::{
    ClientMessage, ClientMessageDecoder, MAX_CLIENT_RESULTS_BYTES, MAX_SERVER_RESULTS_BYTES,
    ServerMessage, ServerMessageDecoder, encode_document, encode_server_error,
};

const SEED: u64 = 20_261_121;
/// Number of inputs under `cargo test`; `make fuzz` sets a larger number with the variable.
const INPUTS: usize = 20_000;
const INPUTS_VARIABLE: &str = "VNETBENCH_FUZZ_INPUTS";

fn sample_parameters() -> [Value; 4] {
    let plain = TestParameters::default();
    let many = TestParameters {
        direction: Direction::Bidirectional,
        streams_per_direction: MAX_STREAMS,
        socket_buffer_bytes: Some(1 << 20),
        mss: Some(1_400),
        congestion_control: Some("cubic".into()),
        ..plain.clone()
    };
    [
        plain.to_json(),
        many.to_json(),
        json!({"udp": true, "omit": 1, "time": 3, "num": 0, "parallel": 2, "len": 1448, "bandwidth": 1_048_576,
               "burst": 10, "TOS": 16, "udp_counters_64bit": 1, "server_affinity": 2, "title": "t"}),
        json!({"sctp": true, "reverse": true, "zerocopy": 1, "fqrate": 5, "flowlabel": 3, "authtoken": "x"}),
    ]
}

fn results() -> Value {
    let stream = |id| StreamResult {
        id,
        bytes: 1 << 40,
        datagrams: 9,
        lost_datagrams: 2,
        duration_s: 1.5,
        ..StreamResult::default()
    };
    let results = TestResults {
        streams: [1, 3, 4].map(stream).to_vec(),
        server_text: Some("text".into()),
        ..TestResults::default()
    };
    results.to_json(1)
}

/// Returns all messages of a client after its parameters.
fn client_bytes() -> Vec<u8> {
    [
        &[State::TestEnd.byte()],
        &encode_document(&results())[..],
        &[State::Done.byte()],
    ]
    .concat()
}

fn server_bytes(random: &mut Random) -> Vec<u8> {
    let mut bytes = vec![9, 10, 1, 2, 13];
    bytes.extend(encode_document(&results()));
    bytes.push(State::DisplayResults.byte());
    if random.below(4) == 0 {
        bytes.truncate(random.below(6));
        bytes.extend(encode_server_error(ErrorCode::Congestion, 2));
    }
    bytes
}

const SPECIAL_BYTES: [&[u8]; 16] = [
    b"null",
    b"-1",
    b"1e308",
    b"1e999",
    b"0.5",
    b"[]",
    b"{}",
    b"true",
    b"18446744073709551615",
    b"99999999999999999999",
    b"\\ud800",
    b"\xff\xff\xff\xff",
    b"\0\0\0\0",
    b"\0\0\0\x01",
    b"\xfe",
    b"\x0c",
];

fn mutate(bytes: &mut Vec<u8>, random: &mut Random) {
    if bytes.is_empty() {
        bytes.push(random.below(256) as u8);
    }
    let at = random.below(bytes.len());
    let end = (at + 1 + random.below(12)).min(bytes.len());
    match random.below(6) {
        0 => bytes[at] = random.below(256) as u8,
        1 => bytes[at] ^= 1 << random.below(8),
        2 => drop(bytes.drain(at..end)),
        3 => {
            let copy = bytes[at..end].to_vec();
            bytes.splice(at..at, copy);
        }
        4 => drop(
            bytes.splice(
                at..end,
                SPECIAL_BYTES[random.below(SPECIAL_BYTES.len())]
                    .iter()
                    .copied(),
            ),
        ),
        _ => bytes.truncate(at),
    }
}

fn pieces<'a>(mut bytes: &'a [u8], random: &mut Random) -> Vec<&'a [u8]> {
    let mut pieces = Vec::new();
    while !bytes.is_empty() {
        let (piece, rest) = bytes.split_at(1 + random.below(bytes.len().min(64)));
        pieces.push(piece);
        bytes = rest;
    }
    pieces
}

/// Returns the messages decoded from the pieces before the first error, and whether there was an error.
fn feed_pieces<T>(
    pieces: &[&[u8]],
    mut feed: impl FnMut(&[u8]) -> Option<Vec<T>>,
) -> (Vec<T>, bool) {
    let mut messages = Vec::new();
    for piece in pieces {
        match feed(piece) {
            Some(decoded) => messages.extend(decoded),
            None => return (messages, true),
        }
    }
    (messages, false)
}

/// Checks that a decoder returns the same messages for any split of the bytes; returns the messages.
///
/// `decode_pieces` feeds the pieces to a new decoder; it returns the messages and whether there was an error.
fn check_pieces<T: PartialEq>(
    bytes: &[u8],
    random: &mut Random,
    decode_pieces: impl Fn(&[&[u8]]) -> (Vec<T>, bool),
) -> Vec<T> {
    let (messages, has_error) = decode_pieces(&pieces(bytes, random));
    let single: Vec<&[u8]> = bytes.chunks(1).collect();
    // An error hides the messages before it in the same piece.
    let (one_by_one, has_error_in_bytes) = decode_pieces(&single);
    assert_eq!(has_error, has_error_in_bytes, "{bytes:?}");
    assert!(one_by_one.starts_with(&messages), "{bytes:?}");
    one_by_one
}

fn check_client_messages(bytes: &[u8], random: &mut Random) {
    let one_by_one = check_pieces(bytes, random, |pieces| {
        let mut decoder = ClientMessageDecoder::new();
        decoder
            .feed(&encode_document(&json!({})))
            .expect("the parameters are valid");
        decoder.allow_test_end();
        feed_pieces(pieces, |piece| {
            let messages = decoder.feed(piece).ok();
            assert!(decoder.buffered_bytes() <= MAX_CLIENT_RESULTS_BYTES + 4);
            messages
        })
    });
    let position = |message: &ClientMessage| match message {
        ClientMessage::Parameters(_) => 0,
        ClientMessage::TestEnd => 1,
        ClientMessage::Results(_) => 2,
        ClientMessage::Done => 3,
        ClientMessage::Terminated => 4,
    };
    assert!(one_by_one.iter().map(position).is_sorted());
    for message in one_by_one {
        if let ClientMessage::Results(document) = message {
            check_results(&document);
        }
    }
}

fn check_server_messages(bytes: &[u8], random: &mut Random) {
    let one_by_one = check_pieces(bytes, random, |pieces| {
        let mut decoder = ServerMessageDecoder::new();
        feed_pieces(pieces, |piece| {
            let messages = decoder.feed(piece).ok();
            assert!(decoder.buffered_bytes() <= MAX_SERVER_RESULTS_BYTES + 4);
            messages
        })
    });
    for message in one_by_one {
        if let ServerMessage::Results(document) = message {
            check_results(&document);
        }
    }
}

fn check_results(document: &Value) {
    if let Ok(results) = TestResults::from_json(document) {
        assert!(results.streams.len() <= 2 * MAX_STREAMS);
        assert!(
            results
                .streams
                .iter()
                .all(|stream| stream.duration_s >= 0.0 && stream.jitter_s >= 0.0)
        );
    }
}

/// Returns whether the parser accepts the parameters.
fn check_parameters(bytes: &[u8]) -> bool {
    let mut decoder = ClientMessageDecoder::new();
    let messages = decoder.feed(bytes);
    let Ok([ClientMessage::Parameters(document), ..]) = messages.as_deref() else {
        return false;
    };
    let Ok(parameters) = TestParameters::from_json(document) else {
        return false;
    };
    assert!((1..=MAX_STREAMS).contains(&parameters.streams_per_direction));
    assert!((1..=MAX_BLOCK_BYTES).contains(&parameters.block_bytes));
    assert!(!parameters.is_udp() || parameters.block_bytes >= HEADER_BYTES_64BIT);
    assert!(parameters.burst <= MAX_BURST && parameters.tos <= 255);
    assert!(
        parameters
            .socket_buffer_bytes
            .is_none_or(|bytes| bytes <= MAX_BUFFER_BYTES)
    );
    assert!(parameters.omit <= Duration::from_secs_f64(MAX_OMIT_S));
    if let crate::limits::EndCondition::After(time) = parameters.end_condition {
        assert!(time <= Duration::from_secs_f64(MAX_DURATION_S));
    }
    true
}

fn check_datagrams(bytes: &[u8]) {
    let (mut receiver, datagrams) = (DatagramReceiver::default(), DatagramCounters::default());
    for datagram in bytes.chunks(13) {
        let is_64bit = datagram.len() % 2 == 0;
        if let Some(header) = DatagramHeader::read(is_64bit, datagram) {
            receiver.record(header, Duration::from_secs(1), &datagrams);
        }
        assert!(connect_reply(datagram).is_none() || datagram.len() == 4);
    }
    let count = datagrams.totals();
    assert!(count.lost >= 0 && count.jitter_s >= 0.0);
}

#[test]
fn mutated_messages_decode_the_same_in_any_pieces_and_stay_within_their_limits() {
    let inputs = std::env::var(INPUTS_VARIABLE)
        .map_or(INPUTS, |count| count.parse().expect("a number of inputs"));
    let mut random = Random(SEED);
    let parameters = sample_parameters();
    let mut accepted_count = 0;
    for number in 0..inputs {
        let mut bytes = match number % 3 {
            0 => encode_document(&parameters[random.below(parameters.len())]),
            1 => client_bytes(),
            _ => server_bytes(&mut random),
        };
        for _ in 0..random.below(4) {
            mutate(&mut bytes, &mut random);
        }
        match number % 3 {
            0 => accepted_count += usize::from(check_parameters(&bytes)),
            1 => check_client_messages(&bytes, &mut random),
            _ => check_server_messages(&bytes, &mut random),
        }
        check_datagrams(&bytes);
    }
    // Enough mutants are valid, so that the checks of values run.
    assert!(accepted_count > inputs / 20, "{accepted_count} of {inputs}");
}
