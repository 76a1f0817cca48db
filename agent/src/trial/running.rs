//! A trial from its start to its end: starts and ends the load on time, takes the samples, and returns the outcome.

use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender};
use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};

use super::boundary::BoundaryReading;
use super::conductor::Conductor;
use super::fault::Fault;
use super::message::MessageToConductor;
use super::report::InstrumentCost;
use super::sampler::{Sampler, Snapshot};
use super::series::SamplingState;
use super::server::RemoteIperf3Server;
use super::streams::Streams;
use crate::outbox::Outbox;
use vnetbench_streams::Command;
use vnetbench_system::error::Result;
use vnetbench_system::priority::{RealTimeRank, set_realtime_priority};

/// How long a trial waits for data in flight after its load ends (docs/protocol.md, trial.start).
const DRAIN_TIMEOUT: Duration = Duration::from_secs(5);

/// Why a trial ended.
pub enum TrialEndReason {
    /// The load ran for its whole duration.
    Done,
    /// A request stopped the trial.
    Stopped,
    /// An error.
    Fault(Fault),
}

impl TrialEndReason {
    /// Returns the reason's name in the protocol.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Done => "done",
            Self::Stopped => "stopped",
            Self::Fault(_) => "fault",
        }
    }
}

/// The outcome of a trial's load.
pub struct LoadOutcome {
    /// Why the trial ended.
    pub reason: TrialEndReason,
    /// The time from the start to the end of the load.
    pub duration: Duration,
    /// When the load ended.
    pub load_ended_at: Instant,
    /// Requests without a response at the end of the load.
    pub outstanding: Option<u64>,
    pub first_snapshot: Snapshot,
    /// What is read only at the start and the end, before the start.
    pub first_boundary: BoundaryReading,
    /// The cost and accuracy of the samples.
    pub instrument: InstrumentCost,
}

impl LoadOutcome {
    /// Returns the outcome of a trial whose load never started.
    pub fn never_started(reason: TrialEndReason, sampler: &mut Sampler) -> Self {
        Self {
            reason,
            duration: Duration::ZERO,
            load_ended_at: Instant::now(),
            outstanding: None,
            first_snapshot: sampler.read_all_counters(),
            first_boundary: BoundaryReading::default(),
            instrument: InstrumentCost::default(),
        }
    }
}

impl Conductor {
    /// Starts the load, confirms that through `started`, and runs until there is a reason to end the trial.
    pub fn run(
        &self,
        sampler: &mut Sampler,
        streams: &mut Streams,
        server: &RemoteIperf3Server,
        duration: Duration,
        started: &SyncSender<Result<u64>>,
    ) -> LoadOutcome {
        let first_boundary = sampler.boundary_sources().read();
        let is_realtime = set_realtime_priority(RealTimeRank::Sampler);
        let first = sampler.read_initial();
        let clock = clock_gettime(ClockId::Monotonic);
        let start = Instant::now();
        let cpu_at_start = read_thread_cpu_time();
        streams.start_schedules_and_port_observation(start, start + duration);
        streams.start_due_parts(start, start);
        // Fails only if the request no longer waits.
        let _ = started.try_send(Ok(timespec_to_nanos(clock)));

        let mut running = RunningTrial {
            name: &self.trial.name,
            outbox: &self.outbox,
            sampler,
            streams,
            server,
            first_snapshot: &first,
            start,
            load_end: start + duration,
            series: SamplingState::new(start, self.interval),
            load_end_state: None,
        };
        let reason = loop {
            if let Some(reason) = running.handle_next_event(&self.messages) {
                break reason;
            }
        };
        let ended = running.load_end.min(Instant::now());
        let series = running.series;
        let load_end = running.load_end_state.unwrap_or_else(|| LoadEnd {
            at: Instant::now(),
            outstanding: streams.count_unanswered_due_requests(ended),
            traffic_cpu_time: Duration::ZERO,
        });
        LoadOutcome {
            reason,
            duration: load_end.at - start,
            load_ended_at: ended,
            outstanding: load_end.outstanding,
            first_snapshot: first,
            first_boundary,
            instrument: InstrumentCost {
                sampler_cpu: read_thread_cpu_time()
                    .saturating_sub(cpu_at_start + load_end.traffic_cpu_time),
                sampler_realtime: is_realtime,
                ..series.instrument
            },
        }
    }
}

/// A trial whose load runs.
struct RunningTrial<'a> {
    name: &'a str,
    outbox: &'a Outbox,
    sampler: &'a mut Sampler,
    streams: &'a mut Streams,
    server: &'a RemoteIperf3Server,
    first_snapshot: &'a Snapshot,
    start: Instant,
    /// When to end the sources.
    load_end: Instant,
    series: SamplingState,
    /// `None` until the load ends.
    load_end_state: Option<LoadEnd>,
}

/// The end of a load.
struct LoadEnd {
    at: Instant,
    outstanding: Option<u64>,
    /// CPU time of this thread that was spent on traffic, not on sampling.
    traffic_cpu_time: Duration,
}

impl RunningTrial<'_> {
    /// Waits for a message or the next due action, and performs what is due. Returns the reason if the trial ends.
    fn handle_next_event(
        &mut self,
        messages: &Receiver<MessageToConductor>,
    ) -> Option<TrialEndReason> {
        let remaining = self.next_due().saturating_duration_since(Instant::now());
        match messages.recv_timeout(remaining) {
            Ok(MessageToConductor::Stop) | Err(RecvTimeoutError::Disconnected) => {
                return Some(TrialEndReason::Stopped);
            }
            // After the load ends, a broken stream counts as not drained: the other endpoint may have reached its own
            // drain limit and closed the connection.
            Ok(MessageToConductor::StreamEnded) if self.load_end_state.is_none() => {
                if let Some(fault) = self.server.choose_fault(self.streams.earliest_fault()) {
                    return Some(TrialEndReason::Fault(fault));
                }
            }
            // Dropping a second start makes its request fail.
            Ok(_) | Err(RecvTimeoutError::Timeout) => {}
        }
        let now = Instant::now();
        let ends_now = now >= self.load_end && self.load_end_state.is_none();
        if ends_now {
            self.end_sources(now);
        }
        if now >= self.series.next_sample_at()
            && let Some(fault) = self.take_sample_and_detect_fault(now)
        {
            return Some(TrialEndReason::Fault(fault));
        }
        // Both follow the sample due at the same time: it must not contain load of a later part, and ending the streams
        // would make it late.
        if self.load_end_state.is_none() {
            self.streams.start_due_parts(self.start, now);
        }
        if ends_now {
            self.end_remaining_streams();
        }
        self.end_reason(now)
    }

    fn next_due(&self) -> Instant {
        // A part that has not started by the end of the load never starts, so its start time no longer matters.
        let due = match self.load_end_state {
            Some(_) => self.load_end + DRAIN_TIMEOUT,
            None => {
                let next_start = self.streams.next_part_start();
                next_start.map_or(self.load_end, |after| self.load_end.min(self.start + after))
            }
        };
        due.min(self.series.next_sample_at())
    }

    fn end_sources(&mut self, now: Instant) {
        self.streams.issue_command(Command::EndSources);
        self.load_end_state = Some(LoadEnd {
            at: now,
            outstanding: self.streams.count_unanswered_due_requests(self.load_end),
            traffic_cpu_time: Duration::ZERO,
        });
    }

    /// Takes the due sample. Returns the fault that it detects, if any.
    fn take_sample_and_detect_fault(&mut self, now: Instant) -> Option<Fault> {
        self.series.take_sample(
            self.name,
            self.sampler,
            self.first_snapshot,
            now,
            self.outbox,
        )
    }

    /// Ends the streams that have not ended by themselves, and notifies the server.
    fn end_remaining_streams(&mut self) {
        let before = read_thread_cpu_time();
        self.streams.enforce_command();
        if let Some(load_end) = &mut self.load_end_state {
            load_end.traffic_cpu_time = read_thread_cpu_time().saturating_sub(before);
        }
        self.server.notify_load_end();
    }

    fn end_reason(&self, now: Instant) -> Option<TrialEndReason> {
        self.load_end_state.as_ref()?;
        let have_ended = self.streams.have_ended() && self.server.is_finished();
        (have_ended || now >= self.load_end + DRAIN_TIMEOUT).then(|| {
            self.server
                .missing_results_fault()
                .map_or(TrialEndReason::Done, TrialEndReason::Fault)
        })
    }
}

fn read_thread_cpu_time() -> Duration {
    Duration::from_nanos(timespec_to_nanos(clock_gettime(ClockId::ThreadCPUTime)))
}

fn timespec_to_nanos(time: rustix::time::Timespec) -> u64 {
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}
