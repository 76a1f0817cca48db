//! The knob `ports`: an agent listens only on the ports that the bench names.

use std::net::{TcpListener, UdpSocket};

use serde_json::{Value, json};

use crate::agent_process::Agent;
use crate::endpoints::{Pair, assert_fault, listening};

/// Returns the first port of a free range, below the kernel's ephemeral ports and different for each test and run.
fn free(first: u16, count: u16) -> u16 {
    let is_free = |port: u16| {
        TcpListener::bind(("127.0.0.1", port)).is_ok()
            && UdpSocket::bind(("127.0.0.1", port)).is_ok()
    };
    (0..1000)
        .map(|turn| first + (std::process::id() as u16 % 1000 + turn) % 1000 * count)
        .find(|first| (*first..first + count).all(is_free))
        .expect("free ports")
}

fn set(agent: &mut Agent, first: u16, last: u16) {
    let ports = format!("{first}-{last}");
    let knob = json!({"interface": null, "knob": "ports", "value": ports});
    assert_eq!(agent.expect_result("knob.set", knob)["effective"], ports);
}

#[test]
fn used_ports_are_skipped_and_an_exhausted_range_is_an_error() {
    let first = free(10_000, 3);
    let mut agent = Agent::start();
    set(&mut agent, first, first + 2);
    let listener = TcpListener::bind(("127.0.0.1", first)).expect("the port is free");
    let mut ask = |trial| agent.request("trial.prepare", listening(trial, &["sink"], &json!({})));
    assert_eq!(ask("1").expect("a port")["port"], first + 1);
    assert_eq!(ask("2").expect("a port")["port"], first + 2);
    let error = ask("3").expect_err("no port is free");
    assert_eq!(error["data"]["errno"], libc::EADDRINUSE, "{error}");
    drop(listener);
    assert_eq!(ask("4").expect("a port")["port"], first);
    let any = json!({"interface": null, "knob": "ports", "value": ""});
    assert_eq!(agent.expect_result("knob.set", any)["effective"], "");
}

#[test]
fn paths_and_datagrams_use_the_port_range() {
    let first = free(14_000, 2);
    let mut pair = Pair::start();
    set(&mut pair.b, first, first + 1);
    let path = pair
        .b
        .expect_result("path.listen", json!({"address": "127.0.0.1"}));
    assert_eq!(path["port"], first);
    let flow = json!({"workload": "udp_stream", "datagram_bytes": 64});
    pair.prepare("t", &["source"], flow.clone());
    let other = UdpSocket::bind(("127.0.0.1", first + 1));
    other.expect_err("the flow has it");
}

#[test]
fn connections_of_tcp_crr_use_the_port_range_in_each_trial() {
    let first = free(18_000, 2);
    let mut pair = Pair::start();
    let request = json!({"workload": "tcp_crr", "request_bytes": 1, "response_bytes": 1});
    let mut run = |last: u16, trial: &str| -> Value {
        set(&mut pair.b, first, last);
        pair.prepare(trial, &["source"; 2], request.clone());
        let [_, (_, end)] = pair.run(trial, 0.1);
        end
    };
    for trial in ["1", "2"] {
        let end = run(first + 1, trial);
        assert_eq!(end["reason"], "done", "{end}");
    }
    // Each sink listens on a port of its own.
    assert_fault(&run(first, "3"), "stream", "broke: ");
}

#[test]
fn invalid_port_ranges_are_rejected() {
    let mut agent = Agent::start();
    for wrong in [
        json!("80-90"),
        json!("5300"),
        json!(5300),
        json!("2-1"),
        json!(null),
    ] {
        let knob = json!({"interface": null, "knob": "ports", "value": wrong});
        assert_eq!(agent.expect_error_code("knob.set", knob), -32602);
    }
    let of_interface = json!({"interface": "lo", "knob": "ports", "value": ""});
    assert_eq!(agent.expect_error_code("knob.set", of_interface), -32602);
}
