//! The workload `observe`, and the statistics of an interface's driver.

use std::process::{Child, Command, Stdio};

use serde_json::{Value, json};

use crate::agent_process::{Agent, is_root};
use crate::foreign_programs::connect_in_vain;

/// Shell commands that create a veth in one namespace. Packets to 10.0.0.9 leave through vnb0 and arrive at vnb1.
const VETHS: &str = "ip link add vnb0 type veth peer name vnb1 && ip addr add 10.0.0.1/24 dev vnb0 && \
    ip link set vnb0 up && ip link set vnb1 up && \
    ip neigh add 10.0.0.9 lladdr 02:00:00:00:00:09 dev vnb0 &&";
const PROBES: u64 = 5;

/// A process that uses as much CPU time as it can get.
pub struct BusyProcess(Child);

impl BusyProcess {
    pub fn start() -> Self {
        Self::spawn(&mut Command::new("sh"))
    }

    /// Starts the process on this CPU only.
    pub fn start_on(cpu: &str) -> Self {
        Self::spawn(Command::new("taskset").args(["-c", cpu, "sh"]))
    }

    /// Starts the process so that it yields to all others.
    pub fn start_with_low_priority() -> Self {
        Self::spawn(Command::new("nice").args(["-n", "19", "sh"]))
    }

    fn spawn(shell: &mut Command) -> Self {
        shell.args(["-c", "while :; do :; done"]);
        Self(shell.stdin(Stdio::null()).spawn().expect("a shell"))
    }

    pub fn id(&self) -> u32 {
        self.0.id()
    }

    fn end(&mut self) {
        self.0.kill().expect("the process is a child");
        self.0.wait().expect("the process is a child");
    }
}

impl Drop for BusyProcess {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

pub fn observe(watch: Value) -> Value {
    json!({"trial": "t", "workload": "observe", "interval_s": 0.05, "watch": watch})
}

/// A duration longer than any test: on a busy machine a thread may not run for a while.
pub const FOREVER_S: f64 = 3600.0;

pub fn start(agent: &mut Agent, duration_s: f64) {
    agent.expect_result(
        "trial.start",
        json!({"trial": "t", "duration_s": duration_s}),
    );
}

/// Starts a prepared trial and waits until its counters have been read, which may be after the answer.
fn start_and_wait_for_sample(agent: &mut Agent) {
    start(agent, FOREVER_S);
    agent.wait_for_event("trial.sample", "t");
}

fn send_probes(agent: &mut Agent) {
    let probe = json!({
        "from": "10.0.0.1", "to": "10.0.0.9", "port": 9, "packet_bytes": 100, "attempts": PROBES, "timeout_s": 0.01,
    });
    agent.expect_result("path.probe", probe);
}

/// Runs a prepared trial while probes leave through vnb0, and returns its `trial.end`.
fn run_with_probes(agent: &mut Agent) -> Value {
    start_and_wait_for_sample(agent);
    send_probes(agent);
    agent.expect_result("trial.stop", json!({"trial": "t"}));
    agent.wait_for_event("trial.end", "t")
}

#[test]
fn the_cpu_time_of_samples_adds_up_to_the_trial() {
    let mut agent = Agent::start();
    let busy = BusyProcess::start();
    let threads = json!([{"name": "a1 vcpu0", "tid": busy.id()}]);
    agent.expect_result("trial.prepare", observe(json!({ "threads": threads })));
    start(&mut agent, FOREVER_S);
    let spent = |event: &Value| {
        assert_eq!(event["threads"][0]["name"], "a1 vcpu0");
        assert_eq!(event["threads"][0].get("is_gone"), None);
        event["threads"][0]["cpu_s"].as_f64().expect("a number")
    };
    let mut of_samples = 0.0;
    let mut samples_with_some = 0;
    while samples_with_some < 2 {
        let of_sample = spent(&agent.wait_for_event("trial.sample", "t"));
        of_samples += of_sample;
        samples_with_some += u32::from(of_sample > 0.0);
    }
    agent.expect_result("trial.stop", json!({"trial": "t"}));
    let (samples, end) = agent.wait_for_end("t");
    of_samples += samples.iter().map(spent).sum::<f64>();
    assert!(spent(&end) >= of_samples - 1e-9, "{of_samples} {end}");
    assert_eq!(
        (&end["interfaces"], &end["kvm_exits"]),
        (&json!([]), &Value::Null)
    );
}

#[test]
fn an_ended_thread_keeps_its_cpu_time_and_is_marked_gone() {
    let mut agent = Agent::start();
    let mut busy = BusyProcess::start();
    let threads = json!([{"name": "b1 vhost", "tid": busy.id()}]);
    agent.expect_result("trial.prepare", observe(json!({ "threads": threads })));
    start(&mut agent, FOREVER_S);
    let spent = |event: &Value| event["threads"][0]["cpu_s"].as_f64().expect("a number");
    let mut before = 0.0;
    while before == 0.0 {
        before += spent(&agent.wait_for_event("trial.sample", "t"));
    }
    busy.end();
    while agent.wait_for_event("trial.sample", "t")["threads"][0]["is_gone"] != true {}
    agent.expect_result("trial.stop", json!({"trial": "t"}));
    let end = agent.wait_for_event("trial.end", "t");
    assert_eq!(
        (&end["reason"], &end["fault"]),
        (&json!("stopped"), &json!(""))
    );
    assert_eq!(end["threads"][0]["is_gone"], true);
    assert!(spent(&end) >= before, "{before} {end}");
}

#[test]
fn observed_interfaces_are_of_the_observers_namespace() {
    let mut agent = Agent::start_in_new_network(VETHS);
    let watch = json!({"interfaces": ["vnb0", "vnb1"]});
    agent.expect_result("trial.prepare", observe(watch));
    let end = run_with_probes(&mut agent);
    let of = |place: usize, count: &str| end["interfaces"][place][count].as_u64();
    assert_eq!(end["interfaces"][1]["name"], "vnb1");
    assert!(of(0, "tx_packets") >= Some(PROBES), "{end}");
    assert_eq!(of(0, "tx_packets"), of(1, "rx_packets"));
    assert_eq!(
        (of(0, "tx_dropped"), of(1, "rx_dropped")),
        (Some(0), Some(0))
    );
}

#[test]
fn interfaces_of_another_namespace_can_be_observed() {
    let mut inside = Agent::start_in_new_network(VETHS);
    inside.expect_result("agent.hello", json!({}));
    let mut agent = inside.start_in_empty_network();
    let namespace = format!("/proc/{}/ns/net", inside.pid());
    let watch = json!({"interfaces": ["vnb1"], "namespace": namespace});
    agent.expect_result("trial.prepare", observe(watch));
    // The agent itself stays in its own namespace.
    let mine = agent.request("knob.get", json!({"interface": "vnb1", "knobs": ["mtu"]}));
    assert_eq!(
        mine.expect_err("the interface is in another namespace")["code"],
        -32003
    );
    start_and_wait_for_sample(&mut agent);
    send_probes(&mut inside);
    agent.expect_result("trial.stop", json!({"trial": "t"}));
    let end = agent.wait_for_event("trial.end", "t");
    assert!(
        end["interfaces"][0]["rx_packets"].as_u64() >= Some(PROBES),
        "{end}"
    );
}

#[test]
fn a_vanished_interface_keeps_its_counts_and_is_marked_gone() {
    let mut agent = Agent::start_in_new_network(VETHS);
    agent.expect_result("trial.prepare", observe(json!({"interfaces": ["vnb1"]})));
    start(&mut agent, FOREVER_S);
    agent.run_in_network("ip link del vnb0");
    while agent.wait_for_event("trial.sample", "t")["interfaces"][0]["is_gone"] != true {}
    agent.run_in_network("ip link add vnb0 type veth peer name vnb1");
    agent.expect_result("trial.stop", json!({"trial": "t"}));
    let end = agent.wait_for_event("trial.end", "t");
    assert_eq!(end["interfaces"][0]["is_gone"], true);
    assert_eq!(end["reason"], "stopped");
}

#[test]
fn a_link_that_fails_and_returns_is_counted() {
    let mut agent = Agent::start_in_new_network(VETHS);
    let mut request = observe(json!({"interfaces": ["vnb0", "vnb1"]}));
    request["interface"] = "lo".into();
    agent.expect_result("trial.prepare", request);
    start_and_wait_for_sample(&mut agent);
    let mut changes = 0;
    agent.run_in_network("ip link set vnb0 down && ip link set vnb0 up");
    while changes < 2 {
        let sample = agent.wait_for_event("trial.sample", "t");
        changes += sample["interfaces"][1]["carrier_changes"]
            .as_u64()
            .expect("a number");
    }
    agent.expect_result("trial.stop", json!({"trial": "t"}));
    let end = agent.wait_for_event("trial.end", "t");
    let of = |place: usize| end["interfaces"][place]["carrier_changes"].as_u64();
    assert_eq!((of(0), of(1)), (Some(2), Some(2)), "{end}");
    // The link of the loopback did not change.
    assert_eq!(end["counters"]["carrier_changes"], 0);
}

#[test]
fn a_connection_request_without_answer_is_counted() {
    if !is_root() {
        eprintln!("skipped: only root may enter another namespace");
        return;
    }
    let mut agent = Agent::start_in_new_network(VETHS);
    agent.expect_result("trial.prepare", observe(json!({})));
    start_and_wait_for_sample(&mut agent);
    let silent = "10.0.0.9:80".parse().expect("an address");
    connect_in_vain(agent.pid(), silent).expect("nobody answers");
    agent.expect_result("trial.stop", json!({"trial": "t"}));
    let end = agent.wait_for_event("trial.end", "t");
    let count = |name: &str| end["counters"][name].as_u64();
    assert_eq!(count("tcp_connections_opened"), Some(1));
    // A busy machine closes the connection late, after a second repetition.
    assert!(count("tcp_syn_retransmits").is_some_and(|count| count >= 1));
}

#[test]
fn missing_threads_and_interfaces_are_rejected() {
    let mut agent = Agent::start();
    let mut code = |watch: Value| agent.expect_error_code("trial.prepare", observe(watch));
    let nobody = json!([{"name": "a1 vcpu0", "tid": u32::MAX}]);
    assert_eq!(code(json!({ "threads": nobody })), -32001);
    assert_eq!(code(json!({"interfaces": ["vnb-absent"]})), -32001);
    assert_eq!(code(json!({"threads": [{"tid": 1}]})), -32602);
    assert_eq!(code(json!({"interfaces": "lo"})), -32602);
    let nowhere = json!({"interfaces": ["lo"], "namespace": "/proc/self/ns/none"});
    assert_eq!(code(nowhere), -32001);
    assert_eq!(code(json!({"fans": []})), -32602);
    assert_eq!(code(json!({"kvm_pids": vec![1; 1025]})), -32602);
}

#[test]
fn a_load_accepts_watch_too() {
    let mut agent = Agent::start();
    let sink = |interface: &str| {
        json!({
            "trial": "t", "workload": "tcp_stream", "secret": crate::endpoints::SECRET,
            "watch": {"interfaces": [interface]},
            "listen": {"address": "127.0.0.1"}, "streams": [{"id": 0, "role": "sink"}],
        })
    };
    assert_eq!(
        agent.expect_error_code("trial.prepare", sink("vnb-absent")),
        -32001
    );
    agent.expect_result("trial.prepare", sink("lo"));
}

#[test]
fn the_end_of_a_trial_lacks_what_was_not_watched() {
    let mut agent = Agent::start();
    agent.expect_result("trial.prepare", observe(json!({})));
    start(&mut agent, 0.1);
    let (_, end) = agent.wait_for_end("t");
    for key in ["threads", "interfaces", "kvm_exits"] {
        assert_eq!(end.get(key), None, "{key}");
    }
}

#[test]
fn vm_exits_are_null_without_virtual_machines() {
    let mut agent = Agent::start();
    let watch = json!({"kvm_pids": [std::process::id()]});
    agent.expect_result("trial.prepare", observe(watch));
    start(&mut agent, 0.1);
    let (_, end) = agent.wait_for_end("t");
    assert_eq!(end.get("kvm_exits"), Some(&Value::Null));
}

#[test]
fn trial_end_contains_the_drivers_statistics() {
    let mut agent = Agent::start_in_new_network(VETHS);
    // With GRO on, a veth receives packets in a loop that counts them.
    for (interface, knob, value) in [("vnb0", "tso", false), ("vnb1", "gro", true)] {
        let set = json!({"interface": interface, "knob": knob, "value": value});
        agent.expect_result("knob.set", set);
    }
    let mut of = |interface: &str| {
        let mut request = observe(json!({}));
        request["interface"] = interface.into();
        agent.expect_result("trial.prepare", request);
        run_with_probes(&mut agent)["adapter"].take()
    };
    let counted = of("vnb1");
    let packets = counted["rx_queue_0_xdp_packets"].as_u64();
    assert!(packets >= Some(PROBES), "{counted}");
    // The peer's interface index is not a counter and does not change.
    assert_eq!(counted.get("peer_ifindex"), None);
    assert_eq!(of("lo"), Value::Null);
}
