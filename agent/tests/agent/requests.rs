//! Valid and invalid requests: each gets exactly one answer, and none ends the agent.

use serde_json::{Value, json};

use crate::agent_process::{Agent, run, run_as_first_process};

#[test]
fn hello_describes_the_agent() {
    let mut agent = Agent::start();
    let hello = agent.expect_result("agent.hello", json!({}));
    assert_eq!(hello["agent"], "vnetbench-agent");
    assert_eq!(hello["protocol"], 3);
    assert_eq!(hello["version"], env!("CARGO_PKG_VERSION"));
    assert_eq!(hello["pid"], agent.pid());
    assert_eq!(
        hello["workloads"],
        json!([
            "tcp_stream",
            "tcp_rr",
            "tcp_crr",
            "udp_stream",
            "frames",
            "mixed",
            "observe"
        ])
    );
}

#[test]
fn facts_describe_this_machine() {
    let facts = Agent::start().expect_result("agent.facts", json!({}));
    let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").expect("Linux");
    assert_eq!(facts["kernel"]["release"], release.trim());
    let online = std::fs::read_to_string("/sys/devices/system/cpu/online").expect("Linux");
    assert_eq!(facts["cpu"]["online"], online.trim());
    assert!(facts["memory_bytes"].as_u64() > Some(1 << 20));
    let control = &facts["tcp"]["congestion_control"];
    let available = facts["tcp"]["available_congestion_control"].as_array();
    assert!(available.expect("a list").contains(control));
    let interfaces = facts["interfaces"].as_array().expect("a list");
    let lo = interfaces
        .iter()
        .find(|i| i["name"] == "lo")
        .expect("a loopback");
    assert_eq!(lo["mac"], "00:00:00:00:00:00");
    for kind in ["process_cycles", "system_cycles"] {
        assert!(
            ["hardware", "estimated"]
                .map(Value::from)
                .contains(&facts["perf"][kind])
        );
    }
}

#[test]
fn facts_describe_the_interfaces() {
    let mut agent = Agent::start_in_new_network("ip link add vnb0 type veth peer name vnb1 &&");
    let facts = agent.expect_result("agent.facts", json!({}));
    let interfaces = facts["interfaces"].as_array().expect("a list");
    let veth = interfaces
        .iter()
        .find(|i| i["name"] == "vnb0")
        .expect("vnb0 exists");
    assert_eq!(
        (&veth["driver"], &veth["adapter"]),
        (&json!("veth"), &Value::Null)
    );
    let channels = &veth["channels"];
    assert!(
        channels["max_rx"].as_u64() >= Some(1) && channels["combined"] == 0,
        "{channels}"
    );
    assert_eq!(
        (&veth["rings"], &veth["coalescing"]),
        (&Value::Null, &Value::Null)
    );
    let offloads = veth["offloads"].as_array().expect("a list");
    assert!(offloads.contains(&json!("tso")) && !offloads.contains(&json!("lro")));
}

#[test]
fn methods_of_guests_are_rejected_on_a_host() {
    let mut agent = Agent::start();
    for method in [
        "guest.configure",
        "guest.team",
        "guest.team_state",
        "guest.power_off",
    ] {
        assert_eq!(
            agent.expect_error_code(method, json!({})),
            -32601,
            "{method}"
        );
    }
}

#[test]
fn init_refuses_to_run_outside_a_guest() {
    for (code, out, err) in [run(&["init"]), run_as_first_process(&["init"])] {
        assert_eq!((code, out), (Some(2), String::new()));
        assert!(
            err.contains("the first process (PID 1) of a guest's initramfs"),
            "{err}"
        );
    }
    let (code, _, err) = run_as_first_process(&[]);
    assert_eq!(code, Some(2));
    assert!(err.contains("Usage: vnetbench-agent <COMMAND>"), "{err}");
}

#[test]
fn invalid_requests_get_matching_error_codes() {
    let mut agent = Agent::start();
    for (line, id, code) in [
        ("nonsense", Value::Null, -32700),
        (
            "{\"jsonrpc\":\"2.0\",\"id\":\"x\",\"method\":\"agent.hello\"",
            Value::Null,
            -32700,
        ),
        ("[]", Value::Null, -32600),
        (
            "[{\"jsonrpc\":\"2.0\",\"id\":\"x\",\"method\":\"agent.hello\"}]",
            Value::Null,
            -32600,
        ),
        (
            "{\"id\":\"b\",\"method\":\"agent.hello\"}",
            json!("b"),
            -32600,
        ),
        (
            "{\"jsonrpc\":\"2.0\",\"id\":\"c\",\"method\":\"agent.bye\"}",
            json!("c"),
            -32601,
        ),
        (
            "{\"jsonrpc\":\"2.0\",\"id\":\"d\",\"method\":\"knob.get\"}",
            json!("d"),
            -32602,
        ),
        (
            "{\"jsonrpc\":\"2.0\",\"id\":\"e\",\"method\":\"path.close\",\"params\":{\"path\":7}}",
            json!("e"),
            -32602,
        ),
    ] {
        agent.write(format!("{line}\n").as_bytes());
        let reply = agent.wait_for(|message| message["id"] == id);
        assert_eq!(reply["error"]["code"], code, "{line}");
        assert!(
            reply["error"]["message"]
                .as_str()
                .is_some_and(|text| text.len() > 10)
        );
    }
    agent.expect_result("agent.hello", json!({}));
}

#[test]
fn a_line_over_one_mebibyte_is_rejected() {
    let mut agent = Agent::start();
    let mut line = vec![b' '; (1 << 20) + 1];
    line.push(b'\n');
    agent.write(&line);
    assert_eq!(
        agent.wait_for(|m| m["id"].is_null())["error"]["code"],
        -32600
    );
    agent.expect_result("agent.hello", json!({}));
}

#[test]
fn notifications_and_empty_lines_are_not_answered() {
    let mut agent = Agent::start();
    agent.write(b"\n \r\n{\"jsonrpc\":\"2.0\",\"method\":\"agent.hello\"}\n");
    agent.write(b"{\"jsonrpc\":\"2.0\",\"method\":\"agent.bye\"}\n");
    agent.expect_result("agent.hello", json!({}));
    assert_eq!(agent.take_unread_messages(), [] as [Value; 0]);
}

#[test]
fn notifications_are_executed() {
    let mut agent = Agent::start();
    let prepare = json!({"trial": "t", "workload": "observe"});
    let notification = json!({"jsonrpc": "2.0", "method": "trial.prepare", "params": prepare});
    agent.write(format!("{notification}\n").as_bytes());
    agent.expect_result("trial.stop", json!({"trial": "t"}));
}

#[test]
fn a_blocked_agent_ends_when_the_bench_is_gone() {
    let mut agent = Agent::start();
    agent.set_reading(false);
    // The answers repeat the requests. They fill just over 64 MiB, so that the next one must wait.
    let long_name = "x".repeat(1_000_000);
    for _ in 0..69 {
        agent.send(&long_name, json!({}));
    }
    agent.send("agent.hello", json!({}));
    assert_eq!(agent.finish(), (Some(0), String::new()));
}

#[test]
fn an_error_names_an_unknown_parameter() {
    let error = Agent::start()
        .request(
            "knob.get",
            json!({"interface": "lo", "knobs": [], "nob": 1}),
        )
        .expect_err("there is no nob");
    assert!(
        error["message"]
            .as_str()
            .is_some_and(|text| text.contains("`nob`")),
        "{error}"
    );
}

#[test]
fn answers_are_written_before_the_agent_ends() {
    let mut agent = Agent::start();
    let id = agent.send("agent.hello", json!({}));
    agent.close_input();
    agent.wait_for_reply(id).expect("the request is answered");
    assert_eq!(agent.finish(), (Some(0), String::new()));
}

#[test]
fn the_command_line_prints_its_usage() {
    let (code, out, err) = run(&["--version"]);
    assert_eq!(
        (code, out),
        (
            Some(0),
            format!("vnetbench-agent {}\n", env!("CARGO_PKG_VERSION"))
        )
    );
    assert_eq!(err, "");
    let (code, out, _) = run(&["--help"]);
    assert_eq!(code, Some(0));
    assert!(out.contains("Usage: vnetbench-agent <COMMAND>"));
    for command in ["stdio", "restore", "init", "iperf3-serve", "iperf3-client"] {
        assert!(out.contains(&format!("\n  {command} ")), "{command}: {out}");
    }
    for wrong in [
        &[][..],
        &["serve"],
        &["stdio", "more"],
        &["init", "more"],
        &["restore"],
        &["stdio", "--journal"],
    ] {
        let (code, out, err) = run(wrong);
        assert_eq!((code, out), (Some(2), String::new()), "{wrong:?}");
        assert!(err.contains("--help"), "{wrong:?}: {err}");
    }
}
