//! What `trial.prepare` asks for: read, checked against the limits, and made into a plan. What only one workload knows is
//! in `parameters.rs`.

use std::collections::HashSet;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use serde::Deserialize;
use serde_json::{Map, Value};

use super::parameters::{self, Workload, bad, within};
use crate::cpu_list::CpuList;
use crate::error::{Error, Result};
use crate::traffic::connection::{Options, Secret};
use crate::traffic::threads::Threads;
use crate::traffic::{Load, Role};

const MAX_TRIAL_NAME_BYTES: usize = 128;
const MAX_STREAMS: usize = 1024;
const MAX_SOCKET_BUFFER_BYTES: usize = 1 << 30;
const MAX_TIMEOUT_S: f64 = 600.0;
const MIN_INTERVAL_S: f64 = 0.001;
const MAX_INTERVAL_S: f64 = 3600.0;
const MAX_DURATION_S: f64 = 7.0 * 24.0 * 3600.0;

#[derive(Deserialize)]
pub struct Prepare {
    trial: String,
    workload: Workload,
    secret: Option<String>,
    listen: Option<Listen>,
    connect: Option<Connect>,
    #[serde(default)]
    streams: Vec<StreamAsked>,
    socket_buffer_bytes: Option<usize>,
    congestion_control: Option<String>,
    #[serde(default)]
    threads: usize,
    thread_cpus: Option<Vec<String>>,
    interface: Option<String>,
    #[serde(default = "default_interval_s")]
    interval_s: f64,
    #[serde(default = "default_timeout_s")]
    timeout_s: f64,
    /// All else: the parameters of the workload.
    #[serde(flatten)]
    parameters: Map<String, Value>,
}

#[derive(Clone, Copy, Deserialize)]
#[serde(deny_unknown_fields)]
struct Listen {
    address: IpAddr,
    #[serde(default)]
    port: u16,
}

#[derive(Clone, Copy, Deserialize)]
#[serde(deny_unknown_fields)]
struct Connect {
    address: IpAddr,
    port: u16,
    from: Option<IpAddr>,
}

#[derive(Clone, Copy, Deserialize)]
#[serde(deny_unknown_fields)]
struct StreamAsked {
    id: u32,
    role: Role,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Named {
    pub trial: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Start {
    pub trial: String,
    duration_s: f64,
}

impl Start {
    pub fn duration(&self) -> Result<Duration> {
        seconds("duration_s", self.duration_s, 0.0, MAX_DURATION_S)
    }
}

fn default_interval_s() -> f64 {
    0.1
}

fn default_timeout_s() -> f64 {
    10.0
}

/// One side of a trial, as it will be carried out.
#[derive(Debug)]
pub struct Plan {
    pub trial: String,
    pub interface: Option<String>,
    pub interval: Duration,
    pub timeout: Duration,
    /// `None` for `observe`.
    pub load: Option<(Place, Load)>,
}

#[derive(Debug, Clone, Copy)]
pub enum Place {
    Listens(SocketAddr),
    Connects {
        to: SocketAddr,
        from: Option<IpAddr>,
    },
}

impl Prepare {
    pub fn plan(mut self) -> Result<Plan> {
        if self.trial.is_empty() || self.trial.len() > MAX_TRIAL_NAME_BYTES {
            return bad(format!("trial must have 1 to {MAX_TRIAL_NAME_BYTES} bytes"));
        }
        Ok(Plan {
            interval: seconds(
                "interval_s",
                self.interval_s,
                MIN_INTERVAL_S,
                MAX_INTERVAL_S,
            )?,
            timeout: seconds("timeout_s", self.timeout_s, 0.0, MAX_TIMEOUT_S)?,
            load: match self.workload {
                Workload::Observe => {
                    self.check_observe()?;
                    None
                }
                _ => Some(self.load()?),
            },
            trial: self.trial,
            interface: self.interface,
        })
    }

    fn check_observe(&mut self) -> Result<()> {
        parameters::none(self.workload, std::mem::take(&mut self.parameters))?;
        if self.streams.is_empty() && self.listen.is_none() && self.connect.is_none() {
            return Ok(());
        }
        bad("the workload observe takes no streams, and neither listens nor connects".into())
    }

    fn load(&mut self) -> Result<(Place, Load)> {
        let place = match (self.listen, self.connect) {
            (Some(at), None) => Place::Listens(SocketAddr::new(at.address, at.port)),
            (None, Some(to)) => Place::Connects {
                to: SocketAddr::new(to.address, to.port),
                from: to.from,
            },
            _ => return bad("exactly one of listen and connect must be there".into()),
        };
        let secret = self
            .secret
            .as_deref()
            .and_then(parse_secret)
            .ok_or_else(|| Error::BadParameter("secret must be 32 hexadecimal digits".into()))?;
        let ids: HashSet<u32> = self.streams.iter().map(|stream| stream.id).collect();
        if !(1..=MAX_STREAMS).contains(&self.streams.len()) || ids.len() != self.streams.len() {
            return bad(format!(
                "streams must be 1 to {MAX_STREAMS}, each with an id of its own"
            ));
        }
        if let Some(bytes) = self.socket_buffer_bytes {
            within("socket_buffer_bytes", bytes, MAX_SOCKET_BUFFER_BYTES)?;
        }
        let threads = Threads {
            count: match self.threads {
                0 => self.streams.len(),
                some => some,
            },
            cpus: self.thread_cpus()?,
        };
        let mut options = Options {
            buffer_bytes: self.socket_buffer_bytes,
            congestion_control: self.congestion_control.clone(),
            ..Options::default()
        };
        let asked = std::mem::take(&mut self.parameters);
        let work = parameters::work(self.workload, asked, &mut options)?;
        if parameters::takes_a_thread_each(&work) && threads.count < self.streams.len() {
            return bad("each stream of this workload takes a thread of its own".into());
        }
        let load = Load {
            secret,
            roles: self
                .streams
                .iter()
                .map(|stream| (stream.id, stream.role))
                .collect(),
            options,
            threads,
            work,
        };
        Ok((place, load))
    }

    fn thread_cpus(&self) -> Result<Vec<CpuList>> {
        let texts = self.thread_cpus.as_deref().unwrap_or_default();
        if texts.len() > MAX_STREAMS {
            return bad(format!(
                "thread_cpus must name the CPUs of {MAX_STREAMS} threads at most"
            ));
        }
        let lists: Vec<CpuList> = texts
            .iter()
            .map(|text| CpuList::parse(text))
            .collect::<Result<_>>()?;
        if lists.iter().any(CpuList::is_empty) {
            return bad("thread_cpus must name at least one CPU for each thread".into());
        }
        Ok(lists)
    }
}

fn seconds(name: &str, value: f64, least: f64, most: f64) -> Result<Duration> {
    if (least..=most).contains(&value) {
        return Ok(Duration::from_secs_f64(value));
    }
    bad(format!("{name} must lie within {least} and {most}"))
}

fn parse_secret(text: &str) -> Option<Secret> {
    if text.len() != 2 * size_of::<Secret>() || !text.bytes().all(|b| b.is_ascii_hexdigit()) {
        return None;
    }
    Some(u128::from_str_radix(text, 16).ok()?.to_be_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::traffic::Work;
    use serde_json::json;

    fn plan_of(changes: Value) -> Result<Plan> {
        let mut asked = json!({
            "trial": "1", "workload": "tcp_stream", "secret": "00112233445566778899aabbccddeeff",
            "listen": {"address": "127.0.0.1"}, "streams": [{"id": 7, "role": "sink"}],
        });
        for (key, value) in changes.as_object().expect("an object") {
            asked[key] = value.clone();
        }
        serde_json::from_value::<Prepare>(asked)
            .expect("parameters")
            .plan()
    }

    #[test]
    fn what_is_not_said_is_the_protocols_default() {
        let plan = plan_of(json!({})).expect("valid");
        let (_, load) = plan.load.expect("streams");
        assert_eq!(load.roles, [(7, Role::Sink)]);
        assert_eq!(load.secret[..3], [0x00, 0x11, 0x22]);
        assert_eq!(load.threads.count, 1);
        assert!(matches!(load.work, Work::Stream(transfer) if transfer.message_bytes == 1 << 20));
        assert_eq!(plan.interval, Duration::from_millis(100));
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
            json!({"workload": "udp_stream", "rate_per_s": 1000, "gso": true}),
            json!({"workload": "udp_stream", "fragments": true, "gso": true}),
            json!({"workload": "udp_stream", "threads": 1, "streams":
                [{"id": 1, "role": "sink"}, {"id": 2, "role": "sink"}]}),
        ] {
            let refused = plan_of(changes.clone()).expect_err(&changes.to_string());
            assert_eq!(refused.code(), -32602);
        }
    }
}
