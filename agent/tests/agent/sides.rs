//! The two sides of a trial: what each is asked, how both are run, and what stands in for one of them.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};

use serde_json::{Value, json};

use crate::driving::Agent;

/// So many times as long a trial may last in which a thread must get a CPU.
const MUCH_LONGER: f64 = 20.0;

pub const SECRET: &str = "00112233445566778899aabbccddeeff";

/// Two sides of a trial of `tcp_stream` over the loopback.
pub struct Pair {
    /// Connects.
    pub a: Agent,
    /// Listens.
    pub b: Agent,
}

impl Pair {
    pub fn start() -> Self {
        Self {
            a: Agent::start(),
            b: Agent::start(),
        }
    }

    /// Prepares a trial and returns what both sides say of their streams. `roles` are those of side a; `changes` are to
    /// the parameters of both sides.
    pub fn prepare(&mut self, trial: &str, roles: &[&str], changes: Value) -> [Value; 2] {
        let port = self.b.must(
            "trial.prepare",
            listening(trial, &opposite(roles), &changes),
        )["port"]
            .take();
        let a = self
            .a
            .must("trial.prepare", connecting(trial, roles, &port, &changes));
        let b = self.b.must("trial.ready", json!({ "trial": trial }));
        [a["streams"].clone(), b["streams"].clone()]
    }

    /// Starts a trial that is prepared, sinks first where there is a choice, and returns the events of both sides.
    pub fn run(&mut self, trial: &str, duration_s: f64) -> [(Vec<Value>, Value); 2] {
        let start = json!({"trial": trial, "duration_s": duration_s});
        self.b.must("trial.start", start.clone());
        self.a.must("trial.start", start);
        [self.a.events(trial), self.b.events(trial)]
    }
}

/// What a trial of this length comes to; where that is not enough, what a much longer one does. With all CPUs taken a thread
/// may wait for one of them longer than a short trial lasts.
pub fn long_enough<T>(
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

/// Whether every source of both sides has sent.
pub fn all_have_sent(sides: &[(Vec<Value>, Value); 2]) -> bool {
    let streams = |end: &Value| end["streams"].as_array().expect("a list").clone();
    let mut all = sides.iter().flat_map(|(_, end)| streams(end));
    all.all(|stream| stream["role"] != "source" || stream["bytes"].as_u64() > Some(0))
}

pub fn listening(trial: &str, roles: &[&str], changes: &Value) -> Value {
    with(
        json!({"listen": {"address": "127.0.0.1", "port": 0}}),
        trial,
        roles,
        changes,
    )
}

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

pub fn opposite<'a>(roles: &[&'a str]) -> Vec<&'a str> {
    let other = |role: &&str| if *role == "source" { "sink" } else { "source" };
    roles.iter().map(other).collect()
}

/// Takes a stream's connection as a listening side does; returns the stream's id with it.
pub fn take_stream(listener: &TcpListener) -> (u32, TcpStream) {
    let (mut stream, _) = listener.accept().expect("the agent connects");
    let mut words = [0; 32];
    stream.read_exact(&mut words).expect("it says whose it is");
    words[..4].copy_from_slice(b"VNBA");
    stream.write_all(&words).expect("it waits for the answer");
    let id = words[4..8].try_into().expect("four bytes");
    (u32::from_be_bytes(id), stream)
}

/// The trial ended by a fault whose sentence has these words.
pub fn assert_fault(end: &Value, words: &str) {
    assert_eq!(end["reason"], "fault", "{end}");
    let fault = end["fault"].as_str();
    assert!(fault.is_some_and(|text| text.contains(words)), "{end}");
}
