//! The requests `trial.prepare` and `trial.start`: parses them, checks their limits, and turns them into a plan.
//!
//! `parameters.rs` handles the parameters of single workloads, and `load_plan.rs` builds the load.

use std::time::Duration;

use serde::{Deserialize, Deserializer};
use serde_json::{Map, Value};

use super::endpoint::{ConnectAddress, ConnectionMethod, ListenAddress};
use super::limits::reject_parameter;
use super::parameters::{self, PartName, WorkloadName};
use vnetbench_counters::observer;
use vnetbench_streams::Role;
use vnetbench_system::error::Result;
use vnetbench_traffic::Load;
use vnetbench_traffic::route::Transport;
use vnetbench_traffic::source_ports::SourcePorts;

const MAX_TRIAL_NAME_BYTES: usize = 128;
const MAX_STREAM_CONNECT_TIMEOUT_S: f64 = 600.0;
const DEFAULT_STREAM_CONNECT_TIMEOUT_S: f64 = 10.0;
const DEFAULT_SAMPLE_INTERVAL_S: f64 = 0.1;
const MIN_SAMPLE_INTERVAL_S: f64 = 0.001;
const MAX_SAMPLE_INTERVAL_S: f64 = 3600.0;
const MAX_DURATION_S: f64 = 7.0 * 24.0 * 3600.0;

/// The request `trial.prepare`.
#[derive(Deserialize)]
pub struct TrialPrepareRequest {
    /// The trial's name.
    pub trial: String,
    /// The workload.
    pub workload: WorkloadName,
    /// Identifies this trial's connections: 32 hexadecimal digits.
    pub secret: Option<String>,
    /// Where to listen for the other endpoint.
    pub listen: Option<ListenAddress>,
    /// Where to reach the other endpoint.
    pub connect: Option<ConnectAddress>,
    /// The endpoint's streams.
    #[serde(default, deserialize_with = "null_as_default")]
    pub streams: Vec<StreamRequest>,
    /// The size of the send and receive buffers.
    pub socket_buffer_bytes: Option<usize>,
    /// The name of the TCP congestion control.
    pub congestion_control: Option<String>,
    /// TCP or MPTCP.
    pub transport: Option<Transport>,
    /// The source ports of the streams.
    #[serde(default, deserialize_with = "null_as_default")]
    pub source_ports: SourcePorts,
    /// The number of load threads; 0 starts one for each stream.
    #[serde(default, deserialize_with = "null_as_default")]
    pub threads: usize,
    /// The CPU list of each load thread.
    pub thread_cpus: Option<Vec<String>>,
    /// The interface to count, or the port for frames.
    pub interface: Option<String>,
    /// Whether the interface may go down or lose its carrier without a fault.
    pub link_may_go_down: Option<bool>,
    /// Whether to read counters of the whole kernel.
    pub system: Option<bool>,
    /// The time between two samples.
    pub interval_s: Option<f64>,
    /// How long connecting may take.
    pub timeout_s: Option<f64>,
    /// All other parameters, which belong to the workload.
    #[serde(flatten)]
    pub parameters: Map<String, Value>,
}

/// One stream of `trial.prepare`.
#[derive(Clone, Copy, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StreamRequest {
    /// The id, unique within the trial and equal at both endpoints.
    pub id: u32,
    /// Source or sink.
    pub role: Role,
    /// The part of a `mixed` load.
    pub part: Option<PartName>,
}

/// A request that names a trial only, such as `trial.stop`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TrialNameRequest {
    /// The trial's name.
    pub trial: String,
}

/// The request `trial.start`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TrialStartRequest {
    /// The trial's name.
    pub trial: String,
    duration_s: f64,
}

impl TrialStartRequest {
    /// Returns how long the load runs.
    pub fn duration(&self) -> Result<Duration> {
        parse_seconds("duration_s", self.duration_s, 0.0, MAX_DURATION_S)
    }
}

/// Treats null like a missing parameter.
fn null_as_default<'de, D: Deserializer<'de>, T: Default + Deserialize<'de>>(
    deserializer: D,
) -> std::result::Result<T, D::Error> {
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}

/// One endpoint's part of a trial, with checked parameters.
#[derive(Debug)]
pub struct TrialPlan {
    /// The trial's name.
    pub trial: String,
    /// The interface to count.
    pub interface: Option<String>,
    /// Whether the interface may go down or lose its carrier without a fault.
    pub interface_may_lose_link: bool,
    /// Whether to read counters of the whole kernel.
    pub system: bool,
    /// The time between two samples.
    pub interval: Duration,
    /// How long connecting may take.
    pub timeout: Duration,
    /// The endpoint's address and load; `None` for `observe`.
    pub load: Option<(ConnectionMethod, Load)>,
    /// What the agent observes besides the load.
    pub observer: observer::ObserverRequest,
}

impl TrialPrepareRequest {
    /// Checks the request and returns its plan.
    pub fn into_plan(mut self) -> Result<TrialPlan> {
        if self.trial.is_empty() || self.trial.len() > MAX_TRIAL_NAME_BYTES {
            return reject_parameter(format!(
                "trial must be 1 to {MAX_TRIAL_NAME_BYTES} bytes long"
            ));
        }
        let watched = parameters::take_observer_request(self.workload, &mut self.parameters)?;
        let load = match self.workload {
            WorkloadName::Observe => {
                self.check_observe()?;
                None
            }
            _ => Some(self.build_load()?),
        };
        Ok(TrialPlan {
            interval: parse_sample_interval(self.interval_s)?,
            timeout: parse_stream_connect_timeout(self.timeout_s)?,
            load,
            observer: watched,
            interface: self.interface,
            interface_may_lose_link: self.link_may_go_down.unwrap_or_default(),
            system: self.system.unwrap_or(true),
            trial: self.trial,
        })
    }

    /// Checks that a request for `observe` has nothing that needs a load.
    fn check_observe(&self) -> Result<()> {
        if let Some(name) = self.parameters.keys().next() {
            return reject_parameter(format!("the workload observe has no parameter {name}"));
        }
        if self.streams.is_empty() && self.listen.is_none() && self.connect.is_none() {
            return Ok(());
        }
        reject_parameter("the workload observe accepts no streams, listen, or connect".into())
    }
}

/// Returns the time between two samples, or its default.
pub fn parse_sample_interval(requested_s: Option<f64>) -> Result<Duration> {
    let requested_s = requested_s.unwrap_or(DEFAULT_SAMPLE_INTERVAL_S);
    parse_seconds(
        "interval_s",
        requested_s,
        MIN_SAMPLE_INTERVAL_S,
        MAX_SAMPLE_INTERVAL_S,
    )
}

fn parse_stream_connect_timeout(requested_s: Option<f64>) -> Result<Duration> {
    let requested_s = requested_s.unwrap_or(DEFAULT_STREAM_CONNECT_TIMEOUT_S);
    parse_seconds("timeout_s", requested_s, 0.0, MAX_STREAM_CONNECT_TIMEOUT_S)
}

fn parse_seconds(name: &str, value: f64, min: f64, max: f64) -> Result<Duration> {
    if (min..=max).contains(&value) {
        return Ok(Duration::from_secs_f64(value));
    }
    reject_parameter(format!("{name} must be between {min} and {max}"))
}

#[cfg(test)]
pub mod tests {
    use super::super::load_plan::MAX_STREAMS_PER_TRIAL;
    use super::*;
    use serde_json::json;
    use vnetbench_streams::StreamRole;
    use vnetbench_traffic::Workload;

    /// Returns the plan of a valid TCP request with these changes.
    pub fn plan_with(changes: Value) -> Result<TrialPlan> {
        let mut request = json!({
            "trial": "1", "workload": "tcp_stream", "secret": "00112233445566778899aabbccddeeff",
            "listen": {"address": "127.0.0.1"}, "streams": [{"id": 7, "role": "sink"}],
        });
        for (key, value) in changes.as_object().expect("an object") {
            request[key] = value.clone();
        }
        serde_json::from_value::<TrialPrepareRequest>(request)
            .expect("parameters")
            .into_plan()
    }

    #[test]
    fn missing_parameters_get_the_protocols_defaults() {
        let plan = plan_with(json!({})).expect("valid");
        let (_, load) = plan.load.expect("streams");
        let sink = StreamRole {
            id: 7,
            role: Role::Sink,
        };
        assert_eq!(load.roles, [sink]);
        assert_eq!(load.secret[..3], [0x00, 0x11, 0x22]);
        let [part] = &load.parts[..] else {
            panic!("one part, not {}", load.parts.len())
        };
        assert_eq!(part.threads.count, 1);
        assert!(
            matches!(&part.workload, Workload::Stream(transfer) if transfer.message_bytes == 1 << 20)
        );
        assert_eq!(plan.interval, Duration::from_millis(100));
    }

    #[test]
    fn null_parameters_get_the_defaults() {
        let listen = json!({"address": "127.0.0.1", "port": null});
        let common = [
            "connect",
            "socket_buffer_bytes",
            "congestion_control",
            "transport",
            "source_ports",
            "threads",
            "thread_cpus",
            "interface",
            "link_may_go_down",
            "interval_s",
            "timeout_s",
        ];
        let by_workload: [(&str, &[&str]); 3] = [
            (
                "tcp_stream",
                &[
                    "message_bytes",
                    "send",
                    "send_batch",
                    "receive",
                    "pacing_rate_bps",
                ],
            ),
            (
                "tcp_rr",
                &["request_bytes", "response_bytes", "rate_per_s", "waiting"],
            ),
            (
                "udp_stream",
                &[
                    "datagram_bytes",
                    "rate_per_s",
                    "pacing",
                    "gso",
                    "gro",
                    "fragments",
                    "arrival_gaps",
                ],
            ),
        ];
        for (workload, names) in by_workload {
            let mut request = json!({"workload": workload, "listen": listen});
            for name in common.iter().chain(names) {
                request[name] = Value::Null;
            }
            plan_with(request).expect(workload);
        }
        let vsock = json!({"listen": {"vsock": {"port": null}}, "receive": null});
        plan_with(vsock).expect("VSOCK");
        let observe =
            json!({"workload": "observe", "streams": null, "listen": null, "secret": null});
        plan_with(observe).expect("observe");
    }

    #[test]
    fn invalid_parameters_are_rejected() {
        for changes in [
            json!({"trial": ""}),
            json!({"secret": null}),
            json!({"secret": "+0112233445566778899aabbccddeeff"}),
            json!({"connect": {"address": "127.0.0.1", "port": 1}}),
            json!({"listen": null}),
            json!({"streams": []}),
            json!({"streams": [{"id": 1, "role": "sink"}, {"id": 1, "role": "source"}]}),
            json!({"message_bytes": 0}),
            json!({"send": "carrier_pigeon"}),
            json!({"send": "copy", "send_batch": 2}),
            json!({"send": "io_uring", "send_batch": 0}),
            json!({"send": "io_uring", "send_batch": 257}),
            json!({"message_bytes": 1u64 << 40}),
            json!({"socket_buffer_bytes": 0}),
            json!({"source_ports": "50000-50000", "streams":
                [{"id": 1, "role": "sink"}, {"id": 2, "role": "source"}]}),
            json!({"workload": "tcp_crr", "source_ports": "spread"}),
            json!({"thread_cpus": [""]}),
            json!({"thread_cpus": vec!["0"; MAX_STREAMS_PER_TRIAL + 1]}),
            json!({"interval_s": 0}),
            json!({"timeout_s": -1}),
            json!({"workload": "observe"}),
            json!({"request_bytes": 1}),
            json!({"waiting": "spin"}),
            json!({"workload": "tcp_rr", "message_bytes": 1}),
            json!({"workload": "tcp_rr", "request_bytes": 0}),
            json!({"workload": "tcp_rr", "rate_per_s": 0}),
            json!({"workload": "tcp_rr", "rate_per_s": 1000, "waiting": "busy_poll"}),
            json!({"workload": "tcp_crr", "receive": "copy"}),
            json!({"workload": "tcp_crr", "threads": 1, "streams":
                [{"id": 1, "role": "sink"}, {"id": 2, "role": "sink"}]}),
            json!({"no_such_thing": 1}),
            json!({"workload": "tcp_crr", "rate_per_s": 1000}),
            json!({"datagram_bytes": 64}),
            json!({"workload": "udp_stream", "datagram_bytes": 17}),
            json!({"workload": "udp_stream", "datagram_bytes": 65508}),
            json!({"workload": "udp_stream", "rate_per_s": 0}),
            json!({"workload": "udp_stream", "transport": "mptcp"}),
            json!({"workload": "udp_stream", "rate_per_s": 1e-300}),
            json!({"workload": "tcp_rr", "rate_per_s": 1e-300}),
            json!({"workload": "udp_stream", "rate_per_s": 1000, "gso": true}),
            json!({"workload": "udp_stream", "fragments": true, "gso": true}),
            json!({"workload": "udp_stream", "threads": 1, "streams":
                [{"id": 1, "role": "sink"}, {"id": 2, "role": "sink"}]}),
            json!({"streams": [{"id": 7, "role": "sink", "part": "transfers"}]}),
            json!({"idle_s": 1}),
        ] {
            let error = plan_with(changes.clone()).expect_err(&changes.to_string());
            assert_eq!(error.json_rpc_code(), -32602);
        }
    }
}
