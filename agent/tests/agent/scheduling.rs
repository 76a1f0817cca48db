//! CPU counters: how long threads ran and waited, and which CPUs received packets.

use serde_json::{Value, json};

use crate::agent_process::Agent;
use crate::endpoints::Pair;
use crate::observing::{BusyProcess, FOREVER_S, observe, start};

/// Returns the CPU list of this process.
fn own_cpus() -> String {
    let status = std::fs::read_to_string("/proc/thread-self/status").expect("proc");
    let list = status
        .lines()
        .find_map(|line| line.strip_prefix("Cpus_allowed_list:"));
    list.expect("the line exists").trim().into()
}

fn one_cpu() -> String {
    let cpus = own_cpus();
    let first = cpus.split([',', '-']).next();
    first.expect("one at least").into()
}

fn counter(event: &Value, name: &str) -> f64 {
    let number = event["counters"][name].as_f64();
    number.unwrap_or_else(|| panic!("{name} in {event}"))
}

#[test]
fn load_threads_and_the_busiest_one_are_counted() {
    let mut pair = Pair::start();
    pair.prepare("t", &["source"; 3], json!({"threads": 2}));
    for (samples, end) in pair.run("t", 0.4) {
        for event in samples.iter().chain([&end]) {
            assert_eq!(counter(event, "load_threads"), 2.0);
            for name in ["cpu_s", "waited_s"] {
                let all = counter(event, &format!("threads_{name}"));
                let busiest = counter(event, &format!("busiest_thread_{name}"));
                assert!((0.0..=all).contains(&busiest), "{name}: {event}");
            }
        }
        let of_samples: f64 = samples.iter().map(|s| counter(s, "threads_cpu_s")).sum();
        let all = counter(&end, "threads_cpu_s");
        assert!(all > 0.0 && of_samples <= all + 1e-9, "{of_samples} {end}");
        // The counters of the process also include the sampler.
        let process = counter(&end, "process_cpu_user_s") + counter(&end, "process_cpu_system_s");
        assert!(all <= process + 0.05, "{all} {process}");
    }
}

#[test]
fn a_load_on_a_shared_cpu_counts_its_wait_time() {
    let cpu = one_cpu();
    let mut pair = Pair::start();
    pair.prepare("t", &["source"], json!({"thread_cpus": [cpu]}));
    let _rivals = [BusyProcess::start_on(&cpu), BusyProcess::start_on(&cpu)];
    let [(_, source), _] = pair.run("t", 1.0);
    // The other processes get two thirds of the CPU time; any further load only increases the wait.
    let wait_s = counter(&source, "busiest_thread_waited_s");
    assert!(wait_s > 0.2, "{source}");
}

#[test]
fn an_observer_has_no_load_threads() {
    let mut agent = Agent::start();
    agent.expect_result("trial.prepare", observe(json!({})));
    start(&mut agent, 0.1);
    let (_, end) = agent.wait_for_end("t");
    assert_eq!(end["counters"].get("load_threads"), None);
    assert_eq!(end["counters"].get("threads_cpu_s"), None);
}

#[test]
fn an_observed_thread_on_a_shared_cpu_counts_its_wait_time() {
    let cpu = one_cpu();
    let watched = BusyProcess::start_on(&cpu);
    let _rival = BusyProcess::start_on(&cpu);
    let mut agent = Agent::start();
    let threads = json!([{"name": "a1 vcpu0", "tid": watched.id()}]);
    agent.expect_result("trial.prepare", observe(json!({ "threads": threads })));
    start(&mut agent, FOREVER_S);
    let mut wait_s = 0.0;
    while wait_s < 0.1 {
        let sample = agent.wait_for_event("trial.sample", "t");
        wait_s += sample["threads"][0]["waited_s"].as_f64().expect("a number");
    }
}

#[test]
fn packet_counts_of_cpus_add_up_to_the_system_counters() {
    let mut agent = Agent::start_in_new_network("");
    agent.expect_result("trial.prepare", observe(json!({})));
    start(&mut agent, FOREVER_S);
    let probe = json!({
        "from": "127.0.0.1", "to": "127.0.0.1", "port": 9, "packet_bytes": 100, "attempts": 5, "timeout_s": 0.01,
    });
    agent.expect_result("path.probe", probe);
    agent.expect_result("trial.stop", json!({"trial": "t"}));
    let end = agent.wait_for_event("trial.end", "t");
    let cpus = end["cpu"].as_array().expect("a list");
    let sum = |name: &str| {
        cpus.iter()
            .filter_map(|cpu| cpu[name].as_u64())
            .sum::<u64>()
    };
    for (of_cpu, of_system) in [
        ("softnet_processed", "softnet_processed"),
        ("softnet_dropped", "softnet_dropped"),
        ("softnet_squeezed", "softnet_squeezed"),
        ("net_rx", "softirq_net_rx"),
    ] {
        assert_eq!(end["counters"][of_system], sum(of_cpu), "{end}");
    }
    assert!(sum("softnet_processed") >= 5, "{end}");
    assert!(cpus[0]["softnet_rps"].is_u64(), "{end}");
}
