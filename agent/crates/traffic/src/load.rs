//! The load of a trial as it is asked for: its streams, its parts, and what the streams of each part do.

use std::io;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use socket2::Domain;

use crate::route::Transport;
use crate::senders;
use crate::sockets::{self, Options};
use crate::tcp_crr::{self, Connections};
use crate::tcp_rr::{self, Exchange};
use crate::tcp_stream::{self, Transfer};
use crate::udp_stream::{self, Flow};
use vnetbench_streams::threads::{Started, Threads};
use vnetbench_streams::timing::Timing;
use vnetbench_streams::{OnEnd, Orders, Role, Secret, Stream};
use vnetbench_system::error::Result;

/// The streams of one side, as they are asked for.
#[derive(Debug)]
pub struct Load {
    pub secret: Secret,
    /// The streams of one part after those of the other.
    pub roles: Vec<(u32, Role)>,
    /// What every socket is opened with.
    pub options: Options,
    pub parts: Vec<Part>,
}

/// Streams of a load that do the same, and that begin at the same time.
#[derive(Debug)]
pub struct Part {
    /// Its name in the protocol, where a load has several.
    pub name: Option<&'static str>,
    /// Which of the load's streams.
    pub streams: Range<usize>,
    pub work: Work,
    /// What its sockets have, once they are connected.
    pub options: Options,
    pub threads: Threads,
    /// How long after the start.
    pub begins_after: Duration,
}

/// What the streams do.
#[derive(Debug)]
pub enum Work {
    Stream(Transfer),
    RequestResponse(Exchange),
    ConnectRequestResponse(Connections),
    Datagrams(Flow),
    Frames(vnetbench_frames::Asked),
}

impl Load {
    pub fn part_of(&self, place: usize) -> &Part {
        let mut parts = self.parts.iter();
        let found = parts.find(|part| part.streams.contains(&place));
        found.expect("every stream is of a part")
    }

    /// Whether this side's kernel can do what is asked of it.
    pub fn check(&self) -> Result<()> {
        for part in &self.parts {
            let mut roles = self.roles[part.streams.clone()].iter();
            if let Work::Stream(transfer) = &part.work
                && roles.any(|(_, role)| *role == Role::Source)
            {
                let domain = match self.options.transport {
                    Transport::Vsock => Domain::VSOCK,
                    Transport::Tcp | Transport::Mptcp => Domain::IPV4,
                };
                let like_its_sockets = sockets::open(domain, &self.options)?;
                senders::check(transfer.sending, &like_its_sockets)?;
            }
        }
        Ok(())
    }
}

impl Part {
    /// Starts the streams' threads; they wait for `Order::Go`. `on_end` is called once for each, when it has ended.
    pub fn start(
        &self,
        streams: &[Arc<Stream>],
        orders: &Arc<Orders>,
        on_end: &OnEnd,
    ) -> io::Result<Vec<Started>> {
        match &self.work {
            Work::Stream(transfer) => {
                tcp_stream::start(streams, transfer, &self.threads, orders, on_end)
            }
            Work::RequestResponse(exchange) => {
                tcp_rr::start(streams, *exchange, &self.threads, orders, on_end)
            }
            Work::ConnectRequestResponse(connections) => {
                tcp_crr::start(streams, connections, &self.threads, orders, on_end)
            }
            Work::Datagrams(flow) => {
                udp_stream::start(streams, *flow, &self.threads, orders, on_end)
            }
            Work::Frames(_) => vnetbench_frames::start(streams, &self.threads, orders, on_end),
        }
    }

    /// What its stream at `place` of the load times.
    pub fn timing(&self, role: Role, place: usize) -> Option<Timing> {
        if role == Role::Sink {
            return None;
        }
        match &self.work {
            Work::Stream(_) | Work::Datagrams(_) | Work::Frames(_) => None,
            Work::RequestResponse(exchange) => {
                let (place, count) = (place - self.streams.start, self.streams.len());
                Some(Timing::of_requests(exchange.pace(place, count)))
            }
            Work::ConnectRequestResponse(_) => Some(Timing::of_connections()),
        }
    }
}
