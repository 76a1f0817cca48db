//! Early ends of trials: both endpoints end in every state of the trial.

use std::net::TcpStream;

use serde_json::{Value, json};

use crate::agent_process::Agent;
use crate::endpoints::{Pair, assert_fault, connecting, listening};

/// A duration far longer than any test.
const FOREVER_S: f64 = 3600.0;

fn start(agent: &mut Agent, duration_s: f64) {
    agent.expect_result(
        "trial.start",
        json!({"trial": "t", "duration_s": duration_s}),
    );
}

fn stop(agent: &mut Agent) -> Value {
    agent.expect_result("trial.stop", json!({"trial": "t"}));
    let (_, end) = agent.wait_for_end("t");
    assert_eq!(
        (&end["reason"], &end["fault"], &end["fault_kind"]),
        (&json!("stopped"), &json!(""), &Value::Null),
        "{end}"
    );
    assert_eq!(
        agent.expect_error_code("trial.stop", json!({"trial": "t"})),
        -32002
    );
    end
}

#[test]
fn a_listening_trial_can_be_stopped() {
    // Uses a new network namespace, so that no other program gets the freed port.
    let mut agent = Agent::start_in_new_network("");
    let port =
        agent.expect_result("trial.prepare", listening("t", &["sink"], &json!({})))["port"].take();
    let ready = agent.send("trial.ready", json!({"trial": "t"}));
    // The answer shows that the agent has received the request above.
    agent.expect_result("agent.hello", json!({}));
    assert_eq!(stop(&mut agent)["bytes_received"], 0);
    assert_eq!(
        agent
            .wait_for_reply(ready)
            .expect_err("the trial was never ready")["code"],
        -32002
    );
    agent.run_in_network(&format!("! ss -Hltn 'sport = :{port}' | grep . >&2"));
}

/// Returns a listener whose backlog is full, and its port: the kernel answers no further connection while both live.
fn listener_with_full_backlog() -> (socket2::Socket, TcpStream, u16) {
    let listener =
        socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).expect("a socket");
    let loopback: std::net::SocketAddr = "127.0.0.1:0".parse().expect("an address");
    listener
        .bind(&loopback.into())
        .and_then(|()| listener.listen(0))
        .expect("listens");
    let at = listener.local_addr().ok().and_then(|a| a.as_socket());
    let at = at.expect("an address");
    let first = TcpStream::connect(at).expect("the queue takes one");
    (listener, first, at.port())
}

#[test]
fn a_connecting_trial_can_be_stopped() {
    let (_listener, _first, port) = listener_with_full_backlog();
    let mut agent = Agent::start();
    let params = connecting("t", &["source"], &json!(port), &json!({"timeout_s": 600}));
    let prepared = agent.send("trial.prepare", params);
    agent.expect_result("agent.hello", json!({}));
    stop(&mut agent);
    assert_eq!(
        agent
            .wait_for_reply(prepared)
            .expect_err("the trial never connected")["code"],
        -32002
    );
}

#[test]
fn an_unanswered_connection_times_out() {
    let (_listener, _first, port) = listener_with_full_backlog();
    let mut agent = Agent::start();
    let params = connecting("t", &["source"], &json!(port), &json!({"timeout_s": 0.1}));
    assert_eq!(agent.expect_error_code("trial.prepare", params), -32004);
}

#[test]
fn a_ready_trial_can_be_stopped() {
    let mut pair = Pair::start();
    pair.prepare("t", &["source", "sink"], json!({}));
    stop(&mut pair.a);
    stop(&mut pair.b);
}

#[test]
fn a_running_trial_can_be_stopped_at_every_endpoint() {
    for changes in [json!({}), json!({"threads": 2})] {
        let mut pair = Pair::start();
        pair.prepare("t", &["source", "sink", "source", "sink"], changes);
        start(&mut pair.b, FOREVER_S);
        start(&mut pair.a, FOREVER_S);
        // On a busy machine the first samples may contain no data yet.
        for agent in [&mut pair.a, &mut pair.b] {
            let has_sent = |sample: &Value| sample["bytes_sent"].as_u64() > Some(0);
            agent.wait_for(|message| {
                message["method"] == "trial.sample" && has_sent(&message["params"])
            });
        }
        let end = stop(&mut pair.a);
        assert!(end["bytes_sent"].as_u64() > Some(0));
        // The other endpoint reports its lost streams.
        let (_, end) = pair.b.wait_for_end("t");
        assert_fault(&end, "stream", "broke: ");
    }
}

#[test]
fn a_source_without_a_reader_can_be_stopped() {
    for changes in [json!({}), json!({"threads": 1})] {
        let mut pair = Pair::start();
        pair.prepare("t", &["source", "source"], changes);
        start(&mut pair.a, FOREVER_S);
        pair.a.wait_for_event("trial.sample", "t");
        let end = stop(&mut pair.a);
        assert!(
            end["streams"]
                .as_array()
                .expect("a list")
                .iter()
                .all(|s| s["state"] == "cut")
        );
    }
}

#[test]
fn a_draining_source_can_be_stopped() {
    let mut pair = Pair::start();
    pair.prepare("t", &["source"], json!({}));
    start(&mut pair.a, 0.05);
    // Waits for two samples: the second one closes an interval after the end of the load.
    let first = pair.a.wait_for_event("trial.sample", "t");
    pair.a.wait_for_event("trial.sample", "t");
    let end = stop(&mut pair.a);
    assert_eq!(end["drained"], false);
    let duration_s = end["duration_s"].as_f64();
    assert!(
        duration_s >= Some(0.05) && duration_s <= first["t_s"].as_f64(),
        "{end}"
    );
}

#[test]
fn a_stream_that_breaks_while_draining_is_not_a_fault() {
    // The endpoint that reaches its drain limit first closes connections on which the other one may still wait.
    let mut pair = Pair::start();
    pair.prepare("t", &["source"], json!({}));
    start(&mut pair.a, 0.05);
    pair.a.wait_for_event("trial.sample", "t");
    pair.a.wait_for_event("trial.sample", "t");
    stop(&mut pair.b);
    let (_, end) = pair.a.wait_for_end("t");
    assert_eq!(
        (&end["reason"], &end["drained"]),
        (&json!("done"), &json!(false)),
        "{end}"
    );
    assert_eq!(end["streams"][0]["state"], "broken");
}

#[test]
fn unread_data_ends_a_trial_undrained() {
    let mut pair = Pair::start();
    pair.prepare("t", &["source", "sink"], json!({}));
    start(&mut pair.a, 0.05);
    let (_, end) = pair.a.wait_for_end("t");
    assert_eq!(
        (&end["reason"], &end["drained"]),
        (&json!("done"), &json!(false)),
        "{end}"
    );
}

#[test]
fn a_trial_starts_only_once() {
    let mut pair = Pair::start();
    pair.prepare("t", &["source"], json!({}));
    start(&mut pair.a, FOREVER_S);
    let again = json!({"trial": "t", "duration_s": 1});
    assert_eq!(pair.a.expect_error_code("trial.start", again), -32002);
    stop(&mut pair.a);
    for method in ["trial.ready", "trial.stop"] {
        assert_eq!(
            pair.a.expect_error_code(method, json!({"trial": "t"})),
            -32002
        );
    }
}

#[test]
fn a_closed_input_ends_trials_and_their_streams() {
    let mut pair = Pair::start();
    pair.prepare("t", &["source", "sink"], json!({}));
    start(&mut pair.b, FOREVER_S);
    start(&mut pair.a, FOREVER_S);
    pair.a.wait_for_event("trial.sample", "t");
    assert_eq!(pair.a.finish(), (Some(0), String::new()));
    let (_, end) = pair.b.wait_for_end("t");
    assert_eq!(end["reason"], "fault", "{end}");
}

/// Runs an observer of one end of a link, then changes the link with a shell command. Returns the `trial.end`.
fn observe_link_change(change: &str) -> Value {
    // The kernel may report the carrier only after a second.
    let link = "ip link add vnb0 group 7 type veth peer name vnb1 && ip link set vnb1 up && ip link set vnb0 up && \
        until ip link show vnb0 | grep -q 'state UP'; do sleep 0.01; done &&";
    let mut agent = Agent::start_in_new_network(link);
    let prepare =
        json!({"trial": "t", "workload": "observe", "interface": "vnb0", "interval_s": 0.001});
    agent.expect_result("trial.prepare", prepare);
    start(&mut agent, FOREVER_S);
    agent.wait_for_event("trial.sample", "t");
    agent.run_in_network(change);
    agent.wait_for_end("t").1
}

#[test]
fn a_lost_interface_is_a_fault() {
    for (change, fault) in [
        ("ip link del vnb0", "interface vnb0 vanished"),
        (
            "ip link set vnb0 down",
            "interface vnb0 went down or lost its carrier",
        ),
        (
            "ip link set vnb1 down",
            "interface vnb0 went down or lost its carrier",
        ),
    ] {
        let end = observe_link_change(change);
        assert_eq!(
            (&end["fault_kind"], &end["fault"]),
            (&json!("interface"), &json!(fault))
        );
    }
}

#[test]
fn an_interface_that_is_being_removed_counts_as_vanished() {
    // The kernel takes all interfaces of a group down some milliseconds before it removes the first one. Samples are taken every
    // millisecond.
    let removed_with_others = "for i in $(seq 20); do \
        ip link add other$i group 7 type bridge && ip link set other$i up || exit; done; ip link del group 7";
    let end = observe_link_change(removed_with_others);
    assert_eq!(
        (&end["fault_kind"], &end["fault"]),
        (&json!("interface"), &json!("interface vnb0 vanished"))
    );
}
