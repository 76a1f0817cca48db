//! The workload `udp_stream`: each datagram counts as received or lost, and impairments of the path are counted correctly.

use serde_json::{Value, json};

use crate::agent_process::Agent;
use crate::datagram_relay::{DatagramAction, ImpairmentSampler, PROBES, Relay, RelayCounts};
use crate::endpoints::{
    Pair, all_sources_have_sent, assert_fault, connecting, listening, opposite, run_long_enough,
};

const EMSGSIZE: i64 = 90;

fn with(changes: &Value) -> Value {
    let mut all = json!({"workload": "udp_stream"});
    for (key, value) in changes.as_object().expect("an object") {
        all[key] = value.clone();
    }
    all
}

/// Returns the sum over an endpoint's streams.
fn sum(end: &Value, name: &str) -> i64 {
    let streams = end["streams"].as_array().expect("a list");
    let values = streams.iter().filter_map(|stream| stream[name].as_i64());
    values.sum()
}

/// Runs both endpoints of a trial in one agent. Returns the `trial.end` of source and sink.
fn run_both_endpoints(
    agent: &mut Agent,
    address: &str,
    changes: &Value,
    duration_s: f64,
) -> [Value; 2] {
    let mut request = with(changes);
    request["listen"] = json!({"address": address, "port": 0});
    let port =
        agent.expect_result("trial.prepare", listening("sink", &["sink"], &request))["port"].take();
    let mut request = with(changes);
    request["connect"] = json!({"address": address, "port": port, "from": address});
    agent.expect_result(
        "trial.prepare",
        connecting("source", &["source"], &port, &request),
    );
    agent.expect_result("trial.ready", json!({"trial": "sink"}));
    for trial in ["sink", "source"] {
        agent.expect_result(
            "trial.start",
            json!({"trial": trial, "duration_s": duration_s}),
        );
    }
    ["source", "sink"].map(|trial| agent.wait_for_end(trial).1)
}

/// Asserts that every datagram and byte is accounted for.
fn assert_counts_agree(source: &Value, sink: &Value, datagram_bytes: i64) {
    for end in [source, sink] {
        assert_eq!(end["reason"], "done", "{end}");
        assert_eq!(end["drained"], true, "{end}");
    }
    let sent = sum(source, "datagrams");
    assert!(sent > 0, "{source}");
    let arrived = sum(sink, "datagrams") - sum(sink, "duplicates");
    assert_eq!(sent, arrived + sum(sink, "lost"), "{sink}");
    assert_eq!(source["bytes_sent"], sent * datagram_bytes);
    let received = sum(sink, "datagrams") * datagram_bytes;
    assert_eq!(sink["bytes_received"], received);
}

#[test]
fn every_datagram_is_counted_as_received_or_lost() {
    let mut pair = Pair::start();
    for (trial, changes) in [
        json!({}),
        json!({"gro": true}),
        json!({"gso": true}),
        json!({"gso": true, "gro": true}),
        json!({"datagram_bytes": 18}),
        json!({"datagram_bytes": 1000, "gso": true, "gro": true}),
        json!({"datagram_bytes": 65507, "gro": true}),
        json!({"datagram_bytes": 40000, "gso": true}),
        json!({"rate_per_s": 2000}),
        json!({"rate_per_s": 2000, "pacing": "sleep", "gro": true}),
    ]
    .iter()
    .enumerate()
    {
        let trial = trial.to_string();
        let run = |duration_s| {
            pair.prepare(&trial, &["source"], with(changes));
            pair.run(&trial, duration_s)
        };
        let [(samples, source), (_, sink)] = run_long_enough(0.4, run, all_sources_have_sent);
        let bytes = changes["datagram_bytes"].as_i64().unwrap_or(64);
        assert_counts_agree(&source, &sink, bytes);
        let in_samples: i64 = samples.iter().map(|sample| sum(sample, "datagrams")).sum();
        assert!(in_samples <= sum(&source, "datagrams"), "{changes}");
        assert!(sum(&sink, "datagrams") > 0, "{changes}: {sink}");
        assert_eq!(sum(&sink, "foreign_datagrams"), 0, "{changes}");
        let delays = sink["delay"]["count"].as_i64();
        assert!(delays <= Some(sum(&sink, "datagrams")), "{changes}: {sink}");
        assert!(delays > Some(0), "one kernel has one clock: {sink}");
    }
}

#[test]
fn a_sink_stopped_under_load_reports_all_received_datagrams() {
    let mut pair = Pair::start();
    pair.prepare("t", &["source"], with(&json!({"datagram_bytes": 100})));
    pair.b
        .expect_result("trial.start", json!({"trial": "t", "duration_s": 60}));
    pair.a
        .expect_result("trial.start", json!({"trial": "t", "duration_s": 60}));
    let has_received = |sample: &Value| sample["bytes_received"].as_i64() > Some(0);
    pair.b.wait_for(|message| {
        message["method"] == "trial.sample" && has_received(&message["params"])
    });
    pair.b.expect_result("trial.stop", json!({"trial": "t"}));
    let end = pair.b.wait_for_event("trial.end", "t");
    assert_eq!(end["streams"][0]["state"], "cut", "{end}");
    assert_eq!(end["bytes_received"], 100 * sum(&end, "datagrams"), "{end}");
}

#[test]
fn streams_in_both_directions_are_counted_separately() {
    let mut pair = Pair::start();
    let roles = ["source", "sink", "source", "sink"];
    let [a, b] = pair.prepare("t", &roles, with(&json!({"rate_per_s": 500})));
    assert_eq!(a[1]["shared_clock"], true);
    assert!(b[1].get("shared_clock").is_none(), "{b}");
    assert_eq!(a[0]["congestion_control"], Value::Null);
    let [(_, a), (_, b)] = pair.run("t", 0.2);
    for (source, sink, streams) in [(&a, &b, [0, 2]), (&b, &a, [1, 3])] {
        for id in streams {
            let (sent, received) = (&source["streams"][id], &sink["streams"][id]);
            assert_eq!(sent["datagrams"], received["datagrams"], "{source} {sink}");
            assert_eq!(received["lost"], 0);
            assert!(sent.get("rtt_us").is_none(), "{sent}");
        }
    }
}

#[test]
fn datagrams_run_over_ipv6() {
    let mut agent = Agent::start();
    let changes = json!({"datagram_bytes": 300, "gso": true});
    let run = |duration_s| run_both_endpoints(&mut agent, "::1", &changes, duration_s);
    let [source, sink] = run_long_enough(0.2, run, |[source, _]| sum(source, "datagrams") > 0);
    assert_counts_agree(&source, &sink, 300);
}

/// A buffer that every user may request. It holds all datagrams of a trial for a sink that gets no CPU.
const LARGE_BUFFER_BYTES: u32 = 200_000;

/// Runs a trial through a relay. Returns the `trial.end` of source and sink, and the relay's counts.
///
/// At a low rate the load fits the buffer of the socket: a delayed source sends all due datagrams at once.
fn run_through_relay(sampler: ImpairmentSampler, changes: &Value) -> (Value, Value, RelayCounts) {
    let mut pair = Pair::start();
    let mut changes = with(changes);
    changes["socket_buffer_bytes"] = json!(LARGE_BUFFER_BYTES);
    let port = pair
        .b
        .expect_result("trial.prepare", listening("t", &["sink"], &changes))["port"]
        .take();
    let relay = Relay::start(&port, sampler);
    pair.a.expect_result(
        "trial.prepare",
        connecting("t", &["source"], &relay.port, &changes),
    );
    pair.b.expect_result("trial.ready", json!({"trial": "t"}));
    let [(_, source), (_, sink)] = pair.run("t", 0.6);
    (source, sink, relay.finish())
}

#[test]
fn loss_duplication_and_reordering_are_counted() {
    let sampler = |number: u64, _| match number % 10 {
        _ if number >= PROBES => DatagramAction::Pass,
        1 => DatagramAction::WithForeign,
        3 => DatagramAction::Drop,
        5 => DatagramAction::Double,
        7 => DatagramAction::Swap,
        _ => DatagramAction::Pass,
    };
    for changes in [false, true].map(|gro| json!({"rate_per_s": 400, "gro": gro})) {
        let (source, sink, relay_counts) = run_through_relay(sampler, &changes);
        assert_counts_agree(&source, &sink, 64);
        assert!(
            relay_counts.swapped > 10 && relay_counts.foreign > 10,
            "{relay_counts:?}"
        );
        let json = RelayCounts {
            received: sum(&source, "datagrams") as u64,
            dropped: sum(&sink, "lost") as u64,
            doubled: sum(&sink, "duplicates") as u64,
            swapped: sum(&sink, "reordered") as u64,
            foreign: sum(&sink, "foreign_datagrams") as u64,
        };
        assert_eq!(json, relay_counts);
        assert_eq!(sum(&sink, "socket_drops"), 0);
    }
}

#[test]
fn losses_at_the_end_are_counted() {
    let sampler = |number, _| match number {
        100..PROBES => DatagramAction::Drop,
        _ => DatagramAction::Pass,
    };
    let (source, sink, relay_counts) = run_through_relay(sampler, &json!({"rate_per_s": 600}));
    assert_counts_agree(&source, &sink, 64);
    assert_eq!(sum(&sink, "datagrams"), 100);
    assert_eq!(sum(&sink, "lost"), relay_counts.dropped as i64);
}

#[test]
fn drops_at_the_socket_are_counted_separately() {
    let mut pair = Pair::start();
    let run = |duration_s| {
        let changes = with(&json!({"socket_buffer_bytes": 4096, "gso": true}));
        pair.prepare("t", &["source"], changes);
        pair.run("t", duration_s)
    };
    let have_dropped = |[_, (_, sink)]: &[_; 2]| sum(sink, "socket_drops") > 0;
    let [(_, source), (_, sink)] = run_long_enough(0.2, run, have_dropped);
    assert_counts_agree(&source, &sink, 64);
    assert!(sum(&sink, "socket_drops") > 0, "{sink}");
    assert_eq!(
        sum(&sink, "socket_drops"),
        sum(&sink, "lost"),
        "the loopback drops none"
    );
}

#[test]
fn a_paced_source_reports_its_lateness() {
    let mut pair = Pair::start();
    pair.prepare(
        "t",
        &["source", "source"],
        with(&json!({"rate_per_s": 500})),
    );
    let [(_, source), (_, sink)] = pair.run("t", 0.4);
    let pacing = &source["instrument"]["pacing"];
    assert_eq!(pacing["sent"], sum(&source, "datagrams"), "{pacing}");
    // A busy machine ends the load late, and datagrams are due until then.
    let duration_s = source["duration_s"].as_f64().expect("seconds");
    let most_each = (500.0 * duration_s) as i64 + 1;
    assert!(pacing["sent"].as_i64() <= Some(2 * most_each), "{source}");
    assert!(
        pacing["due"]
            .as_i64()
            .is_some_and(|due| due.abs_diff(400) <= 4),
        "{pacing}"
    );
    assert!(
        pacing["gap_deviation_us"]
            .as_f64()
            .is_some_and(|us| us >= 0.0),
        "{pacing}"
    );
    assert!(sink["instrument"].get("pacing").is_none(), "{sink}");
}

/// Prepares an impossible trial. Returns the errors of the connecting and of the listening endpoint.
fn refused(
    agent: &mut Agent,
    roles: &[&str],
    sampler: Option<ImpairmentSampler>,
    changes: &Value,
) -> [Value; 2] {
    let changes = with(changes);
    let mut listening = listening("b", &opposite(roles), &changes);
    // The connecting endpoint times out first, so its error is not that the other endpoint has left.
    listening["timeout_s"] = json!(60);
    let mut port = agent.expect_result("trial.prepare", listening)["port"].take();
    let relay = sampler.map(|sampler| Relay::start(&port, sampler));
    if let Some(relay) = &relay {
        port = relay.port.clone();
    }
    let connects = agent
        .request("trial.prepare", connecting("a", roles, &port, &changes))
        .expect_err("no datagram gets through");
    let listens = agent.request("trial.ready", json!({"trial": "b"}));
    agent.send("trial.stop", json!({"trial": "b"}));
    [connects, listens.expect_err("no datagram gets through")]
}

fn message(error: &Value) -> &str {
    error["message"].as_str().expect("a sentence")
}

#[test]
fn a_datagram_over_the_mtu_is_rejected_unless_fragmented() {
    let mut agent = Agent::start_in_new_network("ip link set lo mtu 1500 &&");
    for roles in [["source"], ["sink"]] {
        let [connects, listens] =
            refused(&mut agent, &roles, None, &json!({"datagram_bytes": 1473}));
        assert!(
            message(&connects).contains("send a datagram of 1473 bytes"),
            "{connects}"
        );
        assert_eq!(connects["data"]["errno"], EMSGSIZE);
        assert_eq!(connects["data"]["kind"], "datagram");
        // The listening endpoint may have removed the trial already; the other one has reported the cause.
        assert!(
            message(&listens).contains("1473 bytes") || message(&listens).contains("no trial"),
            "{listens}"
        );
    }
    for changes in [
        json!({"datagram_bytes": 1472, "gso": true}),
        json!({"datagram_bytes": 9000, "fragments": true, "rate_per_s": 500}),
    ] {
        let run = |duration_s| run_both_endpoints(&mut agent, "127.0.0.1", &changes, duration_s);
        let [source, sink] = run_long_enough(0.1, run, |[source, _]| sum(source, "datagrams") > 0);
        let bytes = changes["datagram_bytes"].as_i64().expect("a size");
        assert_counts_agree(&source, &sink, bytes);
    }
}

#[test]
fn an_error_distinguishes_a_blocked_path_from_a_small_mtu() {
    let mut agent = Agent::start();
    let request = json!({"datagram_bytes": 500, "timeout_s": 0.4});
    let [connects, _] = refused(
        &mut agent,
        &["source"],
        Some(|_, _| DatagramAction::Drop),
        &request,
    );
    assert!(
        message(&connects).contains("delivering a datagram of 500 bytes"),
        "{connects}"
    );
    assert!(
        message(&connects).contains("small datagrams of 18 bytes do not arrive either"),
        "{connects}"
    );
    assert_eq!(connects["data"]["kind"], "datagram");
    let small_only: ImpairmentSampler = |_, bytes| {
        if bytes > 100 {
            DatagramAction::Drop
        } else {
            DatagramAction::Pass
        }
    };
    // The small datagrams must get through within their share of this time.
    let request = json!({"datagram_bytes": 500, "timeout_s": 2});
    let [connects, _] = refused(&mut agent, &["source"], Some(small_only), &request);
    assert!(
        message(&connects).contains("small datagrams of 18 bytes arrive"),
        "{connects}"
    );
}

#[test]
fn an_endpoint_reports_that_the_other_one_vanished() {
    for vanishes_source in [true, false] {
        let mut pair = Pair::start();
        pair.prepare("t", &["source"], with(&json!({"rate_per_s": 1000})));
        for agent in [&mut pair.b, &mut pair.a] {
            agent.expect_result("trial.start", json!({"trial": "t", "duration_s": 3600}));
        }
        pair.b.wait_for_event("trial.sample", "t");
        let Pair { a, b } = pair;
        let (vanishes, mut stays) = if vanishes_source { (a, b) } else { (b, a) };
        drop(vanishes);
        let end = stays.wait_for_end("t").1;
        assert_fault(&end, "stream", "stream 0 broke");
    }
}

#[test]
fn both_endpoints_can_be_stopped() {
    for (first_is_source, changes) in [
        (true, json!({})),
        (false, json!({})),
        (true, json!({"rate_per_s": 0.001})),
        (false, json!({"rate_per_s": 0.001})),
    ] {
        let mut pair = Pair::start();
        pair.prepare("t", &["source"], with(&changes));
        for agent in [&mut pair.b, &mut pair.a] {
            agent.expect_result("trial.start", json!({"trial": "t", "duration_s": 3600}));
        }
        pair.a.wait_for_event("trial.sample", "t");
        let Pair { a, b } = &mut pair;
        let stopped = if first_is_source { a } else { b };
        stopped.expect_result("trial.stop", json!({"trial": "t"}));
        assert_eq!(
            stopped.wait_for_end("t").1["reason"],
            "stopped",
            "{changes}"
        );
    }
}
