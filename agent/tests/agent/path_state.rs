//! The state of the path in `trial.end`: what somebody put into a network namespace with ordinary tools.

use std::process::{Command, Stdio};

use serde_json::{Value, json};

use crate::agent_process::{Agent, is_root};
use crate::foreign_programs::{attach_pass_program, open_packet_socket};
use crate::observing::{FOREVER_S, observe, start};

/// A veth pair that carries packets from vnb0 to vnb1.
const VETHS: &str = "ip link add vnb0 type veth peer name vnb1 && ip addr add 10.0.0.1/24 dev vnb0 && \
    ip link set vnb0 up && ip link set vnb1 up && \
    ip neigh add 10.0.0.9 lladdr 02:00:00:00:00:09 dev vnb0 &&";
const PROBES: u64 = 5;

/// Runs an observer while `change` runs, and returns the state of the path.
fn path_state_while(agent: &mut Agent, watch: Value, change: impl FnOnce(&mut Agent)) -> Value {
    agent.expect_result("trial.prepare", observe(watch));
    start(agent, FOREVER_S);
    change(agent);
    agent.expect_result("trial.stop", json!({"trial": "t"}));
    agent.wait_for_event("trial.end", "t")["path_state"].take()
}

/// Returns the state of the path after these shell commands.
fn path_state_after(commands: &str) -> Value {
    let mut agent = Agent::start_in_new_network(VETHS);
    agent.expect_result("agent.hello", json!({}));
    agent.run_in_network(commands);
    path_state_while(&mut agent, json!({}), |_| ())
}

fn send_probes(agent: &mut Agent, packet_bytes: u64) {
    let probe = json!({
        "from": "10.0.0.1", "to": "10.0.0.9", "port": 9, "packet_bytes": packet_bytes, "attempts": PROBES,
        "timeout_s": 0.01,
    });
    agent.expect_result("path.probe", probe);
}

/// Returns whether a program can be started. Says so if a test is skipped without it.
fn has_program(name: &str) -> bool {
    let mut command = Command::new(name);
    let command = command
        .arg("-V")
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    let is_present = command.status().is_ok();
    if !is_present {
        eprintln!("skipped: the program {name} is missing");
    }
    is_present
}

fn find_qdisc(state: &Value, interface: &str, kind: &str) -> Value {
    let qdiscs = state["qdiscs"].as_array().expect("a list");
    let is_wanted = |q: &&Value| q["interface"] == interface && q["kind"] == kind;
    let found = qdiscs.iter().find(is_wanted);
    found.unwrap_or_else(|| panic!("{state}")).clone()
}

#[test]
fn an_empty_namespace_has_nothing_in_the_way() {
    let state = path_state_after("true");
    assert_eq!(state["qdiscs"], json!([]));
    for count in [
        "netfilter_rules",
        "packet_sockets",
        "tc_filters",
        "xdp_programs",
        "policer_drops",
    ] {
        assert_eq!(state[count], 0, "{count}");
    }
    assert!(
        state["conntrack_entries"].is_u64() && state["bridge_netfilter"].is_boolean(),
        "{state}"
    );
}

#[test]
fn rules_of_nftables_are_counted() {
    if !has_program("nft") {
        return;
    }
    let rules = "nft add table inet t && nft 'add chain inet t c { type filter hook input priority 0; }' && \
        nft add rule inet t c tcp dport 1 counter && nft add rule inet t c ct state established accept && \
        nft add table bridge b && nft add chain bridge b c && nft add rule bridge b c counter";
    assert_eq!(path_state_after(rules)["netfilter_rules"], 3);
}

#[test]
fn rate_limits_of_nftables_are_listed() {
    if !has_program("nft") {
        return;
    }
    let rules = "nft add table inet t && nft 'add chain inet t c { type filter hook input priority 0; }' && \
        nft add rule inet t c limit rate over 2 mbytes/second drop && \
        nft add rule inet t c limit rate 90/minute accept && \
        nft add rule inet t c limit rate 5/minute counter";
    let state = path_state_after(rules);
    assert_eq!(
        state["rate_limits"],
        json!([{"unit": "bytes", "per_s": 2_097_152.0}, {"unit": "packets", "per_s": 1.5}])
    );
}

#[test]
fn rules_of_the_older_iptables_are_counted() {
    if !has_program("iptables-legacy") {
        return;
    }
    let rules = "for port in 1 2 3 4; do iptables-legacy -w -A INPUT -p tcp --dport $port; done && \
        ip6tables-legacy -w -A OUTPUT -j ACCEPT";
    assert_eq!(path_state_after(rules)["netfilter_rules"], 5);
}

#[test]
fn a_large_set_of_rules_is_counted_completely() {
    if !has_program("nft") {
        return;
    }
    // nft sends all rules of a file in one message, whose size is limited.
    let rules = "nft add table ip t && nft add chain ip t c && for part in $(seq 10); do \
        for i in $(seq 200); do echo \"add rule ip t c tcp dport $i counter drop\"; done | nft -f - || exit 1; done";
    assert_eq!(path_state_after(rules)["netfilter_rules"], 2000);
}

#[test]
fn tracked_connections_are_counted() {
    if !has_program("nft") {
        return;
    }
    let mut agent = Agent::start_in_new_network(VETHS);
    agent.expect_result("agent.hello", json!({}));
    agent.run_in_network(
        "nft add table ip t && nft 'add chain ip t c { type filter hook output priority 0; }' && \
         nft add rule ip t c ct state new counter",
    );
    let state = path_state_while(&mut agent, json!({}), |agent| send_probes(agent, 100));
    assert!(state["conntrack_entries"].as_u64() >= Some(1), "{state}");
}

#[test]
fn a_packet_socket_of_another_program_is_counted_and_an_agents_own_is_not() {
    if !is_root() {
        eprintln!("skipped: only root may enter another namespace");
        return;
    }
    let mut agent = Agent::start_in_new_network(VETHS);
    agent.expect_result("agent.hello", json!({}));
    // The second agent holds packet sockets while its trial of frames waits for its start.
    let mut second = agent.start_in_network(&["stdio"]);
    let frames = json!({
        "trial": "f", "workload": "frames", "secret": crate::endpoints::SECRET, "interface": "vnb0",
        "streams": [{"id": 0, "role": "sink"}], "frame_bytes": [{"bytes": 64, "weight": 1}],
        "addresses": {"from": "198.18.0.1", "to": "198.19.0.1"}, "mac_to": "02:00:00:00:00:09",
        "generator": "packet", "sink": "packet",
    });
    second.expect_result("trial.prepare", frames);
    let sockets = std::fs::read_to_string(format!("/proc/{}/net/packet", agent.pid()));
    assert!(
        sockets.expect("Linux").lines().count() > 1,
        "the agent has packet sockets"
    );
    let state = path_state_while(&mut agent, json!({}), |_| ());
    assert_eq!(state["packet_sockets"], 0, "{state}");
    let capture = open_packet_socket(agent.pid()).expect("root may open packet sockets");
    let state = path_state_while(&mut agent, json!({}), |_| drop(capture));
    assert_eq!(state["packet_sockets"], 1, "{state}");
}

#[test]
fn a_shaper_is_listed_with_its_rate_and_what_it_did() {
    let mut agent = Agent::start_in_new_network(VETHS);
    agent.expect_result("agent.hello", json!({}));
    agent.run_in_network(
        "tc qdisc add dev vnb0 root handle 7: tbf rate 80kbit burst 1600 limit 2000",
    );
    send_probes(&mut agent, 1400);
    let state = path_state_while(&mut agent, json!({}), |agent| {
        send_probes(agent, 1400);
        send_probes(agent, 1400);
        // The link carries a probe in 141 ms. The queue has room for one, so a busy machine drops the others too.
        std::thread::sleep(std::time::Duration::from_millis(300));
    });
    let shaper = find_qdisc(&state, "vnb0", "tbf");
    assert_eq!(
        (&shaper["handle"], &shaper["parent"]),
        (&json!("7:"), &json!("root"))
    );
    assert_eq!(shaper["rate_bps"], 80_000);
    assert!(shaper["overlimits"].as_u64() >= Some(1), "{shaper}");
    let (sent, drops) = (shaper["sent_bytes"].as_u64(), shaper["drops"].as_u64());
    assert!(
        sent > Some(0) && sent <= Some(2 * PROBES * 1414),
        "{shaper}"
    );
    // Packets of the kernel, such as neighbour solicitations, pass the shaper too. They are shorter than a probe.
    let packets = shaper["sent_packets"].as_u64().expect("a count");
    let shortest_frame = 42;
    assert!(
        Some(packets * shortest_frame) <= sent && sent <= Some(packets * 1414),
        "{shaper}"
    );
    assert!(drops >= Some(1) && drops < Some(2 * PROBES), "{shaper}");
    assert_eq!(
        state["policer_drops"], 0,
        "a queue that overflows is no policer"
    );
}

#[test]
fn the_classes_of_htb_have_their_ceilings() {
    let state = path_state_after(
        "tc qdisc add dev vnb0 root handle 1: htb default 20 && \
         tc class add dev vnb0 parent 1: classid 1:1 htb rate 40gbit ceil 80gbit && \
         tc class add dev vnb0 parent 1:1 classid 1:20 htb rate 1mbit ceil 3mbit",
    );
    assert_eq!(
        find_qdisc(&state, "vnb0", "htb")["rate_bps"],
        80_000_000_000_u64
    );
    let qdiscs = state["qdiscs"].as_array().expect("a list");
    let leaf = qdiscs.iter().find(|q| q["handle"] == "1:20");
    let leaf = leaf.unwrap_or_else(|| panic!("{state}"));
    assert_eq!(
        (&leaf["kind"], &leaf["parent"]),
        (&json!("htb class"), &json!("1:1"))
    );
    assert_eq!(leaf["rate_bps"], 3_000_000);
}

#[test]
fn drops_at_the_ingress_are_those_of_a_policer() {
    // A classic BPF program that returns TC_ACT_SHOT drops as a policer does, whose kernel module may be missing.
    let mut agent = Agent::start_in_new_network(VETHS);
    agent.expect_result("agent.hello", json!({}));
    agent.run_in_network(
        "tc qdisc add dev vnb1 ingress && \
         tc filter add dev vnb1 parent ffff: bpf da bytecode '1,6 0 0 2,'",
    );
    let state = path_state_while(&mut agent, json!({}), |agent| send_probes(agent, 100));
    assert_eq!(state["tc_filters"], 1, "{state}");
    assert_eq!(find_qdisc(&state, "vnb1", "ingress")["parent"], "ingress");
    assert!(state["policer_drops"].as_u64() >= Some(PROBES), "{state}");
}

#[test]
fn drops_of_a_police_action_are_counted() {
    let mut agent = Agent::start_in_new_network(VETHS);
    agent.expect_result("agent.hello", json!({}));
    let police = "tc qdisc add dev vnb1 clsact && tc filter add dev vnb1 ingress u32 match u32 0 0 \
        action police rate 8kbit burst 150 conform-exceed drop";
    if !agent.can_run_in_network(police) {
        eprintln!("skipped: this kernel has no police action (CONFIG_NET_ACT_POLICE)");
        return;
    }
    let state = path_state_while(&mut agent, json!({}), |agent| send_probes(agent, 100));
    assert_eq!(state["tc_filters"], 1, "{state}");
    assert!(state["policer_drops"].as_u64() >= Some(1), "{state}");
}

#[test]
fn filters_are_counted_without_their_hash_tables() {
    let state = path_state_after(
        "tc qdisc add dev vnb0 clsact && \
         tc filter add dev vnb0 ingress u32 match u32 0 0 flowid 1:1 && \
         tc filter add dev vnb0 egress prio 1 u32 match ip dport 1 0xffff flowid 1:1 && \
         tc filter add dev vnb0 egress prio 1 u32 match ip dport 2 0xffff flowid 1:1",
    );
    assert_eq!(state["tc_filters"], 3, "{state}");
}

#[test]
fn a_shaper_behind_an_ifb_device_is_listed() {
    let mut agent = Agent::start_in_new_network(VETHS);
    agent.expect_result("agent.hello", json!({}));
    if !agent.can_run_in_network("ip link add ifb9 type ifb && ip link set ifb9 up") {
        eprintln!("skipped: this kernel has no ifb devices");
        return;
    }
    agent.run_in_network(
        "tc qdisc add dev ifb9 root tbf rate 1gbit burst 128k latency 10ms && \
         tc qdisc add dev vnb1 ingress && \
         tc filter add dev vnb1 parent ffff: u32 match u32 0 0 action mirred egress redirect dev ifb9",
    );
    let state = path_state_while(&mut agent, json!({}), |agent| send_probes(agent, 100));
    let shaper = find_qdisc(&state, "ifb9", "tbf");
    assert_eq!(shaper["rate_bps"], 1_000_000_000);
    assert!(
        shaper["sent_bytes"].as_u64() >= Some(PROBES * 100),
        "{state}"
    );
}

#[test]
fn a_foreign_xdp_program_is_counted() {
    if !is_root() {
        eprintln!("skipped: only root may attach XDP programs");
        return;
    }
    let mut agent = Agent::start_in_new_network(VETHS);
    agent.expect_result("agent.hello", json!({}));
    let attached = attach_pass_program(agent.pid(), "vnb1").expect("root may attach programs");
    let state = path_state_while(&mut agent, json!({}), |_| ());
    drop(attached);
    assert_eq!(state["xdp_programs"], 1, "{state}");
}

#[test]
fn an_observer_reports_the_namespace_of_its_interfaces() {
    let mut inside = Agent::start_in_new_network(VETHS);
    inside.expect_result("agent.hello", json!({}));
    inside.run_in_network("tc qdisc add dev vnb0 root tbf rate 1gbit burst 128k latency 10ms");
    let mut agent = inside.start_in_empty_network();
    let namespace = format!("/proc/{}/ns/net", inside.pid());
    let own = path_state_while(&mut agent, json!({}), |_| ());
    assert_eq!(own["qdiscs"], json!([]));
    let watch = json!({"interfaces": ["vnb1"], "namespace": namespace});
    let watched = path_state_while(&mut agent, watch, |_| ());
    find_qdisc(&watched, "vnb0", "tbf");
    // The threads of the agent stay in their own namespace.
    let own = path_state_while(&mut agent, json!({}), |_| ());
    assert_eq!(own["qdiscs"], json!([]));
}

#[test]
fn changes_during_the_trial_are_visible() {
    let mut agent = Agent::start_in_new_network(VETHS);
    agent.expect_result("agent.hello", json!({}));
    let shaper = "tbf rate 1gbit burst 128k latency 10ms";
    agent.run_in_network(&format!("tc qdisc add dev vnb0 root handle 1: {shaper}"));
    let state = path_state_while(&mut agent, json!({}), |agent| {
        agent.run_in_network(&format!(
            "tc qdisc del dev vnb0 root && tc qdisc add dev vnb1 root handle 2: {shaper}"
        ));
    });
    assert_eq!(find_qdisc(&state, "vnb0", "tbf")["is_gone"], true);
    assert_eq!(find_qdisc(&state, "vnb1", "tbf").get("is_gone"), None);
}
