//! Properties of the parsers, tested with thousands of mutated messages (`make fuzz`: for a settable time).
//!
//! No parser panics. Decoders must return the same messages for any split of the bytes, buffer no more than their limits, and yield only
//! values in range.

use std::cell::Cell;
use std::time::Duration;

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;
use serde_json::{Value, json};
use vnetbench_mutations::{any_mutations, check_mutants};

use crate::client_messages::{ClientControlMessage, ClientMessageDecoder};
use crate::limits::{
    MAX_BLOCK_BYTES, MAX_BURST_BLOCKS, MAX_DURATION_S, MAX_OMIT_S, MAX_STREAMS_PER_DIRECTION,
    MAX_WINDOW_BYTES,
};
use crate::parameters::{Direction, TestParameters};
use crate::results::{RetransmitReporting, StreamResult, TestResults};
use crate::server_messages::{ServerControlMessage, ServerMessageDecoder};
use crate::states::{ErrorCode, State};
use crate::udp::{
    DatagramCounters, DatagramHeader, DatagramReceiver, HEADER_BYTES_64BIT, find_connect_reply,
};
use crate::wire::{
    MAX_CLIENT_RESULTS_BYTES, MAX_SERVER_RESULTS_BYTES, encode_document, encode_server_error,
};

fn sample_parameters() -> [Value; 4] {
    let plain = TestParameters::default();
    let many = TestParameters {
        direction: Direction::Bidirectional,
        streams_per_direction: MAX_STREAMS_PER_DIRECTION,
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

fn sample_results() -> Value {
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
    results.to_json(RetransmitReporting::Counted)
}

/// Returns all messages of a client after its parameters.
fn build_client_bytes() -> Vec<u8> {
    [
        &[State::TestEnd.byte()],
        &encode_document(&sample_results())[..],
        &[State::Done.byte()],
    ]
    .concat()
}

/// Returns the messages of a server; with `error_after_bytes`, an error follows after this number of bytes.
fn build_server_bytes(error_after_bytes: Option<usize>) -> Vec<u8> {
    let mut bytes = vec![9, 10, 1, 2, 13];
    bytes.extend(encode_document(&sample_results()));
    bytes.push(State::DisplayResults.byte());
    if let Some(at) = error_after_bytes {
        bytes.truncate(at);
        bytes.extend(encode_server_error(ErrorCode::Congestion, 2));
    }
    bytes
}

/// The messages that were mutated.
#[derive(Debug, Clone, Copy)]
enum MutatedMessageSet {
    /// A client's parameters.
    Parameters,
    /// All messages of a client after its parameters.
    Client,
    /// All messages of a server.
    Server,
}

/// Generates valid messages with their source.
fn valid_messages() -> impl Strategy<Value = (MutatedMessageSet, Vec<u8>)> {
    let parameters = sample_parameters().map(|document| encode_document(&document));
    prop_oneof![
        select(parameters.to_vec()).prop_map(|bytes| (MutatedMessageSet::Parameters, bytes)),
        Just((MutatedMessageSet::Client, build_client_bytes())),
        prop_oneof![3 => Just(None), 1 => (0..6_usize).prop_map(Some)]
            .prop_map(|at| (MutatedMessageSet::Server, build_server_bytes(at))),
    ]
}

/// A mutant of valid messages, and the lengths of the pieces that a decoder gets.
#[derive(Debug, Clone)]
struct MutatedMessages {
    source: MutatedMessageSet,
    bytes: Vec<u8>,
    piece_lengths: Vec<usize>,
}

/// Generates mutants of valid messages; a fourth of them stay valid.
fn any_mutated_messages() -> impl Strategy<Value = MutatedMessages> {
    let piece_lengths = vec(1..65_usize, 1..16);
    (valid_messages(), any_mutations(), piece_lengths).prop_map(
        |((source, mut bytes), mutations, piece_lengths)| {
            mutations.apply(&mut bytes);
            MutatedMessages {
                source,
                bytes,
                piece_lengths,
            }
        },
    )
}

/// Splits the bytes into pieces of these lengths, repeated.
fn split_into_pieces<'a>(mut bytes: &'a [u8], lengths: &[usize]) -> Vec<&'a [u8]> {
    let mut pieces = Vec::new();
    for length in lengths.iter().cycle() {
        if bytes.is_empty() {
            break;
        }
        let (piece, rest) = bytes.split_at((*length).min(bytes.len()));
        pieces.push(piece);
        bytes = rest;
    }
    pieces
}

/// Returns the messages decoded from the pieces before the first error, and whether there was an error.
fn feed_pieces_and_detect_error<T>(
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
    piece_lengths: &[usize],
    decode_pieces: impl Fn(&[&[u8]]) -> (Vec<T>, bool),
) -> Vec<T> {
    let (messages, has_error) = decode_pieces(&split_into_pieces(bytes, piece_lengths));
    let single: Vec<&[u8]> = bytes.chunks(1).collect();
    // An error hides the messages before it in the same piece.
    let (one_by_one, has_error_in_bytes) = decode_pieces(&single);
    assert_eq!(has_error, has_error_in_bytes, "{bytes:?}");
    assert!(one_by_one.starts_with(&messages), "{bytes:?}");
    one_by_one
}

fn check_client_messages(bytes: &[u8], piece_lengths: &[usize]) {
    let one_by_one = check_pieces(bytes, piece_lengths, |pieces| {
        let mut decoder = ClientMessageDecoder::new();
        decoder
            .feed(&encode_document(&json!({})))
            .expect("the parameters are valid");
        decoder.allow_test_end();
        feed_pieces_and_detect_error(pieces, |piece| {
            let messages = decoder.feed(piece).ok();
            assert!(decoder.buffered_bytes() <= MAX_CLIENT_RESULTS_BYTES + 4);
            messages
        })
    });
    let position = |message: &ClientControlMessage| match message {
        ClientControlMessage::Parameters(_) => 0,
        ClientControlMessage::TestEnd => 1,
        ClientControlMessage::Results(_) => 2,
        ClientControlMessage::Done => 3,
        ClientControlMessage::Terminated => 4,
    };
    assert!(one_by_one.iter().map(position).is_sorted());
    for message in one_by_one {
        if let ClientControlMessage::Results(document) = message {
            check_results(&document);
        }
    }
}

fn check_server_messages(bytes: &[u8], piece_lengths: &[usize]) {
    let one_by_one = check_pieces(bytes, piece_lengths, |pieces| {
        let mut decoder = ServerMessageDecoder::new();
        feed_pieces_and_detect_error(pieces, |piece| {
            let messages = decoder.feed(piece).ok();
            assert!(decoder.buffered_bytes() <= MAX_SERVER_RESULTS_BYTES + 4);
            messages
        })
    });
    for message in one_by_one {
        if let ServerControlMessage::Results(document) = message {
            check_results(&document);
        }
    }
}

fn check_results(document: &Value) {
    if let Ok(results) = TestResults::from_json(document) {
        assert!(results.streams.len() <= 2 * MAX_STREAMS_PER_DIRECTION);
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
    let Ok([ClientControlMessage::Parameters(document), ..]) = messages.as_deref() else {
        return false;
    };
    let Ok(parameters) = TestParameters::from_json(document) else {
        return false;
    };
    assert!((1..=MAX_STREAMS_PER_DIRECTION).contains(&parameters.streams_per_direction));
    assert!((1..=MAX_BLOCK_BYTES).contains(&parameters.block_bytes));
    assert!(!parameters.is_udp() || parameters.block_bytes >= HEADER_BYTES_64BIT);
    assert!(parameters.burst <= MAX_BURST_BLOCKS && parameters.tos <= 255);
    assert!(
        parameters
            .socket_buffer_bytes
            .is_none_or(|bytes| bytes <= MAX_WINDOW_BYTES)
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
        assert!(find_connect_reply(datagram).is_none() || datagram.len() == 4);
    }
    let count = datagrams.totals();
    assert!(count.lost >= 0 && count.jitter_s >= 0.0);
}

#[test]
fn mutated_messages_decode_the_same_in_any_pieces_and_stay_within_their_limits() {
    let (accepted_count, case_count) = (Cell::new(0), Cell::new(0));
    check_mutants(
        &any_mutated_messages(),
        |MutatedMessages {
             source,
             bytes,
             piece_lengths,
         }| {
            match source {
                MutatedMessageSet::Parameters => {
                    accepted_count.set(accepted_count.get() + u32::from(check_parameters(&bytes)));
                }
                MutatedMessageSet::Client => check_client_messages(&bytes, &piece_lengths),
                MutatedMessageSet::Server => check_server_messages(&bytes, &piece_lengths),
            }
            check_datagrams(&bytes);
            case_count.set(case_count.get() + 1);
        },
    );
    // Enough mutants are valid, so that the checks of values run.
    let (accepted, cases) = (accepted_count.get(), case_count.get());
    assert!(accepted > cases / 20, "{accepted} of {cases}");
}
