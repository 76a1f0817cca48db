//! The phases of a trial on its own thread: connect, wait for the start, run (`running`), and finish.

use std::num::NonZeroU64;
use std::sync::Arc;
use std::sync::mpsc::SyncSender;
use std::time::Duration;

use rustix::thread::set_current_timer_slack;
use serde_json::{Value, json};
use socket2::Socket;

use super::conductor::Conductor;
use super::endpoint::ConnectionMethod;
use super::fault::FaultKind;
use super::message::MessageToConductor;
use super::parameters::PartName;
use super::ready::{ConnectionState, Ready};
use super::registry::lock;
use super::report::{InstrumentCost, TrialEnd};
use super::running::{LoadOutcome, TrialEndReason};
use super::sampler::{CounterSources, Sampler};
use super::server::RemoteIperf3Server;
use super::streams::Streams;
use crate::rpc;
use vnetbench_iperf3::parameters::TestParameters;
use vnetbench_iperf3::trial::NegotiatedTest;
use vnetbench_streams::OnEnd;
use vnetbench_streams::datagrams::DatagramFlow;
use vnetbench_system::error::{RequestError, Result};
use vnetbench_traffic::route::Route;
use vnetbench_traffic::{
    Load, LoadPart, Workload, connector, effective_options, listener, udp_handshake,
};

/// How a trial gets its streams.
pub enum ConnectionPlan {
    /// The trial has no streams.
    None,
    /// Streams of frames through an interface.
    Port(Load),
    /// Accepts connections.
    Listener(Socket, Load),
    /// Connects to an agent.
    Connect(Box<Route>, Load),
    /// Connects to an iperf3 server.
    Iperf3(Box<Route>, Box<TestParameters>, Load),
}

impl ConnectionPlan {
    /// Returns the plan for a load, and the answer of `trial.prepare` if it does not depend on connections.
    pub fn open(load: Option<(ConnectionMethod, Load)>) -> Result<(Self, Option<Value>)> {
        Ok(match load {
            None => (Self::None, Some(json!(Ready::default()))),
            Some((ConnectionMethod::Listen(address), load)) => {
                let streams = load.roles.len();
                let (listener, port) =
                    listener::listen_and_return_port(&address, streams, &load.socket_options)?;
                let answer = json!({ "port": port });
                (Self::Listener(listener, load), Some(answer))
            }
            Some((ConnectionMethod::Connect(route), load)) => (Self::Connect(route, load), None),
            Some((ConnectionMethod::ConnectIperf3(route, request), load)) => {
                (Self::Iperf3(route, request, load), None)
            }
            Some((ConnectionMethod::Port, load)) => (Self::Port(load), None),
        })
    }
}

impl Conductor {
    /// Runs the trial from connecting to `trial.end`.
    pub fn conduct(self, connection_plan: ConnectionPlan, counter_sources: CounterSources) {
        // The default timer slack lets the kernel wake this thread up to 50 µs late.
        let _ = set_current_timer_slack(NonZeroU64::new(1));
        let has_answered = matches!(
            connection_plan,
            ConnectionPlan::None | ConnectionPlan::Listener(..)
        );
        let (mut streams, mut server) = (Streams::default(), RemoteIperf3Server::default());
        let connected = self.connect_unless_stopped(connection_plan, &mut streams, &mut server);
        let mut sampler = Sampler::new(counter_sources, &streams.all, streams.load_threads());
        let outcome = match connected {
            Ok(true) => {
                self.trial
                    .set_connection_state(ConnectionState::Done(streams.describe_ready_state()));
                match self.wait_for_start_or_stop() {
                    Some((duration, started)) => {
                        match server.start(&streams.all, &self.make_stream_end_callback()) {
                            Ok(()) => {
                                self.run(&mut sampler, &mut streams, &server, duration, &started)
                            }
                            Err(error) => {
                                let fault = FaultKind::Server.into_fault(&error);
                                // Fails only if the request no longer waits.
                                let _ = started.try_send(Err(error));
                                LoadOutcome::never_started(
                                    TrialEndReason::Fault(fault),
                                    &mut sampler,
                                )
                            }
                        }
                    }
                    None => LoadOutcome::never_started(TrialEndReason::Stopped, &mut sampler),
                }
            }
            Ok(false) => {
                let stopped = RequestError::Trial(format!("trial {} was stopped", self.trial.name));
                self.trial
                    .set_connection_state(ConnectionState::Failed(stopped));
                LoadOutcome::never_started(TrialEndReason::Stopped, &mut sampler)
            }
            Err(error) => {
                let fault = FaultKind::Connection.into_fault(&error);
                self.registry.remove(&self.trial);
                self.trial
                    .set_connection_state(ConnectionState::Failed(error));
                if !has_answered {
                    // The request that waits on the connection state answers with this error. A trial that was never
                    // prepared has no `trial.end`.
                    return;
                }
                LoadOutcome::never_started(TrialEndReason::Fault(fault), &mut sampler)
            }
        };
        self.finish(streams, server, sampler, outcome);
    }

    /// Connects the streams and starts their threads. Returns false if the trial was stopped meanwhile.
    fn connect_unless_stopped(
        &self,
        connection_plan: ConnectionPlan,
        streams: &mut Streams,
        server: &mut RemoteIperf3Server,
    ) -> Result<bool> {
        let waker = &self.trial.waker;
        let (load, sockets) = match connection_plan {
            ConnectionPlan::None => return Ok(true),
            ConnectionPlan::Port(load) => {
                streams.create_and_start_frame_streams(&load, &self.make_stream_end_callback())?;
                return Ok(true);
            }
            ConnectionPlan::Listener(listener, load) => {
                let sockets = listener::accept_all(
                    &listener,
                    &load,
                    waker,
                    &mut streams.foreign_connections,
                )?;
                (load, sockets)
            }
            ConnectionPlan::Connect(route, load) => {
                let sockets = connector::connect_all(&route, &load, waker, self.trial.timeout)?;
                (load, sockets)
            }
            ConnectionPlan::Iperf3(route, request, load) => {
                let negotiated =
                    NegotiatedTest::connect(&route, *request, &load, waker, self.trial.timeout)?;
                let sockets = negotiated.map(|(test, sockets)| {
                    *server = RemoteIperf3Server::Negotiated(test);
                    sockets
                });
                (load, sockets)
            }
        };
        let Some(sockets) = sockets else {
            return Ok(false);
        };
        let Some(flows) = self.open_flows_unless_stopped(&load, &sockets)? else {
            return Ok(false);
        };
        streams.create_and_start_socket_streams(
            &load,
            sockets,
            flows,
            &self.make_stream_end_callback(),
        )?;
        Ok(true)
    }

    fn make_stream_end_callback(&self) -> OnEnd {
        let sender = lock(&self.trial.conductor).clone();
        Arc::new(move || {
            // Fails only after the trial has finished.
            let _ = sender.send(MessageToConductor::StreamEnded);
        })
    }

    /// Opens the datagram flows of the streams; the iterator is empty for other workloads.
    ///
    /// Returns `None` if the trial was stopped meanwhile.
    fn open_flows_unless_stopped(
        &self,
        load: &Load,
        sockets: &[Socket],
    ) -> Result<Option<impl Iterator<Item = DatagramFlow> + use<>>> {
        let flows = match &load.parts[..] {
            [
                LoadPart {
                    workload: Workload::Datagrams(flow),
                    ..
                },
            ] => udp_handshake::open_flows(
                load,
                flow,
                sockets,
                &self.trial.waker,
                self.trial.timeout,
            )?,
            _ => Some(Vec::new()),
        };
        Ok(flows.map(Vec::into_iter))
    }

    /// Waits for `trial.start`. Returns `None` if the trial is stopped first.
    fn wait_for_start_or_stop(&self) -> Option<(Duration, SyncSender<Result<u64>>)> {
        loop {
            match self.messages.recv() {
                Ok(MessageToConductor::Start { duration, started }) => {
                    return Some((duration, started));
                }
                Ok(MessageToConductor::StreamEnded) => {}
                Ok(MessageToConductor::Stop) | Err(_) => return None,
            }
        }
    }

    /// Ends the streams, releases everything that the trial holds, and then sends `trial.end`.
    fn finish(
        &self,
        mut streams: Streams,
        mut server: RemoteIperf3Server,
        mut sampler: Sampler,
        outcome: LoadOutcome,
    ) {
        streams.end_all();
        let server = server.finish(&streams.all);
        let last = sampler.read_all_counters();
        let boundary_sources = sampler.boundary_sources();
        let boundary = boundary_sources.read_changes_since(&outcome.first_boundary);
        let mut counts = sampler.counters_between_and_current_cpu(&outcome.first_snapshot, &last);
        for (sample, stream) in counts.streams.iter_mut().zip(&streams.all) {
            sample.state = stream.end.get().map(vnetbench_streams::StreamEnd::name);
            let is_tcp = stream.is_tcp();
            sample.transport = is_tcp.then(|| effective_options::read_transport(stream));
            sample.zero_copy = stream.zero_copy.get().copied();
            sample.arrivals = stream.arrivals.get().cloned();
            sample.frames = stream.frame_details(outcome.load_ended_at);
        }
        let reason = outcome.reason.name();
        let (fault_kind, fault) = match outcome.reason {
            TrialEndReason::Fault(fault) => (Some(fault.kind), fault.message),
            TrialEndReason::Done | TrialEndReason::Stopped => (None, String::new()),
        };
        let end = TrialEnd {
            trial: &self.trial.name,
            reason,
            fault,
            fault_kind,
            duration_s: outcome.duration.as_secs_f64(),
            load_start_s: streams
                .actual_part_start(PartName::Transfers.name())
                .map(|after| after.as_secs_f64()),
            drained: streams.have_ended_with_data_read(),
            calls_sent: streams.all.iter().map(|s| s.counters.sent.calls()).sum(),
            calls_received: streams
                .all
                .iter()
                .map(|s| s.counters.received.calls())
                .sum(),
            outstanding_at_end: outcome.outstanding,
            unanswered: streams.count_unanswered_due_requests(outcome.load_ended_at),
            foreign_connections: streams.foreign_connections,
            port_counts: streams.other_frame_counts(),
            server,
            counts,
            boundary,
            instrument: InstrumentCost {
                pacing: streams.pacing_error(outcome.load_ended_at),
                ..outcome.instrument
            },
        };
        let event = rpc::format_event("trial.end", &end);
        drop(sampler);
        drop(streams);
        self.registry.remove(&self.trial);
        self.outbox.queue_undroppable_event(event);
    }
}

impl Drop for Conductor {
    fn drop(&mut self) {
        // Has an effect only if this thread panicked.
        self.registry.remove(&self.trial);
        let mut connection = lock(&self.trial.connection);
        if matches!(*connection, ConnectionState::InProgress) {
            let error = RequestError::Internal("the trial's thread failed".into());
            *connection = ConnectionState::Failed(error);
        }
        drop(connection);
        self.trial.connection_changed.notify_all();
    }
}
