//! Knobs, thread CPUs, and path probes: the effective settings match what the kernel reports.

use serde_json::{Value, json};

use crate::agent_process::Agent;
use crate::endpoints::{Pair, connecting, listening, opposite};

/// Returns the name and the allowed CPUs of each thread of an agent.
fn threads(agent: &Agent) -> Vec<(String, String)> {
    let tasks = std::fs::read_dir(format!("/proc/{}/task", agent.pid())).expect("the agent runs");
    tasks
        .flatten()
        .filter_map(|task| std::fs::read_to_string(task.path().join("status")).ok())
        .map(|status| {
            let value = |key| {
                let line = status.lines().find_map(|line| line.strip_prefix(key));
                line.expect("the kernel says it").trim().to_owned()
            };
            (value("Name:"), value("Cpus_allowed_list:"))
        })
        .collect()
}

fn stream_threads(agent: &Agent) -> Vec<String> {
    let is_stream = |(name, _): &(String, String)| name.starts_with("stream");
    threads(agent)
        .into_iter()
        .filter(is_stream)
        .map(|(_, cpus)| cpus)
        .collect()
}

#[test]
fn the_knob_cpus_applies_to_present_and_future_threads() {
    let mut pair = Pair::start();
    let cpus = |agent: &mut Agent| {
        agent.expect_result("knob.get", json!({"interface": null, "knobs": ["cpus"]}))["values"]["cpus"]
            .take()
    };
    let before = cpus(&mut pair.a);
    pair.prepare("t", &["source"], json!({}));
    let set = json!({"interface": null, "knob": "cpus", "value": "0"});
    assert_eq!(
        pair.a.expect_result("knob.set", set),
        json!({"knob": "cpus", "requested": "0", "effective": "0"})
    );
    pair.prepare("u", &["sink"], json!({}));
    let thread_cpus = threads(&pair.a);
    assert!(
        thread_cpus.len() >= 5 && thread_cpus.iter().all(|(_, cpus)| cpus == "0"),
        "{thread_cpus:?}"
    );
    let back = json!({"interface": null, "knob": "cpus", "value": before});
    assert_eq!(pair.a.expect_result("knob.set", back)["effective"], before);
    assert_eq!(cpus(&mut pair.a), before);
}

#[test]
fn a_missing_cpu_is_rejected() {
    let mut agent = Agent::start();
    let set = |value: &str| json!({"interface": null, "knob": "cpus", "value": value});
    assert_eq!(agent.expect_error_code("knob.set", set("1023")), -32003);
    assert_eq!(agent.expect_error_code("knob.set", set("9-1")), -32602);
}

#[test]
fn each_stream_has_a_thread_unless_fewer_are_requested() {
    let mut pair = Pair::start();
    let roles = ["source", "sink", "source"];
    for (trial, threads, expected) in [("1", 0, 3), ("2", 2, 2), ("3", 9, 3)] {
        pair.prepare(trial, &roles, json!({ "threads": threads }));
        assert_eq!(
            stream_threads(&pair.a).len(),
            expected,
            "threads: {threads}"
        );
        for agent in [&mut pair.a, &mut pair.b] {
            agent.expect_result("trial.stop", json!({ "trial": trial }));
            agent.wait_for_event("trial.end", trial);
        }
    }
}

#[test]
fn thread_cpus_apply_to_load_threads_only() {
    let mut pair = Pair::start();
    let mine = json!({"interface": null, "knobs": ["cpus"]});
    let everywhere = pair.a.expect_result("knob.get", mine)["values"]["cpus"].take();
    pair.prepare(
        "t",
        &["source", "sink", "source"],
        json!({"thread_cpus": ["0"]}),
    );
    assert_eq!(stream_threads(&pair.a), ["0", "0", "0"]);
    let others: Vec<Value> = threads(&pair.a)
        .into_iter()
        .filter(|(name, _)| !name.starts_with("stream"))
        .map(|(_, cpus)| Value::from(cpus))
        .collect();
    assert!(others.iter().all(|cpus| *cpus == everywhere), "{others:?}");
}

#[test]
fn reported_thread_cpus_match_the_kernel() {
    let mut pair = Pair::start();
    let mine = json!({"interface": null, "knobs": ["cpus"]});
    let everywhere = pair.b.expect_result("knob.get", mine)["values"]["cpus"].take();
    let roles = ["source", "sink", "source"];
    let port = pair.b.expect_result(
        "trial.prepare",
        listening("t", &opposite(&roles), &json!({"threads": 2})),
    )["port"]
        .take();
    let changes = json!({"thread_cpus": ["1", "0"]});
    let prepared = pair
        .a
        .expect_result("trial.prepare", connecting("t", &roles, &port, &changes));
    assert_eq!(prepared["thread_cpus"], json!(["1", "0", "1"]));
    let ready = pair.b.expect_result("trial.ready", json!({"trial": "t"}));
    assert_eq!(ready["thread_cpus"], json!([everywhere, everywhere]));
}

#[test]
fn an_invalid_thread_cpu_fails_prepare_and_leaves_no_threads() {
    let mut pair = Pair::start();
    let roles = ["source", "sink"];
    let port = pair
        .b
        .expect_result("trial.prepare", listening("t", &roles, &json!({})))["port"]
        .take();
    let params = connecting("t", &roles, &port, &json!({"thread_cpus": ["0", "1023"]}));
    assert_eq!(pair.a.expect_error_code("trial.prepare", params), -32001);
    while !stream_threads(&pair.a).is_empty() {
        std::thread::yield_now();
    }
}

#[test]
fn a_path_probe_detects_a_small_mtu() {
    let mut agent = Agent::start_in_new_network("ip link set lo mtu 1500 &&");
    let path = agent.expect_result("path.listen", json!({"address": "127.0.0.1"}));
    let mut probe = |packet_bytes: u32| {
        let probe = json!({
            "from": "127.0.0.1", "to": "127.0.0.1", "port": path["port"], "packet_bytes": packet_bytes,
            "attempts": 1, "timeout_s": 30,
        });
        agent.expect_result("path.probe", probe)
    };
    let passing = probe(1500);
    assert_eq!(
        (&passing["forward"], &passing["reverse"], &passing["reason"]),
        (&json!(true), &json!(true), &json!(""))
    );
    let too_large = probe(1501);
    assert_eq!(
        (
            &too_large["forward"],
            &too_large["reverse"],
            &too_large["reason"]
        ),
        (
            &json!(false),
            &json!(false),
            &json!("the packet is larger than the MTU of the sending interface")
        )
    );
}

#[test]
fn interface_knobs_are_set_and_read_back() {
    let mut agent = Agent::start_in_new_network(
        "ip link add vnb0 numtxqueues 2 numrxqueues 2 type veth peer name vnb1 &&",
    );
    let mut set = |knob: &str, value: Value| {
        let answer = agent.expect_result(
            "knob.set",
            json!({"interface": "vnb0", "knob": knob, "value": value}),
        );
        assert_eq!(
            (&answer["requested"], &answer["effective"]),
            (&value, &value),
            "{knob}"
        );
    };
    set("mtu", json!(9000));
    set("mtu", json!(1500));
    for knob in ["gro", "tso", "gso", "tx_checksum"] {
        set(knob, json!(false));
    }
    for knob in ["tx_checksum", "gso", "tso", "gro"] {
        set(knob, json!(true));
    }
    set("queues", json!(1));
    set("queues", json!(2));
    let assert_rejected = |agent: &mut Agent, knob: &str, value: Value| {
        let params = json!({"interface": "vnb0", "knob": knob, "value": value});
        let error = agent
            .request("knob.set", params)
            .expect_err("the value is too large");
        assert_eq!(
            (&error["code"], &error["data"]["knob"]),
            (&json!(-32003), &json!(knob))
        );
        assert_eq!(error["data"]["interface"], "vnb0");
    };
    assert_rejected(&mut agent, "mtu", json!(1_000_000));
    assert_rejected(&mut agent, "queues", json!(500));
}

#[test]
fn hardware_knobs_are_rejected_without_hardware() {
    let mut agent = Agent::start_in_new_network("ip link add vnb0 type veth peer name vnb1 &&");
    let knobs = ["rx_ring", "tx_ring", "coalesce", "irq_cpus"];
    let answer = agent.expect_result("knob.get", json!({"interface": "vnb0", "knobs": knobs}));
    for (knob, value) in knobs
        .iter()
        .zip([json!(64), json!(64), json!(2e-5), json!("spread")])
    {
        assert_eq!(answer["values"][knob], Value::Null, "{knob}");
        let set = json!({"interface": "vnb0", "knob": knob, "value": value});
        let error = agent
            .request("knob.set", set)
            .expect_err("a veth lacks the knob");
        assert_eq!(error["code"], -32003, "{knob}");
        let reason = error["data"]["reason"].as_str().expect("a reason");
        assert!(
            reason.contains("the driver does not support a change of this setting"),
            "{reason}"
        );
    }
    let lro = agent.expect_result("knob.get", json!({"interface": "vnb0", "knobs": ["lro"]}));
    assert_eq!(lro["values"]["lro"], false);
}

#[test]
fn values_of_a_wrong_type_are_rejected() {
    let mut agent = Agent::start();
    for (knob, value) in [
        ("rx_ring", json!(0)),
        ("tx_ring", json!("many")),
        ("coalesce", json!("sometimes")),
        ("coalesce", json!(-1e-6)),
        ("coalesce", json!(1.5)),
        ("coalesce", json!({"rx": 0})),
        ("irq_cpus", json!("")),
        ("irq_cpus", json!("0;x")),
        ("irq_cpus", json!(0)),
        ("lro", json!("on")),
    ] {
        let set = json!({"interface": "lo", "knob": knob, "value": value});
        assert_eq!(
            agent.expect_error_code("knob.set", set),
            -32602,
            "{knob} {value}"
        );
    }
}

#[test]
fn an_error_names_the_maximum_number_of_queues() {
    let mut agent = Agent::start_in_new_network(
        "ip link add vnb0 numtxqueues 2 numrxqueues 2 type veth peer name vnb1 &&",
    );
    let set = json!({"interface": "vnb0", "knob": "queues", "value": 3});
    let error = agent
        .request("knob.set", set)
        .expect_err("the veth has two queues");
    assert_eq!(
        error["data"]["reason"],
        "cannot be set: the driver supports at most 2 queues"
    );
}
