//! Probes an iperf3 server with a minimal test and returns its version.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use serde::Deserialize;
use serde_json::{Value, json};

use crate::client_control::ClientControl;
use crate::limits::EndCondition;
use crate::parameters::TestParameters;
use crate::results::{RetransmitReporting, StreamResult, TestResults, sanitize_text};
use crate::sockets::connect_tcp;
use crate::states::TestError;
use crate::streams::stream_id_from_index;
use vnetbench_system::error::{RequestError, Result};

const PROBE_BLOCK_BYTES: usize = 1_000;
const MAX_PROBE_TIMEOUT_S: f64 = 60.0;

/// Parameters of the method `iperf3.probe`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ServerProbeRequest {
    address: IpAddr,
    port: u16,
    from: Option<IpAddr>,
    #[serde(default = "default_timeout_s")]
    timeout_s: f64,
}

fn default_timeout_s() -> f64 {
    10.0
}

/// Runs a minimal test against a server; returns its version and operating system, if it reports them.
///
/// # Errors
///
/// The server is unreachable, busy or does not complete the test.
pub fn probe_server(request: ServerProbeRequest) -> Result<Value> {
    if !(0.0..=MAX_PROBE_TIMEOUT_S).contains(&request.timeout_s) {
        return Err(RequestError::BadParameter(format!(
            "timeout_s must be from 0 to {MAX_PROBE_TIMEOUT_S}"
        )));
    }
    let server = SocketAddr::new(request.address, request.port);
    let results = run_probe_test(
        server,
        request.from,
        Duration::from_secs_f64(request.timeout_s),
    )?;
    // Only a server that runs with --json reports them.
    let start_text = |name: &str| {
        let start = results.server_json.as_ref()?.get("start")?;
        start.get(name)?.as_str().map(sanitize_text)
    };
    Ok(json!({"version": start_text("version"), "system": start_text("system_info")}))
}

fn run_probe_test(
    to: SocketAddr,
    from: Option<IpAddr>,
    timeout: Duration,
) -> std::result::Result<TestResults, TestError> {
    let mut control = ClientControl::open_connection(to, from, timeout, timeout)?;
    control.send_cookie_and_parameters(&TestParameters {
        end_condition: EndCondition::Blocks(1),
        block_bytes: PROBE_BLOCK_BYTES,
        wants_server_output: true,
        ..TestParameters::default()
    })?;
    let stream = connect_tcp(
        to,
        from.map(|from| SocketAddr::new(from, 0)),
        timeout,
        |_| Ok(()),
    )?;
    control.send_cookie(&stream)?;
    control.await_start()?;
    stream
        .send(&[0; PROBE_BLOCK_BYTES])
        .map_err(|error| TestError::failed(format!("cannot write to a stream: {error}")))?;
    control.request_test_end()?;
    let local_results = TestResults {
        streams: vec![StreamResult {
            id: stream_id_from_index(0),
            bytes: PROBE_BLOCK_BYTES as u64,
            ..StreamResult::default()
        }],
        ..TestResults::default()
    };
    let peer_results = control.exchange_results(&local_results, RetransmitReporting::Receiver)?;
    control.send_final_state()?;
    Ok(peer_results)
}
