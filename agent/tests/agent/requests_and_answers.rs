//! Requests that are answered: every one is timed and counted, whichever way it is waited for, and none vanishes.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::thread::JoinHandle;
use std::time::Duration;

use serde_json::{Value, json};

use crate::driving::Agent;
use crate::sides::{
    Pair, all_have_sent, assert_fault, connecting, listening, long_enough, take_stream,
};

fn number(of: &Value, name: &str) -> u64 {
    of[name]
        .as_u64()
        .unwrap_or_else(|| panic!("{name} is a whole number in {of}"))
}

fn with(workload: &str, changes: &Value) -> Value {
    let mut all = json!({ "workload": workload });
    for (key, value) in changes.as_object().expect("an object") {
        all[key] = value.clone();
    }
    all
}

/// How many of a distribution's values are at least so long.
fn at_least(distribution: &Value, least: Duration) -> u64 {
    let buckets = distribution["buckets"].as_array().expect("a list");
    buckets
        .iter()
        .filter(|bucket| u128::from(bucket[0].as_u64().expect("ns")) >= least.as_nanos())
        .map(|bucket| bucket[1].as_u64().expect("a count"))
        .sum()
}

/// Runs a trial over the loopback; returns the ends of both sides, the source's first, after proving that they agree.
fn ask(workload: &str, roles: &[&str], changes: &Value) -> [Value; 2] {
    let mut pair = Pair::start();
    let run = |duration_s| {
        pair.prepare("t", roles, with(workload, changes));
        pair.run("t", duration_s)
    };
    let [(samples_a, a), (samples_b, b)] = long_enough(0.3, run, all_have_sent);
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
    assert_eq!(at_least(latency, Duration::ZERO), number(latency, "count"));
    // What is due at the very end of an open loop may not be made any more.
    if changes["rate_per_s"].is_null() {
        assert_eq!(number(&ends[asks], "unanswered"), 0);
    }
    let sampled: u64 = samples[asks]
        .iter()
        .map(|s| number(&s["latency"], "count"))
        .sum();
    assert!(sampled <= number(latency, "count"));
    let [a, b] = ends;
    if asks == 0 { [a, b] } else { [b, a] }
}

/// A sink that reads what opens a connection and then does with it what it is told.
fn sink(act: impl FnOnce(TcpStream) + Send + 'static) -> (Value, JoinHandle<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("an address").port();
    let thread = std::thread::spawn(move || {
        let (_, stream) = take_stream(&listener);
        act(stream);
    });
    (json!(port), thread)
}

/// Runs a source of requests of one byte against that sink.
fn ask_of(act: impl FnOnce(TcpStream) + Send + 'static, changes: &Value, duration_s: f64) -> Value {
    let (port, thread) = sink(act);
    let mut agent = Agent::start();
    let request = connecting("t", &["source"], &port, &with("tcp_rr", changes));
    agent.must("trial.prepare", request);
    agent.must(
        "trial.start",
        json!({"trial": "t", "duration_s": duration_s}),
    );
    let (_, end) = agent.events("t");
    drop(agent);
    thread.join().expect("the sink comes to its end");
    end
}

/// Answers each byte by one, after having waited as it is told for the request of that number.
fn answer_after(mut stream: TcpStream, delay: impl Fn(u64) -> Duration) {
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
fn every_request_is_answered_for_every_size_and_way_of_waiting() {
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
fn the_listening_side_can_ask() {
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
fn busy_polling_is_set_where_it_is_permitted_and_else_refused_by_name() {
    let mut agent = Agent::start();
    let changes = json!({"workload": "tcp_rr", "waiting": "busy_poll"});
    match agent.ask("trial.prepare", listening("t", &["sink"], &changes)) {
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
fn a_sinks_delay_is_in_every_percentile() {
    let delay = Duration::from_millis(2);
    for waiting in ["block", "spin"] {
        let changes = json!({ "waiting": waiting });
        let end = ask_of(move |stream| answer_after(stream, |_| delay), &changes, 0.3);
        let latency = &end["latency"];
        // A bucket's middle may lie 0.4 % below what it holds.
        assert_eq!(
            at_least(latency, delay * 99 / 100),
            number(latency, "count")
        );
        assert!(latency["p50_us"].as_f64() >= Some(1990.0), "{latency}");
        assert!(latency["p99_us"].as_f64() >= latency["p50_us"].as_f64());
    }
}

#[test]
fn an_open_loop_counts_from_when_requests_were_due_so_a_stall_shows_in_all_that_waited() {
    let stall = Duration::from_millis(200);
    let stalls = move |number| if number == 100 { stall } else { Duration::ZERO };
    for waiting in ["block", "spin"] {
        let changes = json!({"rate_per_s": 1000, "waiting": waiting});
        let end = ask_of(move |stream| answer_after(stream, stalls), &changes, 0.8);
        let latency = &end["latency"];
        // Due while it stalled: 200 requests, which wait 200, 199, … 1 ms.
        assert!(
            at_least(latency, Duration::from_millis(198)) >= 1,
            "{latency}"
        );
        assert!(
            at_least(latency, Duration::from_millis(150)) >= 49,
            "{latency}"
        );
        assert!(
            at_least(latency, Duration::from_millis(50)) >= 148,
            "{latency}"
        );
        assert!(latency["p99_us"].as_f64() >= Some(180e3), "{latency}");
    }
}

#[test]
fn a_closed_loop_sees_the_same_stall_once() {
    let stalls = |number| Duration::from_millis(if number == 100 { 200 } else { 0 });
    let end = ask_of(move |stream| answer_after(stream, stalls), &json!({}), 0.5);
    let latency = &end["latency"];
    assert!(
        at_least(latency, Duration::from_millis(198)) >= 1,
        "{latency}"
    );
    assert!(number(latency, "count") > 101);
}

#[test]
fn an_open_loop_makes_the_requests_that_are_due_and_no_others() {
    for waiting in ["block", "spin"] {
        let changes = json!({"rate_per_s": 2000, "waiting": waiting});
        let [source, _] = ask("tcp_rr", &["source", "source"], &changes);
        let made = number(&source["latency"], "count") + number(&source, "unanswered");
        // A machine full of work ends the load late, and until then requests are due.
        let duration_s = source["duration_s"].as_f64().expect("seconds");
        let most_each = (2000.0 * duration_s) as u64 + 1;
        assert!(
            (1199..=2 * most_each).contains(&made),
            "{made} for 2 x 2000 /s x {duration_s} s: {source}"
        );
        let pacing = &source["instrument"]["pacing"];
        assert!(number(pacing, "sent") <= made, "{pacing}");
        assert!(pacing["late_max_us"].as_f64() >= pacing["late_p50_us"].as_f64());
    }
}

#[test]
fn requests_that_are_never_answered_are_counted() {
    let reads_only = |mut stream: TcpStream| {
        let _ = std::io::copy(&mut stream, &mut std::io::sink());
    };
    let end = ask_of(reads_only, &json!({"rate_per_s": 1000}), 0.2);
    assert_eq!(number(&end["latency"], "count"), 0);
    assert!(
        number(&end, "outstanding_at_end").abs_diff(200) <= 1,
        "{end}"
    );
    assert!(number(&end, "unanswered").abs_diff(200) <= 1, "{end}");
    let end = ask_of(reads_only, &json!({}), 0.2);
    assert_eq!(number(&end, "unanswered"), 1);
}

#[test]
fn an_answer_that_nobody_asked_for_breaks_the_stream() {
    let babbles = |mut stream: TcpStream| {
        let _ = stream.write_all(&[0; 1000]);
        let _ = std::io::copy(&mut stream, &mut std::io::sink());
    };
    let end = ask_of(babbles, &json!({}), 0.3);
    assert_fault(&end, "nobody had asked");
}

#[test]
fn a_source_of_requests_can_be_stopped_in_every_way_of_waiting() {
    for changes in [
        json!({}),
        json!({"waiting": "spin"}),
        json!({"rate_per_s": 0.001}),
        json!({"threads": 1}),
    ] {
        let mut pair = Pair::start();
        pair.prepare("t", &["source", "source"], with("tcp_rr", &changes));
        for agent in [&mut pair.b, &mut pair.a] {
            agent.must("trial.start", json!({"trial": "t", "duration_s": 3600}));
        }
        pair.a.event("trial.sample", "t");
        pair.a.must("trial.stop", json!({"trial": "t"}));
        assert_eq!(pair.a.events("t").1["reason"], "stopped", "{changes}");
    }
}

#[test]
fn a_sink_that_cannot_answer_can_be_stopped() {
    // It is asked for more than the connection holds, by one that never reads.
    let (port, thread) = sink(|mut stream| {
        let _ = stream.write_all(&[0; 64]);
        while matches!(stream.take_error(), Ok(None)) {
            std::thread::sleep(Duration::from_millis(5));
        }
    });
    let mut agent = Agent::start();
    let changes = json!({"workload": "tcp_rr", "response_bytes": 8 << 20});
    agent.must("trial.prepare", connecting("t", &["sink"], &port, &changes));
    agent.must("trial.start", json!({"trial": "t", "duration_s": 3600}));
    agent.event("trial.sample", "t");
    agent.must("trial.stop", json!({"trial": "t"}));
    assert_eq!(agent.events("t").1["reason"], "stopped");
    thread.join().expect("its connection was torn down");
}

#[test]
fn each_transaction_of_tcp_crr_has_a_connection_of_its_own() {
    for changes in [
        json!({}),
        json!({"request_bytes": 100, "response_bytes": 100_000}),
    ] {
        let [source, _] = ask("tcp_crr", &["source", "source"], &changes);
        let connected = number(&source["connect"], "count");
        assert_eq!(connected, number(&source["latency"], "count"));
        assert!(source["latency"]["p50_us"].as_f64() > source["connect"]["p50_us"].as_f64());
    }
}

#[test]
fn both_sides_of_tcp_crr_can_be_stopped() {
    for first_is_source in [true, false] {
        let mut pair = Pair::start();
        pair.prepare("t", &["source"], json!({"workload": "tcp_crr"}));
        for agent in [&mut pair.b, &mut pair.a] {
            agent.must("trial.start", json!({"trial": "t", "duration_s": 3600}));
        }
        pair.a.event("trial.sample", "t");
        let Pair { a, b } = &mut pair;
        let stopped = if first_is_source { a } else { b };
        stopped.must("trial.stop", json!({"trial": "t"}));
        assert_eq!(stopped.events("t").1["reason"], "stopped");
    }
}
