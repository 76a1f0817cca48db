//! Ten thousand mutated requests: each gets exactly the answers it must get, and the agent keeps running. PROPTEST_CASES
//! sets another number, with a new seed each time.

use std::collections::HashMap;
use std::time::UNIX_EPOCH;

use serde_json::{Value, json};

use crate::agent_process::Agent;
use crate::endpoints::{connecting, listening};
use crate::random::Random;

const LINES: usize = 10_000;
const SEED: u64 = 20_240_229;

/// Returns a valid request for every method. The ports of delay lines do not exist, so only a mutation can create a line.
fn valid_request_lines() -> Vec<String> {
    let mut observe = json!({"trial": "o", "workload": "observe", "interval_s": 0.05});
    observe["interface"] = json!("lo");
    let short = json!({"timeout_s": 0.05, "message_bytes": 100, "congestion_control": "reno"});
    let datagrams = json!({"workload": "udp_stream", "datagram_bytes": 100, "rate_per_s": 10, "gro": true,
        "pacing": "sleep", "fragments": true, "timeout_s": 0.05});
    let requests = [
        ("agent.hello", json!({})),
        ("agent.facts", json!({})),
        (
            "knob.get",
            json!({"interface": "lo", "knobs": ["mtu", "tso", "gro", "queues", "rps_cpus"]}),
        ),
        ("knob.get", json!({"interface": null, "knobs": ["cpus"]})),
        (
            "knob.set",
            json!({"interface": "lo", "knob": "mtu", "value": 9000}),
        ),
        (
            "knob.set",
            json!({"interface": null, "knob": "cpus", "value": "0"}),
        ),
        ("path.listen", json!({"address": "127.0.0.1"})),
        (
            "path.probe",
            json!({"from": "127.0.0.1", "to": "127.0.0.1", "port": 40000, "packet_bytes": 1500, "attempts": 2, "timeout_s": 0.01}),
        ),
        ("path.close", json!({"path": "p1"})),
        (
            "delay_line.start",
            json!({"ports": ["lo", "lo"], "forward": {"delay_us": 50, "distribution": "normal", "loss_burst": null}, "queue_bytes": 1000}),
        ),
        (
            "delay_line.set",
            json!({"line": "l1", "forward": {}, "reverse": {"loss": 0.5}, "seed": 1}),
        ),
        ("delay_line.read", json!({"line": "l1"})),
        ("delay_line.stop", json!({"line": "l1"})),
        ("frames.capabilities", json!({"interface": "lo"})),
        (
            "iperf3.probe",
            json!({"address": "127.0.0.1", "port": 40002, "from": null, "timeout_s": 0.01}),
        ),
        ("trial.prepare", observe),
        ("trial.prepare", listening("t", &["sink", "source"], &short)),
        (
            "trial.prepare",
            connecting("c", &["source", "sink"], &json!(40001), &short),
        ),
        ("trial.prepare", listening("d", &["sink"], &datagrams)),
        ("trial.ready", json!({"trial": "t"})),
        ("trial.start", json!({"trial": "o", "duration_s": 0.1})),
        ("trial.stop", json!({"trial": "t"})),
        ("trial.stop", json!({"trial": "o"})),
    ];
    let all = requests.into_iter().chain(team_requests());
    all.map(|(method, params)| request_line(method, &params))
        .collect()
}

fn team_requests() -> Vec<(&'static str, Value)> {
    let start = json!({"port": "absent", "members": ["lo", "lo"], "policy": "fields", "fields": ["source_ip"],
        "reduction": "last_octet", "active": 0, "bundled": true});
    vec![
        ("team.start", start),
        ("team.read", json!({"port": "absent"})),
        ("team.stop", json!({"port": "absent"})),
    ]
}

fn request_line(method: &str, params: &Value) -> String {
    json!({"jsonrpc": "2.0", "id": 0, "method": method, "params": params}).to_string()
}

const ODDITIES: [&str; 14] = [
    "null",
    "-1",
    "1e308",
    "1e999",
    "0.5",
    "[]",
    "{}",
    "\"\"",
    "true",
    "99999999999999999999",
    "\\u0000",
    "\\ud800",
    "\"id\":[1],",
    "\u{fffd}",
];

fn mutate(line: &mut Vec<u8>, other: &[u8], random: &mut Random) {
    let at = random.below(line.len());
    let end = (at + 1 + random.below(12)).min(line.len());
    match random.below(7) {
        0 => line[at] = random.below(256) as u8,
        1 => line[at] ^= 1 << random.below(8),
        2 => drop(line.drain(at..end)),
        3 => {
            let copy = line[at..end].to_vec();
            line.splice(at..at, copy);
        }
        4 => {
            let oddity = ODDITIES[random.below(ODDITIES.len())].bytes();
            line.splice(at..end, oddity);
        }
        5 => line.truncate(at),
        _ => {
            let tail = &other[random.below(other.len())..];
            line.truncate(at);
            line.extend_from_slice(tail);
        }
    }
    // A line feed would split the line.
    line.retain(|byte| *byte != b'\n');
    if line.is_empty() {
        line.push(b'x');
    }
}

/// Returns the id of the answer that JSON-RPC 2.0 requires; `None` if it requires none.
fn expected_answer_id(line: &[u8]) -> Option<Value> {
    if line.trim_ascii().is_empty() {
        return None;
    }
    let Ok(Value::Object(message)) = serde_json::from_slice::<Value>(line) else {
        return Some(Value::Null);
    };
    match message.get("id") {
        Some(id @ (Value::Null | Value::String(_) | Value::Number(_))) => Some(id.clone()),
        Some(_) => Some(Value::Null),
        None => {
            let is_notification = message.get("jsonrpc") == Some(&json!("2.0"))
                && message.get("method").is_some_and(Value::is_string)
                && message.get("params").is_none_or(Value::is_object);
            (!is_notification).then_some(Value::Null)
        }
    }
}

fn line_count_and_seed() -> (usize, u64) {
    let Ok(cases) = std::env::var("PROPTEST_CASES") else {
        return (LINES, SEED);
    };
    let since_epoch = UNIX_EPOCH.elapsed().expect("a time after 1970");
    let lines = cases.parse().expect("a number of cases");
    (lines, since_epoch.as_nanos() as u64 | 1)
}

#[test]
fn ten_thousand_mutated_requests_are_answered_once_each() {
    // Uses a new network namespace, so that a mutated address or interface does no harm.
    let mut agent = Agent::start_in_new_network("");
    let valid_lines = valid_request_lines();
    let (lines, seed) = line_count_and_seed();
    println!("{lines} lines, seed {seed}");
    let mut random = Random(seed);
    let mut expected: HashMap<String, i64> = HashMap::new();
    for number in 0..lines {
        let id = format!("\"id\":{number},");
        let pick = random.below(valid_lines.len());
        let mut line = valid_lines[pick].replacen("\"id\":0,", &id, 1).into_bytes();
        let other = valid_lines[random.below(valid_lines.len())].as_bytes();
        for _ in 0..=random.below(3) {
            mutate(&mut line, other, &mut random);
        }
        if let Some(id) = expected_answer_id(&line) {
            *expected.entry(id.to_string()).or_default() += 1;
        }
        line.push(b'\n');
        agent.write(&line);
    }
    let mut missing: i64 = expected.values().sum();
    assert!(
        missing > lines as i64 * 4 / 5,
        "most mutants are still to be answered: {missing}"
    );
    while missing > 0 {
        let reply = agent.wait_for(|message| message.get("id").is_some());
        let missing_answers = expected.get_mut(&reply["id"].to_string());
        let missing_answers =
            missing_answers.unwrap_or_else(|| panic!("no request has this id: {reply}"));
        *missing_answers -= 1;
        assert!(*missing_answers >= 0, "one answer too many: {reply}");
        missing -= 1;
        // Internal errors are bugs of the agent; no line may cause one.
        assert_ne!(reply["error"]["code"], -32603, "{reply}");
    }
    let hello = agent.expect_result("agent.hello", json!({}));
    assert_eq!(hello["pid"], agent.pid());
    let further: Vec<Value> = agent.take_unread_messages();
    assert!(
        further.iter().all(|message| message.get("id").is_none()),
        "answered twice: {further:?}"
    );
    assert_eq!(agent.finish(), (Some(0), String::new()));
}
