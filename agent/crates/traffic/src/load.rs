//! The load of a trial as it is asked for: its streams, its parts, and what the streams of each part do.

use std::io;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use socket2::Domain;

use crate::route::Transport;
use crate::senders;
use crate::sockets::{self, SocketOptions};
use crate::tcp_crr::{self, ConnectionOptions};
use crate::tcp_rr::{self, ExchangeOptions};
use crate::tcp_stream::{self, TransferOptions};
use crate::udp_stream::{self, FlowOptions};
use vnetbench_streams::threads::{StartedThread, ThreadPlan};
use vnetbench_streams::timing::RequestTiming;
use vnetbench_streams::{Commands, OnEnd, Role, Secret, Stream};
use vnetbench_system::error::Result;

/// The streams of one side, as they are asked for.
#[derive(Debug)]
pub struct Load {
    pub secret: Secret,
    /// The streams of one part after those of the other.
    pub roles: Vec<(u32, Role)>,
    /// What every socket is opened with.
    pub options: SocketOptions,
    pub parts: Vec<LoadPart>,
}

/// Streams of a load that do the same, and that begin at the same time.
#[derive(Debug)]
pub struct LoadPart {
    /// Its name in the protocol, where a load has several.
    pub name: Option<&'static str>,
    /// Which of the load's streams.
    pub streams: Range<usize>,
    pub work: Workload,
    /// What its sockets have, once they are connected.
    pub options: SocketOptions,
    pub threads: ThreadPlan,
    /// How long after the start.
    pub starts_after: Duration,
}

/// What the streams do.
#[derive(Debug)]
pub enum Workload {
    Stream(TransferOptions),
    RequestResponse(ExchangeOptions),
    ConnectRequestResponse(ConnectionOptions),
    Datagrams(FlowOptions),
    Frames(vnetbench_frames::FrameParameters),
}

impl Load {
    pub fn part_of(&self, place: usize) -> &LoadPart {
        let mut parts = self.parts.iter();
        let found = parts.find(|part| part.streams.contains(&place));
        found.expect("every stream is of a part")
    }

    /// Whether this side's kernel can do what is asked of it.
    pub fn check(&self) -> Result<()> {
        for part in &self.parts {
            let mut roles = self.roles[part.streams.clone()].iter();
            if let Workload::Stream(transfer) = &part.work
                && roles.any(|(_, role)| *role == Role::Source)
            {
                let domain = match self.options.transport {
                    Transport::Vsock => Domain::VSOCK,
                    Transport::Tcp | Transport::Mptcp => Domain::IPV4,
                };
                let like_its_sockets = sockets::open(domain, &self.options)?;
                senders::check_send_mode(transfer.sending, &like_its_sockets)?;
            }
        }
        Ok(())
    }
}

impl LoadPart {
    /// Starts the streams' threads; they wait for `Order::Go`. `on_end` is called once for each, when it has ended.
    pub fn start(
        &self,
        streams: &[Arc<Stream>],
        orders: &Arc<Commands>,
        on_end: &OnEnd,
    ) -> io::Result<Vec<StartedThread>> {
        match &self.work {
            Workload::Stream(transfer) => {
                tcp_stream::start(streams, transfer, &self.threads, orders, on_end)
            }
            Workload::RequestResponse(exchange) => {
                tcp_rr::start(streams, *exchange, &self.threads, orders, on_end)
            }
            Workload::ConnectRequestResponse(connections) => {
                tcp_crr::start(streams, connections, &self.threads, orders, on_end)
            }
            Workload::Datagrams(flow) => {
                udp_stream::start(streams, *flow, &self.threads, orders, on_end)
            }
            Workload::Frames(_) => vnetbench_frames::start(streams, &self.threads, orders, on_end),
        }
    }

    /// What its stream at `place` of the load times.
    pub fn timing(&self, role: Role, place: usize) -> Option<RequestTiming> {
        if role == Role::Sink {
            return None;
        }
        match &self.work {
            Workload::Stream(_) | Workload::Datagrams(_) | Workload::Frames(_) => None,
            Workload::RequestResponse(exchange) => {
                let (place, count) = (place - self.streams.start, self.streams.len());
                Some(RequestTiming::for_requests(exchange.pace(place, count)))
            }
            Workload::ConnectRequestResponse(_) => Some(RequestTiming::for_connections()),
        }
    }
}
