//! Delay lines between two ports: frames cross them and are counted, and invalid requests are rejected.

use serde_json::{Value, json};

use crate::agent_process::Agent;

const PROBES: u64 = 5;
/// A delay longer than any test.
const FOR_EVER_US: f64 = 60e6;

/// Starts an agent in a network without background traffic.
fn agent_in_quiet_network() -> Agent {
    Agent::start_in_new_network("echo 1 > /proc/sys/net/ipv6/conf/default/disable_ipv6 &&")
}

/// Starts a delay line between the ports left and right. Packets to 10.0.0.9 leave through left.
fn start_line(agent: &mut Agent, forward: Value) -> String {
    let request = json!({"ports": ["left", "right"], "forward": forward, "seed": 3});
    let json = agent.expect_result("delay_line.start", request);
    assert_eq!(json["ports"], json!(["left", "right"]));
    agent.run_in_network(
        "ip addr add 10.0.0.1/24 dev left && ip neigh add 10.0.0.9 lladdr 02:00:00:00:00:09 dev left",
    );
    json["line"].as_str().expect("a name").to_owned()
}

fn send_probes(agent: &mut Agent) {
    let probe = json!({
        "from": "10.0.0.1", "to": "10.0.0.9", "port": 9, "packet_bytes": 100, "attempts": PROBES, "timeout_s": 0.01,
    });
    agent.expect_result("path.probe", probe);
}

fn forward_counts(json: &mut Value) -> Value {
    json["forward"]["counts"].take()
}

/// Reads the delay line until a count reaches this value.
fn read_until_count(agent: &mut Agent, line: &str, name: &str, count: u64) -> Value {
    loop {
        let counts =
            forward_counts(&mut agent.expect_result("delay_line.read", json!({"line": line})));
        if counts[name] == count {
            return counts;
        }
        assert!(counts[name].as_u64() < Some(count), "{name}: {counts}");
    }
}

#[test]
fn a_delay_line_counts_frames_by_direction() {
    let mut agent = agent_in_quiet_network();
    let line = start_line(&mut agent, json!({"delay_us": 500, "jitter_us": 100}));
    send_probes(&mut agent);
    let counts = read_until_count(&mut agent, &line, "frames", PROBES);
    assert_eq!(counts["segments"], PROBES, "{counts}");
    // 100 bytes of IP packet and 14 bytes of Ethernet header.
    assert_eq!(counts["bytes"], PROBES * 114);
    for name in [
        "lost",
        "reordered",
        "queue_drops",
        "port_drops",
        "backlog_frames",
    ] {
        assert_eq!(counts[name], 0, "{name}");
    }
    let json = agent.expect_result("delay_line.read", json!({"line": line}));
    assert_eq!(json["reverse"]["counts"]["segments"], 0);
    assert_eq!(json["forward"]["requested"]["jitter_us"], 100.0);
    let seeds = ["forward", "reverse"].map(|way| json[way]["seed"].as_u64());
    assert_eq!(seeds, [Some(6), Some(7)]);
}

#[test]
fn a_delay_line_drops_frames_at_full_loss() {
    let mut agent = agent_in_quiet_network();
    let line = start_line(&mut agent, json!({"loss": 1}));
    send_probes(&mut agent);
    let counts = read_until_count(&mut agent, &line, "lost", PROBES);
    assert_eq!(
        (&counts["frames"], &counts["segments"]),
        (&json!(0), &json!(PROBES))
    );
}

#[test]
fn changing_a_delay_line_keeps_its_backlog() {
    let mut agent = agent_in_quiet_network();
    let line = start_line(&mut agent, json!({ "delay_us": FOR_EVER_US }));
    send_probes(&mut agent);
    read_until_count(&mut agent, &line, "backlog_frames", PROBES);
    let other = json!({"line": line, "forward": {"loss": 1}, "reverse": {}});
    let counts = forward_counts(&mut agent.expect_result("delay_line.set", other));
    assert_eq!(counts["backlog_frames"], PROBES, "{counts}");
    assert_eq!(
        (&counts["segments"], &counts["lost"]),
        (&json!(0), &json!(0))
    );
    send_probes(&mut agent);
    let counts = read_until_count(&mut agent, &line, "lost", PROBES);
    assert_eq!(counts["backlog_frames"], PROBES, "{counts}");
}

#[test]
fn changing_a_delay_line_resets_its_counts() {
    let mut agent = agent_in_quiet_network();
    let line = start_line(&mut agent, json!({"delay_us": 3e6}));
    send_probes(&mut agent);
    read_until_count(&mut agent, &line, "backlog_frames", PROBES);
    agent.expect_result(
        "delay_line.set",
        json!({"line": line, "forward": {}, "reverse": {}}),
    );
    let counts = read_until_count(&mut agent, &line, "frames", PROBES);
    assert_eq!(counts["segments"], 0, "{counts}");
}

#[test]
fn an_error_names_the_removed_port_of_a_delay_line() {
    let mut agent = agent_in_quiet_network();
    let line = start_line(&mut agent, json!({}));
    agent.run_in_network("ip link del right");
    let error = loop {
        if let Err(error) = agent.request("delay_line.read", json!({"line": line})) {
            break error;
        }
    };
    assert_eq!(error["code"], -32001);
    let message = error["message"].as_str().expect("words");
    let names = format!("line {line} from right to left");
    for part in [names.as_str(), "port right", "delay_line.stop"] {
        assert!(message.contains(part), "{part}: {message}");
    }
    let set = json!({"line": line, "forward": {}, "reverse": {}});
    assert_eq!(agent.expect_error_code("delay_line.set", set), -32001);
    // Stopping the line frees the other port, so that a new line can use its name.
    let last = agent.expect_result("delay_line.stop", json!({"line": line}));
    assert_eq!(last["reverse"]["cpus"], "");
    start_line(&mut agent, json!({}));
}

#[test]
fn invalid_delay_lines_are_rejected() {
    let mut agent = agent_in_quiet_network();
    let mut code = |request: Value| agent.expect_error_code("delay_line.start", request);
    // An existing interface, and invalid interface names.
    assert_eq!(code(json!({"ports": ["lo", "lo"]})), -32001);
    assert_eq!(code(json!({"ports": ["left", "lo"]})), -32001);
    assert_eq!(code(json!({"ports": ["", "right"]})), -32001);
    let ports = json!(["left", "right"]);
    for wrong in [
        json!({"ports": ports, "queue_bytes": 0}),
        json!({"ports": ports, "seed": 1_u64 << 52}),
        json!({"ports": ports, "forward": {"loss": 2}}),
        json!({"ports": ports, "reverse": {"delay_us": -1}}),
        json!({"ports": ports, "forward": {"speed": 1}}),
        json!({"ports": ["left"]}),
    ] {
        assert_eq!(code(wrong.clone()), -32602, "{wrong}");
    }
    for method in ["delay_line.read", "delay_line.stop"] {
        assert_eq!(
            agent.expect_error_code(method, json!({"line": "l1"})),
            -32602,
            "{method}"
        );
    }
    let line = start_line(&mut agent, json!({"delay_us": 7}));
    let wrong = json!({"line": line, "forward": {}, "reverse": {"loss": -1}});
    assert_eq!(agent.expect_error_code("delay_line.set", wrong), -32602);
    let json = agent.expect_result("delay_line.stop", json!({"line": line}));
    assert_eq!(
        json["forward"]["requested"]["delay_us"], 7.0,
        "it is as it was"
    );
}
