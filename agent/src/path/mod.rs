//! Path probes: unfragmented datagrams of a given size, or messages of a TCP connection, sent to the other endpoint and back.

mod connection;
mod prober;
mod protocol;
mod responder;
mod socket;
mod wire;

pub use prober::probe_path;
pub use responder::PathResponders;

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn params<T: serde::de::DeserializeOwned>(value: Value) -> T {
        serde_json::from_value(value).expect("parameters")
    }

    fn run_probe(port: &Value, packet_bytes: usize) -> Value {
        probe_path(params(json!({
            "from": "127.0.0.1", "to": "127.0.0.1", "port": port, "packet_bytes": packet_bytes,
            "attempts": 2, "timeout_s": 0.2,
        })))
        .expect("a failed probe is a result, not an error")
    }

    #[test]
    fn a_path_is_probed_in_both_directions_and_closed() {
        let paths = PathResponders::default();
        let path = paths
            .listen(params(json!({"address": "127.0.0.1"})))
            .expect("the responder starts");
        let answer = run_probe(&path["port"], 9000);
        assert_eq!(answer["forward"], true, "{answer}");
        assert_eq!(answer["reverse"], true, "{answer}");
        assert_eq!(answer["reason"], "");
        assert!(answer["rtt_us"].as_f64() > Some(0.0));

        let close = || paths.close(params(json!({"path": path["path"]})));
        close().expect("the path is open");
        assert_eq!(
            close().expect_err("the path is closed").json_rpc_code(),
            -32602
        );
        let answer = run_probe(&path["port"], 9000);
        assert_eq!(answer["forward"], false, "{answer}");
        assert!(
            answer["reason"]
                .as_str()
                .expect("text")
                .starts_with("unreachable: ")
        );
        assert!(answer["rtt_us"].is_null());
    }

    #[test]
    fn invalid_probe_parameters_are_rejected() {
        for (packet_bytes, timeout_s) in [(10, 0.1), (70_000, 0.1), (1500, -1.0), (1500, 1e9)] {
            let result = probe_path(params(json!({
                "from": "127.0.0.1", "to": "127.0.0.1", "port": 9, "packet_bytes": packet_bytes,
                "attempts": 1, "timeout_s": timeout_s,
            })));
            assert_eq!(result.expect_err("out of range").json_rpc_code(), -32602);
        }
    }
}
