//! The parameters of `trial.prepare` that only one workload knows: their defaults, limits, and what they make of it.

use std::ops::RangeInclusive;
use std::time::Duration;

use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use super::frames;
use super::limits::{bad_parameter, check_max};
use vnetbench_counters::watched;
use vnetbench_streams::datagram_header::{HEADER_BYTES, MAX_DATAGRAM_BYTES};
use vnetbench_system::error::{Error, Result};
use vnetbench_traffic::Workload;
use vnetbench_traffic::receive::ReceiveMode;
use vnetbench_traffic::send::{SendMode, SendOptions};
use vnetbench_traffic::sockets::SocketOptions;
use vnetbench_traffic::tcp_crr::ConnectionOptions;
use vnetbench_traffic::tcp_rr::{ExchangeOptions, WaitMode};
use vnetbench_traffic::tcp_stream::TransferOptions;
use vnetbench_traffic::udp_stream::{self, FlowOptions};

const MAX_MESSAGE_BYTES: usize = 64 << 20;
const PACING_RATES_BPS: RangeInclusive<u64> = 1000..=10_000_000_000_000;
const MAX_SEND_BATCH: usize = 256;
/// The time between two requests is reckoned with: it must be one that there is.
const MIN_RATE_PER_S: f64 = 1e-6;
const MAX_RATE_PER_S: f64 = 10e6;
const DATAGRAM_BYTES: usize = 64;
const MAX_IDLE_S: f64 = 3600.0;
/// What `waiting: busy_poll` asks for as SO_BUSY_POLL; the kernel's documentation recommends it (sysctl/net.rst).
const BUSY_POLL_US: u32 = 50;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WorkloadName {
    TcpStream,
    TcpRr,
    TcpCrr,
    UdpStream,
    Frames,
    Mixed,
    Observe,
}

impl WorkloadName {
    fn name(self) -> &'static str {
        match self {
            Self::TcpStream => "tcp_stream",
            Self::TcpRr => "tcp_rr",
            Self::TcpCrr => "tcp_crr",
            Self::UdpStream => "udp_stream",
            Self::Frames => "frames",
            Self::Mixed => "mixed",
            Self::Observe => "observe",
        }
    }
}

/// What a stream of `mixed` does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PartName {
    Requests,
    Transfers,
}

impl PartName {
    pub fn name(self) -> &'static str {
        match self {
            Self::Requests => "requests",
            Self::Transfers => "transfers",
        }
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct TcpStreamRequest {
    message_bytes: Option<usize>,
    send: Option<SendMode>,
    send_batch: Option<u32>,
    receive: Option<ReceiveMode>,
    pacing_rate_bps: Option<u64>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct TcpRrRequest {
    request_bytes: Option<usize>,
    response_bytes: Option<usize>,
    rate_per_s: Option<f64>,
    waiting: Option<WaitMode>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct TcpCrrRequest {
    request_bytes: Option<usize>,
    response_bytes: Option<usize>,
}

/// What of `mixed` is of its requests; its other parameters are of its transfers.
const REQUEST_PARAMETERS: [&str; 4] = ["request_bytes", "response_bytes", "rate_per_s", "waiting"];
const IDLE_PARAMETER: &str = "idle_s";

/// The two parts of `mixed`: what each does, and with which sockets.
pub struct Mixed {
    pub requests: (Workload, SocketOptions),
    pub transfers: (Workload, SocketOptions),
    /// For how long there are only requests.
    pub idle: Duration,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct UdpStreamRequest {
    datagram_bytes: Option<usize>,
    rate_per_s: Option<f64>,
    pacing: Option<udp_stream::PacingWait>,
    gso: Option<bool>,
    gro: Option<bool>,
    fragments: Option<bool>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ObserveRequest {
    watch: Option<watched::ObserverRequest>,
}

/// What the streams do; `options` becomes what the workload asks of their sockets.
pub fn parse_workload(
    workload: WorkloadName,
    request: Map<String, Value>,
    interface: Option<&str>,
    options: &mut SocketOptions,
) -> Result<Workload> {
    options.no_delay = workload != WorkloadName::TcpStream;
    match workload {
        WorkloadName::TcpStream => tcp_stream(read(workload, request)?, options),
        WorkloadName::TcpRr => tcp_rr(read(workload, request)?, options),
        WorkloadName::TcpCrr => tcp_crr(read(workload, request)?, options),
        WorkloadName::UdpStream => udp_stream(read(workload, request)?, options),
        WorkloadName::Frames => {
            frames::frames(read(workload, request)?, interface).map(Workload::Frames)
        }
        WorkloadName::Mixed => bad_parameter("the workload mixed has two parts".into()),
        WorkloadName::Observe => bad_parameter("the workload observe takes no streams".into()),
    }
}

/// What both parts of `mixed` do. A sample must end where the idle phase does, so that is a whole number of intervals.
pub fn parse_mixed(
    mut request: Map<String, Value>,
    interval: Duration,
    options: &SocketOptions,
) -> Result<Mixed> {
    let idle_s = request.remove(IDLE_PARAMETER).unwrap_or_default();
    let Some(idle_s) = idle_s
        .as_f64()
        .filter(|idle_s| (0.0..=MAX_IDLE_S).contains(idle_s))
    else {
        return bad_parameter(format!(
            "mixed: {IDLE_PARAMETER} must lie within 0 and {MAX_IDLE_S}"
        ));
    };
    let intervals = (idle_s / interval.as_secs_f64()).round();
    let idle = Duration::from_nanos(interval.as_nanos() as u64 * intervals as u64);
    if intervals < 1.0 || (idle.as_secs_f64() - idle_s).abs() > 1e-6 {
        return bad_parameter(format!(
            "mixed: {IDLE_PARAMETER} must be interval_s, or a multiple of it"
        ));
    }
    let of_requests = REQUEST_PARAMETERS
        .into_iter()
        .filter_map(|name| request.remove_entry(name))
        .collect();
    let part = |workload, request| {
        let mut options = options.clone();
        parse_workload(workload, request, None, &mut options).map(|work| (work, options))
    };
    Ok(Mixed {
        requests: part(WorkloadName::TcpRr, of_requests)?,
        transfers: part(WorkloadName::TcpStream, request)?,
        idle,
    })
}

/// What an observer watches beside the system.
pub fn parse_observe(request: Map<String, Value>) -> Result<watched::ObserverRequest> {
    let request: ObserveRequest = read(WorkloadName::Observe, request)?;
    let watched = request.watch.unwrap_or_default();
    watched.check().map(|()| watched)
}

pub fn needs_thread_per_stream(work: &Workload) -> bool {
    matches!(
        work,
        Workload::ConnectRequestResponse(_) | Workload::Datagrams(_) | Workload::Frames(_)
    )
}

fn read<P: DeserializeOwned>(workload: WorkloadName, request: Map<String, Value>) -> Result<P> {
    serde_json::from_value(Value::Object(request))
        .map_err(|error| Error::BadParameter(format!("{}: {error}", workload.name())))
}

fn tcp_stream(request: TcpStreamRequest, options: &mut SocketOptions) -> Result<Workload> {
    if let Some(bps) = request.pacing_rate_bps
        && !PACING_RATES_BPS.contains(&bps)
    {
        let (least, most) = PACING_RATES_BPS.into_inner();
        return bad_parameter(format!(
            "pacing_rate_bps must lie within {least} and {most}"
        ));
    }
    options.pacing_rate_bps = request.pacing_rate_bps;
    let sending = SendOptions {
        mode: request.send.unwrap_or(SendMode::Copy),
        batch: request.send_batch.unwrap_or(1),
    };
    check_max("send_batch", sending.batch as usize, MAX_SEND_BATCH)?;
    if sending.batch > 1 && !sending.mode.is_batched() {
        return bad_parameter("send_batch above 1 takes send io_uring or io_uring_zerocopy".into());
    }
    Ok(Workload::Stream(TransferOptions {
        message_bytes: message_bytes("message_bytes", request.message_bytes, 1 << 20)?,
        sending,
        receive: request.receive.unwrap_or(ReceiveMode::Discard),
    }))
}

fn tcp_rr(request: TcpRrRequest, options: &mut SocketOptions) -> Result<Workload> {
    let waiting = request.waiting.unwrap_or(WaitMode::Block);
    check_rate(request.rate_per_s)?;
    if request.rate_per_s.is_some() && waiting == WaitMode::BusyPoll {
        return bad_parameter(
            "busy_poll waits for answers only: no request can be due meanwhile".into(),
        );
    }
    options.busy_poll_us = (waiting == WaitMode::BusyPoll).then_some(BUSY_POLL_US);
    Ok(Workload::RequestResponse(ExchangeOptions {
        request_bytes: message_bytes("request_bytes", request.request_bytes, 1)?,
        response_bytes: message_bytes("response_bytes", request.response_bytes, 1)?,
        rate_per_s: request.rate_per_s,
        waiting,
    }))
}

fn tcp_crr(request: TcpCrrRequest, options: &SocketOptions) -> Result<Workload> {
    Ok(Workload::ConnectRequestResponse(ConnectionOptions {
        request_bytes: message_bytes("request_bytes", request.request_bytes, 1)?,
        response_bytes: message_bytes("response_bytes", request.response_bytes, 1)?,
        options: options.clone(),
    }))
}

/// The socket buffers asked for are those of the datagrams; the connections beside them carry next to nothing.
fn udp_stream(request: UdpStreamRequest, options: &mut SocketOptions) -> Result<Workload> {
    check_rate(request.rate_per_s)?;
    let [segmented, aggregated, fragmented] =
        [request.gso, request.gro, request.fragments].map(Option::unwrap_or_default);
    if request.rate_per_s.is_some() && segmented {
        return bad_parameter("gso sends many datagrams at once, and a rate one at a time".into());
    }
    if fragmented && segmented {
        return bad_parameter("gso cuts messages into datagrams that are not fragmented".into());
    }
    let datagram_bytes = request.datagram_bytes.unwrap_or(DATAGRAM_BYTES);
    if !(HEADER_BYTES..=MAX_DATAGRAM_BYTES).contains(&datagram_bytes) {
        return bad_parameter(format!(
            "datagram_bytes must lie within {HEADER_BYTES} and {MAX_DATAGRAM_BYTES}"
        ));
    }
    Ok(Workload::Datagrams(FlowOptions {
        datagram_bytes,
        rate_per_s: request.rate_per_s,
        waiting: request.pacing.unwrap_or(udp_stream::PacingWait::Spin),
        segmented,
        aggregated,
        fragmented,
        buffer_bytes: options.buffer_bytes.take(),
    }))
}

fn check_rate(per_s: Option<f64>) -> Result<()> {
    match per_s {
        Some(per_s) if !(MIN_RATE_PER_S..=MAX_RATE_PER_S).contains(&per_s) => bad_parameter(
            format!("rate_per_s must lie within {MIN_RATE_PER_S} and {MAX_RATE_PER_S}"),
        ),
        _ => Ok(()),
    }
}

fn message_bytes(name: &str, request: Option<usize>, otherwise: usize) -> Result<usize> {
    let bytes = request.unwrap_or(otherwise);
    check_max(name, bytes, MAX_MESSAGE_BYTES).map(|()| bytes)
}
