//! The workload `frames`: sinks, packet sockets, and the state of ports after a trial.

use serde_json::{Value, json};

use crate::agent_process::{Agent, is_root};
use crate::endpoints::run_long_enough;
use crate::frame_sources::{assert_all_frames_arrived, at, generate, sum};

const PACKET_BACKEND: &str = "packet";

/// Asserts that no BPF program is attached to a port, and that no port of the agent exists.
fn assert_ports_are_clean(agent: &Agent) {
    agent.run_in_network("! ip -d link show | grep -E 'xdp|vnb-' >&2");
}

#[test]
fn samples_and_trial_end_contain_frame_delays() {
    let mut agent = Agent::start_with_veth();
    let run = |duration_s| {
        agent.expect_result("trial.prepare", at("right", "sink", &json!({})));
        let paced = json!({"frames_per_s": 5000});
        agent.expect_result("trial.prepare", at("left", "source", &paced));
        for port in ["right", "left"] {
            let start = json!({"trial": port, "duration_s": duration_s});
            agent.expect_result("trial.start", start);
        }
        ["right", "left"].map(|port| agent.wait_for_end(port))
    };
    let received = |end: &Value| sum(end, "frames_received");
    let [(samples, end), _] = run_long_enough(0.3, run, |[(_, end), _]| received(end) > 10);
    let received = received(&end);
    assert!(received > 10, "{end}");
    assert_eq!(end["delay"]["count"], received, "{end}");
    assert!(end["delay"]["p50_us"].as_f64() > Some(0.0), "{end}");
    assert!(end["streams"][0]["jitter_us"].as_f64() > Some(0.0), "{end}");
    assert_eq!(end["streams"][0]["impossible_transits"], 0);
    let sampled: u64 = samples
        .iter()
        .map(|sample| sample["delay"]["count"].as_u64().expect("a count"))
        .sum();
    assert!((1..=received).contains(&sampled), "{sampled} of {received}");
}

#[test]
fn frames_received_before_the_sink_starts_are_counted() {
    for sink in ["auto", PACKET_BACKEND] {
        let run = |duration_s| {
            let mut agent = Agent::start_with_veth();
            let sink = at("right", "sink", &json!({ "sink": sink }));
            agent.expect_result("trial.prepare", sink);
            let burst = json!({"frames": 100});
            agent.expect_result("trial.prepare", at("left", "source", &burst));
            let [(_, source), (samples, sink)] = ["left", "right"].map(|port| {
                let start = json!({"trial": port, "duration_s": duration_s});
                agent.expect_result("trial.start", start);
                agent.wait_for_end(port)
            });
            (source, samples, sink)
        };
        let has_sent_all = |(source, ..): &(Value, _, _)| sum(source, "frames_sent") == 100;
        let (source, samples, sink) = run_long_enough(0.05, run, has_sent_all);
        assert_all_frames_arrived(&source, &sink);
        assert_eq!(sum(&source, "frames_sent"), 100);
        assert_eq!(samples[0]["counters"]["frames_received"], 100);
        assert_eq!(sink["delay"]["count"], 100);
    }
}

#[test]
fn packet_sockets_count_all_frames() {
    let mut agent = Agent::start_with_veth();
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
        changes["generator"] = json!(PACKET_BACKEND);
        changes["sink"] = json!(PACKET_BACKEND);
        let [backends, source, sink] = generate(&mut agent, &changes, 0.2);
        assert_eq!(backends["generator"], PACKET_BACKEND, "{backends}");
        assert_all_frames_arrived(&source, &sink);
        assert_eq!(sink["sink_dropped"], 0, "{sink}");
        // One thread waits for the end of the stream, one receives frames at the port.
        assert_eq!(sink["counters"]["load_threads"], 2, "{sink}");
        assert!(sink["counters"]["threads_cpu_s"].is_f64(), "{sink}");
    }
}

#[test]
fn frames_larger_than_a_page_use_packet_sockets() {
    let mut agent = Agent::start_with_veth();
    agent.run_in_network("ip link set left mtu 9000 && ip link set right mtu 9000");
    let request = json!({"frames": 200, "frame_bytes": [{"bytes": 9018, "weight": 1}]});
    let [backends, source, sink] = generate(&mut agent, &request, 0.3);
    assert_eq!(backends["generator"], PACKET_BACKEND, "{backends}");
    assert!(!backends["reason"].as_str().expect("a reason").is_empty());
    assert_all_frames_arrived(&source, &sink);
    assert_eq!(
        sink["bytes_received"],
        sum(&sink, "frames_received") * 9018,
        "{sink}"
    );
}

#[test]
fn packet_sockets_keep_the_rate_and_report_lateness() {
    let mut agent = Agent::start_with_veth();
    let request = json!({"frames_per_s": 1000, "frames": 100, "generator": PACKET_BACKEND});
    let [_, source, sink] = generate(&mut agent, &request, 0.5);
    assert_all_frames_arrived(&source, &sink);
    let pacing_outcome = &source["streams"][0]["pacing"];
    assert_eq!(pacing_outcome["method"], "batches", "{source}");
    assert_eq!(pacing_outcome["due"], 100, "{source}");
    assert!(
        pacing_outcome["lateness_max_us"].as_f64() > Some(0.0),
        "{source}"
    );
    let bursts = pacing_outcome["bursts"].as_array().expect("bursts");
    assert!(!bursts.is_empty(), "{source}");
}

#[test]
fn backends_are_probed_without_leaving_anything() {
    let mut agent = Agent::start_with_veth();
    let capabilities = agent.expect_result("frames.capabilities", json!({"interface": "left"}));
    if is_root() {
        let best = json!({"generator": "xdp", "sink": "xdp native", "reason": ""});
        assert_eq!(capabilities, best);
    } else {
        assert_eq!(
            (&capabilities["generator"], &capabilities["sink"]),
            (&json!(PACKET_BACKEND), &json!(PACKET_BACKEND))
        );
        assert!(
            !capabilities["reason"]
                .as_str()
                .expect("a reason")
                .is_empty()
        );
    }
    assert_ports_are_clean(&agent);
    assert_eq!(
        agent.expect_error_code("frames.capabilities", json!({"interface": "absent"})),
        -32001
    );
    assert_eq!(
        agent.expect_error_code("frames.capabilities", json!({})),
        -32602
    );
}

#[test]
fn ports_are_clean_after_a_trial_and_after_a_kill() {
    let mut agent = Agent::start_with_veth();
    let [_, source, sink] = generate(&mut agent, &json!({"frames": 10}), 0.1);
    assert_all_frames_arrived(&source, &sink);
    assert_ports_are_clean(&agent);

    let mut killed = agent.start_in_network(&["stdio"]);
    killed.expect_result("trial.prepare", at("right", "sink", &json!({})));
    killed.expect_result("trial.prepare", at("left", "source", &json!({})));
    for port in ["right", "left"] {
        killed.expect_result("trial.start", json!({"trial": port, "duration_s": 60}));
    }
    if is_root() {
        agent.run_in_network("ip -d link show right | grep -q xdp");
    }
    killed.signal(libc::SIGKILL);
    drop(killed);
    assert_ports_are_clean(&agent);
}

#[test]
fn large_stream_ids_are_rejected_for_frames() {
    let mut agent = Agent::start_with_veth();
    let high = json!({"streams": [{"id": 1024, "role": "sink"}]});
    let error = agent.request("trial.prepare", at("right", "sink", &high));
    let error: Value = error.expect_err("the id is too large");
    assert_eq!(error["code"], -32602);
}
