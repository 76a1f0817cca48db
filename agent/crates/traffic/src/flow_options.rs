//! The options of datagram flows, which a trial requests for all of them.

use serde::Deserialize;

use crate::source_ports::SourcePorts;
use vnetbench_streams::timing::{Pacing, RequestRate};

/// How a source waits until a datagram is due.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PacingWait {
    /// Sleeps, and spins for the last part: exact, but uses a whole CPU at high rates.
    Spin,
    /// Only sleeps.
    Sleep,
}

/// The options of datagram flows.
#[derive(Debug, Clone, Copy)]
pub struct FlowOptions {
    /// Size of a datagram, including its header.
    pub datagram_bytes: usize,
    /// Datagrams per second of each stream; `None` for full speed.
    pub rate_per_s: Option<f64>,
    /// How a source with a rate waits.
    pub pacing_wait: PacingWait,
    /// UDP_SEGMENT: the kernel or the interface cuts large messages into datagrams.
    pub uses_udp_gso: bool,
    /// UDP_GRO: the kernel aggregates several datagrams into one message.
    pub uses_udp_gro: bool,
    /// Whether the kernel fragments datagrams larger than the path MTU; otherwise, it refuses them.
    pub can_fragment: bool,
    /// Whether sinks record when datagrams arrive.
    pub records_arrivals: bool,
    /// Size of the send buffer and of the receive buffer; `None` keeps the kernel's default.
    pub buffer_bytes: Option<usize>,
    /// The source ports of the sources.
    pub source_ports: SourcePorts,
}

impl FlowOptions {
    /// Returns the pacing of the stream at `index`, staggered against the others; `None` without a rate.
    pub fn make_staggered_pacing(&self, index: usize, streams: usize) -> Option<Pacing> {
        let per_s = self.rate_per_s?;
        Some(Pacing::new(RequestRate::staggered(per_s, index, streams)))
    }
}
