//! The final report of a test: the counts of sender and receiver for each stream, and sums for each direction.

use crate::record::TcpExtremes;
use crate::results::{CpuUsage, StreamResult, TestResults};

/// How the output names a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StreamLabel {
    /// Number printed for the stream.
    pub label: u32,
    /// Whether this host sends on it.
    pub is_sender: bool,
}

/// One stream, as its sender and its receiver counted it.
#[derive(Debug, Clone, Default)]
pub struct StreamReport {
    /// Number printed for the stream.
    pub label: u32,
    /// Whether this host sends.
    pub is_sender: bool,
    /// The sender's counts, if known.
    pub sender: Option<StreamResult>,
    /// The receiver's counts, if known.
    pub receiver: Option<StreamResult>,
    /// Extreme values of a sending TCP stream.
    pub extremes: TcpExtremes,
    /// Datagrams that this host received out of order.
    pub out_of_order: u64,
}

/// The sum over the streams of one direction, as one host counted them.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct DirectionSum {
    /// Bytes of all streams.
    pub bytes: u64,
    /// Duration of the longest stream.
    pub duration_s: f64,
    /// Retransmitted segments, if a sender counts them.
    pub retransmits: Option<u64>,
    /// Mean jitter of the streams.
    pub jitter_s: f64,
    /// Lost datagrams.
    pub lost_datagrams: u64,
    /// Datagrams sent, or expected by the receiver.
    pub datagrams: u64,
}

/// The results of a finished test.
pub struct FinalReport {
    /// All streams, in order.
    pub streams: Vec<StreamReport>,
    /// CPU usage of this host.
    pub local_cpu: CpuUsage,
    /// CPU usage of the peer, if known.
    pub remote_cpu: Option<CpuUsage>,
    /// Congestion control of this host; `None` for UDP.
    pub local_congestion_control: Option<String>,
    /// Congestion control of the peer, if known.
    pub remote_congestion_control: Option<String>,
}

impl FinalReport {
    /// Combines both hosts' results; `local_results` must be in the order of the streams.
    pub fn new(
        labels: &[StreamLabel],
        local_results: &TestResults,
        peer_results: Option<&TestResults>,
        extremes: &[TcpExtremes],
        out_of_order: &[u64],
    ) -> Self {
        let streams = labels
            .iter()
            .enumerate()
            .map(|(at, StreamLabel { label, is_sender })| {
                let local = local_results.streams.get(at).cloned();
                let remote = local.as_ref().and_then(|local| {
                    peer_results
                        .and_then(|peer_results| peer_results.find_stream(local.id))
                        .cloned()
                });
                let (sender, receiver) = if *is_sender {
                    (local, remote)
                } else {
                    (remote, local)
                };
                StreamReport {
                    label: *label,
                    is_sender: *is_sender,
                    sender,
                    receiver,
                    extremes: extremes.get(at).copied().unwrap_or_default(),
                    out_of_order: out_of_order.get(at).copied().unwrap_or(0),
                }
            });
        Self {
            streams: streams.collect(),
            local_cpu: local_results.cpu,
            remote_cpu: peer_results.map(|peer_results| peer_results.cpu),
            local_congestion_control: local_results.congestion_control.clone(),
            remote_congestion_control: peer_results
                .and_then(|peer_results| peer_results.congestion_control.clone()),
        }
    }

    /// Returns the streams on which this host sends (or receives); `None` if there are none.
    pub fn direction_streams(&self, is_sender: bool) -> Option<Vec<&StreamReport>> {
        let streams: Vec<&StreamReport> = self
            .streams
            .iter()
            .filter(|stream| stream.is_sender == is_sender)
            .collect();
        (!streams.is_empty()).then_some(streams)
    }
}

/// Returns the sum of the results; `None` if one is missing.
pub fn sum_results<'a>(
    results: impl Iterator<Item = Option<&'a StreamResult>>,
) -> Option<DirectionSum> {
    let results: Vec<&StreamResult> = results.collect::<Option<_>>()?;
    let add = |count: fn(&StreamResult) -> u64| {
        results
            .iter()
            .fold(0_u64, |sum, result| sum.saturating_add(count(result)))
    };
    Some(DirectionSum {
        bytes: add(|result| result.bytes),
        duration_s: results
            .iter()
            .map(|result| result.duration_s)
            .fold(0.0, f64::max),
        retransmits: results
            .iter()
            .filter_map(|result| result.retransmits)
            .reduce(u64::saturating_add),
        jitter_s: results.iter().map(|result| result.jitter_s).sum::<f64>()
            / results.len().max(1) as f64,
        lost_datagrams: add(|result| result.lost_datagrams),
        datagrams: add(|result| result.datagrams),
    })
}

/// Returns the share of lost datagrams in percent.
pub fn loss_percent(lost: u64, packets: u64) -> f64 {
    if packets == 0 {
        0.0
    } else {
        100.0 * lost as f64 / packets as f64
    }
}
