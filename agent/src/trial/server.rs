//! The other side of a trial where that is an iperf3 server: how far it is, and what it has come to.

use std::mem;
use std::sync::Arc;

use vnetbench_iperf3::trial::{NegotiatedTest, ServerReport, ServerTest};
use vnetbench_streams::{OnEnd, Stream};
use vnetbench_system::error::Result;

#[derive(Default)]
pub enum Iperf3Server {
    /// There is none: an agent is at the other side.
    #[default]
    None,
    Negotiated(NegotiatedTest),
    Running(ServerTest),
}

impl Iperf3Server {
    /// Has it begin. `on_end` is called when its part is over.
    pub fn begin(&mut self, streams: &[Arc<Stream>], on_end: &OnEnd) -> Result<()> {
        *self = match mem::take(self) {
            Self::Negotiated(agreed) => Self::Running(agreed.begin(streams, on_end)?),
            other => other,
        };
        Ok(())
    }

    /// The sources have been told to end.
    pub fn load_is_over(&self) {
        if let Self::Running(test) = self {
            test.notify_load_end();
        }
    }

    pub fn is_over(&self) -> bool {
        match self {
            Self::Running(test) => test.is_finished(),
            Self::None | Self::Negotiated(_) => true,
        }
    }

    /// Why the trial has come to nothing. `broken` says that a stream broke; a server knows better why.
    pub fn fault(&self, broken: Option<String>) -> Option<String> {
        match (self, broken) {
            (Self::Running(test), Some(broken)) => Some(test.explain_stream_failure(broken)),
            (Self::Running(test), None) => test.failure_message(),
            (_, broken) => broken,
        }
    }

    /// Why it has given no results when nobody waits for them any more.
    pub fn fault_at_end(&self) -> Option<String> {
        if self.is_over() {
            self.fault(None)
        } else {
            Some("the server did not end the test in time".into())
        }
    }

    /// Ends its part where it is not over; returns what it said of it.
    pub fn end(&mut self, streams: &[Arc<Stream>]) -> Option<ServerReport> {
        match mem::take(self) {
            Self::Running(test) => Some(ServerReport::new(test.finish()?, streams)),
            Self::None | Self::Negotiated(_) => None,
        }
    }
}
