//! The bodies of the events `trial.sample` and `trial.end`. Field names follow docs/protocol.md.

use std::time::Duration;

use serde::Serialize;

use super::boundary::BoundaryChanges;
use super::fault::FaultKind;
use super::socket_detail::{ReceiveMemory, SocketDetailByRole};
use vnetbench_counters::socket_memory::SocketMemory;
use vnetbench_counters::tcp_info::TcpReading;
use vnetbench_counters::{Counters, CpuWork, observer};
use vnetbench_frames::OtherFrameCounts;
use vnetbench_iperf3::trial::ServerReport;
use vnetbench_streams::arrival_gaps::ArrivalReport;
use vnetbench_streams::datagrams::{DatagramCounts, PacingDeviation};
use vnetbench_streams::frames::FrameStreamDetails;
use vnetbench_streams::{Role, ZeroCopyCounts};
use vnetbench_system::histogram::{DurationDistribution, Histogram, HistogramCounts};
use vnetbench_traffic::route::Transport;

/// The body of `trial.sample`.
#[derive(Serialize)]
pub struct Sample<'a> {
    /// The trial's name.
    pub trial: &'a str,
    /// The number of the interval that the sample closes. A gap means that late samples were merged.
    pub seq: u64,
    /// Seconds from the trial's start to this sample.
    pub t_s: f64,
    /// Seconds since the previous sample.
    pub interval_s: f64,
    /// Everything counted in the interval.
    #[serde(flatten)]
    pub counts: SampleCounters,
}

/// Everything that an endpoint counts between two moments.
#[derive(Serialize)]
pub struct SampleCounters {
    /// Payload bytes sent by all streams.
    pub bytes_sent: u64,
    /// Payload bytes received by all streams.
    pub bytes_received: u64,
    /// Response times. Present for sources of requests.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub latency: Option<DurationDistribution>,
    /// Connection set-up times. Present where each request opens its own connection.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub connect_time: Option<DurationDistribution>,
    /// One-way delays. Present for sinks of datagrams or frames that share a clock with the source.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub delay: Option<DurationDistribution>,
    /// Counters of the process, the kernel, and the interface.
    pub counters: Counters,
    /// The work of each CPU.
    pub cpu: Vec<CpuWork>,
    /// Counters of observed threads and interfaces. Present for `observe` with `watch`.
    #[serde(flatten)]
    pub observed: Option<observer::ObserverChanges>,
    /// The counters of each stream.
    pub streams: Vec<StreamSample>,
}

/// The counters of one stream.
#[derive(Serialize)]
pub struct StreamSample {
    /// The stream's id from `trial.prepare`.
    pub id: u32,
    /// Source or sink.
    pub role: Role,
    /// The part of the load. Present where the load has several parts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub part: Option<&'static str>,
    /// Payload bytes that the stream sent (source) or received (sink).
    pub bytes: u64,
    /// Payload bytes that the receiver acknowledged. Present for TCP sources.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bytes_acked: Option<u64>,
    /// Counters of the stream's protocol.
    #[serde(flatten)]
    pub counters: StreamSampleCounters,
    /// How the stream ended. Present in `trial.end`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub state: Option<&'static str>,
    /// The transport that the connection had at the end. Present in `trial.end` for TCP and VSOCK.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub transport: Option<Transport>,
    /// The outcome of zero-copy sends. Present in `trial.end` for sources that use them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub zero_copy: Option<ZeroCopyCounts>,
    /// When datagrams or messages arrived. Present in `trial.end` for sinks with `arrival_gaps`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub arrivals: Option<ArrivalReport>,
    /// The totals of a stream of frames. Present in `trial.end`.
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    pub frames: Option<FrameStreamDetails>,
}

/// The counters of one stream, by protocol and role.
#[derive(Serialize)]
#[serde(untagged)]
pub enum StreamSampleCounters {
    /// A TCP, MPTCP or VSOCK stream.
    Tcp(TcpSample),
    /// A source of datagrams.
    Source(DatagramSourceSample),
    /// A sink of datagrams.
    Sink(DatagramSinkSample),
    /// A source or sink of frames.
    Frames(StreamFrameCount),
}

/// The number of frames that a stream sent or received.
#[derive(Serialize)]
#[serde(rename_all = "snake_case")]
pub enum StreamFrameCount {
    /// Frames that a source sent.
    FramesSent(u64),
    /// Frames that a sink received.
    FramesReceived(u64),
}

/// The counters of a source of datagrams.
#[derive(Serialize)]
pub struct DatagramSourceSample {
    /// Datagrams sent.
    pub datagrams: u64,
}

/// The counters of a sink of datagrams.
#[derive(Serialize)]
pub struct DatagramSinkSample {
    /// Datagrams received, with duplicates.
    pub datagrams: u64,
    /// Datagrams lost. Negative where more late datagrams arrived than new ones went missing.
    pub lost: i64,
    /// Datagrams received more than once.
    pub duplicates: u64,
    /// Datagrams received after one with a higher number.
    pub reordered: u64,
    /// Datagrams of another trial or program.
    pub foreign_datagrams: u64,
    /// Datagrams dropped for lack of receive buffer.
    pub socket_drops: u64,
    /// Interarrival jitter (RFC 3550, section 6.4.1), in microseconds.
    pub jitter_us: f64,
    /// The socket's receive memory.
    #[serde(flatten)]
    pub memory: Option<ReceiveMemory>,
}

impl DatagramSinkSample {
    /// Returns the difference of two readings.
    pub fn between(then: &DatagramReading, now: &DatagramReading) -> Self {
        let (before, after) = (&then.counts, &now.counts);
        Self {
            datagrams: after.datagrams - before.datagrams,
            lost: after.lost.saturating_sub(before.lost),
            duplicates: after.duplicates - before.duplicates,
            reordered: after.reordered - before.reordered,
            foreign_datagrams: after.foreign - before.foreign,
            socket_drops: now.socket_drops - then.socket_drops,
            jitter_us: after.jitter_nanos as f64 / 1e3,
            memory: now.memory.map(ReceiveMemory::from),
        }
    }
}

/// The counters of a stream of datagrams at one moment.
#[derive(Clone, Copy, Default)]
pub struct DatagramReading {
    /// What the agent counts.
    pub counts: DatagramCounts,
    /// Datagrams dropped for lack of receive buffer, from the kernel.
    pub socket_drops: u64,
    /// The socket's memory, from the kernel.
    pub memory: Option<SocketMemory>,
}

/// The state and counters of a TCP stream, from `TCP_INFO` (include/uapi/linux/tcp.h).
#[derive(Serialize)]
pub struct TcpSample {
    /// Smoothed round-trip time.
    pub rtt_us: u32,
    /// Variation of the round-trip time.
    pub rttvar_us: u32,
    /// Minimum round-trip time.
    pub min_rtt_us: Option<u32>,
    /// Congestion window, in segments.
    pub cwnd: u32,
    /// Segments retransmitted in the interval.
    pub retransmits: u64,
    /// Segments sent in the interval.
    pub segments_out: u64,
    /// Segments received in the interval.
    pub segments_in: u64,
    /// The kernel's estimate of the delivery rate.
    pub delivery_rate_bps: u64,
    /// The rate at which the kernel paces segments; absent where it does not pace.
    pub pacing_rate_bps: Option<u64>,
    /// Time with data to send in the interval.
    pub busy_s: f64,
    /// Time limited by the receive window in the interval.
    pub rwnd_limited_s: f64,
    /// Time limited by the send buffer in the interval.
    pub sndbuf_limited_s: f64,
    /// Segments sent and not yet acknowledged.
    pub unacked: u32,
    /// Bytes queued and not yet sent.
    pub notsent_bytes: u32,
    /// Further values, for the first streams only.
    #[serde(flatten)]
    pub detail: Option<SocketDetailByRole>,
}

impl TcpSample {
    /// Returns the state at `now` and the increase of the counters since `then`.
    pub fn between(role: Role, then: &TcpReading, now: &TcpReading) -> Self {
        let seconds_between = |then: u64, now: u64| now.saturating_sub(then) as f64 / 1e6;
        Self {
            rtt_us: now.rtt_us,
            rttvar_us: now.rttvar_us,
            min_rtt_us: now.min_rtt_us,
            cwnd: now.cwnd,
            retransmits: now.retransmits.saturating_sub(then.retransmits),
            segments_out: now.segments_out.saturating_sub(then.segments_out),
            segments_in: now.segments_in.saturating_sub(then.segments_in),
            delivery_rate_bps: now.delivery_rate_bps,
            pacing_rate_bps: now.pacing_rate_bps,
            busy_s: seconds_between(then.busy_us, now.busy_us),
            rwnd_limited_s: seconds_between(then.rwnd_limited_us, now.rwnd_limited_us),
            sndbuf_limited_s: seconds_between(then.sndbuf_limited_us, now.sndbuf_limited_us),
            unacked: now.unacked,
            notsent_bytes: now.notsent_bytes,
            detail: SocketDetailByRole::between(role, then, now),
        }
    }
}

/// The body of `trial.end`.
#[derive(Serialize)]
pub struct TrialEnd<'a> {
    /// The trial's name.
    pub trial: &'a str,
    /// Why the trial ended: `done`, `stopped` or `fault`.
    pub reason: &'static str,
    /// The error message of a fault; else empty.
    pub fault: String,
    /// What failed; null without a fault.
    pub fault_kind: Option<FaultKind>,
    /// Seconds from the start to the end of the load.
    pub duration_s: f64,
    /// Seconds from the start to the first transfer. Present for `mixed`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub load_start_s: Option<f64>,
    /// Whether every stream ended with all its data read.
    pub drained: bool,
    /// System calls that sent data.
    pub calls_sent: u64,
    /// System calls that received data.
    pub calls_received: u64,
    /// Connections from other programs.
    pub foreign_connections: u64,
    /// What else arrived at the port. Present for `frames`.
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    pub port_counts: Option<OtherFrameCounts>,
    /// Requests without a response at the end of the load.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub outstanding_at_end: Option<u64>,
    /// Requests that never got a response.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unanswered: Option<u64>,
    /// The report of an iperf3 server on its endpoint.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub server: Option<ServerReport>,
    /// Everything counted in the whole trial.
    #[serde(flatten)]
    pub counts: SampleCounters,
    /// Changes of what is read only at the start and the end.
    #[serde(flatten)]
    pub boundary: BoundaryChanges,
    /// The cost and accuracy of the measurement itself.
    pub instrument: InstrumentCost,
}

/// The cost and accuracy of the measurement itself.
#[derive(Default, Serialize)]
pub struct InstrumentCost {
    /// CPU time of the sampler's thread.
    #[serde(serialize_with = "serialize_as_seconds", rename = "sampler_cpu_s")]
    pub sampler_cpu: Duration,
    /// The longest time by which a sample was late.
    #[serde(
        serialize_with = "serialize_as_seconds",
        rename = "sampler_lateness_max_s"
    )]
    pub sampler_lateness_max: Duration,
    /// Whether the sampler runs under a real-time policy.
    pub sampler_realtime: bool,
    /// Samples taken.
    pub samples: u64,
    /// Samples dropped because the bench did not read them in time.
    pub events_lost: u64,
    /// The accuracy of the schedule. Present for requests or datagrams at a fixed rate.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pacing: Option<PacingLateness>,
}

/// How late requests or datagrams at a fixed rate were sent.
#[derive(Serialize)]
pub struct PacingLateness {
    /// Requests or datagrams due before the end of the load.
    pub due: u64,
    /// Requests or datagrams sent.
    pub sent: u64,
    /// Mean lateness.
    pub lateness_mean_us: Option<f64>,
    /// Median lateness.
    pub lateness_p50_us: Option<f64>,
    /// 99th percentile of lateness.
    pub lateness_p99_us: Option<f64>,
    /// Maximum lateness.
    pub lateness_max_us: Option<f64>,
    /// Standard deviation of the gaps between datagrams.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gap_deviation_us: Option<f64>,
}

impl PacingLateness {
    /// Merges the lateness histograms of several streams.
    pub fn new(due: u64, lateness: &[&Histogram], pacing_deviation: &PacingDeviation) -> Self {
        let merged =
            HistogramCounts::sum(lateness.iter().copied()).since(&HistogramCounts::empty());
        let as_us = |duration: Duration| duration.as_secs_f64() * 1e6;
        let sum_us = lateness
            .iter()
            .map(|histogram| as_us(histogram.sum()))
            .sum::<f64>();
        let max = lateness.iter().map(|histogram| histogram.max()).max();
        let has_values = merged.count > 0;
        Self {
            due,
            sent: merged.count,
            lateness_mean_us: has_values.then(|| sum_us / merged.count as f64),
            lateness_p50_us: merged.p50_us,
            lateness_p99_us: merged.p99_us,
            lateness_max_us: max.filter(|_| has_values).map(as_us),
            gap_deviation_us: pacing_deviation.gap_standard_deviation_us(),
        }
    }
}

fn serialize_as_seconds<S: serde::Serializer>(
    duration: &Duration,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    serializer.serialize_f64(duration.as_secs_f64())
}
