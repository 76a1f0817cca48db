//! The workload `tcp_stream`: all data arrives and is counted, in every mode.

use std::collections::HashSet;

use serde_json::{Value, json};

use crate::agent_process::Agent;
use crate::endpoints::{Pair, all_sources_have_sent, connecting, listening, run_long_enough};

pub fn number(event: &Value, name: &str) -> u64 {
    event[name]
        .as_u64()
        .unwrap_or_else(|| panic!("{name} is a whole number in {event}"))
}

fn sum(events: &[Value], name: &str) -> u64 {
    events.iter().map(|event| number(event, name)).sum()
}

/// Runs a trial and asserts that both endpoints agree. Returns the `trial.end` of both.
pub fn transfer(roles: &[&str], changes: Value) -> [Value; 2] {
    let mut pair = Pair::start();
    let run = |duration_s| {
        pair.prepare("t", roles, changes.clone());
        pair.run("t", duration_s)
    };
    let [(_, a), (_, b)] = run_long_enough(0.3, run, all_sources_have_sent);
    for end in [&a, &b] {
        assert_eq!(end["reason"], "done", "{changes}: {end}");
        assert_eq!(end["drained"], true, "{changes}: {end}");
        let streams = end["streams"].as_array().expect("a list");
        assert_eq!(
            sum(streams, "bytes"),
            number(end, "bytes_sent") + number(end, "bytes_received")
        );
        assert!(streams.iter().all(|stream| stream["state"] == "drained"));
    }
    assert_eq!(a["bytes_sent"], b["bytes_received"], "{changes}");
    assert_eq!(b["bytes_sent"], a["bytes_received"], "{changes}");
    for (i, role) in roles.iter().enumerate() {
        assert_eq!(
            a["streams"][i]["bytes"], b["streams"][i]["bytes"],
            "{changes}, stream {i} ({role})"
        );
        assert!(
            number(&a["streams"][i], "bytes") > 0,
            "{changes}, stream {i} ({role})"
        );
    }
    [a, b]
}

#[test]
fn every_byte_arrives_for_messages_of_every_size() {
    for message_bytes in [1, 64, 1000, 65_536, 1 << 20, 3_000_001] {
        transfer(&["source"], json!({ "message_bytes": message_bytes }));
    }
}

#[test]
fn a_message_is_one_call() {
    let [a, _] = transfer(&["source"], json!({"message_bytes": 64}));
    assert_eq!(number(&a, "calls_sent") * 64, number(&a, "bytes_sent"));
}

#[test]
fn copied_and_discarded_data_are_counted_equally() {
    transfer(&["source", "source"], json!({"receive": "copy"}));
}

#[test]
fn the_listening_endpoint_can_be_the_source() {
    transfer(&["sink", "sink"], json!({}));
}

#[test]
fn both_directions_flow_at_once() {
    let [a, b] = transfer(&["source", "sink", "source", "sink"], json!({}));
    for end in [a, b] {
        assert!(number(&end, "bytes_sent") > 0 && number(&end, "bytes_received") > 0);
    }
}

#[test]
fn many_streams_share_few_threads() {
    let roles: Vec<&str> = ["source", "sink"].into_iter().cycle().take(64).collect();
    // Small messages, so that every stream sends even on a busy machine.
    transfer(&roles, json!({"threads": 2, "message_bytes": 65_536}));
    transfer(
        &roles[..3],
        json!({"threads": 2, "message_bytes": 700, "receive": "copy"}),
    );
}

#[test]
fn small_socket_buffers_take_effect() {
    let mut pair = Pair::start();
    let [a, b] = pair.prepare("t", &["source"], json!({"socket_buffer_bytes": 16_384}));
    for streams in [a, b] {
        // The kernel doubles the requested size (socket(7)).
        assert_eq!(streams[0]["send_buffer_bytes"], 32_768);
        assert_eq!(streams[0]["receive_buffer_bytes"], 32_768);
    }
    let [(_, a), (_, b)] = pair.run("t", 0.2);
    assert_eq!(a["bytes_sent"], b["bytes_received"]);
}

#[test]
fn the_congestion_control_applies_to_both_endpoints() {
    let mut pair = Pair::start();
    for streams in pair.prepare("t", &["source"], json!({"congestion_control": "reno"})) {
        assert_eq!(streams[0]["congestion_control"], "reno");
        assert!(number(&streams[0], "mss") > 500);
    }
}

#[test]
fn samples_close_whole_intervals_and_their_sum_is_within_the_total() {
    let mut pair = Pair::start();
    pair.prepare("t", &["source", "sink"], json!({"interface": "lo"}));
    for (samples, end) in pair.run("t", 0.5) {
        let seqs: HashSet<u64> = samples.iter().map(|sample| number(sample, "seq")).collect();
        assert_eq!(seqs.len(), samples.len(), "no number comes twice");
        assert_eq!(number(&end["instrument"], "samples"), samples.len() as u64);
        assert_eq!(number(&end["instrument"], "events_lost"), 0);
        for sample in &samples {
            let due = 0.05 * (number(sample, "seq") + 1) as f64;
            let at = sample["t_s"].as_f64().expect("a number");
            assert!(at >= due, "a sample is never early: {at} < {due}");
            assert!(
                sample["cpu"]
                    .as_array()
                    .is_some_and(|cpus| !cpus.is_empty())
            );
        }
        for name in ["bytes_sent", "bytes_received"] {
            assert!(sum(&samples, name) <= number(&end, name));
        }
        let counters = &end["counters"];
        for name in [
            "tcp_segments_out",
            "softirq_net_rx",
            "rx_packets",
            "tx_bytes",
        ] {
            assert!(number(counters, name) > 0, "{name} in {counters}");
        }
        assert!(counters["process_cpu_system_s"].as_f64() > Some(0.0));
        assert!(counters["cycles"].as_f64() > Some(0.0) || counters["cycles"].is_null());
        let source = end["streams"]
            .as_array()
            .expect("a list")
            .iter()
            .find(|s| s["role"] == "source")
            .expect("there is one");
        assert!(number(source, "segments_out") > 0);
        let busy_s = source["busy_s"].as_f64().expect("a number");
        let limited_s = source["rwnd_limited_s"].as_f64().expect("a number")
            + source["sndbuf_limited_s"].as_f64().expect("a number");
        assert!(busy_s > 0.0 && limited_s <= busy_s, "{source}");
        assert!(number(source, "min_rtt_us") <= number(source, "rtt_us"));
    }
}

#[test]
fn an_observer_counts_without_streams() {
    let mut agent = Agent::start();
    agent.expect_result(
        "trial.prepare",
        json!({"trial": "o", "workload": "observe", "interval_s": 0.02}),
    );
    assert_eq!(
        agent.expect_result("trial.ready", json!({"trial": "o"})),
        json!({"streams": [], "thread_cpus": []})
    );
    agent.expect_result("trial.start", json!({"trial": "o", "duration_s": 0.2}));
    let (samples, end) = agent.wait_for_end("o");
    assert!(!samples.is_empty());
    assert_eq!(
        (&end["reason"], &end["drained"]),
        (&json!("done"), &json!(true))
    );
    assert!(number(&end["counters"], "interrupts") > 0);
    assert!(number(&end["counters"], "cycles") > 0);
}

#[test]
fn protocol_counters_are_read_at_most_ten_times_per_second() {
    let mut agent = Agent::start();
    let observe = json!({"trial": "o", "workload": "observe", "interval_s": 0.02});
    agent.expect_result("trial.prepare", observe);
    agent.expect_result("trial.start", json!({"trial": "o", "duration_s": 0.5}));
    let (samples, end) = agent.wait_for_end("o");
    let mut tenths = 0;
    let mut counted = 0;
    for sample in &samples {
        let before = tenths;
        tenths = (number(sample, "seq") + 1) / 5;
        let json = sample["counters"]["tcp_in_segments"].as_u64();
        assert_eq!(json.is_some(), tenths > before, "{sample}");
        counted += json.unwrap_or(0);
    }
    assert!(counted <= number(&end["counters"], "tcp_in_segments"));
}

#[test]
fn one_agent_runs_both_endpoints_and_several_trials() {
    let mut agent = Agent::start();
    for trial in ["1", "2", "1"] {
        let port =
            agent.expect_result("trial.prepare", listening("l", &["sink"], &json!({})))["port"]
                .take();
        let connect = connecting(trial, &["source"], &port, &json!({}));
        agent.expect_result("trial.prepare", connect);
        agent.expect_result("trial.ready", json!({"trial": "l"}));
        for name in ["l", trial] {
            agent.expect_result("trial.start", json!({"trial": name, "duration_s": 0.1}));
        }
        let (_, sent) = agent.wait_for_end(trial);
        let (_, received) = agent.wait_for_end("l");
        assert_eq!(sent["bytes_sent"], received["bytes_received"]);
    }
}

#[test]
fn a_bench_that_does_not_read_loses_only_samples() {
    let mut pair = Pair::start();
    pair.prepare("t", &["source", "sink"], json!({}));
    let start = json!({"trial": "t", "duration_s": 0.5});
    pair.b.set_reading(false);
    // The answers repeat the requests and exceed the amount of output beyond which events are dropped.
    let long_name = "x".repeat(1_000_000);
    let request: Vec<u64> = (0..40)
        .map(|_| pair.b.send(&long_name, json!({})))
        .collect();
    let started = pair.b.send("trial.start", start.clone());
    pair.a.expect_result("trial.start", start);
    let (_, sent) = pair.a.wait_for_end("t");
    assert_eq!(
        (&sent["reason"], &sent["drained"]),
        (&json!("done"), &json!(true))
    );
    pair.b.set_reading(true);
    for id in request {
        assert_eq!(
            pair.b
                .wait_for_reply(id)
                .expect_err("there is no such method")["code"],
            -32601
        );
    }
    pair.b.wait_for_reply(started).expect("the trial was ready");
    let (samples, received) = pair.b.wait_for_end("t");
    let lost = number(&received["instrument"], "events_lost");
    assert!(lost > 0, "{}", received["instrument"]);
    assert_eq!(
        samples.len() as u64 + lost,
        number(&received["instrument"], "samples")
    );
    assert_eq!(sent["bytes_sent"], received["bytes_received"]);
    assert_eq!(sent["bytes_received"], received["bytes_sent"]);
}
