//! A trial from its start to its end: what its load is told and when, its samples, and what it has come to.

use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender};
use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};

use super::conductor::Conductor;
use super::message::ConductorMessage;
use super::report::InstrumentCost;
use super::sampler::{Sampler, Snapshot};
use super::series::SampleSeries;
use super::server::Iperf3Server;
use super::streams::Streams;
use crate::outbox::Outbox;
use vnetbench_counters::driver;
use vnetbench_streams::Command;
use vnetbench_system::error::Result;
use vnetbench_system::priority::{Rank, raise_priority};

/// How long after its end a trial waits for data that is still on its way (docs/protocol.md, trial.start).
const DRAIN_LIMIT: Duration = Duration::from_secs(5);

/// Why a trial ended.
pub enum EndReason {
    Done,
    Stopped,
    Fault(String),
}

impl EndReason {
    pub fn name(&self) -> &'static str {
        match self {
            Self::Done => "done",
            Self::Stopped => "stopped",
            Self::Fault(_) => "fault",
        }
    }
}

/// What a trial has come to by its end.
pub struct LoadOutcome {
    pub reason: EndReason,
    /// From the start to the moment when the sources were, or would have been, told to end.
    pub duration: Duration,
    /// That moment.
    pub ended: Instant,
    /// Requests that had no answer then.
    pub outstanding: Option<u64>,
    pub first: Snapshot,
    /// What the interface's driver had counted before the start.
    pub driver: Option<driver::DriverReading>,
    pub instrument: InstrumentCost,
}

impl LoadOutcome {
    pub fn never_started(reason: EndReason, sampler: &mut Sampler) -> Self {
        Self {
            reason,
            duration: Duration::ZERO,
            ended: Instant::now(),
            outstanding: None,
            first: sampler.read_full(),
            driver: None,
            instrument: InstrumentCost::default(),
        }
    }
}

impl Conductor {
    /// Has the load begin, says so by `started`, and stays with it until there is a reason to end the trial.
    pub fn run(
        &self,
        sampler: &mut Sampler,
        streams: &mut Streams,
        server: &Iperf3Server,
        duration: Duration,
        started: &SyncSender<Result<u64>>,
    ) -> LoadOutcome {
        let is_realtime = raise_priority(Rank::Sampler);
        let driver = sampler.read_driver();
        let first = sampler.read_first();
        let clock = clock_gettime(ClockId::Monotonic);
        let start = Instant::now();
        let cpu_at_start = thread_cpu_time();
        streams.begin_pacing(start);
        streams.begin(start, start);
        // Fails only when nobody waits for it.
        let _ = started.try_send(Ok(nanos(clock)));

        let mut underway = RunningTrial {
            name: &self.trial.name,
            outbox: &self.outbox,
            sampler,
            streams,
            server,
            first: &first,
            start,
            load_end: start + duration,
            series: SampleSeries::new(start, self.interval),
            load_end_state: None,
        };
        let reason = loop {
            if let Some(reason) = underway.step(&self.messages) {
                break reason;
            }
        };
        let ended = underway.load_end.min(Instant::now());
        let RunningTrial {
            series,
            load_end_state: over,
            ..
        } = underway;
        let over = over.unwrap_or_else(|| LoadEnd {
            at: Instant::now(),
            outstanding: streams.unanswered(ended),
            enforcing: Duration::ZERO,
        });
        LoadOutcome {
            reason,
            duration: over.at - start,
            ended,
            outstanding: over.outstanding,
            first,
            driver,
            instrument: InstrumentCost {
                sampler_cpu: thread_cpu_time().saturating_sub(cpu_at_start + over.enforcing),
                sampler_realtime: is_realtime,
                ..series.instrument
            },
        }
    }
}

struct RunningTrial<'a> {
    name: &'a str,
    outbox: &'a Outbox,
    sampler: &'a mut Sampler,
    streams: &'a mut Streams,
    server: &'a Iperf3Server,
    first: &'a Snapshot,
    start: Instant,
    /// When the sources are to be told to end.
    load_end: Instant,
    series: SampleSeries,
    /// `None` until the sources have been told to end.
    load_end_state: Option<LoadEnd>,
}

/// The end of a load.
struct LoadEnd {
    at: Instant,
    outstanding: Option<u64>,
    /// CPU time of this thread that was traffic, and no work of the sampler's.
    enforcing: Duration,
}

impl RunningTrial<'_> {
    /// Waits for a message or for what is due next, and does what is due by then; returns why the trial ends, if it does.
    fn step(&mut self, messages: &Receiver<ConductorMessage>) -> Option<EndReason> {
        let left = self.next_due().saturating_duration_since(Instant::now());
        match messages.recv_timeout(left) {
            Ok(ConductorMessage::Stop) | Err(RecvTimeoutError::Disconnected) => {
                return Some(EndReason::Stopped);
            }
            // After the load has ended a stream that breaks is one that did not drain: the other side may have
            // waited for it as long as a side waits.
            Ok(ConductorMessage::StreamEnded) if self.load_end_state.is_none() => {
                if let Some(fault) = self.server.fault(self.streams.fault()) {
                    return Some(EndReason::Fault(fault));
                }
            }
            // A second start is dropped unanswered.
            Ok(_) | Err(RecvTimeoutError::Timeout) => {}
        }
        let now = Instant::now();
        let ends_now = now >= self.load_end && self.load_end_state.is_none();
        if ends_now {
            self.end_sources(now);
        }
        if now >= self.series.next_at()
            && let Some(fault) = self.sample(now)
        {
            return Some(EndReason::Fault(fault));
        }
        // Both after the sample that is due at the same time: none of a later part's load is in it, and enforcing would
        // make it late.
        if self.load_end_state.is_none() {
            self.streams.begin(self.start, now);
        }
        if ends_now {
            self.enforce();
        }
        self.reason_to_end(now)
    }

    fn next_due(&self) -> Instant {
        // A part that has not begun by the end of the load never does: waiting for it would be no waiting.
        let due = match self.load_end_state {
            Some(_) => self.load_end + DRAIN_LIMIT,
            None => {
                let begins = self.streams.next_start_after();
                begins.map_or(self.load_end, |after| self.load_end.min(self.start + after))
            }
        };
        due.min(self.series.next_at())
    }

    fn end_sources(&mut self, now: Instant) {
        self.streams.issue(Command::EndSources);
        self.load_end_state = Some(LoadEnd {
            at: now,
            outstanding: self.streams.unanswered(self.load_end),
            enforcing: Duration::ZERO,
        });
    }

    /// Returns the fault that the sample met.
    fn sample(&mut self, now: Instant) -> Option<String> {
        self.series
            .sample(self.name, self.sampler, self.first, now, self.outbox)
    }

    /// Sends what the streams had left to send.
    fn enforce(&mut self) {
        let before = thread_cpu_time();
        self.streams.enforce();
        if let Some(over) = &mut self.load_end_state {
            over.enforcing = thread_cpu_time().saturating_sub(before);
        }
        self.server.load_is_over();
    }

    fn reason_to_end(&self, now: Instant) -> Option<EndReason> {
        self.load_end_state.as_ref()?;
        let have_ended = self.streams.have_ended() && self.server.is_over();
        (have_ended || now >= self.load_end + DRAIN_LIMIT).then(|| {
            self.server
                .fault_at_end()
                .map_or(EndReason::Done, EndReason::Fault)
        })
    }
}

fn thread_cpu_time() -> Duration {
    Duration::from_nanos(nanos(clock_gettime(ClockId::ThreadCPUTime)))
}

fn nanos(time: rustix::time::Timespec) -> u64 {
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}
