//! Connecting streams, and rejecting foreign connections.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::time::Duration;

use serde_json::{Value, json};

use crate::agent_process::Agent;
use crate::endpoints::{Pair, SECRET, connecting, listening, opposite};

/// Returns the header that opens a connection (docs/protocol.md, trial.prepare).
fn stream_header(mark: &[u8; 4], id: u32, secret: &str) -> Vec<u8> {
    let secret = u128::from_str_radix(secret, 16)
        .expect("hexadecimal")
        .to_be_bytes();
    [&mark[..], &id.to_be_bytes(), &secret, &[0; 8]].concat()
}

#[test]
fn foreign_connections_are_rejected_without_delay() {
    let mut pair = Pair::start();
    let roles = ["source", "sink"];
    let port = pair.b.expect_result(
        "trial.prepare",
        listening("t", &opposite(&roles), &json!({})),
    )["port"]
        .take();
    let at = ("127.0.0.1", port.as_u64().expect("a port") as u16);
    let other_secret = SECRET.replace("ff", "fe");
    let foreign: Vec<TcpStream> = [
        stream_header(b"HTTP", 0, SECRET),
        stream_header(b"VNB1", 0, &other_secret),
        stream_header(b"VNB1", 7, SECRET),
        stream_header(b"VNB1", 0, SECRET)[..20].to_vec(),
        Vec::new(),
    ]
    .iter()
    .map(|bytes| {
        let mut stream = TcpStream::connect(at).expect("the agent listens");
        stream.write_all(bytes).expect("the agent reads");
        stream
    })
    .collect();
    // These have sent something invalid; the last two may not have sent everything yet.
    for mut stream in &foreign[..3] {
        assert!(
            matches!(stream.read(&mut [0; 1]), Ok(0) | Err(_)),
            "it is closed"
        );
    }
    pair.a
        .expect_result("trial.prepare", connecting("t", &roles, &port, &json!({})));
    pair.b.expect_result("trial.ready", json!({"trial": "t"}));
    for mut stream in &foreign[3..] {
        assert!(
            matches!(stream.read(&mut [0; 1]), Ok(0) | Err(_)),
            "it is closed"
        );
    }
    let [(_, a), (_, b)] = pair.run("t", 0.1);
    assert_eq!(b["foreign_connections"], 5);
    assert_eq!(a["bytes_sent"], b["bytes_received"]);
    assert_eq!(b["bytes_sent"], a["bytes_received"]);
}

#[test]
fn a_request_that_comes_after_retransmissions_is_accepted() {
    let mut pair = Pair::start();
    let roles = opposite(&["source"]);
    let prepared = pair
        .b
        .expect_result("trial.prepare", listening("t", &roles, &json!({})));
    let port = prepared["port"].as_u64().expect("a port") as u16;
    let mut stream = TcpStream::connect(("127.0.0.1", port)).expect("the agent listens");
    std::thread::sleep(Duration::from_secs(4));
    stream
        .write_all(&stream_header(b"VNB1", 0, SECRET))
        .expect("the agent reads");
    let mut response = [0; 4];
    stream.read_exact(&mut response).expect("the agent answers");
    assert_eq!(&response, b"VNBA");
}

#[test]
fn the_maximum_number_of_streams_connects() {
    let mut pair = Pair::start();
    let changes = json!({"threads": 1, "interval_s": 1});
    let sources = vec!["source"; 1025];
    pair.prepare("t", &sources[..1024], changes.clone());
    let [(_, a), (_, b)] = pair.run("t", 0.1);
    assert_eq!(b["foreign_connections"], 0);
    assert_eq!(a["bytes_sent"], b["bytes_received"]);
    let too_many = listening("u", &sources, &changes);
    assert_eq!(pair.b.expect_error_code("trial.prepare", too_many), -32602);
}

#[test]
fn missing_streams_time_out_and_may_connect_later() {
    let mut pair = Pair::start();
    let changes = json!({"timeout_s": 0.2});
    let port = pair
        .b
        .expect_result("trial.prepare", listening("t", &["sink"], &changes))["port"]
        .take();
    let late = pair
        .b
        .request("trial.ready", json!({"trial": "t"}))
        .expect_err("no stream connects");
    assert_eq!(
        (&late["code"], &late["data"]["after_s"]),
        (&json!(-32004), &json!(0.2))
    );
    assert_eq!(
        pair.b
            .expect_error_code("trial.start", json!({"trial": "t", "duration_s": 1})),
        -32002
    );
    pair.a.expect_result(
        "trial.prepare",
        connecting("t", &["source"], &port, &changes),
    );
    pair.b.expect_result("trial.ready", json!({"trial": "t"}));
    let [(_, a), (_, b)] = pair.run("t", 0.1);
    assert_eq!(a["bytes_sent"], b["bytes_received"]);
}

#[test]
fn a_refused_connection_fails_prepare_and_removes_the_trial() {
    let mut agent = Agent::start();
    // Bound, so that no other program gets the port, but not listening.
    let bound = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None);
    let bound = bound.expect("a socket");
    let any: std::net::SocketAddr = "127.0.0.1:0".parse().expect("an address");
    bound.bind(&any.into()).expect("a port");
    let closed = bound.local_addr().expect("bound").as_socket();
    let closed = closed.expect("an address").port();
    let error = agent
        .request(
            "trial.prepare",
            connecting("t", &["source"], &json!(closed), &json!({})),
        )
        .expect_err("the port is closed");
    assert_eq!(error["code"], -32001);
    assert_eq!(error["data"]["errno"], 111, "{error}");
    assert_eq!(
        agent.expect_error_code("trial.stop", json!({"trial": "t"})),
        -32002
    );
}

/// Returns the error of an endpoint that connects to a peer that accepts and then runs `act`.
fn error_of_peer(timeout_s: f64, act: impl FnOnce(TcpStream) + Send + 'static) -> Value {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("an address").port();
    std::thread::spawn(move || act(listener.accept().expect("the agent connects").0));
    let mut agent = Agent::start();
    let changes = json!({"timeout_s": timeout_s});
    let params = connecting("t", &["source"], &json!(port), &changes);
    let error = agent
        .request("trial.prepare", params)
        .expect_err("the peer is not an agent");
    assert_eq!(
        agent.expect_error_code("trial.stop", json!({"trial": "t"})),
        -32002
    );
    error
}

#[test]
fn an_error_quotes_the_answer_of_a_foreign_peer() {
    let web = error_of_peer(60.0, |mut stream| {
        let _ = stream.read(&mut [0; 64]);
        let _ = stream.write_all(b"HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n");
        let _ = stream.read(&mut [0; 1]);
    });
    assert_eq!(web["code"], -32005, "{web}");
    let reason = web["data"]["reason"].as_str().expect("text");
    assert!(
        reason.contains("the peer answered \"HTTP/1.1 400 Bad Request"),
        "{web}"
    );
    let noise = error_of_peer(60.0, |mut stream| {
        let _ = stream.write_all(&[0xfe; 1000]);
        let _ = stream.read(&mut [0; 64]);
    });
    assert_eq!(noise["code"], -32005, "{noise}");
    let echo = error_of_peer(60.0, |mut stream| {
        let mut header = [0; 32];
        let _ = stream.read_exact(&mut header);
        let _ = stream.write_all(&header);
        let _ = stream.read(&mut [0; 1]);
    });
    assert_eq!(echo["code"], -32005, "{echo}");
    let mail = error_of_peer(60.0, |mut stream| {
        let _ = stream.write_all(b"220 ready\r\n");
        let _ = stream.read(&mut [0; 32]);
    });
    let message = mail["message"].as_str().expect("text");
    assert!(message.contains("the peer sent \"220 ready"), "{mail}");
}

#[test]
fn a_silent_or_slow_peer_times_out() {
    let silent = error_of_peer(0.3, |mut stream| drop(stream.read_to_end(&mut Vec::new())));
    let trickling = error_of_peer(0.3, |mut stream| {
        while stream.write_all(b"V").is_ok() {
            std::thread::sleep(Duration::from_millis(20));
        }
    });
    for error in [silent, trickling] {
        assert_eq!(error["code"], -32004, "{error}");
        let operation = error["data"]["operation"].as_str().expect("text");
        assert!(
            operation.starts_with("waiting for the agent at 127.0.0.1:"),
            "{error}"
        );
    }
}

#[test]
fn an_error_names_a_port_in_use() {
    let holder = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = holder.local_addr().expect("an address").port();
    let mut params = listening("t", &["sink"], &json!({}));
    params["listen"]["port"] = json!(port);
    let error = Agent::start()
        .request("trial.prepare", params)
        .expect_err("the port is in use");
    assert_eq!(error["data"]["errno"], 98, "{error}");
    assert_eq!(
        error["data"]["operation"],
        format!("listen on 127.0.0.1:{port}")
    );
}

#[test]
fn an_error_names_a_missing_congestion_control() {
    let mut agent = Agent::start();
    let changes = json!({"congestion_control": "nonesuch"});
    for params in [
        listening("t", &["sink"], &changes),
        connecting("t", &["source"], &json!(9), &changes),
    ] {
        let error = agent
            .request("trial.prepare", params)
            .expect_err("there is none such");
        assert_eq!(error["code"], -32001);
        let operation = error["data"]["operation"].as_str().expect("text");
        assert!(operation.contains("congestion control nonesuch"), "{error}");
        assert_eq!(error["data"]["kind"], "congestion_control_absent");
    }
}

#[test]
fn a_missing_interface_fails_prepare() {
    let mut agent = Agent::start();
    let params = listening("t", &["sink"], &json!({"interface": "vnb-absent"}));
    let error = agent
        .request("trial.prepare", params)
        .expect_err("there is none such");
    assert_eq!(error["code"], -32001);
    assert!(
        error["message"]
            .as_str()
            .expect("text")
            .contains("vnb-absent"),
        "{error}"
    );
}

#[test]
fn a_trial_name_can_be_reused_after_the_trial_ends() {
    let mut agent = Agent::start();
    let params = listening("t", &["sink"], &json!({}));
    agent.expect_result("trial.prepare", params.clone());
    assert_eq!(
        agent.expect_error_code("trial.prepare", params.clone()),
        -32002
    );
    agent.expect_result("trial.stop", json!({"trial": "t"}));
    agent.wait_for_event("trial.end", "t");
    agent.expect_result("trial.prepare", params);
}

#[test]
fn the_number_of_trials_is_limited() {
    let mut agent = Agent::start();
    let observe = |n: u32| json!({"trial": n.to_string(), "workload": "observe"});
    for n in 0..64 {
        agent.expect_result("trial.prepare", observe(n));
    }
    let error = agent
        .request("trial.prepare", observe(64))
        .expect_err("the limit is reached");
    assert_eq!(error["code"], -32002);
    for n in 0..64 {
        agent.expect_result("trial.stop", json!({"trial": n.to_string()}));
        assert_eq!(
            agent.wait_for_event("trial.end", &n.to_string())["reason"],
            "stopped"
        );
    }
    assert_ne!(
        agent.expect_result("trial.prepare", observe(64)),
        Value::Null
    );
}
