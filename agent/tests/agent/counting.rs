//! The workload `frames`, from the sink's side and by packet sockets; and what is left of it at a port.

use serde_json::{Value, json};

use crate::driving::{Agent, is_root};
use crate::generating::{assert_all_came, at, generate, sum};

const PACKETS: &str = "packet";

/// Fails where a program is at a port, or a port that the agent made is there.
fn assert_nothing_is_left(agent: &Agent) {
    agent.run_beside("! ip -d link show | grep -E 'xdp|vnb-' >&2");
}

#[test]
fn how_long_frames_were_under_way_is_in_samples_and_at_the_end() {
    let mut agent = Agent::start_at_ports();
    agent.must("trial.prepare", at("right", "sink", &json!({})));
    let paced = json!({"frames_per_s": 5000});
    agent.must("trial.prepare", at("left", "source", &paced));
    for port in ["right", "left"] {
        agent.must("trial.start", json!({"trial": port, "duration_s": 0.3}));
    }
    let (samples, end) = agent.events("right");
    let received = sum(&end, "frames_received");
    assert!(received > 0, "{end}");
    assert_eq!(end["delay"]["count"], received, "{end}");
    assert!(end["delay"]["p50_us"].as_f64() > Some(0.0), "{end}");
    assert!(end["streams"][0]["jitter_us"].as_f64() > Some(0.0), "{end}");
    assert_eq!(end["streams"][0]["other_clock"], 0);
    let sampled: u64 = samples
        .iter()
        .map(|sample| sample["delay"]["count"].as_u64().expect("a count"))
        .sum();
    assert!((1..=received).contains(&sampled), "{sampled} of {received}");
}

#[test]
fn frames_that_come_before_their_sink_is_started_are_of_the_trial_too() {
    let mut agent = Agent::start_at_ports();
    for sink in ["auto", PACKETS] {
        agent.must(
            "trial.prepare",
            at("right", "sink", &json!({ "sink": sink })),
        );
        let burst = json!({"frames": 100});
        agent.must("trial.prepare", at("left", "source", &burst));
        agent.must("trial.start", json!({"trial": "left", "duration_s": 0.05}));
        let (_, source) = agent.events("left");
        agent.must("trial.start", json!({"trial": "right", "duration_s": 0.05}));
        let (samples, sink) = agent.events("right");
        assert_all_came(&source, &sink);
        assert_eq!(sum(&source, "frames_sent"), 100);
        assert_eq!(samples[0]["counters"]["frames_received"], 100);
        assert_eq!(sink["delay"]["count"], 100);
    }
}

#[test]
fn packet_sockets_count_as_programs_do_and_lose_nothing_of_their_own() {
    let mut agent = Agent::start_at_ports();
    let ipv6 = json!({"from": "2001:2::1", "to": "2001:2::2"});
    let imix = json!([{"bytes": 92, "weight": 7}, {"bytes": 594, "weight": 4}, {"bytes": 1518, "weight": 1}]);
    for changes in [
        json!({}),
        json!({ "frame_bytes": imix }),
        json!({"addresses": ipv6, "vlan_tags": [7, 8], "frame_bytes": imix}),
        json!({"flows": 1000, "vary_addresses": true}),
    ] {
        let mut changes = changes;
        changes["frames"] = json!(2400);
        changes["generator"] = json!(PACKETS);
        changes["sink"] = json!(PACKETS);
        let [ways, source, sink] = generate(&mut agent, &changes, 0.2);
        assert_eq!(ways["generator"], PACKETS, "{ways}");
        assert_all_came(&source, &sink);
        assert_eq!(sink["sink_dropped"], 0, "{sink}");
        // One waits for the end of its stream, one takes in what comes to the port.
        assert_eq!(sink["counters"]["load_threads"], 2, "{sink}");
        assert!(sink["counters"]["threads_cpu_s"].is_f64(), "{sink}");
    }
}

#[test]
fn frames_larger_than_a_page_are_made_by_packet_sockets_and_it_is_said() {
    let mut agent = Agent::start_at_ports();
    agent.run_beside("ip link set left mtu 9000 && ip link set right mtu 9000");
    let request = json!({"frames": 200, "frame_bytes": [{"bytes": 9018, "weight": 1}]});
    let [ways, source, sink] = generate(&mut agent, &request, 0.3);
    assert_eq!(ways["generator"], PACKETS, "{ways}");
    assert!(!ways["why"].as_str().expect("a reason").is_empty());
    assert_all_came(&source, &sink);
    assert_eq!(
        sink["bytes_received"],
        sum(&sink, "frames_received") * 9018,
        "{sink}"
    );
}

#[test]
fn packet_sockets_keep_times_and_say_how_late_they_were() {
    let mut agent = Agent::start_at_ports();
    let request = json!({"frames_per_s": 1000, "frames": 100, "generator": PACKETS});
    let [_, source, sink] = generate(&mut agent, &request, 0.5);
    assert_all_came(&source, &sink);
    let kept = &source["streams"][0]["pacing"];
    assert_eq!(kept["by"], "batches", "{source}");
    assert_eq!(kept["due"], 100, "{source}");
    assert!(kept["late_max_us"].as_f64() > Some(0.0), "{source}");
    let bursts = kept["bursts"].as_array().expect("bursts");
    assert!(!bursts.is_empty(), "{source}");
}

#[test]
fn what_a_port_can_have_is_told_before_and_nothing_stays_there() {
    let mut agent = Agent::start_at_ports();
    let able = agent.must("frames.able", json!({"interface": "left"}));
    if is_root() {
        let best = json!({"generator": "xdp", "sink": "xdp native", "why": ""});
        assert_eq!(able, best);
    } else {
        assert_eq!(
            (&able["generator"], &able["sink"]),
            (&json!(PACKETS), &json!(PACKETS))
        );
        assert!(!able["why"].as_str().expect("a reason").is_empty());
    }
    assert_nothing_is_left(&agent);
    assert_eq!(
        agent.code("frames.able", json!({"interface": "absent"})),
        -32001
    );
    assert_eq!(agent.code("frames.able", json!({})), -32602);
}

#[test]
fn a_trial_that_ends_and_an_agent_that_is_killed_leave_nothing_at_the_ports() {
    let mut agent = Agent::start_at_ports();
    let [_, source, sink] = generate(&mut agent, &json!({"frames": 10}), 0.1);
    assert_all_came(&source, &sink);
    assert_nothing_is_left(&agent);

    let mut killed = agent.start_beside(&["stdio"]);
    killed.must("trial.prepare", at("right", "sink", &json!({})));
    killed.must("trial.prepare", at("left", "source", &json!({})));
    for port in ["right", "left"] {
        killed.must("trial.start", json!({"trial": port, "duration_s": 60}));
    }
    if is_root() {
        agent.run_beside("ip -d link show right | grep -q xdp");
    }
    killed.signal(libc::SIGKILL);
    drop(killed);
    assert_nothing_is_left(&agent);
}

#[test]
fn streams_of_frames_have_low_ids() {
    let mut agent = Agent::start_at_ports();
    let high = json!({"streams": [{"id": 1024, "role": "sink"}]});
    let error = agent.ask("trial.prepare", at("right", "sink", &high));
    let error: Value = error.expect_err("it is too high");
    assert_eq!(error["code"], -32602);
}
