//! `arrival_gaps` of `tcp_stream`: stalls that a relay makes, with lengths known from its clock and from the bytes.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::endpoints::{Pair, connecting, listening};

/// How long the relay holds everything back.
const STALL: Duration = Duration::from_millis(20);
const MESSAGE_BYTES: u64 = 100;
const RATE_PER_S: u64 = 10_000;
/// Messages between two stalls, at least.
const MESSAGES_BETWEEN_STALLS: u64 = 1000;
/// Bytes that identify a stream's connection, before the first message.
const HANDSHAKE_BYTES: u64 = 32;
/// The resolution that docs/protocol.md states.
const RESOLUTION_NS: u64 = 200_000;

/// A stall, by the bytes and the clock of the relay.
#[derive(Debug, Clone, Copy)]
struct RelayStall {
    messages_before: u64,
    length: Duration,
}

fn request() -> Value {
    json!({"message_bytes": MESSAGE_BYTES, "rate_per_s": RATE_PER_S, "arrival_gaps": true})
}

/// Relays one connection to this port, with stalls. Returns its own port, and where the stalls arrive at the end.
fn start_relay(sink_port: &Value) -> (Value, Receiver<Vec<RelayStall>>) {
    let to = ("127.0.0.1", sink_port.as_u64().expect("a port") as u16);
    let sink = TcpStream::connect(to).expect("the sink listens");
    sink.set_nodelay(true).expect("a TCP socket");
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let port = json!(listener.local_addr().expect("bound").port());
    let (sender, stalls) = channel();
    std::thread::spawn(move || {
        let (source, _) = listener.accept().expect("the source connects");
        let back = (
            sink.try_clone().expect("open"),
            source.try_clone().expect("open"),
        );
        std::thread::spawn(move || {
            let (mut from, mut to) = back;
            // Ends with the connection.
            let _ = std::io::copy(&mut from, &mut to);
            let _ = to.shutdown(std::net::Shutdown::Write);
        });
        // Fails only after the test has ended.
        let _ = sender.send(relay_with_stalls(source, sink));
    });
    (port, stalls)
}

fn relay_with_stalls(mut source: TcpStream, mut sink: TcpStream) -> Vec<RelayStall> {
    let (mut stalls, mut forwarded, mut next_stall) = (Vec::new(), 0, MESSAGES_BETWEEN_STALLS);
    let mut stalled: Option<(u64, Instant)> = None;
    let mut buffer = [0; 1 << 16];
    while let Ok(count @ 1..) = source.read(&mut buffer) {
        if let Some((messages_before, since)) = stalled.take() {
            stalls.push(RelayStall {
                messages_before,
                length: since.elapsed(),
            });
        }
        sink.write_all(&buffer[..count]).expect("the sink reads");
        forwarded += count as u64;
        let messages = forwarded.saturating_sub(HANDSHAKE_BYTES) / MESSAGE_BYTES;
        if messages >= next_stall {
            stalled = Some((messages, Instant::now()));
            next_stall = messages + MESSAGES_BETWEEN_STALLS;
            std::thread::sleep(STALL);
        }
    }
    let _ = sink.shutdown(std::net::Shutdown::Write);
    stalls
}

/// Returns a whole number of an object.
fn count(object: &Value, name: &str) -> u64 {
    object[name]
        .as_u64()
        .unwrap_or_else(|| panic!("{name}: {object}"))
}

#[test]
fn a_stall_of_known_length_is_measured_and_no_message_is_missing() {
    let mut pair = Pair::start();
    let listen = listening("t", &["sink"], &request());
    let port = pair.b.expect_result("trial.prepare", listen)["port"].take();
    let (relay_port, stalls) = start_relay(&port);
    let connect = connecting("t", &["source"], &relay_port, &request());
    let prepared = pair.a.expect_result("trial.prepare", connect);
    assert_eq!(prepared["streams"][0]["no_delay"], true, "{prepared}");
    pair.b.expect_result("trial.ready", json!({"trial": "t"}));
    let [(_, source), (_, sink)] = pair.run("t", 1.2);
    let stalls = stalls.recv().expect("the relay ends");
    assert!(!stalls.is_empty(), "{source}");
    let stream = &sink["streams"][0];
    let arrivals = &stream["arrivals"];
    let counts = arrivals["counts"]["datagrams"].as_array().expect("a list");
    let arrived: u64 = counts.iter().filter_map(Value::as_u64).sum();
    assert_eq!(arrived, count(stream, "bytes") / MESSAGE_BYTES, "{stream}");
    assert_eq!(count(arrivals, "last_number") + 1, arrived);
    let gaps = arrivals["gaps"].as_array().expect("a list");
    let mut errors_ns = Vec::new();
    for stall in &stalls {
        let gap = gaps
            .iter()
            .find(|gap| count(gap, "number_before") + 1 == stall.messages_before)
            .unwrap_or_else(|| panic!("no gap after {stall:?}: {arrivals}"));
        assert_eq!(count(gap, "number_after"), stall.messages_before, "{gap}");
        errors_ns.push(count(gap, "length_ns").abs_diff(stall.length.as_nanos() as u64));
    }
    // A sink that waits for a CPU reads late, but not at every stall.
    let least_error_ns = errors_ns.iter().min().expect("stalls");
    assert!(*least_error_ns <= RESOLUTION_NS, "{errors_ns:?}");
    // The source sent on during the stalls: the messages around a gap left together.
    let paused = |gap: &&Value| 2 * count(gap, "sent_apart_ns") >= count(gap, "length_ns");
    let held = gaps.iter().take(stalls.len()).filter(|gap| !paused(gap));
    assert!(held.count() > 0, "{gaps:?}");
    assert!(source["streams"][0].get("arrivals").is_none(), "{source}");
}

#[test]
fn messages_whose_arrivals_cannot_be_recorded_are_rejected() {
    let mut pair = Pair::start();
    for changes in [
        json!({"rate_per_s": null}),
        json!({"arrival_gaps": false}),
        json!({"rate_per_s": 0}),
        json!({"message_bytes": 7}),
        json!({"send": "zerocopy"}),
        json!({"receive": "discard"}),
        json!({"threads": 1}),
    ] {
        let mut parameters = request();
        for (key, value) in changes.as_object().expect("an object") {
            parameters[key] = value.clone();
        }
        let listen = listening("t", &["sink", "sink"], &parameters);
        let error = pair.b.request("trial.prepare", listen);
        assert_eq!(error.expect_err(&changes.to_string())["code"], -32602);
    }
}
