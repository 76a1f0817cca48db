//! What `trial.prepare` asks for: read, checked against the limits, and made into a plan. What only one workload knows is
//! in `parameters.rs`.

use std::collections::HashSet;
use std::time::Duration;

use serde::{Deserialize, Deserializer};
use serde_json::{Map, Value};

use super::parameters::{self, PartName, Workload, bad, within};
use super::place::{Connect, Listen, Place};
use crate::cpu_list::CpuList;
use crate::error::{Error, Result};
use crate::iperf3;
use crate::traffic::connection::Options;
use crate::traffic::opening::Secret;
use crate::traffic::route::Transport;
use crate::traffic::threads::Threads;
use crate::traffic::{Load, Part, Role};

const MAX_TRIAL_NAME_BYTES: usize = 128;
const MAX_STREAMS: usize = 1024;
const MAX_SOCKET_BUFFER_BYTES: usize = 1 << 30;
const MAX_TIMEOUT_S: f64 = 600.0;
const TIMEOUT_S: f64 = 10.0;
const INTERVAL_S: f64 = 0.1;
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
    #[serde(default, deserialize_with = "or_default")]
    streams: Vec<StreamAsked>,
    socket_buffer_bytes: Option<usize>,
    congestion_control: Option<String>,
    transport: Option<Transport>,
    #[serde(default, deserialize_with = "or_default")]
    threads: usize,
    thread_cpus: Option<Vec<String>>,
    interface: Option<String>,
    interval_s: Option<f64>,
    timeout_s: Option<f64>,
    /// All else: the parameters of the workload.
    #[serde(flatten)]
    parameters: Map<String, Value>,
}

#[derive(Clone, Copy, Deserialize)]
#[serde(deny_unknown_fields)]
struct StreamAsked {
    id: u32,
    role: Role,
    part: Option<PartName>,
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

/// Null means what nothing means.
fn or_default<'de, D: Deserializer<'de>, T: Default + Deserialize<'de>>(
    from: D,
) -> std::result::Result<T, D::Error> {
    Ok(Option::deserialize(from)?.unwrap_or_default())
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

impl Prepare {
    pub fn plan(mut self) -> Result<Plan> {
        if self.trial.is_empty() || self.trial.len() > MAX_TRIAL_NAME_BYTES {
            return bad(format!("trial must have 1 to {MAX_TRIAL_NAME_BYTES} bytes"));
        }
        Ok(Plan {
            interval: interval(self.interval_s)?,
            timeout: timeout(self.timeout_s)?,
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
        let place = self.place()?;
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
        let mut options = Options {
            buffer_bytes: self.socket_buffer_bytes,
            congestion_control: self.congestion_control.clone(),
            transport: self.transport.unwrap_or_default(),
            ..Options::default()
        };
        if place.is_vsock() {
            self.check_vsock()?;
            options.transport = Transport::Vsock;
        }
        let load = match self.workload {
            Workload::Mixed => self.of_two_parts(secret, options)?,
            _ => self.of_one_part(secret, options)?,
        };
        let place = match (place, self.asked_of_server(&load)?) {
            (Place::Connects(route), Some(asked)) => Place::AsksIperf3(route, asked),
            (place, _) => place,
        };
        load.check()?;
        Ok((place, load))
    }

    fn place(&self) -> Result<Place> {
        match (self.listen, self.connect) {
            (Some(at), None) => Ok(Place::Listens(at.address())),
            (None, Some(to)) => Ok(Place::Connects(Box::new(to.route()))),
            _ => bad("exactly one of listen and connect must be there".into()),
        }
    }

    /// What an iperf3 server is asked for, where one is at the other side.
    fn asked_of_server(&self, load: &Load) -> Result<Option<Box<iperf3::parameters::Parameters>>> {
        if !self.connect.is_some_and(Connect::is_to_iperf3) {
            return Ok(None);
        }
        let asked = iperf3::trial::parameters(load).map_err(Error::BadParameter)?;
        Ok(Some(Box::new(asked)))
    }

    fn of_one_part(&mut self, secret: Secret, mut options: Options) -> Result<Load> {
        if self.streams.iter().any(|stream| stream.part.is_some()) {
            return bad("only streams of the workload mixed have a part".into());
        }
        let asked = std::mem::take(&mut self.parameters);
        let work = parameters::work(self.workload, asked, &mut options)?;
        let count = self.streams.len();
        if parameters::takes_a_thread_each(&work) && (1..count).contains(&self.threads) {
            return bad("each stream of this workload takes a thread of its own".into());
        }
        let part = Part {
            name: None,
            streams: 0..count,
            work,
            options: options.clone(),
            threads: self.threads(self.threads, count)?,
            begins_after: Duration::ZERO,
        };
        Ok(self.of_parts(secret, options, vec![part]))
    }

    /// Each part has its own threads; it is the requests' that are limited.
    fn of_two_parts(&mut self, secret: Secret, options: Options) -> Result<Load> {
        if self.streams.iter().any(|stream| stream.part.is_none()) {
            return bad("each stream of the workload mixed has a part".into());
        }
        self.streams.sort_by_key(|stream| stream.part);
        let (all, requests) = (self.streams.len(), PartName::Requests);
        let asking = self
            .streams
            .partition_point(|stream| stream.part == Some(requests));
        if asking == 0 || asking == all {
            return bad("the workload mixed has streams of both parts".into());
        }
        let asked = std::mem::take(&mut self.parameters);
        let interval = interval(self.interval_s)?;
        let mixed = parameters::mixed(asked, interval, &options)?;
        let requests = Part {
            name: Some(requests.name()),
            streams: 0..asking,
            work: mixed.requests.0,
            options: mixed.requests.1,
            threads: self.threads(self.threads, asking)?,
            begins_after: Duration::ZERO,
        };
        let transfers = Part {
            name: Some(PartName::Transfers.name()),
            streams: asking..all,
            work: mixed.transfers.0,
            options: mixed.transfers.1,
            threads: self
                .threads(0, all - asking)?
                .after(requests.threads.count.min(asking)),
            begins_after: mixed.idle,
        };
        Ok(self.of_parts(secret, options, vec![requests, transfers]))
    }

    fn of_parts(&self, secret: Secret, options: Options, parts: Vec<Part>) -> Load {
        let roles = self.streams.iter().map(|stream| (stream.id, stream.role));
        Load {
            secret,
            roles: roles.collect(),
            options,
            parts,
        }
    }

    /// So many for that number of streams; 0: one each.
    fn threads(&self, asked: usize, streams: usize) -> Result<Threads> {
        Ok(Threads {
            count: if asked == 0 { streams } else { asked },
            cpus: self.thread_cpus()?,
        })
    }

    /// A VSOCK socket has no options of TCP, and its data cannot be discarded in the kernel (MSG_TRUNC).
    fn check_vsock(&mut self) -> Result<()> {
        let asked = &mut self.parameters;
        let is_discard = asked
            .get("receive")
            .is_some_and(|receive| !receive.is_null() && receive != "copy");
        let of_tcp = [
            (self.socket_buffer_bytes.is_some(), "socket_buffer_bytes"),
            (self.congestion_control.is_some(), "congestion_control"),
            (self.transport.is_some(), "transport"),
            (
                asked
                    .get("pacing_rate_bps")
                    .is_some_and(|rate| !rate.is_null()),
                "pacing_rate_bps",
            ),
            (is_discard, "receive: discard"),
            (
                !matches!(self.workload, Workload::TcpStream | Workload::TcpRr),
                "any workload but tcp_stream and tcp_rr",
            ),
        ];
        if let Some((_, what)) = of_tcp.iter().find(|(is_asked, _)| *is_asked) {
            return bad(format!("VSOCK has no such thing as {what}"));
        }
        if self.workload == Workload::TcpStream {
            asked.insert("receive".into(), "copy".into());
        }
        Ok(())
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

fn interval(asked_s: Option<f64>) -> Result<Duration> {
    let asked_s = asked_s.unwrap_or(INTERVAL_S);
    seconds("interval_s", asked_s, MIN_INTERVAL_S, MAX_INTERVAL_S)
}

fn timeout(asked_s: Option<f64>) -> Result<Duration> {
    let asked_s = asked_s.unwrap_or(TIMEOUT_S);
    seconds("timeout_s", asked_s, 0.0, MAX_TIMEOUT_S)
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
        let [part] = &load.parts[..] else {
            panic!("one part, not {}", load.parts.len())
        };
        assert_eq!(part.threads.count, 1);
        assert!(matches!(&part.work, Work::Stream(transfer) if transfer.message_bytes == 1 << 20));
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
            let mut asked = json!({"workload": workload, "listen": listen});
            for name in common.iter().chain(own) {
                asked[name] = Value::Null;
            }
            plan_of(asked).expect(workload);
        }
        let vsock = json!({"listen": {"vsock": {"port": null}}, "receive": null});
        plan_of(vsock).expect("VSOCK");
        let nothing =
            json!({"workload": "observe", "streams": null, "listen": null, "secret": null});
        plan_of(nothing).expect("observe");
    }

    fn mixed(changes: Value) -> Result<Plan> {
        let mut asked = json!({"workload": "mixed", "idle_s": 0.5, "interval_s": 0.1, "streams": [
            {"id": 3, "role": "source", "part": "transfers"}, {"id": 1, "role": "sink", "part": "requests"},
        ]});
        for (key, value) in changes.as_object().expect("an object") {
            asked[key] = value.clone();
        }
        plan_of(asked)
    }

    #[test]
    fn the_parts_of_mixed_have_their_own_parameters_and_sockets() {
        let asked =
            json!({"message_bytes": 4096, "rate_per_s": 1000, "threads": 1, "waiting": "spin"});
        let (_, load) = mixed(asked).expect("valid").load.expect("streams");
        assert_eq!(load.roles, [(1, Role::Sink), (3, Role::Source)]);
        assert!(!load.options.no_delay);
        let [requests, transfers] = &load.parts[..] else {
            panic!("two parts, not {}", load.parts.len())
        };
        assert_eq!(
            (requests.name, &requests.streams),
            (Some("requests"), &(0..1))
        );
        assert_eq!(
            (transfers.name, &transfers.streams),
            (Some("transfers"), &(1..2))
        );
        assert!(requests.options.no_delay && !transfers.options.no_delay);
        assert_eq!(requests.begins_after, Duration::ZERO);
        assert_eq!(transfers.begins_after, Duration::from_millis(500));
        assert!(matches!(&requests.work, Work::RequestResponse(e) if e.rate_per_s == Some(1000.0)));
        assert!(
            matches!(&transfers.work, Work::Stream(transfer) if transfer.message_bytes == 4096)
        );
    }

    #[test]
    fn a_mixture_of_one_part_or_of_half_an_interval_is_refused() {
        let one = |part| json!({"streams": [{"id": 1, "role": "sink", "part": part}]});
        for changes in [
            one("requests"),
            one("transfers"),
            json!({"streams": [{"id": 1, "role": "sink"}]}),
            json!({"idle_s": null}),
            json!({"idle_s": 0}),
            json!({"idle_s": 0.55}),
            json!({"idle_s": "1"}),
            json!({"rate_per_s": 0}),
            json!({"no_such_thing": 1}),
        ] {
            let refused = mixed(changes.clone()).expect_err(&changes.to_string());
            assert_eq!(refused.code(), -32602);
        }
    }

    #[test]
    fn an_iperf3_server_is_asked_for_what_it_can_do_only() {
        let server = json!({"address": "127.0.0.1", "port": 5201, "speaks": "iperf3"});
        let plan = |changes: Value| {
            let mut asked = json!({"listen": null, "connect": server, "message_bytes": 65536});
            for (key, value) in changes.as_object().expect("an object") {
                asked[key] = value.clone();
            }
            plan_of(asked)
        };
        let both = json!([{"id": 1, "role": "source"}, {"id": 2, "role": "sink"}]);
        for taken in [json!({}), json!({"streams": both})] {
            let (place, _) = plan(taken).expect("valid").load.expect("streams");
            assert!(matches!(place, Place::AsksIperf3(..)));
        }
        let sinks_first = json!([{"id": 1, "role": "sink"}, {"id": 2, "role": "source"}]);
        let many: Vec<Value> = (0..129)
            .map(|id| json!({"id": id, "role": "sink"}))
            .collect();
        for refused in [
            json!({"message_bytes": (1 << 20) + 1}),
            json!({"streams": sinks_first}),
            json!({"streams": many}),
            json!({"workload": "tcp_crr", "message_bytes": null}),
        ] {
            let error = plan(refused.clone()).expect_err(&refused.to_string());
            assert_eq!(error.code(), -32602);
        }
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
