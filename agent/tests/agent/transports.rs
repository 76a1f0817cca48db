//! Transports: IPv6, MPTCP and its fallback to TCP, VSOCK, and pacing, as the kernel reports them.

use serde_json::{Value, json};

use crate::agent_process::Agent;
use crate::endpoints::{Pair, connecting, listening, opposite};

const ROLES: [&str; 2] = ["source", "sink"];
/// Long enough for threads to get a CPU on a busy machine.
const LOAD_S: f64 = 0.5;

/// Runs a trial whose endpoints have different options. Returns the streams and the `trial.end` of each.
fn run_with_different_options(
    pair: &mut Pair,
    connecting_options: &Value,
    listening_options: &Value,
    duration_s: f64,
) -> [(Value, Value); 2] {
    let listening = listening("t", &opposite(&ROLES), listening_options);
    let port = pair.b.expect_result("trial.prepare", listening)["port"].take();
    let connecting = connecting("t", &ROLES, &port, connecting_options);
    let a = pair.a.expect_result("trial.prepare", connecting)["streams"].take();
    let b = pair.b.expect_result("trial.ready", json!({"trial": "t"}))["streams"].take();
    let [(_, end_a), (_, end_b)] = pair.run("t", duration_s);
    [(a, end_a), (b, end_b)]
}

fn each<'a>(streams: &'a Value, key: &'a str) -> Vec<&'a Value> {
    let streams = streams.as_array().expect("streams");
    streams.iter().map(|stream| &stream[key]).collect()
}

fn assert_all_bytes_arrived(a: &Value, b: &Value) {
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
        let port = pair.b.expect_result("trial.prepare", listening)["port"].take();
        let mut connecting = connecting("t", &ROLES, &port, &workload);
        connecting["connect"] = json!({"address": "::1", "port": port, "from": "::1"});
        pair.a.expect_result("trial.prepare", connecting);
        pair.b.expect_result("trial.ready", json!({"trial": "t"}));
        let [(_, a), (_, b)] = pair.run("t", LOAD_S);
        assert_all_bytes_arrived(&a, &b);
    }
}

#[test]
fn every_workload_runs_over_mptcp() {
    for workload in ["tcp_stream", "tcp_rr", "tcp_crr"] {
        let mut pair = Pair::start();
        let request =
            json!({"workload": workload, "transport": "mptcp", "congestion_control": "reno"});
        let endpoints = run_with_different_options(&mut pair, &request, &request, LOAD_S);
        for (streams, end) in &endpoints {
            assert_eq!(each(streams, "transport"), ["mptcp", "mptcp"]);
            assert_eq!(each(streams, "subflows"), [1, 1]);
            assert_eq!(each(streams, "congestion_control"), ["reno", "reno"]);
            assert_eq!(each(&end["streams"], "transport"), ["mptcp", "mptcp"]);
        }
        let [(_, a), (_, b)] = &endpoints;
        assert_all_bytes_arrived(a, b);
        // The kernel reports the round-trip time of the first subflow.
        assert!(a["streams"][0]["rtt_us"].as_u64() > Some(0), "{a}");
        assert!(a["streams"][0]["segments_out"].as_u64() > Some(0), "{a}");
    }
}

#[test]
fn mptcp_falls_back_to_tcp_and_both_endpoints_report_it() {
    let (tcp, mptcp) = (json!({}), json!({"transport": "mptcp"}));
    for (connecting, listening) in [(&tcp, &mptcp), (&mptcp, &tcp)] {
        let endpoints =
            run_with_different_options(&mut Pair::start(), connecting, listening, LOAD_S);
        for (streams, end) in &endpoints {
            assert_eq!(each(streams, "transport"), ["tcp", "tcp"]);
            assert_eq!(each(streams, "subflows"), [&Value::Null, &Value::Null]);
            assert_eq!(each(&end["streams"], "transport"), ["tcp", "tcp"]);
        }
        let [(_, a), (_, b)] = &endpoints;
        assert_all_bytes_arrived(a, b);
    }
}

#[test]
fn an_error_names_mptcp_if_it_is_disabled() {
    let mut agent = Agent::start_in_new_network("echo 0 > /proc/sys/net/mptcp/enabled &&");
    let request = listening("t", &["sink"], &json!({"transport": "mptcp"}));
    let error = agent
        .request("trial.prepare", request)
        .expect_err("MPTCP is disabled");
    assert_eq!(error["data"]["operation"], "open an MPTCP socket");
    assert_eq!(error["data"]["kind"], "mptcp");
}

#[test]
fn a_paced_stream_keeps_its_rate_and_drains_at_the_end() {
    let mut pair = Pair::start();
    // At this rate, sending the contents of the buffers would take 15 seconds.
    let rate_bps = 1_000_000;
    let request = json!({"pacing_rate_bps": rate_bps, "socket_buffer_bytes": 1 << 20});
    let [(a_streams, a), (b_streams, b)] =
        run_with_different_options(&mut pair, &request, &request, 0.5);
    for streams in [&a_streams, &b_streams] {
        assert_eq!(each(streams, "pacing_rate_bps"), [rate_bps, rate_bps]);
    }
    assert_all_bytes_arrived(&a, &b);
}

#[test]
fn a_paced_stream_never_exceeds_its_rate() {
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
fn pacing_is_off_by_default() {
    let mut pair = Pair::start();
    let [streams, _] = pair.prepare("t", &["source"], json!({}));
    assert_eq!(each(&streams, "pacing_rate_bps"), [&Value::Null]);
    for request in [
        json!({"pacing_rate_bps": 1}),
        json!({"workload": "tcp_rr", "pacing_rate_bps": 1_000_000}),
        json!({"transport": "sctp"}),
    ] {
        assert_eq!(
            pair.b
                .expect_error_code("trial.prepare", listening("u", &["sink"], &request)),
            -32602
        );
    }
}

/// The CID of the loopback (VMADDR_CID_LOCAL).
const LOCAL: u32 = 1;

fn vsock_request(port: Option<&Value>, roles: &[&str], changes: &Value) -> Value {
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
fn streams_and_requests_run_over_vsock() {
    for workload in ["tcp_stream", "tcp_rr"] {
        let mut pair = Pair::start();
        let request = json!({"workload": workload, "timeout_s": 1});
        let prepared = pair
            .b
            .request("trial.prepare", vsock_request(None, &ROLES, &request));
        let Ok(answer) = prepared else {
            eprintln!(
                "skipped: this machine has no VSOCK ({})",
                prepared.expect_err("VSOCK is unavailable")["message"]
            );
            return;
        };
        let connected = pair.a.request(
            "trial.prepare",
            vsock_request(Some(&answer["port"]), &ROLES, &request),
        );
        let Ok(prepared) = connected else {
            let error = connected.expect_err("VSOCK is unavailable");
            let message = error["message"].as_str().expect("text");
            assert!(
                message.contains(&format!("vsock 1:{}", answer["port"])),
                "{error}"
            );
            eprintln!("skipped: modprobe vsock_loopback ({message})");
            return;
        };
        assert_eq!(each(&prepared["streams"], "transport"), ["vsock", "vsock"]);
        pair.b.expect_result("trial.ready", json!({"trial": "t"}));
        let [(_, a), (_, b)] = pair.run("t", LOAD_S);
        assert_all_bytes_arrived(&a, &b);
    }
}

#[test]
fn options_of_tcp_are_rejected_for_vsock() {
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
        let params = vsock_request(None, &ROLES, &request);
        assert_eq!(
            agent.expect_error_code("trial.prepare", params),
            -32602,
            "{request}"
        );
    }
}
