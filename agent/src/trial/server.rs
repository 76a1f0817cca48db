//! An iperf3 server as the other endpoint of a trial.

use std::mem;
use std::sync::Arc;

use super::fault::{Fault, FaultKind};
use vnetbench_iperf3::trial::{NegotiatedTest, RemoteServerTest, ServerReport};
use vnetbench_streams::{OnEnd, Stream};
use vnetbench_system::error::Result;

/// The state of the iperf3 server at the other endpoint.
#[derive(Default)]
pub enum RemoteIperf3Server {
    /// The other endpoint is an agent.
    #[default]
    None,
    /// The test is negotiated and not started.
    Negotiated(NegotiatedTest),
    /// The test runs.
    Running(RemoteServerTest),
}

impl RemoteIperf3Server {
    /// Starts the negotiated test. Calls `on_end` when the server ends it.
    pub fn start(&mut self, streams: &[Arc<Stream>], on_end: &OnEnd) -> Result<()> {
        *self = match mem::take(self) {
            Self::Negotiated(test) => Self::Running(test.begin(streams, on_end)?),
            other => other,
        };
        Ok(())
    }

    /// Notifies the server that the sources have ended.
    pub fn notify_load_end(&self) {
        if let Self::Running(test) = self {
            test.notify_load_end();
        }
    }

    /// Returns whether the server has finished its test.
    pub fn is_finished(&self) -> bool {
        match self {
            Self::Running(test) => test.is_finished(),
            Self::None | Self::Negotiated(_) => true,
        }
    }

    /// Returns the fault that ends the trial. The server's own message replaces `stream_fault` where it says more.
    pub fn choose_fault(&self, stream_fault: Option<Fault>) -> Option<Fault> {
        let server_message = match (self, &stream_fault) {
            (Self::Running(test), Some(_)) => test.wait_until_timeout_for_failure_reason(),
            (Self::Running(test), None) => test.failure_message(),
            (Self::None | Self::Negotiated(_), _) => None,
        };
        server_message
            .map(|message| FaultKind::Server.into_fault(message))
            .or(stream_fault)
    }

    /// Returns the fault of a server that has given no results by the end of the trial.
    pub fn missing_results_fault(&self) -> Option<Fault> {
        if self.is_finished() {
            self.choose_fault(None)
        } else {
            let message = "the iperf3 server did not end the test in time";
            Some(FaultKind::Server.into_fault(message))
        }
    }

    /// Ends the test if it still runs, and returns the server's report.
    pub fn finish(&mut self, streams: &[Arc<Stream>]) -> Option<ServerReport> {
        match mem::take(self) {
            Self::Running(test) => Some(ServerReport::new(test.finish_or_abort()?, streams)),
            Self::None | Self::Negotiated(_) => None,
        }
    }
}
