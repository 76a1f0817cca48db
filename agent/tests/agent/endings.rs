//! Ends before the time: whatever state a trial is in, and whoever ends it, both sides come to their end.

use std::net::TcpStream;

use serde_json::{Value, json};

use crate::driving::Agent;
use crate::sides::{Pair, assert_fault, connecting, listening};

/// Far longer than any test waits.
const FOREVER_S: f64 = 3600.0;

fn start(agent: &mut Agent, duration_s: f64) {
    agent.must(
        "trial.start",
        json!({"trial": "t", "duration_s": duration_s}),
    );
}

fn stop(agent: &mut Agent) -> Value {
    agent.must("trial.stop", json!({"trial": "t"}));
    let (_, end) = agent.events("t");
    assert_eq!(
        (&end["reason"], &end["fault"]),
        (&json!("stopped"), &json!("")),
        "{end}"
    );
    assert_eq!(agent.code("trial.stop", json!({"trial": "t"})), -32002);
    end
}

#[test]
fn a_trial_that_listens_can_be_stopped() {
    // Apart, where nobody else is given the port when it is free.
    let mut agent = Agent::start_apart("");
    let port = agent.must("trial.prepare", listening("t", &["sink"], &json!({})))["port"].take();
    let ready = agent.send("trial.ready", json!({"trial": "t"}));
    // Answered only after the request above has been taken.
    agent.must("agent.hello", json!({}));
    assert_eq!(stop(&mut agent)["bytes_received"], 0);
    assert_eq!(
        agent.reply(ready).expect_err("it never was ready")["code"],
        -32002
    );
    agent.run_beside(&format!("! ss -Hltn 'sport = :{port}' | grep . >&2"));
}

/// A queue of none that is full: the kernel answers no further connection, as long as both live.
fn mute() -> (socket2::Socket, TcpStream, u16) {
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
fn a_trial_that_connects_can_be_stopped() {
    let (_listener, _first, port) = mute();
    let mut agent = Agent::start();
    let params = connecting("t", &["source"], &json!(port), &json!({"timeout_s": 600}));
    let prepared = agent.send("trial.prepare", params);
    agent.must("agent.hello", json!({}));
    stop(&mut agent);
    assert_eq!(
        agent.reply(prepared).expect_err("it never connected")["code"],
        -32002
    );
}

#[test]
fn a_connection_that_nobody_answers_times_out() {
    let (_listener, _first, port) = mute();
    let mut agent = Agent::start();
    let params = connecting("t", &["source"], &json!(port), &json!({"timeout_s": 0.1}));
    assert_eq!(agent.code("trial.prepare", params), -32004);
}

#[test]
fn a_trial_that_is_ready_can_be_stopped() {
    let mut pair = Pair::start();
    pair.prepare("t", &["source", "sink"], json!({}));
    stop(&mut pair.a);
    stop(&mut pair.b);
}

#[test]
fn a_trial_that_runs_can_be_stopped_on_every_kind_of_side() {
    for changes in [json!({}), json!({"threads": 2})] {
        let mut pair = Pair::start();
        pair.prepare("t", &["source", "sink", "source", "sink"], changes);
        start(&mut pair.b, FOREVER_S);
        start(&mut pair.a, FOREVER_S);
        // On a machine that is full of work the first samples may find nothing sent yet.
        for agent in [&mut pair.a, &mut pair.b] {
            let has_sent = |sample: &Value| sample["bytes_sent"].as_u64() > Some(0);
            agent.wait_for(|said| said["method"] == "trial.sample" && has_sent(&said["params"]));
        }
        let end = stop(&mut pair.a);
        assert!(end["bytes_sent"].as_u64() > Some(0));
        // The other side has lost its streams, and says so.
        let (_, end) = pair.b.events("t");
        assert_fault(&end, "broke: ");
    }
}

#[test]
fn a_source_that_nobody_reads_from_can_be_stopped() {
    for changes in [json!({}), json!({"threads": 1})] {
        let mut pair = Pair::start();
        pair.prepare("t", &["source", "source"], changes);
        start(&mut pair.a, FOREVER_S);
        pair.a.event("trial.sample", "t");
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
fn a_source_whose_data_is_still_on_its_way_can_be_stopped() {
    let mut pair = Pair::start();
    pair.prepare("t", &["source"], json!({}));
    start(&mut pair.a, 0.05);
    // Two samples: the second closes an interval after the end of the load, which its length leaves out.
    let first = pair.a.event("trial.sample", "t");
    pair.a.event("trial.sample", "t");
    let end = stop(&mut pair.a);
    assert_eq!(end["drained"], false);
    let duration_s = end["duration_s"].as_f64();
    assert!(
        duration_s >= Some(0.05) && duration_s <= first["t_s"].as_f64(),
        "{end}"
    );
}

#[test]
fn a_stream_that_breaks_while_it_drains_is_no_fault() {
    // The side that has waited long enough tears down what the other one may still be waiting for.
    let mut pair = Pair::start();
    pair.prepare("t", &["source"], json!({}));
    start(&mut pair.a, 0.05);
    pair.a.event("trial.sample", "t");
    pair.a.event("trial.sample", "t");
    stop(&mut pair.b);
    let (_, end) = pair.a.events("t");
    assert_eq!(
        (&end["reason"], &end["drained"]),
        (&json!("done"), &json!(false)),
        "{end}"
    );
    assert_eq!(end["streams"][0]["state"], "broken");
}

#[test]
fn data_that_is_never_read_ends_a_trial_undrained() {
    let mut pair = Pair::start();
    pair.prepare("t", &["source", "sink"], json!({}));
    start(&mut pair.a, 0.05);
    let (_, end) = pair.a.events("t");
    assert_eq!(
        (&end["reason"], &end["drained"]),
        (&json!("done"), &json!(false)),
        "{end}"
    );
}

#[test]
fn a_trial_is_started_once() {
    let mut pair = Pair::start();
    pair.prepare("t", &["source"], json!({}));
    start(&mut pair.a, FOREVER_S);
    let again = json!({"trial": "t", "duration_s": 1});
    assert_eq!(pair.a.code("trial.start", again), -32002);
    stop(&mut pair.a);
    for method in ["trial.ready", "trial.stop"] {
        assert_eq!(pair.a.code(method, json!({"trial": "t"})), -32002);
    }
}

#[test]
fn a_closed_input_ends_a_running_trial_and_tears_its_streams_down() {
    let mut pair = Pair::start();
    pair.prepare("t", &["source", "sink"], json!({}));
    start(&mut pair.b, FOREVER_S);
    start(&mut pair.a, FOREVER_S);
    pair.a.event("trial.sample", "t");
    assert_eq!(pair.a.finish(), (Some(0), String::new()));
    let (_, end) = pair.b.events("t");
    assert_eq!(end["reason"], "fault", "{end}");
}

/// An observer in a network of its own that watches one end of a link, has sampled once, and is then told what was done to
/// it; returns how its trial ended.
fn watch_a_link(done: &str) -> Value {
    // The kernel may take a second to say that it carries.
    let link = "ip link add vnb0 group 7 type veth peer name vnb1 && ip link set vnb1 up && ip link set vnb0 up && \
        until ip link show vnb0 | grep -q 'state UP'; do sleep 0.01; done &&";
    let mut agent = Agent::start_apart(link);
    let prepare =
        json!({"trial": "t", "workload": "observe", "interface": "vnb0", "interval_s": 0.001});
    agent.must("trial.prepare", prepare);
    start(&mut agent, FOREVER_S);
    agent.event("trial.sample", "t");
    agent.run_beside(done);
    agent.events("t").1
}

#[test]
fn an_interface_that_is_lost_is_a_fault_that_is_named() {
    for (done, fault) in [
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
        let end = watch_a_link(done);
        assert_eq!(
            (&end["reason"], &end["fault"]),
            (&json!("fault"), &json!(fault))
        );
    }
}

#[test]
fn an_interface_that_is_seen_down_while_it_is_being_removed_has_vanished() {
    // The kernel takes all of a group down before it removes the first: for some milliseconds, at each of which is a sample.
    let removed_with_others = "for i in $(seq 20); do \
        ip link add other$i group 7 type bridge && ip link set other$i up || exit; done; ip link del group 7";
    let end = watch_a_link(removed_with_others);
    assert_eq!(
        (&end["reason"], &end["fault"]),
        (&json!("fault"), &json!("interface vnb0 vanished"))
    );
}
