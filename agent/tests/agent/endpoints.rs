//! The two endpoints of a trial: their requests, how to run both, and a stand-in for one of them.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};

use serde_json::{Value, json};

use crate::agent_process::Agent;

/// The factor for repeating a trial that was too short on a busy machine.
const MUCH_LONGER: f64 = 20.0;

pub const SECRET: &str = "00112233445566778899aabbccddeeff";

/// The two endpoints of a `tcp_stream` trial over the loopback.
pub struct Pair {
    /// The endpoint that connects.
    pub a: Agent,
    /// The endpoint that listens.
    pub b: Agent,
}

impl Pair {
    pub fn start() -> Self {
        Self {
            a: Agent::start(),
            b: Agent::start(),
        }
    }

    /// Prepares a trial and returns the streams of both endpoints. `roles` are those of endpoint a; `changes` apply to the
    /// parameters of both.
    pub fn prepare(&mut self, trial: &str, roles: &[&str], changes: Value) -> [Value; 2] {
        let port = self.b.expect_result(
            "trial.prepare",
            listening(trial, &opposite(roles), &changes),
        )["port"]
            .take();
        let a = self
            .a
            .expect_result("trial.prepare", connecting(trial, roles, &port, &changes));
        let b = self
            .b
            .expect_result("trial.ready", json!({ "trial": trial }));
        [a["streams"].clone(), b["streams"].clone()]
    }

    /// Starts a prepared trial at both endpoints, and returns the events of both.
    pub fn run(&mut self, trial: &str, duration_s: f64) -> [(Vec<Value>, Value); 2] {
        let start = json!({"trial": trial, "duration_s": duration_s});
        self.b.expect_result("trial.start", start.clone());
        self.a.expect_result("trial.start", start);
        [self.a.wait_for_end(trial), self.b.wait_for_end(trial)]
    }
}

/// Runs a trial, and repeats it with a much longer duration if the result is not enough.
///
/// On a busy machine a thread may wait for a CPU longer than a short trial lasts.
pub fn run_long_enough<T>(
    duration_s: f64,
    mut run: impl FnMut(f64) -> T,
    is_enough: impl FnOnce(&T) -> bool,
) -> T {
    let short = run(duration_s);
    match is_enough(&short) {
        true => short,
        false => run(duration_s * MUCH_LONGER),
    }
}

/// Returns whether every source of both endpoints has sent data.
pub fn all_sources_have_sent(endpoints: &[(Vec<Value>, Value); 2]) -> bool {
    let streams = |end: &Value| end["streams"].as_array().expect("a list").clone();
    let mut all = endpoints.iter().flat_map(|(_, end)| streams(end));
    all.all(|stream| stream["role"] != "source" || stream["bytes"].as_u64() > Some(0))
}

/// Returns the request of the listening endpoint.
pub fn listening(trial: &str, roles: &[&str], changes: &Value) -> Value {
    with(
        json!({"listen": {"address": "127.0.0.1", "port": 0}}),
        trial,
        roles,
        changes,
    )
}

/// Returns the request of the connecting endpoint.
pub fn connecting(trial: &str, roles: &[&str], port: &Value, changes: &Value) -> Value {
    let to = json!({"address": "127.0.0.1", "port": port, "from": "127.0.0.1"});
    with(json!({ "connect": to }), trial, roles, changes)
}

fn with(mut params: Value, trial: &str, roles: &[&str], changes: &Value) -> Value {
    let streams: Vec<Value> = roles
        .iter()
        .enumerate()
        .map(|(id, role)| json!({"id": id, "role": role}))
        .collect();
    let common = json!({
        "trial": trial, "workload": "tcp_stream", "secret": SECRET, "streams": streams, "interval_s": 0.05,
        "timeout_s": 60,
    });
    for part in [&common, changes] {
        for (key, value) in part.as_object().expect("an object") {
            params[key] = value.clone();
        }
    }
    params
}

/// Returns the roles of the other endpoint.
pub fn opposite<'a>(roles: &[&'a str]) -> Vec<&'a str> {
    let other = |role: &&str| if *role == "source" { "sink" } else { "source" };
    roles.iter().map(other).collect()
}

/// Accepts a stream's connection as a listening endpoint does. Returns the stream's id and the connection.
pub fn accept_stream(listener: &TcpListener) -> (u32, TcpStream) {
    let (mut stream, _) = listener.accept().expect("the agent connects");
    let mut header = [0; 32];
    stream.read_exact(&mut header).expect("a header");
    header[..4].copy_from_slice(b"VNBA");
    stream
        .write_all(&header)
        .expect("the agent waits for the answer");
    let id = header[4..8].try_into().expect("four bytes");
    (u32::from_be_bytes(id), stream)
}

/// Asserts that the trial ended with a fault whose message contains these words.
pub fn assert_fault(end: &Value, kind: &str, words: &str) {
    assert_eq!(
        (&end["reason"], &end["fault_kind"]),
        (&Value::from("fault"), &Value::from(kind)),
        "{end}"
    );
    let fault = end["fault"].as_str();
    assert!(fault.is_some_and(|text| text.contains(words)), "{end}");
}
