//! Counters show what limits a load: a shaped link, small buffers, or nothing.

use serde_json::{Value, json};

use crate::agent_process::Agent;
use crate::endpoints::{Pair, connecting, listening, opposite, run_long_enough};

/// Shell commands that create a veth without background traffic. Its end vnb0 passes one packet, then almost nothing for
/// the duration of a test.
const SHAPED: &str = "echo 1 > /proc/sys/net/ipv6/conf/default/disable_ipv6 && ip link add vnb0 type veth peer name vnb1 && ip addr add 10.0.0.1/24 dev vnb0 && \
    ip link set vnb0 up && ip link set vnb1 up && \
    ip neigh add 10.0.0.9 lladdr 02:00:00:00:00:09 dev vnb0 && \
    tc qdisc add dev vnb0 root tbf rate 8bit burst 2000 limit 4000 &&";
/// The length of each probe on the wire.
const WIRE_BYTES: u64 = 1414;

/// Two agents in one new network namespace.
fn pair_in_new_network() -> Pair {
    let mut a = Agent::start_in_new_network("");
    a.expect_result("agent.hello", json!({}));
    let b = a.start_in_network(&["stdio"]);
    Pair { a, b }
}

/// Sends four probes to a shaped interface: one passes, two are queued, one is dropped.
fn observe_probes(request: &Value) -> (Vec<Value>, Value) {
    let mut agent = Agent::start_in_new_network(SHAPED);
    let mut prepare = json!({"trial": "t", "workload": "observe", "interval_s": 0.05});
    for (key, value) in request.as_object().expect("an object") {
        prepare[key] = value.clone();
    }
    agent.expect_result("trial.prepare", prepare);
    agent.expect_result("trial.start", json!({"trial": "t", "duration_s": 3600}));
    send_probes(&mut agent);
    agent.wait_for_event("trial.sample", "t");
    agent.expect_result("trial.stop", json!({"trial": "t"}));
    agent.wait_for_end("t")
}

fn send_probes(agent: &mut Agent) {
    let probe = json!({
        "from": "10.0.0.1", "to": "10.0.0.9", "port": 9, "packet_bytes": 1400, "attempts": 4, "timeout_s": 0.01,
    });
    agent.expect_result("path.probe", probe);
}

/// Returns the sum over all streams and samples.
fn sum(samples: &[Value], name: &str) -> f64 {
    let streams = samples.iter().flat_map(|s| s["streams"].as_array());
    streams.flatten().filter_map(|s| s[name].as_f64()).sum()
}

fn last<'a>(end: &'a Value, name: &str) -> &'a Value {
    &end["streams"][0][name]
}

#[test]
fn the_backlog_of_a_shaped_link_is_counted() {
    let (_, end) = observe_probes(&json!({"interface": "vnb0"}));
    let counters = &end["counters"];
    assert_eq!(counters["qdisc_backlog_packets"], 2, "{counters}");
    assert_eq!(counters["qdisc_backlog_bytes"], 2 * WIRE_BYTES);
    assert_eq!(counters["qdisc_drops"], 1);
    assert!(counters["qdisc_overlimits"].as_u64() > Some(0));
    assert_eq!(counters["qdisc_requeues"], 0);
}

#[test]
fn the_backlog_of_an_observed_link_is_counted() {
    let (samples, end) = observe_probes(&json!({"watch": {"interfaces": ["vnb0", "vnb1"]}}));
    let [shaped, plain] = [0, 1].map(|place| &end["interfaces"][place]);
    let queued = &shaped["qdisc"];
    assert_eq!(
        (&queued["kind"], &queued["drops"]),
        (&json!("tbf"), &json!(1))
    );
    assert_eq!(queued["backlog_packets"], 2);
    assert_eq!(queued["backlog_bytes"], 2 * WIRE_BYTES);
    assert!(queued["overlimits"].as_u64() > Some(0));
    assert_eq!(shaped["tx_bytes"], WIRE_BYTES);
    assert_eq!(plain["rx_bytes"], WIRE_BYTES);
    // A veth delivers packets at once.
    assert_eq!(
        plain["qdisc"],
        json!({"kind": "noqueue", "drops": 0, "overlimits": 0, "requeues": 0, "backlog_bytes": 0, "backlog_packets": 0})
    );
    assert!(
        samples
            .iter()
            .all(|sample| sample["interfaces"][0]["qdisc"]["kind"] == "tbf")
    );
}

#[test]
fn a_shaper_that_comes_and_goes_is_counted() {
    let mut agent = Agent::start_in_new_network(SHAPED);
    let observe = json!({"trial": "t", "workload": "observe", "interval_s": 0.05,
        "interface": "vnb0", "watch": {"interfaces": ["vnb0"]}});
    agent.expect_result("agent.hello", json!({}));
    agent.run_in_network("tc qdisc del dev vnb0 root");
    agent.expect_result("trial.prepare", observe);
    agent.expect_result("trial.start", json!({"trial": "t", "duration_s": 3600}));
    // Each shaper passes one probe, queues two and drops one.
    for _ in 0..2 {
        agent.run_in_network("tc qdisc add dev vnb0 root tbf rate 8bit burst 2000 limit 4000");
        send_probes(&mut agent);
        // A sample may fall between the second queued probe and the dropped one.
        let (mut backlog, mut drops) = (0, 0);
        while (backlog, drops) != (2, 1) {
            let sample = agent.wait_for_event("trial.sample", "t");
            backlog = sample["counters"]["qdisc_backlog_packets"]
                .as_u64()
                .unwrap_or(0);
            drops += sample["counters"]["qdisc_drops"].as_u64().unwrap_or(0);
        }
        agent.run_in_network("tc qdisc del dev vnb0 root");
        let is_empty = |sample: &Value| sample["counters"]["qdisc_backlog_packets"] == 0;
        while !is_empty(&agent.wait_for_event("trial.sample", "t")) {}
    }
    agent.expect_result("trial.stop", json!({"trial": "t"}));
    let (_, end) = agent.wait_for_end("t");
    assert_eq!(end["counters"]["qdisc_drops"], 2, "{end}");
    let observed = &end["interfaces"][0]["qdisc"];
    assert_eq!(
        (&observed["kind"], &observed["drops"]),
        (&json!("noqueue"), &json!(2))
    );
}

#[test]
fn short_samples_contain_the_backlog_every_50_ms() {
    let mut agent = Agent::start_in_new_network(SHAPED);
    let observe = json!({"trial": "t", "workload": "observe", "interval_s": 0.01,
        "interface": "vnb0", "watch": {"interfaces": ["vnb0"]}});
    agent.expect_result("trial.prepare", observe);
    agent.expect_result("trial.start", json!({"trial": "t", "duration_s": 3600}));
    send_probes(&mut agent);
    let (mut closed, mut with, mut drops) = (0, 0, [0; 2]);
    while with < 3 || drops != [1; 2] {
        let sample = agent.wait_for_event("trial.sample", "t");
        let before = closed;
        closed = sample["seq"].as_u64().expect("a number") + 1;
        let json = [
            &sample["counters"]["qdisc_drops"],
            &sample["interfaces"][0]["qdisc"]["drops"],
        ];
        for (json, drops) in json.iter().zip(&mut drops) {
            assert_eq!(json.is_u64(), closed / 5 > before / 5, "{sample}");
            *drops += json.as_u64().unwrap_or(0);
        }
        with += u32::from(json[0].is_u64());
    }
    agent.expect_result("trial.stop", json!({"trial": "t"}));
    let end = agent.wait_for_event("trial.end", "t");
    assert_eq!(end["counters"]["qdisc_drops"], 1, "{end}");
    assert_eq!(end["interfaces"][0]["qdisc"]["drops"], 1);
}

#[test]
fn an_interface_without_a_queue_has_an_empty_one() {
    let mut agent = Agent::start();
    let observe = json!({"trial": "t", "workload": "observe", "interface": "lo"});
    agent.expect_result("trial.prepare", observe);
    agent.expect_result("trial.start", json!({"trial": "t", "duration_s": 0.1}));
    let (_, end) = agent.wait_for_end("t");
    let counters = end["counters"].as_object().expect("an object");
    for name in ["qdisc_drops", "qdisc_overlimits", "qdisc_backlog_bytes"] {
        assert_eq!(counters[name], 0, "{end}");
    }
    assert!(counters.contains_key("tcp_timeouts"));
}

#[test]
fn both_endpoints_report_a_small_receive_buffer() {
    let mut pair = pair_in_new_network();
    let small = json!({"socket_buffer_bytes": 4096});
    let port = pair.b.expect_result(
        "trial.prepare",
        listening("t", &opposite(&["source"]), &small),
    )["port"]
        .take();
    let large = connecting("t", &["source"], &port, &json!({}));
    pair.a.expect_result("trial.prepare", large);
    pair.b.expect_result("trial.ready", json!({"trial": "t"}));
    let [(samples, source), (_, sink)] = pair.run("t", 0.4);
    assert!(sum(&samples, "rwnd_limited_s") > 0.0, "{source}");
    let room = last(&sink, "rcvbuf_bytes").as_u64();
    assert_eq!(room, Some(8192), "Linux doubles the requested size");
    let window = last(&source, "snd_wnd_bytes").as_u64();
    assert!(window.is_some() && window <= room, "{source}");
    assert!(last(&source, "sndbuf_bytes").as_u64() > room, "{source}");
}

#[test]
fn source_and_sink_report_their_socket_details() {
    let mut pair = Pair::start();
    pair.prepare("t", &["source"], json!({"pacing_rate_bps": 80_000_000}));
    let [(samples, _), (_, sink)] = pair.run("t", 0.3);
    let of_source = &samples[0]["streams"][0];
    assert_eq!(of_source["pacing_max_bps"], 80_000_000, "{of_source}");
    for name in [
        "mss_bytes",
        "rto_us",
        "reordering",
        "snd_wnd_bytes",
        "sndbuf_bytes",
    ] {
        assert!(of_source[name].as_u64() > Some(0), "{name} in {of_source}");
    }
    for name in [
        "app_limited",
        "ca_state",
        "backoff",
        "lost",
        "dsack_dups",
        "reord_seen",
        "bytes_retransmitted",
        "wmem_queued_bytes",
    ] {
        assert!(of_source[name].is_u64(), "{name} in {of_source}");
    }
    for name in [
        "mss_bytes",
        "rcv_space_bytes",
        "rcvbuf_bytes",
        "rmem_bytes",
        "rcv_ooopack",
    ] {
        assert!(last(&sink, name).is_u64(), "{name} in {sink}");
    }
    assert_eq!(last(&sink, "sndbuf_bytes"), &Value::Null);
}

#[test]
fn the_first_streams_of_each_role_have_details() {
    let mut pair = Pair::start();
    let roles: Vec<&str> = ["source", "sink"].into_iter().cycle().take(140).collect();
    let few = json!({"threads": 2, "message_bytes": 65_536});
    pair.prepare("t", &roles, few);
    let [(samples, a), _] = pair.run("t", 0.2);
    for sample in &samples {
        let streams = sample["streams"].as_array().expect("a list").iter();
        let in_turn = streams.filter(|s| s["sndbuf_bytes"].is_u64() || s["rcvbuf_bytes"].is_u64());
        assert_eq!(in_turn.count(), 16);
    }
    let json = |role: &str, name: &str| {
        let streams = a["streams"].as_array().expect("a list");
        let places = streams.iter().enumerate();
        let full = places.filter(|(_, s)| s["role"] == role && s[name].is_u64());
        full.map(|(place, _)| place).collect::<Vec<_>>()
    };
    let sources: Vec<usize> = (0..64).map(|i| 2 * i).collect();
    assert_eq!(json("source", "sndbuf_bytes"), sources);
    assert_eq!(json("sink", "rcvbuf_bytes").len(), 64);
    assert_eq!(json("source", "cwnd").len(), 70);
}

#[test]
fn a_full_socket_buffer_counts_as_receive_buffer_errors() {
    let mut pair = pair_in_new_network();
    let flood = json!({"workload": "udp_stream", "socket_buffer_bytes": 4096, "gso": true});
    let run = |duration_s| {
        pair.prepare("t", &["source"], flood.clone());
        pair.run("t", duration_s)
    };
    let errors = |end: &Value| end["counters"]["udp_receive_buffer_errors"].as_u64();
    let [_, (_, sink)] = run_long_enough(0.2, run, |[_, (_, sink)]| errors(sink) > Some(0));
    let errors = errors(&sink);
    assert!(errors > Some(0), "{sink}");
    assert_eq!(errors, last(&sink, "socket_drops").as_u64());
    assert_eq!(last(&sink, "rcvbuf_bytes"), 8192);
}
