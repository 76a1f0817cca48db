//! The requested load of a trial: its streams, its parts and their workloads.

use std::io;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use socket2::Domain;

use crate::flow_options::FlowOptions;
use crate::route::Transport;
use crate::senders;
use crate::sockets::{self, SocketOptions};
use crate::tcp_crr::{self, TransactionOptions};
use crate::tcp_rr::{self, ExchangeOptions};
use crate::tcp_stream;
use crate::transfers::TransferOptions;
use crate::udp_stream;
use vnetbench_streams::threads::{StartedThread, ThreadPlan};
use vnetbench_streams::timing::RequestTiming;
use vnetbench_streams::{Commands, OnEnd, Role, Secret, Stream, StreamRole};
use vnetbench_system::error::Result;

/// The requested streams of one endpoint.
#[derive(Debug)]
pub struct Load {
    /// Secret of the trial, which authenticates its connections.
    pub secret: Secret,
    /// Number and role of each stream, grouped by part.
    pub roles: Vec<StreamRole>,
    /// Options of every socket when it is opened.
    pub socket_options: SocketOptions,
    /// The parts, which together contain all streams.
    pub parts: Vec<LoadPart>,
}

/// Streams of a load with the same workload and the same start time.
#[derive(Debug)]
pub struct LoadPart {
    /// Name in the protocol, if the load has several parts.
    pub name: Option<&'static str>,
    /// Indexes of its streams in the load.
    pub streams: Range<usize>,
    /// What its streams do.
    pub workload: Workload,
    /// Options of its sockets after they are connected.
    pub connected_options: SocketOptions,
    /// The threads that run its streams.
    pub threads: ThreadPlan,
    /// Delay after the start of the trial.
    pub starts_after: Duration,
}

/// The workload of a load part, with its options.
#[derive(Debug)]
pub enum Workload {
    /// `tcp_stream`: bulk transfers.
    Stream(TransferOptions),
    /// `tcp_rr`: requests and responses on one connection.
    RequestResponse(ExchangeOptions),
    /// `tcp_crr`: one connection for each request.
    ConnectRequestResponse(TransactionOptions),
    /// `udp_stream`: datagrams.
    Datagrams(FlowOptions),
    /// `frames`: Ethernet frames.
    Frames(vnetbench_frames::FrameParameters),
}

impl Load {
    /// Returns the part of the stream at `stream_index`.
    ///
    /// # Panics
    ///
    /// No part contains the stream.
    pub fn find_part(&self, stream_index: usize) -> &LoadPart {
        self.parts
            .iter()
            .find(|part| part.streams.contains(&stream_index))
            .expect("every stream belongs to a part")
    }

    /// Checks that the kernel of this endpoint supports the load.
    ///
    /// # Errors
    ///
    /// The kernel refuses a socket option or the send mode.
    pub fn check_kernel_support(&self) -> Result<()> {
        for part in &self.parts {
            let mut roles = self.roles[part.streams.clone()].iter();
            if let Workload::Stream(transfer) = &part.workload
                && roles.any(|stream| stream.role == Role::Source)
            {
                let domain = match self.socket_options.transport {
                    Transport::Vsock => Domain::VSOCK,
                    Transport::Tcp | Transport::Mptcp => Domain::IPV4,
                };
                let probe_socket = sockets::open_socket(domain, &self.socket_options)?;
                senders::check_send_mode(transfer.send_options, &probe_socket)?;
            }
        }
        Ok(())
    }
}

impl LoadPart {
    /// Starts the threads of the streams, which wait for `Command::Go`. Each stream calls `on_end` once, at its end.
    ///
    /// # Errors
    ///
    /// The system refuses a thread, its CPUs or a socket option.
    pub fn start(
        &self,
        streams: &[Arc<Stream>],
        commands: &Arc<Commands>,
        on_end: &OnEnd,
    ) -> io::Result<Vec<StartedThread>> {
        match &self.workload {
            Workload::Stream(transfer) => {
                tcp_stream::start(streams, transfer, &self.threads, commands, on_end)
            }
            Workload::RequestResponse(exchange) => {
                tcp_rr::start(streams, *exchange, &self.threads, commands, on_end)
            }
            Workload::ConnectRequestResponse(connections) => {
                tcp_crr::start(streams, connections, &self.threads, commands, on_end)
            }
            Workload::Datagrams(flow) => {
                udp_stream::start(streams, *flow, &self.threads, commands, on_end)
            }
            Workload::Frames(_) => {
                vnetbench_frames::start_frame_streams(streams, &self.threads, commands, on_end)
            }
        }
    }

    /// Returns the timing of the load's stream at `index`; `None` for sinks and workloads without requests.
    pub fn create_request_timing(&self, role: Role, index: usize) -> Option<RequestTiming> {
        if role == Role::Sink {
            return None;
        }
        match &self.workload {
            Workload::Stream(_) | Workload::Datagrams(_) | Workload::Frames(_) => None,
            Workload::RequestResponse(exchange) => {
                let (part_index, count) = (index - self.streams.start, self.streams.len());
                Some(RequestTiming::for_requests(
                    exchange.staggered_request_rate(part_index, count),
                ))
            }
            Workload::ConnectRequestResponse(_) => {
                Some(RequestTiming::for_transactions_with_connections())
            }
        }
    }
}
