//! The workload-specific parameters of `trial.prepare`: their defaults, their limits, and the workload they describe.

use std::ops::RangeInclusive;
use std::time::Duration;

use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use super::frames;
use super::limits::{check_positive_count, reject_parameter};
use vnetbench_counters::observer;
use vnetbench_streams::datagram_header::{HEADER_BYTES, MAX_DATAGRAM_BYTES};
use vnetbench_system::error::{RequestError, Result};
use vnetbench_traffic::Workload;
use vnetbench_traffic::flow_options::{FlowOptions, PacingWait};
use vnetbench_traffic::receive::ReceiveMode;
use vnetbench_traffic::send::{SendMode, SendOptions};
use vnetbench_traffic::sockets::SocketOptions;
use vnetbench_traffic::tcp_crr::TransactionOptions;
use vnetbench_traffic::tcp_rr::{ExchangeOptions, WaitMode};
use vnetbench_traffic::timed_messages::SENT_TIME_BYTES;
use vnetbench_traffic::transfers::TransferOptions;

const MAX_MESSAGE_BYTES: usize = 64 << 20;
const PACING_RATES_BPS: RangeInclusive<u64> = 1000..=10_000_000_000_000;
const MAX_SEND_BATCH_MESSAGES: usize = 256;
/// Keeps the time between two requests within what a `Duration` can represent.
const MIN_RATE_PER_S: f64 = 1e-6;
const MAX_RATE_PER_S: f64 = 10e6;
const DEFAULT_DATAGRAM_BYTES: usize = 64;
const MAX_IDLE_BEFORE_TRANSFERS_S: f64 = 3600.0;
/// The SO_BUSY_POLL time of `waiting: busy_poll`, as the kernel's documentation recommends (sysctl/net.rst).
const BUSY_POLL_US: u32 = 50;

/// A workload of docs/protocol.md.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WorkloadName {
    /// Bulk transfers over TCP.
    TcpStream,
    /// Requests and responses over TCP connections.
    TcpRr,
    /// Requests and responses, each over a new TCP connection.
    TcpCrr,
    /// Datagrams over UDP.
    UdpStream,
    /// Ethernet frames.
    Frames,
    /// Requests, with transfers that start later.
    Mixed,
    /// No load: counters only.
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

/// The part of a `mixed` load that a stream belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PartName {
    /// Requests and responses, from the start on.
    Requests,
    /// Bulk transfers, from the end of the idle phase on.
    Transfers,
}

impl PartName {
    /// Returns the part's name in the protocol.
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
    rate_per_s: Option<f64>,
    arrival_gaps: Option<bool>,
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

/// The parameters of `mixed` that belong to its requests. All others belong to its transfers.
const MIXED_REQUEST_PARAMETERS: [&str; 4] =
    ["request_bytes", "response_bytes", "rate_per_s", "waiting"];
const IDLE_PARAMETER: &str = "idle_s";
const WATCH_PARAMETER: &str = "watch";

/// The two parts of a `mixed` load, each with its socket options.
pub struct MixedWorkload {
    /// The requests.
    pub requests: (Workload, SocketOptions),
    /// The transfers.
    pub transfers: (Workload, SocketOptions),
    /// How long requests run alone before the transfers start.
    pub idle_before_transfers: Duration,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct UdpStreamRequest {
    datagram_bytes: Option<usize>,
    rate_per_s: Option<f64>,
    pacing: Option<PacingWait>,
    gso: Option<bool>,
    gro: Option<bool>,
    fragments: Option<bool>,
    arrival_gaps: Option<bool>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct WatchRequest {
    watch: Option<observer::ObserverRequest>,
}

/// Parses the parameters of a workload, and adds the socket options that it needs to `options`.
pub fn parse_workload(
    workload: WorkloadName,
    request: Map<String, Value>,
    interface: Option<&str>,
    options: &mut SocketOptions,
) -> Result<Workload> {
    options.no_delay = workload != WorkloadName::TcpStream;
    match workload {
        WorkloadName::TcpStream => build_tcp_stream(parse_parameters(workload, request)?, options),
        WorkloadName::TcpRr => build_tcp_rr(parse_parameters(workload, request)?, options),
        WorkloadName::TcpCrr => build_tcp_crr(parse_parameters(workload, request)?, options),
        WorkloadName::UdpStream => build_udp_stream(parse_parameters(workload, request)?, options),
        WorkloadName::Frames => {
            frames::build_frame_parameters(parse_parameters(workload, request)?, interface)
                .map(Workload::Frames)
        }
        WorkloadName::Mixed => {
            reject_parameter("a part of the workload mixed cannot have the workload mixed".into())
        }
        WorkloadName::Observe => reject_parameter("the workload observe accepts no streams".into()),
    }
}

/// Parses the parameters of `mixed`.
///
/// The idle phase is a whole number of intervals, so that a sample ends exactly when the transfers start.
pub fn parse_mixed(
    mut request: Map<String, Value>,
    interval: Duration,
    options: &SocketOptions,
) -> Result<MixedWorkload> {
    let idle_s = request.remove(IDLE_PARAMETER).unwrap_or_default();
    let Some(idle_s) = idle_s
        .as_f64()
        .filter(|idle_s| (0.0..=MAX_IDLE_BEFORE_TRANSFERS_S).contains(idle_s))
    else {
        return reject_parameter(format!(
            "workload mixed: {IDLE_PARAMETER} must be between 0 and {MAX_IDLE_BEFORE_TRANSFERS_S}"
        ));
    };
    let intervals = (idle_s / interval.as_secs_f64()).round();
    let idle = Duration::from_nanos(interval.as_nanos() as u64 * intervals as u64);
    if intervals < 1.0 || (idle.as_secs_f64() - idle_s).abs() > 1e-6 {
        return reject_parameter(format!(
            "workload mixed: {IDLE_PARAMETER} must be a whole number of sampling intervals (interval_s), at least one"
        ));
    }
    let request_parameters = MIXED_REQUEST_PARAMETERS
        .into_iter()
        .filter_map(|name| request.remove_entry(name))
        .collect();
    let part = |workload, request| {
        let mut options = options.clone();
        parse_workload(workload, request, None, &mut options).map(|work| (work, options))
    };
    Ok(MixedWorkload {
        requests: part(WorkloadName::TcpRr, request_parameters)?,
        transfers: part(WorkloadName::TcpStream, request)?,
        idle_before_transfers: idle,
    })
}

/// Takes `watch` from the parameters: the threads and interfaces that the agent observes besides the load.
pub fn take_observer_request(
    workload: WorkloadName,
    parameters: &mut Map<String, Value>,
) -> Result<observer::ObserverRequest> {
    let watch = parameters
        .remove_entry(WATCH_PARAMETER)
        .into_iter()
        .collect();
    let request: WatchRequest = parse_parameters(workload, watch)?;
    let observer = request.watch.unwrap_or_default();
    observer.check_list_lengths().map(|()| observer)
}

/// Returns whether each stream of the workload needs a thread of its own.
pub fn needs_thread_per_stream(workload: &Workload) -> bool {
    matches!(
        workload,
        Workload::ConnectRequestResponse(_) | Workload::Datagrams(_) | Workload::Frames(_)
    ) || matches!(workload, Workload::Stream(transfer) if transfer.timed_messages_per_s.is_some())
}

fn parse_parameters<P: DeserializeOwned>(
    workload: WorkloadName,
    request: Map<String, Value>,
) -> Result<P> {
    serde_json::from_value(Value::Object(request))
        .map_err(|error| RequestError::BadParameter(format!("{}: {error}", workload.name())))
}

fn build_tcp_stream(request: TcpStreamRequest, options: &mut SocketOptions) -> Result<Workload> {
    if let Some(bps) = request.pacing_rate_bps
        && !PACING_RATES_BPS.contains(&bps)
    {
        let (min, max) = PACING_RATES_BPS.into_inner();
        return reject_parameter(format!("pacing_rate_bps must be between {min} and {max}"));
    }
    options.pacing_rate_bps = request.pacing_rate_bps;
    let sending = SendOptions {
        mode: request.send.unwrap_or(SendMode::Copy),
        batch: request.send_batch.unwrap_or(1),
    };
    check_positive_count(
        "send_batch",
        sending.batch as usize,
        MAX_SEND_BATCH_MESSAGES,
    )?;
    if sending.batch > 1 && !sending.mode.is_batched() {
        return reject_parameter(
            "send_batch above 1 requires send = io_uring or io_uring_zerocopy".into(),
        );
    }
    let timed_messages_per_s = parse_timed_messages(&request, sending)?;
    options.no_delay = timed_messages_per_s.is_some();
    Ok(Workload::Stream(TransferOptions {
        message_bytes: choose_message_bytes("message_bytes", request.message_bytes, 1 << 20)?,
        send_options: sending,
        receive_mode: request.receive.unwrap_or(ReceiveMode::Discard),
        timed_messages_per_s,
    }))
}

/// Returns the rate of messages whose arrivals the sinks record; `None` for streams at full speed.
fn parse_timed_messages(request: &TcpStreamRequest, sending: SendOptions) -> Result<Option<f64>> {
    check_rate(request.rate_per_s)?;
    if request.arrival_gaps.unwrap_or_default() != request.rate_per_s.is_some() {
        return reject_parameter(
            "tcp_stream needs both rate_per_s and arrival_gaps, or neither".into(),
        );
    }
    if request.rate_per_s.is_none() {
        return Ok(None);
    }
    if sending.mode != SendMode::Copy || request.receive == Some(ReceiveMode::Discard) {
        return reject_parameter(
            "arrival_gaps of tcp_stream requires send = copy and receive = copy".into(),
        );
    }
    if request
        .message_bytes
        .is_some_and(|bytes| bytes < SENT_TIME_BYTES)
    {
        return reject_parameter(format!(
            "message_bytes must be at least {SENT_TIME_BYTES} with arrival_gaps: a message carries its time of sending"
        ));
    }
    Ok(request.rate_per_s)
}

fn build_tcp_rr(request: TcpRrRequest, options: &mut SocketOptions) -> Result<Workload> {
    let waiting = request.waiting.unwrap_or(WaitMode::Block);
    check_rate(request.rate_per_s)?;
    if request.rate_per_s.is_some() && waiting == WaitMode::BusyPoll {
        return reject_parameter(
            "waiting = busy_poll and rate_per_s exclude each other: busy polling waits for responses only".into(),
        );
    }
    options.busy_poll_us = (waiting == WaitMode::BusyPoll).then_some(BUSY_POLL_US);
    Ok(Workload::RequestResponse(ExchangeOptions {
        request_bytes: choose_message_bytes("request_bytes", request.request_bytes, 1)?,
        response_bytes: choose_message_bytes("response_bytes", request.response_bytes, 1)?,
        rate_per_s: request.rate_per_s,
        wait_mode: waiting,
    }))
}

fn build_tcp_crr(request: TcpCrrRequest, options: &SocketOptions) -> Result<Workload> {
    Ok(Workload::ConnectRequestResponse(TransactionOptions {
        request_bytes: choose_message_bytes("request_bytes", request.request_bytes, 1)?,
        response_bytes: choose_message_bytes("response_bytes", request.response_bytes, 1)?,
        socket_options: options.clone(),
    }))
}

/// The requested socket buffers and source ports apply to the datagram sockets. The control connections carry little data.
fn build_udp_stream(request: UdpStreamRequest, options: &mut SocketOptions) -> Result<Workload> {
    check_rate(request.rate_per_s)?;
    let [segmented, aggregated, fragmented] =
        [request.gso, request.gro, request.fragments].map(Option::unwrap_or_default);
    if request.rate_per_s.is_some() && segmented {
        return reject_parameter(
            "gso and rate_per_s exclude each other: gso sends many datagrams at once".into(),
        );
    }
    if fragmented && segmented {
        return reject_parameter(
            "gso and fragments exclude each other: datagrams of gso are never fragmented".into(),
        );
    }
    let datagram_bytes = request.datagram_bytes.unwrap_or(DEFAULT_DATAGRAM_BYTES);
    if !(HEADER_BYTES..=MAX_DATAGRAM_BYTES).contains(&datagram_bytes) {
        return reject_parameter(format!(
            "datagram_bytes must be between {HEADER_BYTES} and {MAX_DATAGRAM_BYTES}"
        ));
    }
    Ok(Workload::Datagrams(FlowOptions {
        datagram_bytes,
        rate_per_s: request.rate_per_s,
        pacing_wait: request.pacing.unwrap_or(PacingWait::Spin),
        uses_udp_gso: segmented,
        uses_udp_gro: aggregated,
        can_fragment: fragmented,
        records_arrivals: request.arrival_gaps.unwrap_or_default(),
        buffer_bytes: options.buffer_bytes.take(),
        source_ports: std::mem::take(&mut options.source_ports),
    }))
}

fn check_rate(rate_per_s: Option<f64>) -> Result<()> {
    match rate_per_s {
        Some(per_s) if !(MIN_RATE_PER_S..=MAX_RATE_PER_S).contains(&per_s) => reject_parameter(
            format!("rate_per_s must be between {MIN_RATE_PER_S} and {MAX_RATE_PER_S}"),
        ),
        _ => Ok(()),
    }
}

fn choose_message_bytes(name: &str, request: Option<usize>, default: usize) -> Result<usize> {
    let bytes = request.unwrap_or(default);
    check_positive_count(name, bytes, MAX_MESSAGE_BYTES).map(|()| bytes)
}
