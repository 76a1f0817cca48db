//! How a load is built out of what `trial.prepare` asks for: where its sides are, its parts, their threads and sockets.

use std::collections::HashSet;
use std::time::Duration;

use super::endpoint::{Connect, EndpointAddress};
use super::limits::{bad_parameter, check_max};
use super::parameters::{self, PartName, WorkloadName};
use super::requests::{PrepareRequest, interval};
use vnetbench_iperf3::parameters::TestParameters;
use vnetbench_iperf3::trial;
use vnetbench_streams::Secret;
use vnetbench_streams::threads::ThreadPlan;
use vnetbench_system::cpu_list::CpuList;
use vnetbench_system::error::{Error, Result};
use vnetbench_traffic::route::Transport;
use vnetbench_traffic::sockets::SocketOptions;
use vnetbench_traffic::{Load, LoadPart};

pub const MAX_STREAMS: usize = 1024;
const MAX_SOCKET_BUFFER_BYTES: usize = 1 << 30;

impl PrepareRequest {
    pub fn load(&mut self) -> Result<(EndpointAddress, Load)> {
        let place = self.address()?;
        let secret = self
            .secret
            .as_deref()
            .and_then(parse_secret)
            .ok_or_else(|| Error::BadParameter("secret must be 32 hexadecimal digits".into()))?;
        let ids: HashSet<u32> = self.streams.iter().map(|stream| stream.id).collect();
        if !(1..=MAX_STREAMS).contains(&self.streams.len()) || ids.len() != self.streams.len() {
            return bad_parameter(format!(
                "streams must be 1 to {MAX_STREAMS}, each with an id of its own"
            ));
        }
        if let Some(bytes) = self.socket_buffer_bytes {
            check_max("socket_buffer_bytes", bytes, MAX_SOCKET_BUFFER_BYTES)?;
        }
        let mut options = SocketOptions {
            buffer_bytes: self.socket_buffer_bytes,
            congestion_control: self.congestion_control.clone(),
            transport: self.transport.unwrap_or_default(),
            ..SocketOptions::default()
        };
        if place.is_vsock() {
            self.check_vsock()?;
            options.transport = Transport::Vsock;
        }
        if self.workload == WorkloadName::UdpStream && options.transport == Transport::Mptcp {
            return bad_parameter("udp_stream runs over UDP, not over mptcp".into());
        }
        let load = match self.workload {
            WorkloadName::Mixed => self.mixed_load(secret, options)?,
            _ => self.single_part_load(secret, options)?,
        };
        let place = match (place, self.server_parameters(&load)?) {
            (EndpointAddress::Connect(route), Some(request)) => {
                EndpointAddress::ConnectIperf3(route, request)
            }
            (place, _) => place,
        };
        load.check()?;
        Ok((place, load))
    }

    fn address(&self) -> Result<EndpointAddress> {
        if self.workload == WorkloadName::Frames {
            return match (self.listen, self.connect) {
                (None, None) => Ok(EndpointAddress::Port),
                _ => bad_parameter("the workload frames neither listens nor connects".into()),
            };
        }
        match (self.listen, self.connect) {
            (Some(at), None) => Ok(EndpointAddress::Listen(at.address())),
            (None, Some(to)) => Ok(EndpointAddress::Connect(Box::new(to.route()))),
            _ => bad_parameter("exactly one of listen and connect must be there".into()),
        }
    }

    /// What an iperf3 server is asked for, where one is at the other side.
    fn server_parameters(&self, load: &Load) -> Result<Option<Box<TestParameters>>> {
        if !self.connect.is_some_and(Connect::is_to_iperf3) {
            return Ok(None);
        }
        let request = trial::test_parameters(load).map_err(Error::BadParameter)?;
        Ok(Some(Box::new(request)))
    }

    fn single_part_load(&mut self, secret: Secret, mut options: SocketOptions) -> Result<Load> {
        if self.streams.iter().any(|stream| stream.part.is_some()) {
            return bad_parameter("only streams of the workload mixed have a part".into());
        }
        let request = std::mem::take(&mut self.parameters);
        let interface = self.interface.as_deref();
        let work = parameters::parse_workload(self.workload, request, interface, &mut options)?;
        let count = self.streams.len();
        if parameters::needs_thread_per_stream(&work) && (1..count).contains(&self.threads) {
            return bad_parameter("each stream of this workload takes a thread of its own".into());
        }
        let part = LoadPart {
            name: None,
            streams: 0..count,
            work,
            options: options.clone(),
            threads: self.threads(self.threads, count)?,
            starts_after: Duration::ZERO,
        };
        Ok(self.load_of_parts(secret, options, vec![part]))
    }

    /// Each part has its own threads; it is the requests' that are limited.
    fn mixed_load(&mut self, secret: Secret, options: SocketOptions) -> Result<Load> {
        if self.streams.iter().any(|stream| stream.part.is_none()) {
            return bad_parameter("each stream of the workload mixed has a part".into());
        }
        self.streams.sort_by_key(|stream| stream.part);
        let (all, requests) = (self.streams.len(), PartName::Requests);
        let asking = self
            .streams
            .partition_point(|stream| stream.part == Some(requests));
        if asking == 0 || asking == all {
            return bad_parameter("the workload mixed has streams of both parts".into());
        }
        let request = std::mem::take(&mut self.parameters);
        let interval = interval(self.interval_s)?;
        let mixed = parameters::parse_mixed(request, interval, &options)?;
        let requests = LoadPart {
            name: Some(requests.name()),
            streams: 0..asking,
            work: mixed.requests.0,
            options: mixed.requests.1,
            threads: self.threads(self.threads, asking)?,
            starts_after: Duration::ZERO,
        };
        let transfers = LoadPart {
            name: Some(PartName::Transfers.name()),
            streams: asking..all,
            work: mixed.transfers.0,
            options: mixed.transfers.1,
            threads: self
                .threads(0, all - asking)?
                .skipping(requests.threads.count.min(asking)),
            starts_after: mixed.idle,
        };
        Ok(self.load_of_parts(secret, options, vec![requests, transfers]))
    }

    fn load_of_parts(&self, secret: Secret, options: SocketOptions, parts: Vec<LoadPart>) -> Load {
        let roles = self.streams.iter().map(|stream| (stream.id, stream.role));
        Load {
            secret,
            roles: roles.collect(),
            options,
            parts,
        }
    }

    /// So many for that number of streams; 0: one each.
    fn threads(&self, request: usize, streams: usize) -> Result<ThreadPlan> {
        Ok(ThreadPlan {
            count: if request == 0 { streams } else { request },
            cpus: self.thread_cpus()?,
        })
    }

    /// A VSOCK socket has no options of TCP, and its data cannot be discarded in the kernel (MSG_TRUNC).
    fn check_vsock(&mut self) -> Result<()> {
        let request = &mut self.parameters;
        let is_discard = request
            .get("receive")
            .is_some_and(|receive| !receive.is_null() && receive != "copy");
        let of_tcp = [
            (self.socket_buffer_bytes.is_some(), "socket_buffer_bytes"),
            (self.congestion_control.is_some(), "congestion_control"),
            (self.transport.is_some(), "transport"),
            (
                request
                    .get("pacing_rate_bps")
                    .is_some_and(|rate| !rate.is_null()),
                "pacing_rate_bps",
            ),
            (is_discard, "receive: discard"),
            (
                !matches!(self.workload, WorkloadName::TcpStream | WorkloadName::TcpRr),
                "any workload but tcp_stream and tcp_rr",
            ),
        ];
        if let Some((_, what)) = of_tcp.iter().find(|(is_asked, _)| *is_asked) {
            return bad_parameter(format!("VSOCK has no such thing as {what}"));
        }
        if self.workload == WorkloadName::TcpStream {
            request.insert("receive".into(), "copy".into());
        }
        Ok(())
    }

    fn thread_cpus(&self) -> Result<Vec<CpuList>> {
        let texts = self.thread_cpus.as_deref().unwrap_or_default();
        if texts.len() > MAX_STREAMS {
            return bad_parameter(format!(
                "thread_cpus must name the CPUs of {MAX_STREAMS} threads at most"
            ));
        }
        let lists: Vec<CpuList> = texts
            .iter()
            .map(|text| CpuList::parse(text))
            .collect::<Result<_>>()?;
        if lists.iter().any(CpuList::is_empty) {
            return bad_parameter("thread_cpus must name at least one CPU for each thread".into());
        }
        Ok(lists)
    }
}

fn parse_secret(text: &str) -> Option<Secret> {
    if text.len() != 2 * size_of::<Secret>() || !text.bytes().all(|b| b.is_ascii_hexdigit()) {
        return None;
    }
    Some(u128::from_str_radix(text, 16).ok()?.to_be_bytes())
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::trial::requests::TrialPlan;
    use crate::trial::requests::tests::plan_of;
    use vnetbench_streams::Role;
    use vnetbench_traffic::Workload;

    fn mixed(changes: Value) -> Result<TrialPlan> {
        let mut request = json!({"workload": "mixed", "idle_s": 0.5, "interval_s": 0.1, "streams": [
            {"id": 3, "role": "source", "part": "transfers"}, {"id": 1, "role": "sink", "part": "requests"},
        ]});
        for (key, value) in changes.as_object().expect("an object") {
            request[key] = value.clone();
        }
        plan_of(request)
    }

    #[test]
    fn the_parts_of_mixed_have_their_own_parameters_and_sockets() {
        let request =
            json!({"message_bytes": 4096, "rate_per_s": 1000, "threads": 1, "waiting": "spin"});
        let (_, load) = mixed(request).expect("valid").load.expect("streams");
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
        assert_eq!(requests.starts_after, Duration::ZERO);
        assert_eq!(transfers.starts_after, Duration::from_millis(500));
        assert!(
            matches!(&requests.work, Workload::RequestResponse(e) if e.rate_per_s == Some(1000.0))
        );
        assert!(
            matches!(&transfers.work, Workload::Stream(transfer) if transfer.message_bytes == 4096)
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
            let mut request = json!({"listen": null, "connect": server, "message_bytes": 65536});
            for (key, value) in changes.as_object().expect("an object") {
                request[key] = value.clone();
            }
            plan_of(request)
        };
        let both = json!([{"id": 1, "role": "source"}, {"id": 2, "role": "sink"}]);
        for taken in [json!({}), json!({"streams": both})] {
            let (place, _) = plan(taken).expect("valid").load.expect("streams");
            assert!(matches!(place, EndpointAddress::ConnectIperf3(..)));
        }
        let sinks_first = json!([{"id": 1, "role": "sink"}, {"id": 2, "role": "source"}]);
        let many: Vec<Value> = (0..129)
            .map(|id| json!({"id": id, "role": "sink"}))
            .collect();
        for refused in [
            json!({"message_bytes": (1 << 20) + 1}),
            json!({"pacing_rate_bps": 1_000_000}),
            json!({"streams": sinks_first}),
            json!({"streams": many}),
            json!({"workload": "tcp_crr", "message_bytes": null}),
        ] {
            let error = plan(refused.clone()).expect_err(&refused.to_string());
            assert_eq!(error.code(), -32602);
        }
    }
}
