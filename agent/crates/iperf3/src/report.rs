//! What is known at the end of a test: both sides' counts of each stream, and their sums for each direction.

use crate::record::Extremes;
use crate::results::{CpuShare, Results, StreamResult};
use vnetbench_streams::Role;

/// One stream, as its sender and its receiver have counted it.
#[derive(Debug, Clone, Default)]
pub struct Counted {
    pub shown: u32,
    /// Whether this side sent.
    pub sends: bool,
    pub sender: Option<StreamResult>,
    pub receiver: Option<StreamResult>,
    pub extremes: Extremes,
    pub out_of_order: u64,
}

/// The sum of one side of one direction.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Sum {
    pub bytes: u64,
    pub seconds: f64,
    pub retransmits: Option<u64>,
    /// The mean over the streams.
    pub jitter_s: f64,
    pub lost: u64,
    pub packets: u64,
}

pub struct Final {
    pub streams: Vec<Counted>,
    pub cpu_here: CpuShare,
    pub cpu_there: Option<CpuShare>,
    pub congestion_here: Option<String>,
    pub congestion_there: Option<String>,
}

impl Final {
    /// `own` in the order of the streams.
    pub fn new(
        roles: &[(u32, Role)],
        own: &Results,
        peer: Option<&Results>,
        extremes: &[Extremes],
        out_of_order: &[u64],
    ) -> Self {
        let streams = roles.iter().enumerate().map(|(at, (shown, role))| {
            let here = own.streams.get(at).cloned();
            let there = here
                .as_ref()
                .and_then(|here| peer.and_then(|peer| peer.stream(here.id)).cloned());
            let sends = *role == Role::Source;
            let (sender, receiver) = if sends { (here, there) } else { (there, here) };
            Counted {
                shown: *shown,
                sends,
                sender,
                receiver,
                extremes: extremes.get(at).copied().unwrap_or_default(),
                out_of_order: out_of_order.get(at).copied().unwrap_or(0),
            }
        });
        Self {
            streams: streams.collect(),
            cpu_here: own.cpu,
            cpu_there: peer.map(|peer| peer.cpu),
            congestion_here: own.congestion.clone(),
            congestion_there: peer.and_then(|peer| peer.congestion.clone()),
        }
    }

    /// The streams that this side sends, or receives; `None` where there are none.
    pub fn direction(&self, sends: bool) -> Option<Vec<&Counted>> {
        let streams: Vec<&Counted> = self
            .streams
            .iter()
            .filter(|stream| stream.sends == sends)
            .collect();
        (!streams.is_empty()).then_some(streams)
    }
}

/// `None` where that side has told nothing.
pub fn sum_of<'a>(results: impl Iterator<Item = Option<&'a StreamResult>>) -> Option<Sum> {
    let results: Vec<&StreamResult> = results.collect::<Option<_>>()?;
    let add = |count: fn(&StreamResult) -> u64| {
        results
            .iter()
            .fold(0_u64, |sum, result| sum.saturating_add(count(result)))
    };
    Some(Sum {
        bytes: add(|result| result.bytes),
        seconds: results
            .iter()
            .map(|result| result.seconds)
            .fold(0.0, f64::max),
        retransmits: results
            .iter()
            .filter_map(|result| result.retransmits)
            .reduce(u64::saturating_add),
        jitter_s: results.iter().map(|result| result.jitter_s).sum::<f64>()
            / results.len().max(1) as f64,
        lost: add(|result| result.errors),
        packets: add(|result| result.packets),
    })
}

pub fn lost_percent(lost: u64, packets: u64) -> f64 {
    if packets == 0 {
        0.0
    } else {
        100.0 * lost as f64 / packets as f64
    }
}
