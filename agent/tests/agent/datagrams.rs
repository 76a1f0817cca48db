//! Datagrams one way: each one sent is told as received or lost, and what a path does to them is told as it was done.

use serde_json::{Value, json};

use crate::driving::Agent;
use crate::relay::{Done, Fate, Fates, PROBES, Relay};
use crate::sides::{
    Pair, all_have_sent, assert_fault, connecting, listening, long_enough, opposite,
};

const EMSGSIZE: i64 = 90;

fn with(changes: &Value) -> Value {
    let mut all = json!({"workload": "udp_stream"});
    for (key, value) in changes.as_object().expect("an object") {
        all[key] = value.clone();
    }
    all
}

/// The sum over a side's streams.
fn sum(end: &Value, name: &str) -> i64 {
    let streams = end["streams"].as_array().expect("a list");
    let values = streams.iter().filter_map(|stream| stream[name].as_i64());
    values.sum()
}

/// Has one agent run both sides of a trial; returns the ends of source and sink.
fn run_within(agent: &mut Agent, address: &str, changes: &Value, duration_s: f64) -> [Value; 2] {
    let mut side = with(changes);
    side["listen"] = json!({"address": address, "port": 0});
    let port = agent.must("trial.prepare", listening("sink", &["sink"], &side))["port"].take();
    let mut side = with(changes);
    side["connect"] = json!({"address": address, "port": port, "from": address});
    agent.must(
        "trial.prepare",
        connecting("source", &["source"], &port, &side),
    );
    agent.must("trial.ready", json!({"trial": "sink"}));
    for trial in ["sink", "source"] {
        agent.must(
            "trial.start",
            json!({"trial": trial, "duration_s": duration_s}),
        );
    }
    ["source", "sink"].map(|trial| agent.events(trial).1)
}

/// All datagrams are accounted for, and all bytes with them.
fn assert_they_agree(source: &Value, sink: &Value, datagram_bytes: i64) {
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
fn every_datagram_is_received_or_lost_however_it_is_sent_and_taken() {
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
        let [(samples, source), (_, sink)] = long_enough(0.4, run, all_have_sent);
        let bytes = changes["datagram_bytes"].as_i64().unwrap_or(64);
        assert_they_agree(&source, &sink, bytes);
        let in_samples: i64 = samples.iter().map(|sample| sum(sample, "datagrams")).sum();
        assert!(in_samples <= sum(&source, "datagrams"), "{changes}");
        assert!(sum(&sink, "datagrams") > 0, "{changes}: {sink}");
        assert_eq!(sum(&sink, "foreign"), 0, "{changes}");
        let delays = sink["delay"]["count"].as_i64();
        assert!(delays <= Some(sum(&sink, "datagrams")), "{changes}: {sink}");
        assert!(delays > Some(0), "one kernel has one clock: {sink}");
    }
}

#[test]
fn a_sink_that_is_stopped_under_load_has_told_of_all_datagrams_that_it_took() {
    let mut pair = Pair::start();
    pair.prepare("t", &["source"], with(&json!({"datagram_bytes": 100})));
    pair.b
        .must("trial.start", json!({"trial": "t", "duration_s": 60}));
    pair.a
        .must("trial.start", json!({"trial": "t", "duration_s": 60}));
    let taken = |sample: &Value| sample["bytes_received"].as_i64() > Some(0);
    pair.b
        .wait_for(|said| said["method"] == "trial.sample" && taken(&said["params"]));
    pair.b.must("trial.stop", json!({"trial": "t"}));
    let end = pair.b.event("trial.end", "t");
    assert_eq!(end["streams"][0]["state"], "cut", "{end}");
    assert_eq!(end["bytes_received"], 100 * sum(&end, "datagrams"), "{end}");
}

#[test]
fn streams_of_both_directions_are_counted_apart() {
    let mut pair = Pair::start();
    let roles = ["source", "sink", "source", "sink"];
    let [a, b] = pair.prepare("t", &roles, with(&json!({"rate_per_s": 500})));
    assert_eq!(a[1]["shared_clock"], true);
    assert!(b[1].get("shared_clock").is_none(), "{b}");
    assert_eq!(a[0]["congestion_control"], Value::Null);
    let [(_, a), (_, b)] = pair.run("t", 0.2);
    for (source, sink, streams) in [(&a, &b, [0, 2]), (&b, &a, [1, 3])] {
        for id in streams {
            let (sent, came) = (&source["streams"][id], &sink["streams"][id]);
            assert_eq!(sent["datagrams"], came["datagrams"], "{source} {sink}");
            assert_eq!(came["lost"], 0);
            assert!(sent.get("rtt_us").is_none(), "{sent}");
        }
    }
}

#[test]
fn ipv6_carries_them_too() {
    let mut agent = Agent::start();
    let changes = json!({"datagram_bytes": 300, "gso": true});
    let run = |duration_s| run_within(&mut agent, "::1", &changes, duration_s);
    let [source, sink] = long_enough(0.2, run, |[source, _]| sum(source, "datagrams") > 0);
    assert_they_agree(&source, &sink, 300);
}

/// Runs a trial through a relay; returns the ends of source and sink, and what the relay did. Slow enough that all of it
/// fits a socket's buffer: a source that the machine keeps waiting sends at once what is due.
fn through(sampler: Fates, changes: &Value) -> (Value, Value, Done) {
    let mut pair = Pair::start();
    let changes = with(changes);
    let port = pair
        .b
        .must("trial.prepare", listening("t", &["sink"], &changes))["port"]
        .take();
    let relay = Relay::start(&port, sampler);
    pair.a.must(
        "trial.prepare",
        connecting("t", &["source"], &relay.port, &changes),
    );
    pair.b.must("trial.ready", json!({"trial": "t"}));
    let [(_, source), (_, sink)] = pair.run("t", 0.6);
    (source, sink, relay.done())
}

#[test]
fn what_a_path_does_to_datagrams_is_told_as_it_was_done() {
    let sampler = |number: u64, _| match number % 10 {
        _ if number >= PROBES => Fate::Pass,
        1 => Fate::WithForeign,
        3 => Fate::Drop,
        5 => Fate::Double,
        7 => Fate::Swap,
        _ => Fate::Pass,
    };
    for changes in [
        json!({"rate_per_s": 600}),
        json!({"rate_per_s": 600, "gro": true}),
    ] {
        let (source, sink, done) = through(sampler, &changes);
        assert_they_agree(&source, &sink, 64);
        assert!(done.swapped > 10 && done.foreign > 10, "{done:?}");
        let json = Done {
            taken: sum(&source, "datagrams") as u64,
            dropped: sum(&sink, "lost") as u64,
            doubled: sum(&sink, "duplicates") as u64,
            swapped: sum(&sink, "reordered") as u64,
            foreign: sum(&sink, "foreign") as u64,
        };
        assert_eq!(json, done);
        assert_eq!(sum(&sink, "socket_drops"), 0);
    }
}

#[test]
fn what_is_lost_last_is_known_from_what_the_source_sent() {
    let sampler = |number, _| match number {
        100..PROBES => Fate::Drop,
        _ => Fate::Pass,
    };
    let (source, sink, done) = through(sampler, &json!({"rate_per_s": 600}));
    assert_they_agree(&source, &sink, 64);
    assert_eq!(sum(&sink, "datagrams"), 100);
    assert_eq!(sum(&sink, "lost"), done.dropped as i64);
}

#[test]
fn drops_at_the_sinks_own_socket_are_told_apart_from_the_paths() {
    let mut pair = Pair::start();
    let run = |duration_s| {
        let changes = with(&json!({"socket_buffer_bytes": 4096, "gso": true}));
        pair.prepare("t", &["source"], changes);
        pair.run("t", duration_s)
    };
    let have_dropped = |[_, (_, sink)]: &[_; 2]| sum(sink, "socket_drops") > 0;
    let [(_, source), (_, sink)] = long_enough(0.2, run, have_dropped);
    assert_they_agree(&source, &sink, 64);
    assert!(sum(&sink, "socket_drops") > 0, "{sink}");
    assert_eq!(
        sum(&sink, "socket_drops"),
        sum(&sink, "lost"),
        "the loopback drops none"
    );
}

#[test]
fn a_source_that_keeps_its_rate_tells_how_well() {
    let mut pair = Pair::start();
    pair.prepare(
        "t",
        &["source", "source"],
        with(&json!({"rate_per_s": 500})),
    );
    let [(_, source), (_, sink)] = pair.run("t", 0.4);
    let pacing = &source["instrument"]["pacing"];
    assert_eq!(pacing["sent"], sum(&source, "datagrams"), "{pacing}");
    // A machine full of work ends the load late, and until then datagrams are due.
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

/// Both sides of a trial that cannot be: what the connecting and what the listening one are answered.
fn refused(
    agent: &mut Agent,
    roles: &[&str],
    sampler: Option<Fates>,
    changes: &Value,
) -> [Value; 2] {
    let changes = with(changes);
    let mut listening = listening("b", &opposite(roles), &changes);
    // The connecting side's time runs out first: the answer is its own, and not that the other has left.
    listening["timeout_s"] = json!(60);
    let mut port = agent.must("trial.prepare", listening)["port"].take();
    let relay = sampler.map(|sampler| Relay::start(&port, sampler));
    if let Some(relay) = &relay {
        port = relay.port.clone();
    }
    let connects = agent
        .ask("trial.prepare", connecting("a", roles, &port, &changes))
        .expect_err("no datagram gets through");
    let listens = agent.ask("trial.ready", json!({"trial": "b"}));
    agent.send("trial.stop", json!({"trial": "b"}));
    [connects, listens.expect_err("no datagram gets through")]
}

fn message(error: &Value) -> &str {
    error["message"].as_str().expect("a sentence")
}

#[test]
fn a_datagram_larger_than_the_mtu_is_refused_by_name_or_sent_in_fragments() {
    let mut agent = Agent::start_apart("ip link set lo mtu 1500 &&");
    for roles in [["source"], ["sink"]] {
        let [connects, listens] =
            refused(&mut agent, &roles, None, &json!({"datagram_bytes": 1473}));
        assert!(
            message(&connects).contains("send a datagram of 1473 bytes"),
            "{connects}"
        );
        assert_eq!(connects["data"]["errno"], EMSGSIZE);
        assert_eq!(connects["data"]["kind"], "datagram");
        // Where it has forgotten the trial already it cannot say why any more; the other side has said it.
        assert!(
            message(&listens).contains("1473 bytes") || message(&listens).contains("no trial"),
            "{listens}"
        );
    }
    for changes in [
        json!({"datagram_bytes": 1472, "gso": true}),
        json!({"datagram_bytes": 9000, "fragments": true, "rate_per_s": 500}),
    ] {
        let run = |duration_s| run_within(&mut agent, "127.0.0.1", &changes, duration_s);
        let [source, sink] = long_enough(0.1, run, |[source, _]| sum(source, "datagrams") > 0);
        let bytes = changes["datagram_bytes"].as_i64().expect("a size");
        assert_they_agree(&source, &sink, bytes);
    }
}

#[test]
fn a_path_that_carries_no_datagrams_or_only_small_ones_is_an_error_that_says_which() {
    let mut agent = Agent::start();
    let request = json!({"datagram_bytes": 500, "timeout_s": 0.4});
    let [connects, _] = refused(&mut agent, &["source"], Some(|_, _| Fate::Drop), &request);
    assert!(
        message(&connects).contains("getting a datagram of 500 bytes through"),
        "{connects}"
    );
    assert!(
        message(&connects).contains("none of 18 bytes gets through either"),
        "{connects}"
    );
    assert_eq!(connects["data"]["kind"], "datagram");
    let small_only: Fates = |_, bytes| if bytes > 100 { Fate::Drop } else { Fate::Pass };
    // The small ones must get through in their share of this.
    let request = json!({"datagram_bytes": 500, "timeout_s": 2});
    let [connects, _] = refused(&mut agent, &["source"], Some(small_only), &request);
    assert!(
        message(&connects).contains("small ones of 18 bytes get through"),
        "{connects}"
    );
}

#[test]
fn a_side_whose_other_side_vanishes_says_so() {
    for vanishes_source in [true, false] {
        let mut pair = Pair::start();
        pair.prepare("t", &["source"], with(&json!({"rate_per_s": 1000})));
        for agent in [&mut pair.b, &mut pair.a] {
            agent.must("trial.start", json!({"trial": "t", "duration_s": 3600}));
        }
        pair.b.event("trial.sample", "t");
        let Pair { a, b } = pair;
        let (vanishes, mut stays) = if vanishes_source { (a, b) } else { (b, a) };
        drop(vanishes);
        let end = stays.events("t").1;
        assert_fault(&end, "stream 0 broke");
    }
}

#[test]
fn both_sides_can_be_stopped() {
    for (first_is_source, changes) in [
        (true, json!({})),
        (false, json!({})),
        (true, json!({"rate_per_s": 0.001})),
        (false, json!({"rate_per_s": 0.001})),
    ] {
        let mut pair = Pair::start();
        pair.prepare("t", &["source"], with(&changes));
        for agent in [&mut pair.b, &mut pair.a] {
            agent.must("trial.start", json!({"trial": "t", "duration_s": 3600}));
        }
        pair.a.event("trial.sample", "t");
        let Pair { a, b } = &mut pair;
        let stopped = if first_is_source { a } else { b };
        stopped.must("trial.stop", json!({"trial": "t"}));
        assert_eq!(stopped.events("t").1["reason"], "stopped", "{changes}");
    }
}
