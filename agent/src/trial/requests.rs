//! What `trial.prepare` and `trial.start` ask for: read, checked against the limits, and made into a plan. What only one
//! workload knows is in `parameters.rs`, how a load is built in `load_plan.rs`.

use std::time::Duration;

use serde::{Deserialize, Deserializer};
use serde_json::{Map, Value};

use super::endpoint::{Connect, EndpointAddress, Listen};
use super::limits::bad_parameter;
use super::parameters::{self, PartName, WorkloadName};
use vnetbench_counters::watched;
use vnetbench_streams::Role;
use vnetbench_system::error::Result;
use vnetbench_traffic::Load;
use vnetbench_traffic::route::Transport;

const MAX_TRIAL_NAME_BYTES: usize = 128;
const MAX_TIMEOUT_S: f64 = 600.0;
const TIMEOUT_S: f64 = 10.0;
const INTERVAL_S: f64 = 0.1;
const MIN_INTERVAL_S: f64 = 0.001;
const MAX_INTERVAL_S: f64 = 3600.0;
const MAX_DURATION_S: f64 = 7.0 * 24.0 * 3600.0;

#[derive(Deserialize)]
pub struct PrepareRequest {
    pub trial: String,
    pub workload: WorkloadName,
    pub secret: Option<String>,
    pub listen: Option<Listen>,
    pub connect: Option<Connect>,
    #[serde(default, deserialize_with = "null_as_default")]
    pub streams: Vec<StreamRequest>,
    pub socket_buffer_bytes: Option<usize>,
    pub congestion_control: Option<String>,
    pub transport: Option<Transport>,
    #[serde(default, deserialize_with = "null_as_default")]
    pub threads: usize,
    pub thread_cpus: Option<Vec<String>>,
    pub interface: Option<String>,
    pub system: Option<bool>,
    pub interval_s: Option<f64>,
    pub timeout_s: Option<f64>,
    /// All else: the parameters of the workload.
    #[serde(flatten)]
    pub parameters: Map<String, Value>,
}

#[derive(Clone, Copy, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StreamRequest {
    pub id: u32,
    pub role: Role,
    pub part: Option<PartName>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TrialRequest {
    pub trial: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StartRequest {
    pub trial: String,
    duration_s: f64,
}

impl StartRequest {
    pub fn duration(&self) -> Result<Duration> {
        seconds("duration_s", self.duration_s, 0.0, MAX_DURATION_S)
    }
}

/// Null means what nothing means.
fn null_as_default<'de, D: Deserializer<'de>, T: Default + Deserialize<'de>>(
    from: D,
) -> std::result::Result<T, D::Error> {
    Ok(Option::deserialize(from)?.unwrap_or_default())
}

/// One side of a trial, as it will be carried out.
#[derive(Debug)]
pub struct TrialPlan {
    pub trial: String,
    pub interface: Option<String>,
    /// Whether it counts what is the whole kernel's, too.
    pub system: bool,
    pub interval: Duration,
    pub timeout: Duration,
    /// `None` for `observe`.
    pub load: Option<(EndpointAddress, Load)>,
    /// Of `observe`; nothing for the others.
    pub watched: watched::ObserverRequest,
}

impl PrepareRequest {
    pub fn plan(mut self) -> Result<TrialPlan> {
        if self.trial.is_empty() || self.trial.len() > MAX_TRIAL_NAME_BYTES {
            return bad_parameter(format!("trial must have 1 to {MAX_TRIAL_NAME_BYTES} bytes"));
        }
        let (load, watched) = match self.workload {
            WorkloadName::Observe => (None, self.watched()?),
            _ => (Some(self.load()?), watched::ObserverRequest::default()),
        };
        Ok(TrialPlan {
            interval: interval(self.interval_s)?,
            timeout: timeout(self.timeout_s)?,
            load,
            watched,
            interface: self.interface,
            system: self.system.unwrap_or(true),
            trial: self.trial,
        })
    }

    fn watched(&mut self) -> Result<watched::ObserverRequest> {
        let watched = parameters::parse_observe(std::mem::take(&mut self.parameters))?;
        if self.streams.is_empty() && self.listen.is_none() && self.connect.is_none() {
            return Ok(watched);
        }
        bad_parameter(
            "the workload observe takes no streams, and neither listens nor connects".into(),
        )
    }
}

pub fn interval(requested_s: Option<f64>) -> Result<Duration> {
    let requested_s = requested_s.unwrap_or(INTERVAL_S);
    seconds("interval_s", requested_s, MIN_INTERVAL_S, MAX_INTERVAL_S)
}

fn timeout(requested_s: Option<f64>) -> Result<Duration> {
    let requested_s = requested_s.unwrap_or(TIMEOUT_S);
    seconds("timeout_s", requested_s, 0.0, MAX_TIMEOUT_S)
}

fn seconds(name: &str, value: f64, least: f64, most: f64) -> Result<Duration> {
    if (least..=most).contains(&value) {
        return Ok(Duration::from_secs_f64(value));
    }
    bad_parameter(format!("{name} must lie within {least} and {most}"))
}

#[cfg(test)]
pub mod tests {
    use super::super::load_plan::MAX_STREAMS;
    use super::*;
    use serde_json::json;
    use vnetbench_traffic::Workload;

    pub fn plan_of(changes: Value) -> Result<TrialPlan> {
        let mut request = json!({
            "trial": "1", "workload": "tcp_stream", "secret": "00112233445566778899aabbccddeeff",
            "listen": {"address": "127.0.0.1"}, "streams": [{"id": 7, "role": "sink"}],
        });
        for (key, value) in changes.as_object().expect("an object") {
            request[key] = value.clone();
        }
        serde_json::from_value::<PrepareRequest>(request)
            .expect("parameters")
            .plan()
    }

    #[test]
    fn what_is_not_said_is_the_protocols_default() {
        let plan = plan_of(json!({})).expect("valid");
        let (_, load) = plan.load.expect("streams");
        assert_eq!(load.roles, [(7, Role::Sink)]);
        assert_eq!(load.secret[..3], [0x00, 0x11, 0x22]);
        let [part] = &load.parts[..] else {
            panic!("one part, not {}", load.parts.len())
        };
        assert_eq!(part.threads.count, 1);
        assert!(
            matches!(&part.work, Workload::Stream(transfer) if transfer.message_bytes == 1 << 20)
        );
        assert_eq!(plan.interval, Duration::from_millis(100));
    }

    #[test]
    fn null_means_what_nothing_means() {
        let listen = json!({"address": "127.0.0.1", "port": null});
        let common = [
            "connect",
            "socket_buffer_bytes",
            "congestion_control",
            "transport",
            "threads",
            "thread_cpus",
            "interface",
            "interval_s",
            "timeout_s",
        ];
        let own: [(&str, &[&str]); 3] = [
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
                ],
            ),
        ];
        for (workload, own) in own {
            let mut request = json!({"workload": workload, "listen": listen});
            for name in common.iter().chain(own) {
                request[name] = Value::Null;
            }
            plan_of(request).expect(workload);
        }
        let vsock = json!({"listen": {"vsock": {"port": null}}, "receive": null});
        plan_of(vsock).expect("VSOCK");
        let nothing =
            json!({"workload": "observe", "streams": null, "listen": null, "secret": null});
        plan_of(nothing).expect("observe");
    }

    #[test]
    fn what_is_out_of_bounds_is_refused() {
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
            json!({"thread_cpus": [""]}),
            json!({"thread_cpus": vec!["0"; MAX_STREAMS + 1]}),
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
            let refused = plan_of(changes.clone()).expect_err(&changes.to_string());
            assert_eq!(refused.code(), -32602);
        }
    }
}
