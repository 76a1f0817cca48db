//! What carries the streams: IPv6, MPTCP and its falling back to TCP, VSOCK, pacing; each as the kernel then says.

use serde_json::{Value, json};

use crate::driving::Agent;
use crate::sides::{Pair, connecting, listening, opposite};

const ROLES: [&str; 2] = ["source", "sink"];
/// Long enough for threads to get a CPU on a machine that is full of work.
const LOAD_S: f64 = 0.5;

/// Prepares and runs a trial whose sides are asked for different things; returns what each says of its streams, and ends.
fn run_unlike(
    pair: &mut Pair,
    here: &Value,
    there: &Value,
    duration_s: f64,
) -> [(Value, Value); 2] {
    let listening = listening("t", &opposite(&ROLES), there);
    let port = pair.b.must("trial.prepare", listening)["port"].take();
    let connecting = connecting("t", &ROLES, &port, here);
    let a = pair.a.must("trial.prepare", connecting)["streams"].take();
    let b = pair.b.must("trial.ready", json!({"trial": "t"}))["streams"].take();
    let [(_, end_a), (_, end_b)] = pair.run("t", duration_s);
    [(a, end_a), (b, end_b)]
}

fn each<'a>(streams: &'a Value, key: &'a str) -> Vec<&'a Value> {
    let streams = streams.as_array().expect("streams");
    streams.iter().map(|stream| &stream[key]).collect()
}

fn assert_all_arrived(a: &Value, b: &Value) {
    assert_eq!(
        (&a["drained"], &b["drained"]),
        (&json!(true), &json!(true)),
        "{a} {b}"
    );
    assert_eq!(a["bytes_sent"], b["bytes_received"]);
    assert_eq!(b["bytes_sent"], a["bytes_received"]);
    assert!(b["bytes_received"].as_u64() > Some(0));
}

#[test]
fn streams_run_over_ipv6() {
    for workload in ["tcp_stream", "tcp_rr", "tcp_crr"] {
        let mut pair = Pair::start();
        let workload = json!({"workload": workload});
        let mut listening = listening("t", &opposite(&ROLES), &workload);
        listening["listen"]["address"] = json!("::1");
        let port = pair.b.must("trial.prepare", listening)["port"].take();
        let mut connecting = connecting("t", &ROLES, &port, &workload);
        connecting["connect"] = json!({"address": "::1", "port": port, "from": "::1"});
        pair.a.must("trial.prepare", connecting);
        pair.b.must("trial.ready", json!({"trial": "t"}));
        let [(_, a), (_, b)] = pair.run("t", LOAD_S);
        assert_all_arrived(&a, &b);
    }
}

#[test]
fn mptcp_carries_every_workload_and_says_that_it_did() {
    for workload in ["tcp_stream", "tcp_rr", "tcp_crr"] {
        let mut pair = Pair::start();
        let request =
            json!({"workload": workload, "transport": "mptcp", "congestion_control": "reno"});
        let sides = run_unlike(&mut pair, &request, &request, LOAD_S);
        for (streams, end) in &sides {
            assert_eq!(each(streams, "transport"), ["mptcp", "mptcp"]);
            assert_eq!(each(streams, "subflows"), [1, 1]);
            assert_eq!(each(streams, "congestion_control"), ["reno", "reno"]);
            assert_eq!(each(&end["streams"], "transport"), ["mptcp", "mptcp"]);
        }
        let [(_, a), (_, b)] = &sides;
        assert_all_arrived(a, b);
        // Of the first subflow, as the kernel gives it.
        assert!(a["streams"][0]["rtt_us"].as_u64() > Some(0), "{a}");
        assert!(a["streams"][0]["segments_out"].as_u64() > Some(0), "{a}");
    }
}

#[test]
fn mptcp_that_meets_tcp_falls_back_and_both_sides_say_so() {
    let (tcp, mptcp) = (json!({}), json!({"transport": "mptcp"}));
    for (here, there) in [(&tcp, &mptcp), (&mptcp, &tcp)] {
        let sides = run_unlike(&mut Pair::start(), here, there, LOAD_S);
        for (streams, end) in &sides {
            assert_eq!(each(streams, "transport"), ["tcp", "tcp"]);
            assert_eq!(each(streams, "subflows"), [&Value::Null, &Value::Null]);
            assert_eq!(each(&end["streams"], "transport"), ["tcp", "tcp"]);
        }
        let [(_, a), (_, b)] = &sides;
        assert_all_arrived(a, b);
    }
}

#[test]
fn mptcp_that_is_switched_off_is_said_by_name() {
    let mut agent = Agent::start_apart("echo 0 > /proc/sys/net/mptcp/enabled &&");
    let request = listening("t", &["sink"], &json!({"transport": "mptcp"}));
    let error = agent.ask("trial.prepare", request).expect_err("it is off");
    assert_eq!(error["data"]["operation"], "open an MPTCP socket");
    assert_eq!(error["data"]["kind"], "mptcp");
}

#[test]
fn a_paced_stream_keeps_its_rate_and_lets_go_of_what_it_holds_at_the_end() {
    let mut pair = Pair::start();
    // At this rate it would take a quarter of a minute to send what the buffers hold.
    let rate_bps = 1_000_000;
    let request = json!({"pacing_rate_bps": rate_bps, "socket_buffer_bytes": 1 << 20});
    let [(here, a), (there, b)] = run_unlike(&mut pair, &request, &request, 0.5);
    for streams in [&here, &there] {
        assert_eq!(each(streams, "pacing_rate_bps"), [rate_bps, rate_bps]);
    }
    assert_all_arrived(&a, &b);
}

#[test]
fn what_has_arrived_of_a_paced_stream_is_never_more_than_its_rate_allows() {
    let mut pair = Pair::start();
    let rate_bps = 80_000_000;
    pair.prepare("t", &["source"], json!({"pacing_rate_bps": rate_bps}));
    let [_, (samples, _)] = pair.run("t", 0.5);
    let mut bits = 0.0;
    for sample in samples
        .iter()
        .filter(|sample| sample["t_s"].as_f64() < Some(0.5))
    {
        bits += 8.0 * sample["bytes_received"].as_f64().expect("a number");
        let allowed = 1.1 * f64::from(rate_bps) * sample["t_s"].as_f64().expect("a number");
        assert!(bits < allowed + 4e6, "{bits} bits by {}", sample["t_s"]);
    }
}

#[test]
fn without_a_rate_nothing_is_paced_and_other_workloads_have_none() {
    let mut pair = Pair::start();
    let [here, _] = pair.prepare("t", &["source"], json!({}));
    assert_eq!(each(&here, "pacing_rate_bps"), [&Value::Null]);
    for request in [
        json!({"pacing_rate_bps": 1}),
        json!({"workload": "tcp_rr", "pacing_rate_bps": 1_000_000}),
        json!({"transport": "sctp"}),
    ] {
        assert_eq!(
            pair.b
                .code("trial.prepare", listening("u", &["sink"], &request)),
            -32602
        );
    }
}

/// CID of the loopback (VMADDR_CID_LOCAL).
const LOCAL: u32 = 1;

fn over_vsock(port: Option<&Value>, roles: &[&str], changes: &Value) -> Value {
    let mut params = match port {
        None => listening("t", &opposite(roles), changes),
        Some(port) => connecting("t", roles, port, changes),
    };
    match port {
        None => params["listen"] = json!({"vsock": {}}),
        Some(port) => params["connect"] = json!({"vsock": {"cid": LOCAL, "port": port}}),
    }
    params
}

#[test]
fn vsock_carries_streams_and_requests_where_this_machine_has_its_loopback() {
    for workload in ["tcp_stream", "tcp_rr"] {
        let mut pair = Pair::start();
        let request = json!({"workload": workload, "timeout_s": 1});
        let prepared = pair
            .b
            .ask("trial.prepare", over_vsock(None, &ROLES, &request));
        let Ok(answer) = prepared else {
            eprintln!(
                "skipped: no VSOCK here ({})",
                prepared.expect_err("it is none")["message"]
            );
            return;
        };
        let connected = pair.a.ask(
            "trial.prepare",
            over_vsock(Some(&answer["port"]), &ROLES, &request),
        );
        let Ok(here) = connected else {
            let error = connected.expect_err("it is none");
            let message = error["message"].as_str().expect("text");
            assert!(
                message.contains(&format!("vsock 1:{}", answer["port"])),
                "{error}"
            );
            eprintln!("skipped: modprobe vsock_loopback ({message})");
            return;
        };
        assert_eq!(each(&here["streams"], "transport"), ["vsock", "vsock"]);
        pair.b.must("trial.ready", json!({"trial": "t"}));
        let [(_, a), (_, b)] = pair.run("t", LOAD_S);
        assert_all_arrived(&a, &b);
    }
}

#[test]
fn what_only_tcp_has_is_refused_of_vsock() {
    let mut agent = Agent::start();
    for request in [
        json!({"transport": "mptcp"}),
        json!({"transport": "vsock"}),
        json!({"congestion_control": "cubic"}),
        json!({"socket_buffer_bytes": 4096}),
        json!({"pacing_rate_bps": 1_000_000}),
        json!({"receive": "discard"}),
        json!({"workload": "tcp_crr"}),
    ] {
        let params = over_vsock(None, &ROLES, &request);
        assert_eq!(agent.code("trial.prepare", params), -32602, "{request}");
    }
}
