//! Builds the load of a `trial.prepare` request: the endpoint's address, the parts, their threads and socket options.

use std::collections::HashSet;
use std::time::Duration;

use super::endpoint::{ConnectAddress, ConnectionMethod};
use super::limits::{check_positive_count, reject_parameter};
use super::parameters::{self, PartName, WorkloadName};
use super::rpc_requests::{StreamRequest, TrialPrepareRequest, parse_sample_interval};
use vnetbench_iperf3::parameters::TestParameters;
use vnetbench_iperf3::trial;
use vnetbench_streams::arrival_gaps::MAX_RECORDING_STREAMS;
use vnetbench_streams::threads::ThreadPlan;
use vnetbench_streams::{Role, Secret, StreamRole};
use vnetbench_system::cpu_list::CpuList;
use vnetbench_system::error::{RequestError, Result};
use vnetbench_traffic::route::Transport;
use vnetbench_traffic::sockets::SocketOptions;
use vnetbench_traffic::source_ports::SourcePorts;
use vnetbench_traffic::{Load, LoadPart, Workload};

/// The maximum number of streams of one trial.
pub const MAX_STREAMS_PER_TRIAL: usize = 1024;
const MAX_SOCKET_BUFFER_BYTES: usize = 1 << 30;

impl TrialPrepareRequest {
    /// Checks the request's load and returns it with the endpoint's address.
    pub fn build_load(&mut self) -> Result<(ConnectionMethod, Load)> {
        let address = self.choose_endpoint_address()?;
        let secret = self
            .secret
            .as_deref()
            .and_then(parse_secret)
            .ok_or_else(|| {
                RequestError::BadParameter("secret must be 32 hexadecimal digits".into())
            })?;
        let ids: HashSet<u32> = self.streams.iter().map(|stream| stream.id).collect();
        if !(1..=MAX_STREAMS_PER_TRIAL).contains(&self.streams.len())
            || ids.len() != self.streams.len()
        {
            return reject_parameter(format!(
                "streams must have 1 to {MAX_STREAMS_PER_TRIAL} elements with different ids"
            ));
        }
        if let Some(bytes) = self.socket_buffer_bytes {
            check_positive_count("socket_buffer_bytes", bytes, MAX_SOCKET_BUFFER_BYTES)?;
        }
        let mut options = SocketOptions {
            buffer_bytes: self.socket_buffer_bytes,
            congestion_control: self.congestion_control.clone(),
            transport: self.transport.unwrap_or_default(),
            source_ports: self.check_source_ports()?,
            ..SocketOptions::default()
        };
        if address.is_vsock() {
            self.reject_unsupported_for_vsock()?;
            options.transport = Transport::Vsock;
        }
        if self.workload == WorkloadName::UdpStream && options.transport == Transport::Mptcp {
            return reject_parameter(
                "udp_stream cannot use transport = mptcp: it runs over UDP".into(),
            );
        }
        let load = match self.workload {
            WorkloadName::Mixed => self.build_mixed_load(secret, options)?,
            _ => self.build_single_part_load(secret, options)?,
        };
        let address = match (address, self.derive_iperf3_test_parameters(&load)?) {
            (ConnectionMethod::Connect(route), Some(request)) => {
                ConnectionMethod::ConnectIperf3(route, request)
            }
            (address, _) => address,
        };
        load.check_kernel_support()?;
        Ok((address, load))
    }

    /// Returns the requested source ports, if the workload supports them and there are enough.
    fn check_source_ports(&self) -> Result<SourcePorts> {
        let ports = self.source_ports;
        if matches!(self.workload, WorkloadName::TcpCrr | WorkloadName::Frames)
            && ports != SourcePorts::Any
        {
            return reject_parameter(
                "source_ports applies to the connections of tcp_stream, tcp_rr and mixed, and to udp_stream"
                    .into(),
            );
        }
        // Datagrams leave from the ports of their sources; TCP connections from those of the connecting endpoint.
        let is_counted = |stream: &&StreamRequest| {
            self.workload != WorkloadName::UdpStream || stream.role == Role::Source
        };
        let stream_count = self.streams.iter().filter(is_counted).count();
        ports.check_stream_count(stream_count).map(|()| ports)
    }

    fn choose_endpoint_address(&self) -> Result<ConnectionMethod> {
        if self.workload == WorkloadName::Frames {
            return match (self.listen, self.connect) {
                (None, None) => Ok(ConnectionMethod::Port),
                _ => reject_parameter(
                    "the workload frames accepts neither listen nor connect".into(),
                ),
            };
        }
        match (self.listen, self.connect) {
            (Some(at), None) => Ok(ConnectionMethod::Listen(at.address())),
            (None, Some(to)) => Ok(ConnectionMethod::Connect(Box::new(to.route()))),
            _ => reject_parameter("name either listen or connect".into()),
        }
    }

    /// Returns the test to request if the other endpoint is an iperf3 server.
    fn derive_iperf3_test_parameters(&self, load: &Load) -> Result<Option<Box<TestParameters>>> {
        if !self.connect.is_some_and(ConnectAddress::is_to_iperf3) {
            return Ok(None);
        }
        let request = trial::derive_parameters(load).map_err(RequestError::BadParameter)?;
        Ok(Some(Box::new(request)))
    }

    fn build_single_part_load(
        &mut self,
        secret: Secret,
        mut options: SocketOptions,
    ) -> Result<Load> {
        if self.streams.iter().any(|stream| stream.part.is_some()) {
            return reject_parameter(
                "only the workload mixed accepts the stream parameter part".into(),
            );
        }
        let request = std::mem::take(&mut self.parameters);
        let interface = self.interface.as_deref();
        let work = parameters::parse_workload(self.workload, request, interface, &mut options)?;
        let count = self.streams.len();
        if parameters::needs_thread_per_stream(&work) && (1..count).contains(&self.threads) {
            return reject_parameter(
                "this workload needs one thread for each stream. Leave out threads".into(),
            );
        }
        let records_arrivals = match &work {
            Workload::Datagrams(flow) => flow.records_arrivals,
            Workload::Stream(transfer) => transfer.timed_messages_per_s.is_some(),
            _ => false,
        };
        if records_arrivals && count > MAX_RECORDING_STREAMS {
            return reject_parameter(format!(
                "arrival_gaps is limited to {MAX_RECORDING_STREAMS} streams, not {count}"
            ));
        }
        let part = LoadPart {
            name: None,
            streams: 0..count,
            workload: work,
            connected_options: options.clone(),
            threads: self.build_thread_plan(self.threads, count)?,
            starts_after: Duration::ZERO,
        };
        Ok(self.assemble_load(secret, options, vec![part]))
    }

    /// Builds the load of `mixed`. Each part has its own threads; `threads` limits those of the requests.
    fn build_mixed_load(&mut self, secret: Secret, options: SocketOptions) -> Result<Load> {
        if self.streams.iter().any(|stream| stream.part.is_none()) {
            return reject_parameter(
                "each stream of the workload mixed needs the stream parameter part".into(),
            );
        }
        self.streams.sort_by_key(|stream| stream.part);
        let stream_count = self.streams.len();
        let request_count = self
            .streams
            .partition_point(|stream| stream.part == Some(PartName::Requests));
        if request_count == 0 || request_count == stream_count {
            return reject_parameter("the workload mixed needs streams with the part requests and with the part transfers".into());
        }
        let request = std::mem::take(&mut self.parameters);
        let interval = parse_sample_interval(self.interval_s)?;
        let mixed = parameters::parse_mixed(request, interval, &options)?;
        let requests = LoadPart {
            name: Some(PartName::Requests.name()),
            streams: 0..request_count,
            workload: mixed.requests.0,
            connected_options: mixed.requests.1,
            threads: self.build_thread_plan(self.threads, request_count)?,
            starts_after: Duration::ZERO,
        };
        let transfers = LoadPart {
            name: Some(PartName::Transfers.name()),
            streams: request_count..stream_count,
            workload: mixed.transfers.0,
            connected_options: mixed.transfers.1,
            threads: self
                .build_thread_plan(0, stream_count - request_count)?
                .rotate_cpus(requests.threads.count.min(request_count)),
            starts_after: mixed.idle_before_transfers,
        };
        Ok(self.assemble_load(secret, options, vec![requests, transfers]))
    }

    fn assemble_load(&self, secret: Secret, options: SocketOptions, parts: Vec<LoadPart>) -> Load {
        let roles = self.streams.iter().map(|stream| StreamRole {
            id: stream.id,
            role: stream.role,
        });
        Load {
            secret,
            roles: roles.collect(),
            socket_options: options,
            parts,
        }
    }

    /// Returns a plan of `requested_threads`, or of one thread for each stream if that is 0.
    fn build_thread_plan(&self, requested_threads: usize, streams: usize) -> Result<ThreadPlan> {
        Ok(ThreadPlan {
            count: if requested_threads == 0 {
                streams
            } else {
                requested_threads
            },
            cpus: self.parse_thread_cpus()?,
        })
    }

    /// Rejects what VSOCK lacks: the options of TCP, and discarding data in the kernel (MSG_TRUNC). A sink copies instead.
    fn reject_unsupported_for_vsock(&mut self) -> Result<()> {
        let request = &mut self.parameters;
        let is_discard = request
            .get("receive")
            .is_some_and(|receive| !receive.is_null() && receive != "copy");
        let unsupported = [
            (self.socket_buffer_bytes.is_some(), "socket_buffer_bytes"),
            (self.congestion_control.is_some(), "congestion_control"),
            (self.transport.is_some(), "transport"),
            (self.source_ports != SourcePorts::Any, "source_ports"),
            (
                request
                    .get("pacing_rate_bps")
                    .is_some_and(|rate| !rate.is_null()),
                "pacing_rate_bps",
            ),
            (is_discard, "receive = discard"),
            (
                !matches!(self.workload, WorkloadName::TcpStream | WorkloadName::TcpRr),
                "workloads other than tcp_stream and tcp_rr",
            ),
        ];
        if let Some((_, option)) = unsupported.iter().find(|(is_requested, _)| *is_requested) {
            return reject_parameter(format!("VSOCK does not support {option}"));
        }
        if self.workload == WorkloadName::TcpStream {
            request.insert("receive".into(), "copy".into());
        }
        Ok(())
    }

    fn parse_thread_cpus(&self) -> Result<Vec<CpuList>> {
        let texts = self.thread_cpus.as_deref().unwrap_or_default();
        if texts.len() > MAX_STREAMS_PER_TRIAL {
            return reject_parameter(format!(
                "thread_cpus can have at most {MAX_STREAMS_PER_TRIAL} elements"
            ));
        }
        let lists: Vec<CpuList> = texts
            .iter()
            .map(|text| CpuList::parse(text))
            .collect::<Result<_>>()?;
        if lists.iter().any(CpuList::is_empty) {
            return reject_parameter(
                "each element of thread_cpus must name at least one CPU".into(),
            );
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
    use crate::trial::rpc_requests::TrialPlan;
    use crate::trial::rpc_requests::tests::plan_with;

    fn mixed_plan(changes: Value) -> Result<TrialPlan> {
        let mut request = json!({"workload": "mixed", "idle_s": 0.5, "interval_s": 0.1, "streams": [
            {"id": 3, "role": "source", "part": "transfers"}, {"id": 1, "role": "sink", "part": "requests"},
        ]});
        for (key, value) in changes.as_object().expect("an object") {
            request[key] = value.clone();
        }
        plan_with(request)
    }

    #[test]
    fn the_parts_of_mixed_have_their_own_parameters_and_sockets() {
        let request =
            json!({"message_bytes": 4096, "rate_per_s": 1000, "threads": 1, "waiting": "spin"});
        let (_, load) = mixed_plan(request).expect("valid").load.expect("streams");
        let [first, second] =
            [(1, Role::Sink), (3, Role::Source)].map(|(id, role)| StreamRole { id, role });
        assert_eq!(load.roles, [first, second]);
        assert!(!load.socket_options.no_delay);
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
        assert!(requests.connected_options.no_delay && !transfers.connected_options.no_delay);
        assert_eq!(requests.starts_after, Duration::ZERO);
        assert_eq!(transfers.starts_after, Duration::from_millis(500));
        assert!(
            matches!(&requests.workload, Workload::RequestResponse(e) if e.rate_per_s == Some(1000.0))
        );
        assert!(
            matches!(&transfers.workload, Workload::Stream(transfer) if transfer.message_bytes == 4096)
        );
    }

    #[test]
    fn a_mixed_load_needs_both_parts_and_whole_intervals() {
        let only = |part| json!({"streams": [{"id": 1, "role": "sink", "part": part}]});
        for changes in [
            only("requests"),
            only("transfers"),
            json!({"streams": [{"id": 1, "role": "sink"}]}),
            json!({"idle_s": null}),
            json!({"idle_s": 0}),
            json!({"idle_s": 0.55}),
            json!({"idle_s": "1"}),
            json!({"rate_per_s": 0}),
            json!({"no_such_thing": 1}),
        ] {
            let error = mixed_plan(changes.clone()).expect_err(&changes.to_string());
            assert_eq!(error.json_rpc_code(), -32602);
        }
    }

    #[test]
    fn parameters_that_iperf3_servers_lack_are_rejected() {
        let server = json!({"address": "127.0.0.1", "port": 5201, "protocol": "iperf3"});
        let plan = |changes: Value| {
            let mut request = json!({"listen": null, "connect": server, "message_bytes": 65536});
            for (key, value) in changes.as_object().expect("an object") {
                request[key] = value.clone();
            }
            plan_with(request)
        };
        let both = json!([{"id": 1, "role": "source"}, {"id": 2, "role": "sink"}]);
        let paced = json!({"streams": both, "pacing_rate_bps": 1_000_000});
        for changes in [json!({}), json!({"streams": both}), paced] {
            let (address, _) = plan(changes).expect("valid").load.expect("streams");
            assert!(matches!(address, ConnectionMethod::ConnectIperf3(..)));
        }
        let sinks_first = json!([{"id": 1, "role": "sink"}, {"id": 2, "role": "source"}]);
        let many: Vec<Value> = (0..129)
            .map(|id| json!({"id": id, "role": "sink"}))
            .collect();
        for changes in [
            json!({"message_bytes": (1 << 20) + 1}),
            json!({"streams": sinks_first}),
            json!({"streams": many}),
            json!({"workload": "tcp_crr", "message_bytes": null}),
        ] {
            let error = plan(changes.clone()).expect_err(&changes.to_string());
            assert_eq!(error.json_rpc_code(), -32602);
        }
    }
}
