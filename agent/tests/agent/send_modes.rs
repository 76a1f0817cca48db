//! The send modes: each delivers all bytes in order, ends on request, and reports the outcome of its sends.

use std::io::Read;
use std::net::{TcpListener, TcpStream};
use std::time::Duration;

use serde_json::{Value, json};

use crate::agent_process::Agent;
use crate::endpoints::{Pair, accept_stream, connecting, run_long_enough};
use crate::transfers::{number, transfer};

const MODES: [(&str, u32); 8] = [
    ("copy", 1),
    ("sendfile", 1),
    ("splice", 1),
    ("zerocopy", 1),
    ("io_uring", 1),
    ("io_uring", 16),
    ("io_uring_zerocopy", 1),
    ("io_uring_zerocopy", 16),
];

fn sending(mode: (&str, u32), more: &Value) -> Value {
    let mut request = json!({"send": mode.0, "send_batch": mode.1});
    for (key, value) in more.as_object().expect("an object") {
        request[key] = value.clone();
    }
    request
}

#[test]
fn every_send_mode_delivers_every_byte() {
    for mode in MODES {
        for (receive, message_bytes) in [("discard", 1 << 20), ("copy", 700)] {
            let request = json!({"receive": receive, "message_bytes": message_bytes});
            transfer(&["source"], sending(mode, &request));
        }
    }
}

#[test]
fn every_send_mode_serves_several_streams_per_thread() {
    let roles = ["source", "sink", "source"];
    for mode in MODES {
        for (receive, message_bytes) in [("discard", 64), ("copy", 300_000)] {
            let request = json!({"receive": receive, "message_bytes": message_bytes, "threads": 1});
            transfer(&roles, sending(mode, &request));
        }
    }
}

/// Prepares a trial whose source is the agent, and returns the sink's end of the connection after the handshake.
fn accept_source(agent: &mut Agent, trial: &str, changes: &Value) -> TcpStream {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = json!(listener.local_addr().expect("bound").port());
    let prepare = connecting(trial, &["source"], &port, changes);
    let taking = std::thread::spawn(move || accept_stream(&listener));
    agent.expect_result("trial.prepare", prepare);
    let (_, stream) = taking.join().expect("the agent connects");
    stream
}

#[test]
fn messages_are_sent_in_order_despite_partial_sends() {
    let message_bytes = 70_001;
    for mode in MODES {
        for buffer in [json!(null), json!(16_384)] {
            let mut agent = Agent::start();
            let request = json!({"message_bytes": message_bytes, "socket_buffer_bytes": buffer});
            let request = sending(mode, &request);
            let run = |duration_s| {
                let mut stream = accept_source(&mut agent, "t", &request);
                agent.expect_result(
                    "trial.start",
                    json!({"trial": "t", "duration_s": duration_s}),
                );
                let mut received = Vec::new();
                stream.read_to_end(&mut received).expect("an orderly end");
                drop(stream);
                (received, agent.wait_for_end("t").1)
            };
            let (received, end) = run_long_enough(0.1, run, |(all, _)| all.len() > message_bytes);
            assert_eq!(end["drained"], true, "{request}: {end}");
            assert_eq!(number(&end, "bytes_sent"), received.len() as u64);
            assert!(received.len() > message_bytes, "{request}");
            let is_right =
                |(at, byte): (usize, &u8)| *byte == ((at % message_bytes * 31) >> 3) as u8;
            assert!(received.iter().enumerate().all(is_right), "{request}");
        }
    }
}

#[test]
fn a_blocked_source_ends_when_stopped() {
    let each = |message_bytes| MODES.map(|mode| (mode, message_bytes));
    for (mode, message_bytes) in [each(1 << 20), each(64)].concat() {
        let mut agent = Agent::start();
        let request = sending(mode, &json!({"message_bytes": message_bytes}));
        let stream = accept_source(&mut agent, "t", &request);
        agent.expect_result("trial.start", json!({"trial": "t", "duration_s": 60}));
        std::thread::sleep(Duration::from_millis(50));
        agent.expect_result("trial.stop", json!({"trial": "t"}));
        let (_, end) = agent.wait_for_end("t");
        assert_eq!(
            (&end["reason"], &end["drained"]),
            (&json!("stopped"), &json!(false)),
            "{request}"
        );
        drop(stream);
    }
}

#[test]
fn a_blocked_source_ends_at_the_drain_limit() {
    for mode in [
        ("copy", 1),
        ("zerocopy", 1),
        ("io_uring", 16),
        ("splice", 1),
    ] {
        let mut pair = Pair::start();
        let request = sending(mode, &json!({}));
        pair.prepare("t", &["source"], request.clone());
        let start = json!({"trial": "t", "duration_s": 0.1});
        pair.a.expect_result("trial.start", start.clone());
        let (_, sent) = pair.a.wait_for_end("t");
        assert_eq!(
            (&sent["reason"], &sent["drained"]),
            (&json!("done"), &json!(false)),
            "{request}"
        );
    }
}

#[test]
fn every_zero_copy_send_is_accounted_for() {
    for (mode, sends_a_call) in [("zerocopy", 1), ("io_uring_zerocopy", 4)] {
        let request = sending((mode, sends_a_call), &json!({"message_bytes": 65_536}));
        let [source, sink] = transfer(&["source"], request.clone());
        let zero_copy = &source["streams"][0]["zero_copy"];
        let sends = number(zero_copy, "in_place")
            + number(zero_copy, "copied")
            + number(zero_copy, "uncompleted");
        assert!(
            sends >= number(&source, "calls_sent"),
            "{request}: {zero_copy}"
        );
        // On the loopback the kernel copies the data of zero-copy sends.
        assert!(number(zero_copy, "copied") > 0, "{request}: {zero_copy}");
        assert!(sink["streams"][0]["zero_copy"].is_null());
    }
    let [source, _] = transfer(&["source"], json!({}));
    assert!(source["streams"][0]["zero_copy"].is_null());
}

#[test]
fn a_batch_is_one_system_call() {
    let request = sending(("io_uring", 16), &json!({"message_bytes": 64}));
    let [source, _] = transfer(&["source"], request);
    let (bytes, calls) = (number(&source, "bytes_sent"), number(&source, "calls_sent"));
    assert!(bytes > 8 * 64 * calls, "{bytes} bytes by {calls} calls");
}
