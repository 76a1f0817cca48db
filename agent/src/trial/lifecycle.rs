//! The life of one trial on its own thread: connecting, waiting for the start, running (`running`), ending.

use std::num::NonZeroU64;
use std::sync::Arc;
use std::sync::mpsc::SyncSender;
use std::time::Duration;

use rustix::thread::set_current_timer_slack;
use serde_json::{Value, json};
use socket2::Socket;

use super::conductor::Conductor;
use super::endpoint::EndpointAddress;
use super::message::ConductorMessage;
use super::parameters::PartName;
use super::ready::{ConnectionState, Ready};
use super::registry::lock;
use super::report::{InstrumentCost, TrialEnd};
use super::running::{EndReason, LoadOutcome};
use super::sampler::{CounterSources, Sampler};
use super::server::Iperf3Server;
use super::streams::Streams;
use crate::rpc;
use vnetbench_iperf3::parameters::TestParameters;
use vnetbench_iperf3::trial::NegotiatedTest;
use vnetbench_streams::OnEnd;
use vnetbench_streams::datagrams::DatagramFlow;
use vnetbench_system::error::{Error, Result};
use vnetbench_traffic::route::Route;
use vnetbench_traffic::{
    Load, LoadPart, Workload, connector, effective_options, listener, udp_handshake,
};

/// Where a trial's streams come from.
pub enum ConnectionPlan {
    None,
    Port(Load),
    Listener(Socket, Load),
    Connect(Box<Route>, Load),
    Iperf3(Box<Route>, Box<TestParameters>, Load),
}

impl ConnectionPlan {
    /// Of a load, or of none; and the answer of `trial.prepare` where there is one at once.
    pub fn open(load: Option<(EndpointAddress, Load)>) -> Result<(Self, Option<Value>)> {
        Ok(match load {
            None => (Self::None, Some(json!(Ready::default()))),
            Some((EndpointAddress::Listen(address), load)) => {
                let streams = load.roles.len();
                let (listener, port) = listener::listen(&address, streams, &load.options)?;
                let answer = json!({ "port": port });
                (Self::Listener(listener, load), Some(answer))
            }
            Some((EndpointAddress::Connect(route), load)) => (Self::Connect(route, load), None),
            Some((EndpointAddress::ConnectIperf3(route, request), load)) => {
                (Self::Iperf3(route, request, load), None)
            }
            Some((EndpointAddress::Port, load)) => (Self::Port(load), None),
        })
    }
}

impl Conductor {
    pub fn conduct(self, entry: ConnectionPlan, counted: CounterSources) {
        // Else the kernel may wake this thread 50 µs late, to save itself some work.
        let _ = set_current_timer_slack(NonZeroU64::new(1));
        let has_answered = matches!(entry, ConnectionPlan::None | ConnectionPlan::Listener(..));
        let (mut streams, mut server) = (Streams::default(), Iperf3Server::default());
        let connected = self.connect(entry, &mut streams, &mut server);
        let mut sampler = Sampler::new(counted, &streams.all, streams.load_threads());
        let outcome = match connected {
            Ok(true) => {
                self.trial
                    .set_connection_state(ConnectionState::Done(streams.ready()));
                match self.wait_for_start() {
                    Some((duration, started)) => {
                        match server.begin(&streams.all, &self.on_end()) {
                            Ok(()) => {
                                self.run(&mut sampler, &mut streams, &server, duration, &started)
                            }
                            Err(error) => {
                                let fault = EndReason::Fault(error.to_string());
                                // Fails only when nobody waits for it.
                                let _ = started.try_send(Err(error));
                                LoadOutcome::never_started(fault, &mut sampler)
                            }
                        }
                    }
                    None => LoadOutcome::never_started(EndReason::Stopped, &mut sampler),
                }
            }
            Ok(false) => {
                let stopped = Error::Trial(format!("trial {} was stopped", self.trial.name));
                self.trial
                    .set_connection_state(ConnectionState::Failed(stopped));
                LoadOutcome::never_started(EndReason::Stopped, &mut sampler)
            }
            Err(error) => {
                let fault = EndReason::Fault(error.to_string());
                self.registry.remove(&self.trial);
                self.trial
                    .set_connection_state(ConnectionState::Failed(error));
                if !has_answered {
                    // What is noted is the answer of `trial.prepare`: this trial never came to be.
                    return;
                }
                LoadOutcome::never_started(fault, &mut sampler)
            }
        };
        self.finish(streams, server, sampler, outcome);
    }

    /// Makes the streams and their threads; false where the trial was stopped before.
    fn connect(
        &self,
        entry: ConnectionPlan,
        streams: &mut Streams,
        server: &mut Iperf3Server,
    ) -> Result<bool> {
        let waker = &self.trial.waker;
        let (load, sockets) = match entry {
            ConnectionPlan::None => return Ok(true),
            ConnectionPlan::Port(load) => {
                streams.open_port(&load, &self.on_end())?;
                return Ok(true);
            }
            ConnectionPlan::Listener(listener, load) => {
                let sockets = listener::accept_all(&listener, &load, waker, &mut streams.foreign)?;
                (load, sockets)
            }
            ConnectionPlan::Connect(route, load) => {
                let sockets = connector::connect_all(&route, &load, waker, self.trial.timeout)?;
                (load, sockets)
            }
            ConnectionPlan::Iperf3(route, request, load) => {
                let agreed =
                    NegotiatedTest::connect(&route, *request, &load, waker, self.trial.timeout)?;
                let sockets = agreed.map(|(agreed, sockets)| {
                    *server = Iperf3Server::Negotiated(agreed);
                    sockets
                });
                (load, sockets)
            }
        };
        let Some(sockets) = sockets else {
            return Ok(false);
        };
        let Some(flows) = self.open_flows(&load, &sockets)? else {
            return Ok(false);
        };
        streams.set_up(&load, sockets, flows, &self.on_end())?;
        Ok(true)
    }

    fn on_end(&self) -> OnEnd {
        let ended = lock(&self.trial.conductor).clone();
        Arc::new(move || {
            // Fails only when the trial is over.
            let _ = ended.send(ConductorMessage::StreamEnded);
        })
    }

    /// What the streams send datagrams on, none where they do not; `None` where the trial was stopped before.
    fn open_flows(
        &self,
        load: &Load,
        sockets: &[Socket],
    ) -> Result<Option<impl Iterator<Item = DatagramFlow> + use<>>> {
        let opened = match &load.parts[..] {
            [
                LoadPart {
                    work: Workload::Datagrams(flow),
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
        Ok(opened.map(Vec::into_iter))
    }

    /// `None` where the trial was stopped before.
    fn wait_for_start(&self) -> Option<(Duration, SyncSender<Result<u64>>)> {
        loop {
            match self.messages.recv() {
                Ok(ConductorMessage::Start { duration, started }) => {
                    return Some((duration, started));
                }
                Ok(ConductorMessage::StreamEnded) => {}
                Ok(ConductorMessage::Stop) | Err(_) => return None,
            }
        }
    }

    /// Ends what still runs, and says what the trial came to once nothing of it is left.
    fn finish(
        &self,
        mut streams: Streams,
        mut server: Iperf3Server,
        mut sampler: Sampler,
        outcome: LoadOutcome,
    ) {
        streams.end();
        let server = server.end(&streams.all);
        let last = sampler.read_full();
        let mut moved = sampler.between(&outcome.first, &last);
        for (moved, stream) in moved.streams.iter_mut().zip(&streams.all) {
            moved.state = stream.end.get().map(vnetbench_streams::StreamEnd::name);
            let is_tcp = stream.datagrams.is_none() && stream.frames.is_none();
            moved.transport = is_tcp.then(|| effective_options::transport(stream));
            moved.lent = stream.zero_copy.get().copied();
            let frames = stream.frames.as_ref();
            moved.frames = frames.map(|frames| frames.outcome(outcome.ended));
        }
        let end = TrialEnd {
            trial: &self.trial.name,
            reason: outcome.reason.name(),
            fault: match outcome.reason {
                EndReason::Fault(fault) => fault,
                EndReason::Done | EndReason::Stopped => String::new(),
            },
            duration_s: outcome.duration.as_secs_f64(),
            load_began_s: streams
                .started_after(PartName::Transfers.name())
                .map(|after| after.as_secs_f64()),
            drained: streams.have_drained(),
            calls_sent: streams.all.iter().map(|s| s.counters.sent.calls()).sum(),
            calls_received: streams
                .all
                .iter()
                .map(|s| s.counters.received.calls())
                .sum(),
            outstanding_at_end: outcome.outstanding,
            unanswered: streams.unanswered(outcome.ended),
            foreign_connections: streams.foreign,
            at_port: streams.port_counts(),
            server,
            moved,
            driver: sampler.driver_change(outcome.driver.as_ref()),
            instrument: InstrumentCost {
                pacing: streams.pacing(outcome.ended),
                ..outcome.instrument
            },
        };
        let event = rpc::event("trial.end", &end);
        drop(sampler);
        drop(streams);
        self.registry.remove(&self.trial);
        self.outbox.send_event(event);
    }
}

impl Drop for Conductor {
    fn drop(&mut self) {
        // Only after a fault of the agent's own is there anything left to do here.
        self.registry.remove(&self.trial);
        let mut connecting = lock(&self.trial.connecting);
        if matches!(*connecting, ConnectionState::InProgress) {
            *connecting = ConnectionState::Failed(Error::Internal("the trial was given up".into()));
        }
        drop(connecting);
        self.trial.changed.notify_all();
    }
}
