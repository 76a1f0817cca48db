//! The life of one trial on its own thread: connecting, waiting for the start, sampling at set times, ending.

use std::num::NonZeroU64;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender};
use std::time::{Duration, Instant};

use rustix::thread::set_current_timer_slack;
use rustix::time::{ClockId, clock_gettime};
use socket2::Socket;

use super::parameters::PartName;
use super::report::{End, Instrument};
use super::sampler::{Counted, Sampler, Snapshot};
use super::series::Series;
use super::server::Server;
use super::streams::Streams;
use super::{Connecting, Message, Trial, Trials, lock};
use crate::counters::driver;
use crate::error::{Error, Result};
use crate::iperf3::parameters::Parameters;
use crate::iperf3::trial::Agreed;
use crate::priority::{Rank, run_before_others};
use crate::rpc;
use crate::traffic::datagrams::Datagrams;
use crate::traffic::route::Route;
use crate::traffic::{
    self, Load, OnEnd, Order, Part, Work, connecting, connection, found, udp_opening,
};

/// How long after its end a trial waits for data that is still on its way (docs/protocol.md, trial.start).
const DRAIN_LIMIT: Duration = Duration::from_secs(5);

pub struct Conductor {
    pub trials: Arc<Trials>,
    pub trial: Arc<Trial>,
    pub messages: Receiver<Message>,
    pub interval: Duration,
}

/// Where a trial's streams come from.
pub enum Entry {
    Nothing,
    Port(Load),
    Listener(Socket, Load),
    Connect(Box<Route>, Load),
    Iperf3(Box<Route>, Box<Parameters>, Load),
}

/// Why a trial ended.
enum Reason {
    Done,
    Stopped,
    Fault(String),
}

impl Reason {
    fn name(&self) -> &'static str {
        match self {
            Self::Done => "done",
            Self::Stopped => "stopped",
            Self::Fault(_) => "fault",
        }
    }
}

/// What a trial has come to by its end.
struct Outcome {
    reason: Reason,
    /// From the start to the moment when the sources were, or would have been, told to end.
    duration: Duration,
    /// That moment.
    ended: Instant,
    /// Requests that had no answer then.
    outstanding: Option<u64>,
    first: Snapshot,
    /// What the interface's driver had counted before the start.
    driver: Option<driver::Reading>,
    instrument: Instrument,
}

impl Conductor {
    pub fn conduct(self, entry: Entry, counted: Counted) {
        // Else the kernel may wake this thread 50 µs late, to save itself some work.
        let _ = set_current_timer_slack(NonZeroU64::new(1));
        let has_answered = matches!(entry, Entry::Nothing | Entry::Listener(..));
        let (mut streams, mut server) = (Streams::default(), Server::default());
        let connected = self.connect(entry, &mut streams, &mut server);
        let mut sampler = Sampler::new(counted, &streams.all, streams.counted());
        let outcome = match connected {
            Ok(true) => {
                self.trial.note(Connecting::Done(streams.ready()));
                match self.wait_for_start() {
                    Some((duration, started)) => {
                        match server.begin(&streams.all, &self.on_end()) {
                            Ok(()) => {
                                self.run(&mut sampler, &mut streams, &server, duration, &started)
                            }
                            Err(error) => {
                                let fault = Reason::Fault(error.to_string());
                                // Fails only when nobody waits for it.
                                let _ = started.try_send(Err(error));
                                never_started(fault, &mut sampler)
                            }
                        }
                    }
                    None => never_started(Reason::Stopped, &mut sampler),
                }
            }
            Ok(false) => {
                let stopped = Error::Trial(format!("trial {} was stopped", self.trial.name));
                self.trial.note(Connecting::Failed(stopped));
                never_started(Reason::Stopped, &mut sampler)
            }
            Err(error) => {
                let fault = Reason::Fault(error.to_string());
                self.trials.forget(&self.trial);
                self.trial.note(Connecting::Failed(error));
                if !has_answered {
                    // What is noted is the answer of `trial.prepare`: this trial never came to be.
                    return;
                }
                never_started(fault, &mut sampler)
            }
        };
        self.finish(streams, server, sampler, outcome);
    }

    /// Makes the streams and their threads; false where the trial was stopped before.
    fn connect(&self, entry: Entry, streams: &mut Streams, server: &mut Server) -> Result<bool> {
        let bell = &self.trial.bell;
        let (load, sockets) = match entry {
            Entry::Nothing => return Ok(true),
            Entry::Port(load) => {
                streams.open_port(&load, &self.on_end())?;
                return Ok(true);
            }
            Entry::Listener(listener, load) => {
                let sockets = connection::accept_all(&listener, &load, bell, &mut streams.foreign)?;
                (load, sockets)
            }
            Entry::Connect(route, load) => {
                let sockets = connecting::connect_all(&route, &load, bell, self.trial.timeout)?;
                (load, sockets)
            }
            Entry::Iperf3(route, asked, load) => {
                let agreed = Agreed::connect(&route, *asked, &load, bell, self.trial.timeout)?;
                let sockets = agreed.map(|(agreed, sockets)| {
                    *server = Server::Agreed(agreed);
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
            let _ = ended.send(Message::StreamEnded);
        })
    }

    /// What the streams send datagrams on, none where they do not; `None` where the trial was stopped before.
    fn open_flows(
        &self,
        load: &Load,
        sockets: &[Socket],
    ) -> Result<Option<impl Iterator<Item = Datagrams> + use<>>> {
        let opened = match &load.parts[..] {
            [
                Part {
                    work: Work::Datagrams(flow),
                    ..
                },
            ] => udp_opening::open_all(load, flow, sockets, &self.trial.bell, self.trial.timeout)?,
            _ => Some(Vec::new()),
        };
        Ok(opened.map(Vec::into_iter))
    }

    /// `None` where the trial was stopped before.
    fn wait_for_start(&self) -> Option<(Duration, SyncSender<Result<u64>>)> {
        loop {
            match self.messages.recv() {
                Ok(Message::Start { duration, started }) => return Some((duration, started)),
                Ok(Message::StreamEnded) => {}
                Ok(Message::Stop) | Err(_) => return None,
            }
        }
    }

    fn run(
        &self,
        sampler: &mut Sampler,
        streams: &mut Streams,
        server: &Server,
        duration: Duration,
        started: &SyncSender<Result<u64>>,
    ) -> Outcome {
        let is_realtime = run_before_others(Rank::Sampler);
        let driver = sampler.read_driver();
        let first = sampler.read_first();
        let clock = clock_gettime(ClockId::Monotonic);
        let start = Instant::now();
        let cpu_at_start = thread_cpu_time();
        streams.begin_pacing(start);
        streams.begin(start, start);
        // Fails only when nobody waits for it.
        let _ = started.try_send(Ok(nanos(clock)));

        let mut series = Series::new(start, self.interval);
        let load_end = start + duration;
        let mut load_ended_at = None;
        let mut enforcing = Duration::ZERO;
        let mut outstanding = None;
        let reason = loop {
            let until = match load_ended_at {
                Some(_) => load_end + DRAIN_LIMIT,
                None => load_end,
            };
            let until = until.min(series.next_at());
            // A part that has not begun by the end of the load never does: waiting for it would be no waiting.
            let begins = match load_ended_at {
                Some(_) => None,
                None => streams.next_begins_after(),
            };
            let until = begins.map_or(until, |after| until.min(start + after));
            match self
                .messages
                .recv_timeout(until.saturating_duration_since(Instant::now()))
            {
                Ok(Message::Stop) | Err(RecvTimeoutError::Disconnected) => break Reason::Stopped,
                // After the load has ended a stream that breaks is one that did not drain: the other side may have
                // waited for it as long as a side waits.
                Ok(Message::StreamEnded) if load_ended_at.is_none() => {
                    if let Some(fault) = server.fault(streams.fault()) {
                        break Reason::Fault(fault);
                    }
                }
                // A second start is dropped unanswered.
                Ok(_) | Err(RecvTimeoutError::Timeout) => {}
            }
            let now = Instant::now();
            let ends_now = now >= load_end && load_ended_at.is_none();
            if ends_now {
                streams.give(Order::EndSources);
                load_ended_at = Some(now);
                outstanding = streams.owed(load_end);
            }
            if now >= series.next_at() {
                let outbox = &self.trials.outbox;
                if let Some(fault) = series.sample(&self.trial.name, sampler, &first, now, outbox) {
                    break Reason::Fault(fault);
                }
            }
            if load_ended_at.is_none() {
                // After the sample that is due at the same time: none of a later part's load is in it.
                streams.begin(start, now);
            }
            if ends_now {
                // After the sample that is due at the same time, which this would make late. It sends what the streams
                // had left to send: traffic, and no work of the sampler's.
                let before = thread_cpu_time();
                streams.enforce();
                enforcing = thread_cpu_time().saturating_sub(before);
                server.load_is_over();
            }
            let have_ended = streams.have_ended() && server.is_over();
            if load_ended_at.is_some() && (have_ended || now >= load_end + DRAIN_LIMIT) {
                break server.fault_at_end().map_or(Reason::Done, Reason::Fault);
            }
        };
        let ended = load_end.min(Instant::now());
        Outcome {
            reason,
            duration: load_ended_at.unwrap_or_else(Instant::now) - start,
            ended,
            outstanding: match load_ended_at {
                Some(_) => outstanding,
                None => streams.owed(ended),
            },
            first,
            driver,
            instrument: Instrument {
                sampler_cpu: thread_cpu_time().saturating_sub(cpu_at_start + enforcing),
                sampler_realtime: is_realtime,
                ..series.instrument
            },
        }
    }

    /// Ends what still runs, and says what the trial came to once nothing of it is left.
    fn finish(
        &self,
        mut streams: Streams,
        mut server: Server,
        mut sampler: Sampler,
        outcome: Outcome,
    ) {
        streams.end();
        let server = server.end(&streams.all);
        let last = sampler.read_whole();
        let mut moved = sampler.between(&outcome.first, &last);
        for (moved, stream) in moved.streams.iter_mut().zip(&streams.all) {
            moved.state = stream.end.get().map(traffic::End::name);
            let is_tcp = stream.datagrams.is_none() && stream.frames.is_none();
            moved.transport = is_tcp.then(|| found::transport(stream));
            moved.lent = stream.lent.get().copied();
            let frames = stream.frames.as_ref();
            moved.frames = frames.map(|frames| frames.outcome(outcome.ended));
        }
        let end = End {
            trial: &self.trial.name,
            reason: outcome.reason.name(),
            fault: match outcome.reason {
                Reason::Fault(fault) => fault,
                Reason::Done | Reason::Stopped => String::new(),
            },
            duration_s: outcome.duration.as_secs_f64(),
            load_began_s: streams
                .began_after(PartName::Transfers.name())
                .map(|after| after.as_secs_f64()),
            drained: streams.have_drained(),
            calls_sent: streams.all.iter().map(|s| s.tally.sent.calls()).sum(),
            calls_received: streams.all.iter().map(|s| s.tally.received.calls()).sum(),
            outstanding_at_end: outcome.outstanding,
            unanswered: streams.owed(outcome.ended),
            foreign_connections: streams.foreign,
            at_port: streams.at_port(),
            server,
            moved,
            driver: sampler.driver_moved(outcome.driver.as_ref()),
            instrument: Instrument {
                pacing: streams.pacing(outcome.ended),
                ..outcome.instrument
            },
        };
        let event = rpc::event("trial.end", &end);
        drop(sampler);
        drop(streams);
        self.trials.forget(&self.trial);
        self.trials.outbox.tell(event);
    }
}

impl Drop for Conductor {
    fn drop(&mut self) {
        // Only after a fault of the agent's own is there anything left to do here.
        self.trials.forget(&self.trial);
        let mut connecting = lock(&self.trial.connecting);
        if matches!(*connecting, Connecting::UnderWay) {
            *connecting = Connecting::Failed(Error::Internal("the trial was given up".into()));
        }
        drop(connecting);
        self.trial.changed.notify_all();
    }
}

fn never_started(reason: Reason, sampler: &mut Sampler) -> Outcome {
    Outcome {
        reason,
        duration: Duration::ZERO,
        ended: Instant::now(),
        outstanding: None,
        first: sampler.read_whole(),
        driver: None,
        instrument: Instrument::default(),
    }
}

fn thread_cpu_time() -> Duration {
    Duration::from_nanos(nanos(clock_gettime(ClockId::ThreadCPUTime)))
}

fn nanos(time: rustix::time::Timespec) -> u64 {
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}
