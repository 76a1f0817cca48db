//! Properties of the parser of requests, tested with mutated requests. `tests/agent/mutated_lines.rs` sends some to an agent.

use std::io::BufReader;

use serde_json::{Value, json};
use vnetbench_mutations::{any_mutant_of, check_mutants};

use crate::lines::{Line, read_line};
use crate::rpc::{format_answer, parse_params, parse_request};
use crate::trial::TrialPrepareRequest;

fn sample_requests() -> Vec<Vec<u8>> {
    let prepare = json!({"trial": "t", "workload": "tcp_stream", "interval_s": 0.05, "roles": ["source", "sink"],
        "connect": {"address": "10.0.0.2", "port": 40001}, "secret": "00112233445566778899aabbccddeeff"});
    [
        json!({"jsonrpc": "2.0", "id": 1, "method": "agent.hello"}),
        json!({"jsonrpc": "2.0", "id": "a", "method": "knob.get", "params": {"interface": "lo", "knobs": ["queues"]}}),
        json!({"jsonrpc": "2.0", "id": 2.5, "method": "trial.prepare", "params": prepare}),
        json!({"jsonrpc": "2.0", "method": "trial.stop", "params": {"trial": "t"}}),
        json!({"jsonrpc": "2.0", "id": null, "method": "path.probe", "params": {"from": "::1", "packet_bytes": 9000}}),
    ]
    .map(|request| format!("{request}\n").into_bytes())
    .to_vec()
}

/// Reads all lines through a buffer of this size.
fn read_lines(bytes: &[u8], buffer_bytes: usize) -> Vec<Line> {
    let mut input = BufReader::with_capacity(buffer_bytes, bytes);
    std::iter::from_fn(|| match read_line(&mut input) {
        Ok(Line::End) => None,
        line => Some(line.expect("a slice can be read")),
    })
    .collect()
}

#[test]
fn mutated_requests_get_an_answer_of_one_line_with_their_id() {
    check_mutants(&any_mutant_of(sample_requests()), |bytes| {
        for line in read_lines(&bytes, 4096) {
            let Line::Text(text) = line else { continue };
            let id = match parse_request(&text) {
                Ok(request) => {
                    let _ = parse_params::<TrialPrepareRequest>(request.params)
                        .and_then(TrialPrepareRequest::into_plan);
                    request.id.unwrap_or_default()
                }
                Err((id, _)) => id,
            };
            assert!(matches!(
                id,
                Value::Null | Value::String(_) | Value::Number(_)
            ));
            let answer = format_answer(&id, Ok(json!({})));
            assert!(!answer.contains('\n'), "{answer}");
            let answer: Value = serde_json::from_str(&answer).expect("an answer is JSON");
            assert_eq!(answer["id"], id);
        }
    });
}

#[test]
fn mutated_requests_are_the_same_lines_in_any_pieces() {
    check_mutants(&any_mutant_of(sample_requests()), |bytes| {
        let lines = read_lines(&bytes, 4096);
        assert_eq!(read_lines(&bytes, 1), lines);
        assert_eq!(read_lines(&bytes, 7), lines);
        assert!(lines.len() <= bytes.len());
    });
}
