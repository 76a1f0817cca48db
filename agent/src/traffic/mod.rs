//! The load of a trial: its parts, and what the streams of each do.

mod asking;
pub mod connecting;
pub mod connection;
pub mod datagrams;
mod event_loop;
pub mod found;
pub mod histogram;
pub mod jitter;
pub mod opening;
mod orders;
pub mod receive;
pub mod reception;
pub mod route;
pub mod send;
mod send_pages;
mod send_uring;
mod send_zerocopy;
mod stream;
pub mod tcp_crr;
pub mod tcp_rr;
pub mod tcp_stream;
pub mod threads;
pub mod timing;
mod udp_calls;
pub mod udp_head;
pub mod udp_opening;
pub mod udp_stream;

use std::io;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use socket2::Domain;

use self::connection::Options;
use self::opening::Secret;
pub use self::orders::{Order, Orders};
use self::route::Transport;
pub use self::stream::{Count, End, Guard, OnEnd, Stream, Tally};
use self::tcp_crr::Connections;
use self::tcp_rr::Exchange;
use self::tcp_stream::Transfer;
use self::threads::{Started, Threads};
use self::timing::Timing;
use self::udp_stream::Flow;
use crate::error::Result;
use crate::frames;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    Source,
    Sink,
}

impl Role {
    /// That of the same stream at its other end.
    pub fn opposite(self) -> Self {
        match self {
            Self::Source => Self::Sink,
            Self::Sink => Self::Source,
        }
    }
}

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
    Frames(frames::Asked),
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
                let like_its_sockets = connection::open(domain, &self.options)?;
                transfer.sending.check(&like_its_sockets)?;
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
            Work::Frames(_) => frames::start(streams, &self.threads, orders, on_end),
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
