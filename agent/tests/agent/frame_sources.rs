//! The workload `frames`: sources, the order and timing of frames, and their counts.

use serde_json::{Value, json};

use crate::agent_process::{Agent, is_root};
use crate::endpoints::{SECRET, run_long_enough};
use crate::observing::FOREVER_S;

/// Returns the request of one endpoint at a port, with these changes.
pub fn at(port: &str, role: &str, changes: &Value) -> Value {
    let (from, to, mac_to) = match port {
        "left" => ("198.18.0.1", "198.18.0.2", "02:00:00:00:00:02"),
        _ => ("198.18.0.2", "198.18.0.1", "02:00:00:00:00:01"),
    };
    let mut request = json!({
        "trial": port, "workload": "frames", "secret": SECRET, "interface": port, "interval_s": 0.05,
        "streams": [{"id": 0, "role": role}], "frame_bytes": [{"bytes": 64, "weight": 1}],
        "addresses": {"from": from, "to": to}, "mac_to": mac_to,
    });
    for (key, value) in changes.as_object().expect("an object") {
        request[key] = value.clone();
    }
    request
}

/// Runs a source at the left port and a sink at the right one, long enough for the source to send.
///
/// Returns the backends of the source from `trial.prepare`, and the `trial.end` of both.
pub fn generate(agent: &mut Agent, changes: &Value, duration_s: f64) -> [Value; 3] {
    let run = |duration_s| generate_for(agent, changes, duration_s);
    run_long_enough(duration_s, run, |[_, source, _]| {
        sum(source, "frames_sent") > 0
    })
}

fn generate_for(agent: &mut Agent, changes: &Value, duration_s: f64) -> [Value; 3] {
    let backends =
        agent.expect_result("trial.prepare", at("left", "source", changes))["frames"].take();
    let sink = match changes.get("streams") {
        Some(sources) => {
            let mut sinks = sources.clone();
            for stream in sinks.as_array_mut().expect("streams") {
                stream["role"] = json!("sink");
            }
            let mut changes = changes.clone();
            changes["streams"] = sinks;
            changes
        }
        None => changes.clone(),
    };
    agent.expect_result("trial.prepare", at("right", "sink", &sink));
    // On a busy machine the source may start and end late, so the sink has no end of its own.
    for (port, duration_s) in [("right", FOREVER_S), ("left", duration_s)] {
        agent.expect_result(
            "trial.start",
            json!({"trial": port, "duration_s": duration_s}),
        );
    }
    let (_, source) = agent.wait_for_end("left");
    agent.expect_result("trial.stop", json!({"trial": "right"}));
    let (_, sink) = agent.wait_for_end("right");
    [backends, source, sink]
}

pub fn sum(end: &Value, count: &str) -> u64 {
    let streams = end["streams"].as_array().expect("streams");
    let counts = streams
        .iter()
        .map(|stream| stream[count].as_u64().expect("a count"));
    counts.sum()
}

/// Asserts that every frame that the port accepted arrived once and in order.
pub fn assert_all_frames_arrived(source: &Value, sink: &Value) {
    assert_eq!(source["reason"], "done", "{source}");
    assert!(sum(source, "frames_sent") > 0, "{source}");
    assert_eq!(
        sum(source, "frames_sent"),
        sum(sink, "frames_received"),
        "{source} {sink}"
    );
    assert_eq!(
        source["bytes_sent"], sink["bytes_received"],
        "{source} {sink}"
    );
    for count in ["duplicates", "out_of_order"] {
        assert_eq!(sum(sink, count), 0, "{sink}");
    }
}

#[test]
fn a_burst_has_exactly_the_requested_frames() {
    let mut agent = Agent::start_with_veth();
    for count in [1, 1000] {
        let run = |duration_s| generate(&mut agent, &json!({"frames": count}), duration_s);
        let [backends, source, sink] = run_long_enough(1.0, run, |[_, source, _]| {
            sum(source, "frames_sent") == count
        });
        assert_all_frames_arrived(&source, &sink);
        assert_eq!(sum(&source, "frames_sent"), count);
        assert_eq!(source["streams"][0]["rejected"], 0);
        assert_eq!(sink["streams"][0]["highest_number"], count - 1);
        assert_eq!(source["counters"]["frames_sent"], count);
        assert_eq!(sink["counters"]["frames_received"], count);
        if is_root() {
            assert_eq!(backends["generator"], "xdp", "{backends}");
            assert_eq!(backends["reason"], "", "{backends}");
        }
    }
}

/// Returns a counter of the kernel's network stack, from /proc/net/snmp or snmp6.
fn stack_counter(agent: &Agent, protocol: &str, counter: &str) -> u64 {
    let read = |file: &str| {
        let path = format!("/proc/{}/net/{file}", agent.pid());
        std::fs::read_to_string(path).expect("the kernel counts")
    };
    let value = if protocol == "Udp6" {
        let text = read("snmp6");
        let line = text
            .lines()
            .find(|line| line.starts_with(&format!("{protocol}{counter}")));
        line.and_then(|line| Some(line.split_whitespace().nth(1)?.to_owned()))
    } else {
        let text = read("snmp");
        let mut lines = text
            .lines()
            .filter(|line| line.starts_with(&format!("{protocol}:")));
        let (names, values) = (lines.next().expect("names"), lines.next().expect("values"));
        let column = names.split_whitespace().position(|name| name == counter);
        column.and_then(|column| Some(values.split_whitespace().nth(column)?.to_owned()))
    };
    let value = value.unwrap_or_else(|| panic!("there is no {protocol} {counter}"));
    value.parse().expect("a number")
}

#[test]
fn the_kernel_accepts_all_frames_as_valid() {
    let mut agent = Agent::start_with_veth();
    agent.run_in_network(
        "cd /proc/sys/net && echo 0 | tee ipv4/conf/*/rp_filter ipv6/conf/right/disable_ipv6
         ip route add local 198.19.0.0/16 dev right && ip -6 route add local 2001:2:0:1::/64 dev right",
    );
    let imix = json!([{"bytes": 84, "weight": 2}, {"bytes": 1517, "weight": 1}]);
    for (protocol, from, to) in [
        ("Udp", "198.18.0.1", "198.19.0.2"),
        ("Udp6", "2001:2::1", "2001:2:0:1::2"),
    ] {
        for changes in [
            json!({"flows": 1}),
            json!({"flows": 100_000}),
            json!({"flows": 100_000, "vary_addresses": true}),
        ] {
            let mut request = at("left", "source", &changes);
            request["addresses"] = json!({"from": from, "to": to});
            request["frame_bytes"] = imix.clone();
            request["frames"] = json!(300);
            agent.expect_result("trial.prepare", request);
            let sound = stack_counter(&agent, protocol, "NoPorts");
            agent.expect_result("trial.start", json!({"trial": "left", "duration_s": 0.5}));
            let (_, end) = agent.wait_for_end("left");
            assert!(sum(&end, "frames_sent") > 0, "{end}");
            let sound = stack_counter(&agent, protocol, "NoPorts") - sound;
            assert_eq!(
                sound,
                sum(&end, "frames_sent"),
                "{protocol} {changes}: {end}"
            );
        }
        assert_eq!(stack_counter(&agent, protocol, "InCsumErrors"), 0);
    }
}

#[test]
fn frames_of_every_format_arrive() {
    let mut agent = Agent::start_with_veth();
    let ipv6 = json!({"from": "2001:2::1", "to": "2001:2::2"});
    let imix = json!([{"bytes": 92, "weight": 7}, {"bytes": 594, "weight": 4}, {"bytes": 1518, "weight": 1}]);
    for changes in [
        json!({ "frame_bytes": imix }),
        json!({"addresses": ipv6, "frame_bytes": imix}),
        json!({"vlan_tags": [7, 8], "frame_bytes": [{"bytes": 92, "weight": 1}]}),
        json!({"addresses": ipv6, "vlan_tags": [7], "frame_bytes": [{"bytes": 92, "weight": 1}]}),
        json!({"flows": 1_048_576, "vary_addresses": true}),
        json!({"addresses": ipv6, "flows": 1000, "vary_addresses": true, "frame_bytes": imix}),
    ] {
        let mut changes = changes;
        changes["frames"] = json!(2400);
        let [_, source, sink] = generate(&mut agent, &changes, 0.2);
        assert_all_frames_arrived(&source, &sink);
    }
}

#[test]
fn frames_are_sent_on_schedule_and_lateness_is_reported() {
    let mut agent = Agent::start_with_veth();
    for pacing in ["program", "batches"] {
        let request = json!({"frames_per_s": 1000, "frames": 100, "pacing": pacing});
        let [_, source, sink] = generate(&mut agent, &request, 0.5);
        assert_all_frames_arrived(&source, &sink);
        let pacing_outcome = &source["streams"][0]["pacing"];
        let unsent = 100 - sum(&source, "frames_sent");
        assert_eq!(
            (&pacing_outcome["due"], &pacing_outcome["unsent"]),
            (&json!(100), &json!(unsent)),
            "{source}"
        );
        assert!(
            pacing_outcome["lateness_max_us"].as_f64() > Some(0.0),
            "{source}"
        );
        let bursts = pacing_outcome["bursts"].as_array().expect("bursts");
        let count: u64 = bursts
            .iter()
            .map(|burst| burst[1].as_u64().expect("a count"))
            .sum();
        assert!((1..=100).contains(&count), "{source}");
        if is_root() {
            assert_eq!(pacing_outcome["method"], pacing, "{source}");
        }
    }
}

#[test]
fn unsent_frames_are_reported() {
    let mut agent = Agent::start_with_veth();
    let [_, source, sink] = generate(&mut agent, &json!({"frames_per_s": 100e6}), 0.2);
    assert_all_frames_arrived(&source, &sink);
    let pacing_outcome = &source["streams"][0]["pacing"];
    let (due, unsent) = (
        pacing_outcome["due"].as_u64().expect("a count"),
        pacing_outcome["unsent"].as_u64().expect("a count"),
    );
    assert!((20_000_000..=21_000_000).contains(&due), "{source}");
    assert!(unsent > due / 2, "{source}");
}

#[test]
fn streams_of_one_endpoint_are_counted_separately() {
    let mut agent = Agent::start_with_veth();
    let request = json!({"frames": 3000, "threads": 0, "thread_cpus": ["0"],
        "streams": [{"id": 3, "role": "source"}, {"id": 5, "role": "source"}]});
    let [_, source, sink] = generate(&mut agent, &request, 0.3);
    assert_all_frames_arrived(&source, &sink);
    for (source, sink) in [0, 1].map(|index| (&source["streams"][index], &sink["streams"][index])) {
        assert_eq!(source["id"], sink["id"]);
        assert_eq!(source["frames_sent"], sink["frames_received"]);
        assert!(source["frames_sent"].as_u64() <= Some(3000));
    }
}

#[test]
fn an_error_says_how_to_fix_an_unsuitable_port() {
    let mut agent = Agent::start_with_veth();
    let error_message = |agent: &mut Agent, changes: &Value| {
        let error = agent.request("trial.prepare", at("left", "source", changes));
        error.expect_err("the port is unsuitable")["message"].to_string()
    };
    let large = error_message(
        &mut agent,
        &json!({"frame_bytes": [{"bytes": 1519, "weight": 1}]}),
    );
    assert!(
        large.contains("MTU of left is 1500") && large.contains("Set the MTU to 1501"),
        "{large}"
    );
    let absent = error_message(&mut agent, &json!({"interface": "absent"}));
    assert!(absent.contains("absent"), "{absent}");
    agent.run_in_network("ip link set left down");
    let down = error_message(&mut agent, &json!({}));
    assert!(down.contains("left") && down.contains("down"), "{down}");
}

/// A veth delivers redirected XDP frames only to a peer that uses NAPI.
#[test]
fn a_port_without_napi_is_reported_with_a_fix() {
    if !is_root() {
        return;
    }
    let mut agent = Agent::start_with_veth();
    let gro = json!({"interface": "right", "knob": "gro", "value": false});
    agent.expect_result("knob.set", gro);
    let request = at("left", "source", &json!({"generator": "xdp"}));
    let error = agent
        .request("trial.prepare", request)
        .expect_err("nothing takes them");
    let message = error["message"].to_string();
    assert!(message.contains("ethtool -K ... gro on"), "{message}");
}
