//! The other programs that use the most CPU time during a trial (`processes` in `trial.end`).

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::agent_process::Agent;
use crate::endpoints::{Pair, run_long_enough};
use crate::observing::{BusyProcess, FOREVER_S, observe, start};

/// The longest tick of a kernel, by which each reading of a running thread may be late.
const LONGEST_TICK_S: f64 = 0.01;
/// Number of programs in a full list.
const MAX_LISTED: usize = 16;
/// CPU time after which a program counts as busy in these tests.
const BUSY_S: f64 = 0.05;

/// Returns the CPU time of a process with one thread.
fn cpu_s(pid: u32) -> f64 {
    let text = std::fs::read_to_string(format!("/proc/{pid}/schedstat")).expect("it runs");
    let nanos = text.split(' ').next().expect("three numbers");
    nanos.parse::<f64>().expect("a number") / 1e9
}

fn wait_until_busy(process: &BusyProcess) {
    let before = cpu_s(process.id());
    while cpu_s(process.id()) < before + BUSY_S {
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn stop(agent: &mut Agent) -> Value {
    agent.expect_result("trial.stop", json!({"trial": "t"}));
    agent.wait_for_event("trial.end", "t")
}

fn find_process(end: &Value, pid: u32) -> Option<Value> {
    let processes = end["processes"].as_array().expect("a list");
    let found = processes.iter().find(|process| process["pid"] == pid);
    found.cloned()
}

/// Returns the entry of a process that used at least this CPU time.
///
/// Returns `None` if programs that used as much fill the list, as on a machine with many busy programs.
fn find_busy_process(end: &Value, pid: u32, least_cpu_s: f64) -> Option<Value> {
    let found = find_process(end, pid);
    if found.is_none() {
        let processes = end["processes"].as_array().expect("a list");
        assert_eq!(processes.len(), MAX_LISTED, "{pid} is missing: {end}");
        for process in processes {
            let cpu_s = process["cpu_s"].as_f64().expect("a number");
            assert!(cpu_s >= least_cpu_s - LONGEST_TICK_S, "{pid}: {end}");
        }
        eprintln!("not listed: other programs were as busy as process {pid}");
    }
    found
}

fn first_allowed_cpu() -> String {
    let status = std::fs::read_to_string("/proc/self/status").expect("proc");
    let allowed = status
        .lines()
        .find_map(|line| line.strip_prefix("Cpus_allowed_list:"))
        .expect("Linux");
    let first = allowed.trim().split(['-', ',']).next();
    first.expect("at least one CPU").to_owned()
}

#[test]
fn a_busy_program_is_listed_with_its_cpu_time_and_cpus() {
    let cpu = first_allowed_cpu();
    let busy = BusyProcess::start_on(&cpu);
    wait_until_busy(&busy);
    let mut agent = Agent::start();
    agent.expect_result("trial.prepare", observe(json!({})));
    let before_start = cpu_s(busy.id());
    start(&mut agent, FOREVER_S);
    let after_start = cpu_s(busy.id());
    wait_until_busy(&busy);
    let before_end = cpu_s(busy.id());
    let end = stop(&mut agent);
    let after_end = cpu_s(busy.id());
    let Some(listed) = find_busy_process(&end, busy.id(), before_end - after_start) else {
        return;
    };
    let spent = listed["cpu_s"].as_f64().expect("a number");
    assert!(
        spent >= before_end - after_start - LONGEST_TICK_S,
        "{listed}"
    );
    assert!(
        spent <= after_end - before_start + LONGEST_TICK_S,
        "{listed}"
    );
    assert_eq!(listed["cpus"], cpu);
    assert_eq!(
        (&listed["name"], &listed["threads"]),
        (&json!("sh"), &json!(1))
    );
    assert_eq!(listed.get("kernel"), None);
    let interval_s = end["processes_interval_s"].as_f64().expect("a number");
    let duration_s = end["duration_s"].as_f64().expect("a number");
    assert!(interval_s >= duration_s, "{interval_s} {duration_s}");
}

#[test]
fn a_program_that_starts_during_the_trial_is_listed() {
    let mut agent = Agent::start();
    agent.expect_result("trial.prepare", observe(json!({})));
    start(&mut agent, FOREVER_S);
    let busy = BusyProcess::start();
    wait_until_busy(&busy);
    let end = stop(&mut agent);
    if let Some(listed) = find_busy_process(&end, busy.id(), BUSY_S) {
        let spent = listed["cpu_s"].as_f64();
        assert!(spent >= Some(BUSY_S - LONGEST_TICK_S), "{listed}");
    }
}

#[test]
fn the_list_is_sorted_and_limited() {
    let mut agent = Agent::start();
    agent.expect_result("trial.prepare", observe(json!({})));
    start(&mut agent, FOREVER_S);
    let busy: Vec<BusyProcess> = (0..18)
        .map(|_| BusyProcess::start_with_low_priority())
        .collect();
    for process in &busy {
        while cpu_s(process.id()) < 0.005 {
            std::thread::sleep(Duration::from_millis(5));
        }
    }
    let end = stop(&mut agent);
    let processes = end["processes"].as_array().expect("a list");
    let times: Vec<f64> = processes
        .iter()
        .map(|process| process["cpu_s"].as_f64().expect("a number"))
        .collect();
    assert_eq!(times.len(), MAX_LISTED);
    assert!(times.is_sorted_by(|a, b| a >= b), "{times:?}");
}

#[test]
fn the_bench_its_agents_and_observed_processes_are_not_listed() {
    let mut observer = Agent::start();
    let watched = BusyProcess::start();
    let other = BusyProcess::start();
    let threads = json!([{"name": "a1 vcpu0", "tid": watched.id()}]);
    observer.expect_result("trial.prepare", observe(json!({ "threads": threads })));
    start(&mut observer, FOREVER_S);
    let mut pair = Pair::start();
    let run = |duration_s| {
        pair.prepare("load", &["source"], json!({}));
        pair.run("load", duration_s)
    };
    // The list leaves out a process that gets hardly any CPU time, as on a busy machine.
    let lists_watched = |ends: &[(Vec<Value>, Value); 2]| {
        let [(_, of_source), _] = ends;
        find_process(of_source, watched.id()).is_some()
    };
    let [(_, of_source), _] = run_long_enough(0.3, run, lists_watched);
    let until = Instant::now() + Duration::from_millis(30);
    while Instant::now() < until {}
    wait_until_busy(&watched);
    wait_until_busy(&other);
    let end = stop(&mut observer);
    find_busy_process(&end, other.id(), BUSY_S);
    for pid in [
        watched.id(),
        std::process::id(),
        observer.pid(),
        pair.a.pid(),
        pair.b.pid(),
    ] {
        assert_eq!(find_process(&end, pid), None);
    }
    // An endpoint that counts the whole kernel lists other programs too. It knows nothing of the observer's threads.
    assert_eq!(find_process(&of_source, pair.b.pid()), None);
    find_busy_process(&of_source, watched.id(), 0.0);
}

#[test]
fn an_endpoint_without_counters_of_the_kernel_lists_no_programs() {
    let mut pair = Pair::start();
    pair.prepare("load", &["source"], json!({"system": false}));
    let [(_, end), _] = pair.run("load", 0.05);
    assert_eq!(end.get("processes"), None);
    assert_eq!(end.get("processes_interval_s"), None);
}
