//! The other side of a trial where that is an iperf3 server: how far it is, and what it has come to.

use std::mem;
use std::sync::Arc;

use vnetbench_iperf3::trial::{NegotiatedTest, Begun, ServerSide};
use vnetbench_streams::{OnEnd, Stream};
use vnetbench_system::error::Result;

#[derive(Default)]
pub enum Server {
    /// There is none: an agent is at the other side.
    #[default]
    None,
    Agreed(NegotiatedTest),
    Begun(Begun),
}

impl Server {
    /// Has it begin. `on_end` is called when its part is over.
    pub fn begin(&mut self, streams: &[Arc<Stream>], on_end: &OnEnd) -> Result<()> {
        *self = match mem::take(self) {
            Self::Agreed(agreed) => Self::Begun(agreed.begin(streams, on_end)?),
            other => other,
        };
        Ok(())
    }

    /// The sources have been told to end.
    pub fn load_is_over(&self) {
        if let Self::Begun(test) = self {
            test.load_is_over();
        }
    }

    pub fn is_over(&self) -> bool {
        match self {
            Self::Begun(test) => test.is_over(),
            Self::None | Self::Agreed(_) => true,
        }
    }

    /// Why the trial has come to nothing. `broken` says that a stream broke; a server knows better why.
    pub fn fault(&self, broken: Option<String>) -> Option<String> {
        match (self, broken) {
            (Self::Begun(test), Some(broken)) => Some(test.fault_of(broken)),
            (Self::Begun(test), None) => test.fault(),
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
    pub fn end(&mut self, streams: &[Arc<Stream>]) -> Option<ServerSide> {
        match mem::take(self) {
            Self::Begun(test) => Some(ServerSide::new(test.end()?, streams)),
            Self::None | Self::Agreed(_) => None,
        }
    }
}
