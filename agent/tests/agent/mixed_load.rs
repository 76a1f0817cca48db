//! The workload `mixed`: the phases are exact, and each part ends by itself.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};

use serde_json::{Value, json};

use crate::agent_process::Agent;
use crate::endpoints::{Pair, accept_stream, assert_fault, connecting, listening, run_long_enough};

const IDLE_INTERVALS: u64 = 4;

/// Returns the request of one endpoint; `parts` has the part and the endpoint's role of each stream.
fn mixed(parts: &[(&str, &str)], changes: &Value) -> Value {
    let streams: Vec<Value> = parts
        .iter()
        .enumerate()
        .map(|(id, (part, role))| json!({"id": id, "role": role, "part": part}))
        .collect();
    let mut all = json!({
        "workload": "mixed", "streams": streams, "interval_s": 0.05, "idle_s": 0.05 * IDLE_INTERVALS as f64,
    });
    for (key, value) in changes.as_object().expect("an object") {
        all[key] = value.clone();
    }
    all
}

fn opposite_roles<'a>(parts: &[(&'a str, &'a str)]) -> Vec<(&'a str, &'a str)> {
    let other = |role| if role == "source" { "sink" } else { "source" };
    parts
        .iter()
        .map(|(part, role)| (*part, other(*role)))
        .collect()
}

fn prepare(pair: &mut Pair, parts: &[(&str, &str)], changes: &Value) -> [Value; 2] {
    let listening = listening("t", &[], &mixed(&opposite_roles(parts), changes));
    let port = pair.b.expect_result("trial.prepare", listening)["port"].take();
    let connecting = connecting("t", &[], &port, &mixed(parts, changes));
    let a = pair.a.expect_result("trial.prepare", connecting)["streams"].take();
    let b = pair.b.expect_result("trial.ready", json!({"trial": "t"}))["streams"].take();
    [a, b]
}

fn streams(event: &Value) -> &Vec<Value> {
    event["streams"].as_array().expect("a list")
}

fn part_bytes(part: &str, event: &Value) -> u64 {
    let part_streams = streams(event)
        .iter()
        .filter(|stream| stream["part"] == part);
    part_streams
        .map(|stream| stream["bytes"].as_u64().expect("bytes"))
        .sum()
}

fn transactions(event: &Value) -> u64 {
    event["latency"]["count"].as_u64().expect("a count")
}

#[test]
fn transfers_start_exactly_after_the_idle_phase() {
    let (mut in_idle, mut in_load) = (0, 0);
    for parts in [
        [
            ("requests", "source"),
            ("transfers", "source"),
            ("transfers", "source"),
        ],
        [
            ("requests", "source"),
            ("transfers", "sink"),
            ("transfers", "sink"),
        ],
        [
            ("transfers", "sink"),
            ("transfers", "source"),
            ("requests", "source"),
        ],
    ] {
        for changes in [
            json!({}),
            json!({"rate_per_s": 500}),
            json!({"waiting": "spin"}),
        ] {
            let mut pair = Pair::start();
            let run = |duration_s| {
                prepare(&mut pair, &parts, &changes);
                pair.run("t", duration_s)
            };
            let have_transferred = |endpoints: &[_; 2]| {
                let mut ends = endpoints.iter().map(|(_, end): &(_, Value)| end);
                ends.all(|end| part_bytes("transfers", end) > 0)
            };
            let endpoints = run_long_enough(0.5, run, have_transferred);
            for (samples, end) in &endpoints {
                assert_eq!(end["reason"], "done", "{end}");
                assert_eq!(end["drained"], true, "{end}");
                assert!(end["load_start_s"].as_f64().expect("the transfers started") >= 0.2);
                assert!(part_bytes("transfers", end) > 0, "{end}");
                for sample in samples {
                    // This endpoint's clock bounds what it sends, not what it receives.
                    let before = sample["seq"].as_u64().expect("seq") < IDLE_INTERVALS;
                    let sources = streams(sample).iter().filter(|s| s["role"] == "source");
                    let mut transfers = sources.filter(|s| s["part"] == "transfers");
                    assert!(!before || transfers.all(|s| s["bytes"] == 0), "{sample}");
                }
            }
            let [(samples, a), (_, b)] = &endpoints;
            assert_eq!(part_bytes("transfers", a), part_bytes("transfers", b));
            let (idle, loaded): (Vec<_>, Vec<_>) = samples
                .iter()
                .partition(|s| s["seq"].as_u64() < Some(IDLE_INTERVALS));
            in_idle += idle.into_iter().map(transactions).sum::<u64>();
            in_load += loaded.into_iter().map(transactions).sum::<u64>();
        }
    }
    // Checks all trials together: on a busy machine the threads of one trial may run late.
    assert!(in_idle > 0 && in_load > 0, "{in_idle} and {in_load}");
}

#[test]
fn each_part_has_its_own_socket_options() {
    let mut pair = Pair::start();
    let parts = [("transfers", "source"), ("requests", "source")];
    for streams in prepare(&mut pair, &parts, &json!({})) {
        for stream in streams.as_array().expect("a list") {
            assert_eq!(stream["no_delay"], stream["part"] == "requests", "{stream}");
        }
    }
}

#[test]
fn a_trial_stopped_in_its_idle_phase_starts_no_transfers() {
    let mut pair = Pair::start();
    let parts = [("requests", "source"), ("transfers", "source")];
    prepare(&mut pair, &parts, &json!({"idle_s": 100.0}));
    let short = json!({"trial": "t", "duration_s": 100.0});
    assert_eq!(pair.a.expect_error_code("trial.start", short), -32602);
    for agent in [&mut pair.b, &mut pair.a] {
        agent.expect_result("trial.start", json!({"trial": "t", "duration_s": 200.0}));
    }
    pair.a.wait_for_event("trial.sample", "t");
    pair.a.expect_result("trial.stop", json!({"trial": "t"}));
    // The other endpoint then reports a fault, unless it is stopped first.
    let _ = pair.b.request("trial.stop", json!({"trial": "t"}));
    for agent in [&mut pair.a, &mut pair.b] {
        let (_, end) = agent.wait_for_end("t");
        assert_ne!(end["reason"], "done");
        assert!(end.get("load_start_s").is_none(), "{end}");
        assert_eq!(part_bytes("transfers", &end), 0);
    }
}

/// Accepts both connections, answers the requests of one, and closes the other after its first bytes.
fn answer_requests_and_close_transfer(listener: &TcpListener) {
    let mut both = [accept_stream(listener), accept_stream(listener)];
    both.sort_by_key(|(id, _)| *id);
    let [(_, mut requests), (_, mut transfer)] = both;
    let answering = std::thread::spawn(move || {
        let mut request = [0];
        while requests.read(&mut request).unwrap_or(0) > 0 && requests.write_all(&request).is_ok() {
        }
    });
    let first = transfer
        .read(&mut [0; 100])
        .expect("the transfer sends data");
    assert!(first > 0);
    drop::<TcpStream>(transfer);
    answering.join().expect("the source comes to its end");
}

#[test]
fn a_broken_transfer_keeps_the_results_of_the_requests() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = json!(listener.local_addr().expect("an address").port());
    let peer = std::thread::spawn(move || answer_requests_and_close_transfer(&listener));
    let mut agent = Agent::start();
    let parts = [("requests", "source"), ("transfers", "source")];
    let request = connecting("t", &[], &port, &mixed(&parts, &json!({})));
    agent.expect_result("trial.prepare", request);
    agent.expect_result("trial.start", json!({"trial": "t", "duration_s": 30.0}));
    let (_, end) = agent.wait_for_end("t");
    drop(agent);
    peer.join().expect("the peer comes to its end");
    assert_fault(&end, "stream", "stream 1 of the transfers broke:");
    assert!(transactions(&end) > 0, "{end}");
    assert!(part_bytes("transfers", &end) > 0, "{end}");
}
