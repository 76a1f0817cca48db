//! What the events of a trial carry, in the names of docs/protocol.md.

use std::time::Duration;

use serde::Serialize;

use super::socket_detail::{Detail, ReceiveMemory};
use vnetbench_counters::socket_memory::Memory;
use vnetbench_counters::tcp_info::TcpReading;
use vnetbench_counters::{Counters, CpuWork, driver, watched};
use vnetbench_frames::PortCounts;
use vnetbench_iperf3::trial::ServerReport;
use vnetbench_streams::datagrams::{DatagramCounts, GapDeviation};
use vnetbench_streams::frames::FrameOutcome;
use vnetbench_streams::{Role, ZeroCopyCounts};
use vnetbench_system::histogram::{Distribution, Histogram, HistogramCounts};
use vnetbench_traffic::route::Transport;

#[derive(Serialize)]
pub struct Sample<'a> {
    pub trial: &'a str,
    pub seq: u64,
    pub t_s: f64,
    pub interval_s: f64,
    #[serde(flatten)]
    pub moved: SampleCounters,
}

/// What was moved and counted between two moments.
#[derive(Serialize)]
pub struct SampleCounters {
    pub bytes_sent: u64,
    pub bytes_received: u64,
    /// Where requests are made: how long their answers took.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub latency: Option<Distribution>,
    /// Where each has a connection of its own: how long connecting took.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub connect: Option<Distribution>,
    /// Where datagrams come in, and both sides have one clock: how long they were under way.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub delay: Option<Distribution>,
    pub counters: Counters,
    pub cpu: Vec<CpuWork>,
    /// Of an observer that was told to watch something.
    #[serde(flatten)]
    pub watched: Option<watched::ObserverChange>,
    pub streams: Vec<StreamSample>,
}

#[derive(Serialize)]
pub struct StreamSample {
    pub id: u32,
    pub role: Role,
    /// Where the load has several parts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub part: Option<&'static str>,
    pub bytes: u64,
    /// Of a source.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bytes_acked: Option<u64>,
    #[serde(flatten)]
    pub counters: StreamCounters,
    /// How the stream ended; in `trial.end` only.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub state: Option<&'static str>,
    /// What its connection was by then, where it carried the load; in `trial.end` only.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub transport: Option<Transport>,
    /// Of a source that lends memory to the kernel; in `trial.end` only.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lent: Option<ZeroCopyCounts>,
    /// What a stream of frames came to; in `trial.end` only.
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    pub frames: Option<FrameOutcome>,
}

#[derive(Serialize)]
#[serde(untagged)]
pub enum StreamCounters {
    Tcp(TcpSample),
    Source(DatagramSourceSample),
    Sink(DatagramSinkSample),
    Frames(FrameSample),
}

/// Of a source sent, of a sink received.
#[derive(Serialize)]
#[serde(rename_all = "snake_case")]
pub enum FrameSample {
    FramesSent(u64),
    FramesReceived(u64),
}

#[derive(Serialize)]
pub struct DatagramSourceSample {
    pub datagrams: u64,
}

#[derive(Serialize)]
pub struct DatagramSinkSample {
    /// Duplicates included.
    pub datagrams: u64,
    /// Negative where more came late than were newly missed.
    pub lost: i64,
    pub duplicates: u64,
    pub reordered: u64,
    pub foreign: u64,
    pub socket_drops: u64,
    pub jitter_us: f64,
    #[serde(flatten)]
    pub memory: Option<ReceiveMemory>,
}

impl DatagramSinkSample {
    pub fn between(then: &DatagramReading, now: &DatagramReading) -> Self {
        let (before, after) = (&then.counts, &now.counts);
        Self {
            datagrams: after.datagrams - before.datagrams,
            lost: after.lost.saturating_sub(before.lost),
            duplicates: after.duplicates - before.duplicates,
            reordered: after.reordered - before.reordered,
            foreign: after.foreign - before.foreign,
            socket_drops: now.socket_drops - then.socket_drops,
            jitter_us: after.jitter_nanos as f64 / 1e3,
            memory: now.memory.map(ReceiveMemory::from),
        }
    }
}

/// A flow of datagrams at one moment.
#[derive(Clone, Copy, Default)]
pub struct DatagramReading {
    pub counts: DatagramCounts,
    pub socket_drops: u64,
    pub memory: Option<Memory>,
}

#[derive(Serialize)]
pub struct TcpSample {
    pub rtt_us: u32,
    pub rttvar_us: u32,
    pub min_rtt_us: Option<u32>,
    pub cwnd: u32,
    pub retransmits: u64,
    pub segments_out: u64,
    pub segments_in: u64,
    pub delivery_rate_bps: u64,
    pub pacing_rate_bps: Option<u64>,
    pub busy_s: f64,
    pub rwnd_limited_s: f64,
    pub sndbuf_limited_s: f64,
    pub unacked: u32,
    pub notsent_bytes: u32,
    #[serde(flatten)]
    pub detail: Option<Detail>,
}

impl TcpSample {
    pub fn between(role: Role, then: &TcpReading, now: &TcpReading) -> Self {
        let seconds = |now: u64, then: u64| now.saturating_sub(then) as f64 / 1e6;
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
            busy_s: seconds(now.busy_us, then.busy_us),
            rwnd_limited_s: seconds(now.rwnd_limited_us, then.rwnd_limited_us),
            sndbuf_limited_s: seconds(now.sndbuf_limited_us, then.sndbuf_limited_us),
            unacked: now.unacked,
            notsent_bytes: now.notsent_bytes,
            detail: Detail::between(role, then, now),
        }
    }
}

#[derive(Serialize)]
pub struct TrialEnd<'a> {
    pub trial: &'a str,
    pub reason: &'static str,
    pub fault: String,
    pub duration_s: f64,
    /// When the transfers of `mixed` were told to begin.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub load_began_s: Option<f64>,
    pub drained: bool,
    pub calls_sent: u64,
    pub calls_received: u64,
    pub foreign_connections: u64,
    /// Of a side of frames.
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    pub at_port: Option<PortCounts>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub outstanding_at_end: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unanswered: Option<u64>,
    /// What an iperf3 server said of its side.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub server: Option<ServerReport>,
    #[serde(flatten)]
    pub moved: SampleCounters,
    #[serde(flatten)]
    pub driver: driver::DriverChange,
    pub instrument: InstrumentCost,
}

/// What the instrument itself took, and how well it kept its times.
#[derive(Default, Serialize)]
pub struct InstrumentCost {
    #[serde(serialize_with = "as_seconds", rename = "sampler_cpu_s")]
    pub sampler_cpu: Duration,
    #[serde(serialize_with = "as_seconds", rename = "sampler_late_max_s")]
    pub sampler_late_max: Duration,
    /// Whether the sampler could be run before all others.
    pub sampler_realtime: bool,
    pub samples: u64,
    pub events_lost: u64,
    /// Of what is sent at set times.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pacing: Option<PacingError>,
}

/// How much later than intended requests or datagrams were sent.
#[derive(Serialize)]
pub struct PacingError {
    /// Until the end of the load.
    pub due: u64,
    pub sent: u64,
    pub late_mean_us: Option<f64>,
    pub late_p50_us: Option<f64>,
    pub late_p99_us: Option<f64>,
    pub late_max_us: Option<f64>,
    /// Of datagrams: the standard deviation of the gaps between them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gap_deviation_us: Option<f64>,
}

impl PacingError {
    pub fn new(due: u64, late: &[&Histogram], gaps: &GapDeviation) -> Self {
        let all = HistogramCounts::sum(late.iter().copied()).since(&HistogramCounts::empty());
        let us = |duration: Duration| duration.as_secs_f64() * 1e6;
        let sum = late
            .iter()
            .map(|histogram| us(histogram.sum()))
            .sum::<f64>();
        let max = late.iter().map(|histogram| histogram.max()).max();
        let any = all.count > 0;
        Self {
            due,
            sent: all.count,
            late_mean_us: any.then(|| sum / all.count as f64),
            late_p50_us: all.p50_us,
            late_p99_us: all.p99_us,
            late_max_us: max.filter(|_| any).map(us),
            gap_deviation_us: gaps.deviation_us(),
        }
    }
}

fn as_seconds<S: serde::Serializer>(duration: &Duration, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_f64(duration.as_secs_f64())
}
