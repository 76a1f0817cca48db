//! The results of the server in a trial.

use std::sync::Arc;

use serde::Serialize;

use crate::results::{CpuUsage, TestResults};
use crate::streams::stream_id_from_index;
use vnetbench_streams::{Role, Stream};

/// The server's results, with the field names of docs/protocol.md.
#[derive(Serialize)]
pub struct ServerReport {
    cpu_percent: CpuUsage,
    congestion_control: Option<String>,
    streams: Vec<ServerStreamReport>,
}

#[derive(Serialize)]
struct ServerStreamReport {
    id: u32,
    role: Role,
    bytes: u64,
    retransmits: Option<u64>,
}

impl ServerReport {
    /// Creates the report; `streams` must be in the order in which they were connected.
    pub fn new(results: TestResults, streams: &[Arc<Stream>]) -> Self {
        let reports = streams.iter().enumerate().filter_map(|(index, stream)| {
            let reports = results.find_stream(stream_id_from_index(index))?;
            Some(ServerStreamReport {
                id: stream.id,
                role: stream.role.opposite(),
                bytes: reports.bytes,
                retransmits: reports.retransmits.filter(|_| stream.role == Role::Sink),
            })
        });
        Self {
            streams: reports.collect(),
            cpu_percent: results.cpu,
            congestion_control: results.congestion_control.clone(),
        }
    }
}
