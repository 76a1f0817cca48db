//! What is known at the end of a test: both sides' counts of each stream, and their sums for each direction.

use crate::record::TcpExtremes;
use crate::results::{CpuUsage, StreamResult, TestResults};
use vnetbench_streams::Role;

/// One stream, as its sender and its receiver have counted it.
#[derive(Debug, Clone, Default)]
pub struct StreamReport {
    pub label: u32,
    /// Whether this side sent.
    pub is_sender: bool,
    pub sender: Option<StreamResult>,
    pub receiver: Option<StreamResult>,
    pub extremes: TcpExtremes,
    pub out_of_order: u64,
}

/// The sum of one side of one direction.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct DirectionSum {
    pub bytes: u64,
    pub duration_s: f64,
    pub retransmits: Option<u64>,
    /// The mean over the streams.
    pub jitter_s: f64,
    pub lost_datagrams: u64,
    pub datagrams: u64,
}

pub struct FinalReport {
    pub streams: Vec<StreamReport>,
    pub local_cpu: CpuUsage,
    pub remote_cpu: Option<CpuUsage>,
    pub local_congestion_control: Option<String>,
    pub remote_congestion_control: Option<String>,
}

impl FinalReport {
    /// `own` in the order of the streams.
    pub fn new(
        roles: &[(u32, Role)],
        local_results: &TestResults,
        peer_results: Option<&TestResults>,
        extremes: &[TcpExtremes],
        out_of_order: &[u64],
    ) -> Self {
        let streams = roles.iter().enumerate().map(|(at, (label, role))| {
            let local = local_results.streams.get(at).cloned();
            let remote = local.as_ref().and_then(|local| {
                peer_results
                    .and_then(|peer_results| peer_results.parse_stream(local.id))
                    .cloned()
            });
            let is_sender = *role == Role::Source;
            let (sender, receiver) = if is_sender {
                (local, remote)
            } else {
                (remote, local)
            };
            StreamReport {
                label: *label,
                is_sender: is_sender,
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

    /// The streams that this side sends, or receives; `None` where there are none.
    pub fn direction_streams(&self, is_sender: bool) -> Option<Vec<&StreamReport>> {
        let streams: Vec<&StreamReport> = self
            .streams
            .iter()
            .filter(|stream| stream.is_sender == is_sender)
            .collect();
        (!streams.is_empty()).then_some(streams)
    }
}

/// `None` where that side has told nothing.
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

pub fn loss_percent(lost: u64, packets: u64) -> f64 {
    if packets == 0 {
        0.0
    } else {
        100.0 * lost as f64 / packets as f64
    }
}
