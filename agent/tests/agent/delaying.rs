//! Delay lines between two ports of one network: frames cross them, and are counted; what is asked wrongly is refused.

use serde_json::{Value, json};

use crate::driving::Agent;

const PROBES: u64 = 5;
/// Longer than any test takes.
const FOR_EVER_US: f64 = 60e6;

/// An agent in a network in which nothing is sent but what a test sends.
fn agent_in_silence() -> Agent {
    Agent::start_apart("echo 1 > /proc/sys/net/ipv6/conf/default/disable_ipv6 &&")
}

/// Starts a line between the ports left and right; what is sent to 10.0.0.9 leaves by left.
fn start_line(agent: &mut Agent, forward: Value) -> String {
    let request = json!({"ports": ["left", "right"], "forward": forward, "seed": 3});
    let json = agent.must("line.start", request);
    assert_eq!(json["ports"], json!(["left", "right"]));
    agent.run_beside(
        "ip addr add 10.0.0.1/24 dev left && ip neigh add 10.0.0.9 lladdr 02:00:00:00:00:09 dev left",
    );
    json["line"].as_str().expect("a name").to_owned()
}

fn send_probes(agent: &mut Agent) {
    let probe = json!({
        "from": "10.0.0.1", "to": "10.0.0.9", "port": 9, "packet_bytes": 100, "attempts": PROBES, "timeout_s": 0.01,
    });
    agent.must("path.probe", probe);
}

fn forward_counts(json: &mut Value) -> Value {
    json["forward"]["counts"].take()
}

/// Reads the line until so many are counted there.
fn read_until(agent: &mut Agent, line: &str, name: &str, count: u64) -> Value {
    loop {
        let counts = forward_counts(&mut agent.must("line.read", json!({"line": line})));
        if counts[name] == count {
            return counts;
        }
        assert!(counts[name].as_u64() < Some(count), "{name}: {counts}");
    }
}

#[test]
fn frames_cross_a_line_one_way_and_are_counted_there() {
    let mut agent = agent_in_silence();
    let line = start_line(&mut agent, json!({"delay_us": 500, "jitter_us": 100}));
    send_probes(&mut agent);
    let counts = read_until(&mut agent, &line, "frames", PROBES);
    assert_eq!(counts["segments"], PROBES, "{counts}");
    // 14 of Ethernet's header.
    assert_eq!(counts["bytes"], PROBES * 114);
    for name in ["lost", "held_back", "overflowed", "refused", "waiting"] {
        assert_eq!(counts[name], 0, "{name}");
    }
    let json = agent.must("line.read", json!({"line": line}));
    assert_eq!(json["reverse"]["counts"]["segments"], 0);
    assert_eq!(json["forward"]["asked"]["jitter_us"], 100.0);
    let seeds = ["forward", "reverse"].map(|way| json[way]["seed"].as_u64());
    assert_eq!(seeds, [Some(6), Some(7)]);
}

#[test]
fn what_is_to_be_lost_does_not_cross() {
    let mut agent = agent_in_silence();
    let line = start_line(&mut agent, json!({"loss": 1}));
    send_probes(&mut agent);
    let counts = read_until(&mut agent, &line, "lost", PROBES);
    assert_eq!(
        (&counts["frames"], &counts["segments"]),
        (&json!(0), &json!(PROBES))
    );
}

#[test]
fn what_waits_when_a_line_is_set_goes_on_waiting_and_is_still_told() {
    let mut agent = agent_in_silence();
    let line = start_line(&mut agent, json!({ "delay_us": FOR_EVER_US }));
    send_probes(&mut agent);
    read_until(&mut agent, &line, "waiting", PROBES);
    let other = json!({"line": line, "forward": {"loss": 1}, "reverse": {}});
    let counts = forward_counts(&mut agent.must("line.set", other));
    assert_eq!(counts["waiting"], PROBES, "{counts}");
    assert_eq!(
        (&counts["segments"], &counts["lost"]),
        (&json!(0), &json!(0))
    );
    send_probes(&mut agent);
    let counts = read_until(&mut agent, &line, "lost", PROBES);
    assert_eq!(counts["waiting"], PROBES, "{counts}");
}

#[test]
fn what_leaves_after_a_line_was_set_is_counted_from_then_on() {
    let mut agent = agent_in_silence();
    let line = start_line(&mut agent, json!({"delay_us": 3e6}));
    send_probes(&mut agent);
    read_until(&mut agent, &line, "waiting", PROBES);
    agent.must(
        "line.set",
        json!({"line": line, "forward": {}, "reverse": {}}),
    );
    let counts = read_until(&mut agent, &line, "frames", PROBES);
    assert_eq!(counts["segments"], 0, "{counts}");
}

#[test]
fn a_line_whose_port_was_removed_says_which_and_what_to_do() {
    let mut agent = agent_in_silence();
    let line = start_line(&mut agent, json!({}));
    agent.run_beside("ip link del right");
    let error = loop {
        if let Err(error) = agent.ask("line.read", json!({"line": line})) {
            break error;
        }
    };
    assert_eq!(error["code"], -32001);
    let message = error["message"].as_str().expect("words");
    let names = format!("line {line} from right to left");
    for part in [names.as_str(), "port right", "line.stop"] {
        assert!(message.contains(part), "{part}: {message}");
    }
    let set = json!({"line": line, "forward": {}, "reverse": {}});
    assert_eq!(agent.code("line.set", set), -32001);
    // Which then frees the other port, so that it can be made anew.
    let last = agent.must("line.stop", json!({"line": line}));
    assert_eq!(last["reverse"]["cpus"], "");
    start_line(&mut agent, json!({}));
}

#[test]
fn what_no_line_can_be_is_refused() {
    let mut agent = agent_in_silence();
    let mut code = |request: Value| agent.code("line.start", request);
    // What is there already, and what no interface is called.
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
    for method in ["line.read", "line.stop"] {
        assert_eq!(
            agent.code(method, json!({"line": "l1"})),
            -32602,
            "{method}"
        );
    }
    let line = start_line(&mut agent, json!({"delay_us": 7}));
    let wrong = json!({"line": line, "forward": {}, "reverse": {"loss": -1}});
    assert_eq!(agent.code("line.set", wrong), -32602);
    let json = agent.must("line.stop", json!({"line": line}));
    assert_eq!(json["forward"]["asked"]["delay_us"], 7.0, "it is as it was");
}
