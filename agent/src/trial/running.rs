//! A trial from its start to its end: what its load is told and when, its samples, and what it has come to.

use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender};
use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};

use super::conductor::Conductor;
use super::message::Message;
use super::report::Instrument;
use super::sampler::{Sampler, Snapshot};
use super::series::Series;
use super::server::Server;
use super::streams::Streams;
use crate::outbox::Outbox;
use vnetbench_counters::driver;
use vnetbench_streams::Command;
use vnetbench_system::error::Result;
use vnetbench_system::priority::{Rank, run_before_others};

/// How long after its end a trial waits for data that is still on its way (docs/protocol.md, trial.start).
const DRAIN_LIMIT: Duration = Duration::from_secs(5);

/// Why a trial ended.
pub enum Reason {
    Done,
    Stopped,
    Fault(String),
}

impl Reason {
    pub fn name(&self) -> &'static str {
        match self {
            Self::Done => "done",
            Self::Stopped => "stopped",
            Self::Fault(_) => "fault",
        }
    }
}

/// What a trial has come to by its end.
pub struct Outcome {
    pub reason: Reason,
    /// From the start to the moment when the sources were, or would have been, told to end.
    pub duration: Duration,
    /// That moment.
    pub ended: Instant,
    /// Requests that had no answer then.
    pub outstanding: Option<u64>,
    pub first: Snapshot,
    /// What the interface's driver had counted before the start.
    pub driver: Option<driver::Reading>,
    pub instrument: Instrument,
}

impl Outcome {
    pub fn never_started(reason: Reason, sampler: &mut Sampler) -> Self {
        Self {
            reason,
            duration: Duration::ZERO,
            ended: Instant::now(),
            outstanding: None,
            first: sampler.read_whole(),
            driver: None,
            instrument: Instrument::default(),
        }
    }
}

impl Conductor {
    /// Has the load begin, says so by `started`, and stays with it until there is a reason to end the trial.
    pub fn run(
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

        let mut underway = Underway {
            name: &self.trial.name,
            outbox: &self.outbox,
            sampler,
            streams,
            server,
            first: &first,
            start,
            load_end: start + duration,
            series: Series::new(start, self.interval),
            over: None,
        };
        let reason = loop {
            if let Some(reason) = underway.step(&self.messages) {
                break reason;
            }
        };
        let ended = underway.load_end.min(Instant::now());
        let Underway { series, over, .. } = underway;
        let over = over.unwrap_or_else(|| Over {
            at: Instant::now(),
            outstanding: streams.owed(ended),
            enforcing: Duration::ZERO,
        });
        Outcome {
            reason,
            duration: over.at - start,
            ended,
            outstanding: over.outstanding,
            first,
            driver,
            instrument: Instrument {
                sampler_cpu: thread_cpu_time().saturating_sub(cpu_at_start + over.enforcing),
                sampler_realtime: is_realtime,
                ..series.instrument
            },
        }
    }
}

struct Underway<'a> {
    name: &'a str,
    outbox: &'a Outbox,
    sampler: &'a mut Sampler,
    streams: &'a mut Streams,
    server: &'a Server,
    first: &'a Snapshot,
    start: Instant,
    /// When the sources are to be told to end.
    load_end: Instant,
    series: Series,
    /// `None` until the sources have been told to end.
    over: Option<Over>,
}

/// The end of a load.
struct Over {
    at: Instant,
    outstanding: Option<u64>,
    /// CPU time of this thread that was traffic, and no work of the sampler's.
    enforcing: Duration,
}

impl Underway<'_> {
    /// Waits for a message or for what is due next, and does what is due by then; returns why the trial ends, if it does.
    fn step(&mut self, messages: &Receiver<Message>) -> Option<Reason> {
        let left = self.next_due().saturating_duration_since(Instant::now());
        match messages.recv_timeout(left) {
            Ok(Message::Stop) | Err(RecvTimeoutError::Disconnected) => {
                return Some(Reason::Stopped);
            }
            // After the load has ended a stream that breaks is one that did not drain: the other side may have
            // waited for it as long as a side waits.
            Ok(Message::StreamEnded) if self.over.is_none() => {
                if let Some(fault) = self.server.fault(self.streams.fault()) {
                    return Some(Reason::Fault(fault));
                }
            }
            // A second start is dropped unanswered.
            Ok(_) | Err(RecvTimeoutError::Timeout) => {}
        }
        let now = Instant::now();
        let ends_now = now >= self.load_end && self.over.is_none();
        if ends_now {
            self.end_sources(now);
        }
        if now >= self.series.next_at()
            && let Some(fault) = self.sample(now)
        {
            return Some(Reason::Fault(fault));
        }
        // Both after the sample that is due at the same time: none of a later part's load is in it, and enforcing would
        // make it late.
        if self.over.is_none() {
            self.streams.begin(self.start, now);
        }
        if ends_now {
            self.enforce();
        }
        self.reason_to_end(now)
    }

    fn next_due(&self) -> Instant {
        // A part that has not begun by the end of the load never does: waiting for it would be no waiting.
        let due = match self.over {
            Some(_) => self.load_end + DRAIN_LIMIT,
            None => {
                let begins = self.streams.next_begins_after();
                begins.map_or(self.load_end, |after| self.load_end.min(self.start + after))
            }
        };
        due.min(self.series.next_at())
    }

    fn end_sources(&mut self, now: Instant) {
        self.streams.give(Command::EndSources);
        self.over = Some(Over {
            at: now,
            outstanding: self.streams.owed(self.load_end),
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
        if let Some(over) = &mut self.over {
            over.enforcing = thread_cpu_time().saturating_sub(before);
        }
        self.server.load_is_over();
    }

    fn reason_to_end(&self, now: Instant) -> Option<Reason> {
        self.over.as_ref()?;
        let have_ended = self.streams.have_ended() && self.server.is_over();
        (have_ended || now >= self.load_end + DRAIN_LIMIT).then(|| {
            self.server
                .fault_at_end()
                .map_or(Reason::Done, Reason::Fault)
        })
    }
}

fn thread_cpu_time() -> Duration {
    Duration::from_nanos(nanos(clock_gettime(ClockId::ThreadCPUTime)))
}

fn nanos(time: rustix::time::Timespec) -> u64 {
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}
