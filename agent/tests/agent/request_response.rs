//! Requests and responses: every request is timed and counted in every wait mode.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::thread::JoinHandle;
use std::time::Duration;

use serde_json::{Value, json};

use crate::agent_process::Agent;
use crate::endpoints::{
    Pair, accept_stream, all_sources_have_sent, assert_fault, connecting, listening,
    run_long_enough,
};

fn number(event: &Value, name: &str) -> u64 {
    event[name]
        .as_u64()
        .unwrap_or_else(|| panic!("{name} is a whole number in {event}"))
}

fn with(workload: &str, changes: &Value) -> Value {
    let mut all = json!({ "workload": workload });
    for (key, value) in changes.as_object().expect("an object") {
        all[key] = value.clone();
    }
    all
}

/// Returns how many values of a distribution are at least this long.
fn count_at_least(distribution: &Value, least: Duration) -> u64 {
    let buckets = distribution["buckets"].as_array().expect("a list");
    buckets
        .iter()
        .filter(|bucket| u128::from(bucket[0].as_u64().expect("ns")) >= least.as_nanos())
        .map(|bucket| bucket[1].as_u64().expect("a count"))
        .sum()
}

/// Runs a trial over the loopback and asserts that both endpoints agree. Returns the `trial.end` of source and sink.
fn ask(workload: &str, roles: &[&str], changes: &Value) -> [Value; 2] {
    let mut pair = Pair::start();
    let run = |duration_s| {
        pair.prepare("t", roles, with(workload, changes));
        pair.run("t", duration_s)
    };
    let [(samples_a, a), (samples_b, b)] = run_long_enough(0.3, run, all_sources_have_sent);
    for end in [&a, &b] {
        assert_eq!(end["reason"], "done", "{changes}: {end}");
        assert_eq!(end["drained"], true, "{changes}: {end}");
    }
    assert_eq!(a["bytes_sent"], b["bytes_received"], "{changes}");
    assert_eq!(b["bytes_sent"], a["bytes_received"], "{changes}");
    let asks = usize::from(roles[0] != "source");
    let (samples, ends) = ([samples_a, samples_b], [a, b]);
    assert!(
        ends[1 - asks].get("latency").is_none(),
        "a sink times nothing"
    );
    let latency = &ends[asks]["latency"];
    let request_bytes = changes["request_bytes"].as_u64().unwrap_or(1);
    let response_bytes = changes["response_bytes"].as_u64().unwrap_or(1);
    assert!(number(latency, "count") > 0, "{changes}: {}", ends[asks]);
    assert_eq!(
        number(latency, "count") * request_bytes,
        number(&ends[asks], "bytes_sent")
    );
    assert_eq!(
        number(latency, "count") * response_bytes,
        number(&ends[asks], "bytes_received")
    );
    assert_eq!(
        count_at_least(latency, Duration::ZERO),
        number(latency, "count")
    );
    // Requests due at the very end of an open loop may not be sent.
    // Each stream of a closed loop has one request outstanding, which a busy machine may answer too late.
    if changes["rate_per_s"].is_null() {
        assert!(
            number(&ends[asks], "unanswered") <= roles.len() as u64,
            "{}",
            ends[asks]
        );
    }
    let sampled: u64 = samples[asks]
        .iter()
        .map(|s| number(&s["latency"], "count"))
        .sum();
    assert!(sampled <= number(latency, "count"));
    let [a, b] = ends;
    if asks == 0 { [a, b] } else { [b, a] }
}

/// Starts a sink that accepts a stream and then runs `act`. Returns its port and thread.
fn sink(act: impl FnOnce(TcpStream) + Send + 'static) -> (Value, JoinHandle<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("an address").port();
    let thread = std::thread::spawn(move || {
        let (_, stream) = accept_stream(&listener);
        act(stream);
    });
    (json!(port), thread)
}

/// Runs a source of one-byte requests against a sink that runs `act`.
fn run_against_sink(
    act: impl FnOnce(TcpStream) + Send + 'static,
    changes: &Value,
    duration_s: f64,
) -> Value {
    let (port, thread) = sink(act);
    let mut agent = Agent::start();
    let request = connecting("t", &["source"], &port, &with("tcp_rr", changes));
    agent.expect_result("trial.prepare", request);
    agent.expect_result(
        "trial.start",
        json!({"trial": "t", "duration_s": duration_s}),
    );
    let (_, end) = agent.wait_for_end("t");
    drop(agent);
    thread.join().expect("the sink comes to its end");
    end
}

/// Answers each request byte with one byte, after the delay for the request's number.
fn answer_with_delay(mut stream: TcpStream, delay: impl Fn(u64) -> Duration) {
    let mut request = [0];
    for number in 0.. {
        if stream.read(&mut request).unwrap_or(0) == 0 {
            return;
        }
        std::thread::sleep(delay(number));
        if stream.write_all(&request).is_err() {
            return;
        }
    }
}

#[test]
fn every_request_is_answered_for_every_size_and_wait_mode() {
    for (request_bytes, response_bytes) in [(1, 1), (100, 7), (1, 200_000), (300_000, 1)] {
        for waiting in ["block", "spin"] {
            let changes = json!({
                "request_bytes": request_bytes, "response_bytes": response_bytes, "waiting": waiting,
            });
            ask("tcp_rr", &["source"], &changes);
        }
    }
}

#[test]
fn the_listening_endpoint_can_send_requests() {
    ask("tcp_rr", &["sink", "sink"], &json!({}));
    ask("tcp_crr", &["sink"], &json!({}));
}

#[test]
fn many_connections_share_few_threads() {
    for waiting in ["block", "spin"] {
        for rate in [Value::Null, json!(200)] {
            let changes = json!({"threads": 2, "waiting": waiting, "rate_per_s": rate});
            ask("tcp_rr", &["source"; 20], &changes);
        }
    }
}

#[test]
fn small_messages_are_sent_at_once() {
    let mut pair = Pair::start();
    for streams in pair.prepare("t", &["source"], json!({"workload": "tcp_rr"})) {
        assert_eq!(streams[0]["no_delay"], true);
        assert_eq!(streams[0]["busy_poll_us"], 0);
    }
}

#[test]
fn busy_polling_is_enabled_or_rejected_by_name() {
    let mut agent = Agent::start();
    let changes = json!({"workload": "tcp_rr", "waiting": "busy_poll"});
    match agent.request("trial.prepare", listening("t", &["sink"], &changes)) {
        Ok(_) => {
            let [source, _] = ask("tcp_rr", &["source"], &json!({"waiting": "busy_poll"}));
            assert!(source.get("outstanding_at_end").is_some());
        }
        Err(error) => {
            assert_eq!(error["code"], -32001);
            assert!(
                error["message"]
                    .as_str()
                    .is_some_and(|m| m.contains("SO_BUSY_POLL"))
            );
        }
    }
}

#[test]
fn latencies_contain_the_delay_of_the_sink() {
    let delay = Duration::from_millis(2);
    for waiting in ["block", "spin"] {
        let changes = json!({ "waiting": waiting });
        let end = run_against_sink(
            move |stream| answer_with_delay(stream, |_| delay),
            &changes,
            0.3,
        );
        let latency = &end["latency"];
        // The midpoint of a histogram bucket may be 0.4 % below its values.
        assert_eq!(
            count_at_least(latency, delay * 99 / 100),
            number(latency, "count")
        );
        assert!(latency["p50_us"].as_f64() >= Some(1990.0), "{latency}");
        assert!(latency["p99_us"].as_f64() >= latency["p50_us"].as_f64());
    }
}

#[test]
fn an_open_loop_measures_latency_from_the_due_time() {
    let stall = Duration::from_millis(200);
    let stalls = move |number| if number == 100 { stall } else { Duration::ZERO };
    for waiting in ["block", "spin"] {
        let changes = json!({"rate_per_s": 1000, "waiting": waiting});
        let end = run_against_sink(
            move |stream| answer_with_delay(stream, stalls),
            &changes,
            0.8,
        );
        let latency = &end["latency"];
        // 200 requests are due during the stall; they wait 200, 199, … 1 ms.
        assert!(
            count_at_least(latency, Duration::from_millis(198)) >= 1,
            "{latency}"
        );
        assert!(
            count_at_least(latency, Duration::from_millis(150)) >= 49,
            "{latency}"
        );
        assert!(
            count_at_least(latency, Duration::from_millis(50)) >= 148,
            "{latency}"
        );
        assert!(latency["p99_us"].as_f64() >= Some(180e3), "{latency}");
    }
}

#[test]
fn a_closed_loop_measures_a_stall_once() {
    let stalls = |number| Duration::from_millis(if number == 100 { 200 } else { 0 });
    let run = |duration_s| {
        let act = move |stream| answer_with_delay(stream, stalls);
        run_against_sink(act, &json!({}), duration_s)
    };
    let answers = |end: &Value| number(&end["latency"], "count");
    let end = run_long_enough(0.5, run, |end| answers(end) > 101);
    let latency = &end["latency"];
    assert!(
        count_at_least(latency, Duration::from_millis(198)) >= 1,
        "{latency}"
    );
    assert!(answers(&end) > 101);
}

#[test]
fn an_open_loop_sends_exactly_the_due_requests() {
    for waiting in ["block", "spin"] {
        let changes = json!({"rate_per_s": 2000, "waiting": waiting});
        let [source, _] = ask("tcp_rr", &["source", "source"], &changes);
        let made = number(&source["latency"], "count") + number(&source, "unanswered");
        // A busy machine ends the load late, and requests are due until then.
        let duration_s = source["duration_s"].as_f64().expect("seconds");
        let most_each = (2000.0 * duration_s) as u64 + 1;
        assert!(
            (1199..=2 * most_each).contains(&made),
            "{made} for 2 x 2000 /s x {duration_s} s: {source}"
        );
        let pacing = &source["instrument"]["pacing"];
        assert!(number(pacing, "sent") <= made, "{pacing}");
        assert!(pacing["lateness_max_us"].as_f64() >= pacing["lateness_p50_us"].as_f64());
    }
}

#[test]
fn unanswered_requests_are_counted() {
    let reads_only = |mut stream: TcpStream| {
        let _ = std::io::copy(&mut stream, &mut std::io::sink());
    };
    let end = run_against_sink(reads_only, &json!({"rate_per_s": 1000}), 0.2);
    assert_eq!(number(&end["latency"], "count"), 0);
    assert!(
        number(&end, "outstanding_at_end").abs_diff(200) <= 1,
        "{end}"
    );
    assert!(number(&end, "unanswered").abs_diff(200) <= 1, "{end}");
    let end = run_against_sink(reads_only, &json!({}), 0.2);
    assert_eq!(number(&end, "unanswered"), 1);
}

#[test]
fn an_unexpected_response_breaks_the_stream() {
    let sends_unrequested_data = |mut stream: TcpStream| {
        let _ = stream.write_all(&[0; 1000]);
        let _ = std::io::copy(&mut stream, &mut std::io::sink());
    };
    let end = run_against_sink(sends_unrequested_data, &json!({}), 0.3);
    assert_fault(&end, "stream", "received a response without a request");
}

#[test]
fn a_source_of_requests_can_be_stopped_in_every_wait_mode() {
    for changes in [
        json!({}),
        json!({"waiting": "spin"}),
        json!({"rate_per_s": 0.001}),
        json!({"threads": 1}),
    ] {
        let mut pair = Pair::start();
        pair.prepare("t", &["source", "source"], with("tcp_rr", &changes));
        for agent in [&mut pair.b, &mut pair.a] {
            agent.expect_result("trial.start", json!({"trial": "t", "duration_s": 3600}));
        }
        pair.a.wait_for_event("trial.sample", "t");
        pair.a.expect_result("trial.stop", json!({"trial": "t"}));
        assert_eq!(pair.a.wait_for_end("t").1["reason"], "stopped", "{changes}");
    }
}

#[test]
fn a_blocked_sink_can_be_stopped() {
    // The peer requests more data than the connection's buffers hold, and never reads.
    let (port, thread) = sink(|mut stream| {
        let _ = stream.write_all(&[0; 64]);
        while matches!(stream.take_error(), Ok(None)) {
            std::thread::sleep(Duration::from_millis(5));
        }
    });
    let mut agent = Agent::start();
    let changes = json!({"workload": "tcp_rr", "response_bytes": 8 << 20});
    agent.expect_result("trial.prepare", connecting("t", &["sink"], &port, &changes));
    agent.expect_result("trial.start", json!({"trial": "t", "duration_s": 3600}));
    agent.wait_for_event("trial.sample", "t");
    agent.expect_result("trial.stop", json!({"trial": "t"}));
    assert_eq!(agent.wait_for_end("t").1["reason"], "stopped");
    thread.join().expect("the connection was closed");
}

#[test]
fn each_transaction_of_tcp_crr_opens_a_connection() {
    for changes in [
        json!({}),
        json!({"request_bytes": 100, "response_bytes": 100_000}),
    ] {
        let [source, _] = ask("tcp_crr", &["source", "source"], &changes);
        let connected = number(&source["connect_time"], "count");
        assert_eq!(connected, number(&source["latency"], "count"));
        assert!(source["latency"]["p50_us"].as_f64() > source["connect_time"]["p50_us"].as_f64());
    }
}

#[test]
fn both_endpoints_of_tcp_crr_can_be_stopped() {
    for first_is_source in [true, false] {
        let mut pair = Pair::start();
        pair.prepare("t", &["source"], json!({"workload": "tcp_crr"}));
        for agent in [&mut pair.b, &mut pair.a] {
            agent.expect_result("trial.start", json!({"trial": "t", "duration_s": 3600}));
        }
        pair.a.wait_for_event("trial.sample", "t");
        let Pair { a, b } = &mut pair;
        let stopped = if first_is_source { a } else { b };
        stopped.expect_result("trial.stop", json!({"trial": "t"}));
        assert_eq!(stopped.wait_for_end("t").1["reason"], "stopped");
    }
}
