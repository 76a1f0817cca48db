//! Runs the load of one test in both roles: intervals, omitted time, progress check and end.

use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::control_connection::ControlConnection;
use crate::cpu_time::CpuTime;
use crate::json;
use crate::limits::{EndCondition, MAX_DURATION_S};
use crate::parameters::{Direction, TestParameters};
use crate::printer::Printer;
use crate::record::TestRecord;
use crate::report::FinalReport;
use crate::results::TestResults;
use crate::session_options::SessionOptions;
use crate::sockets::congestion_control;
use crate::states::{ErrorCode, TestError};
use crate::streams::{LoadThreads, SharedLoad, TestStream};
use crate::text::{ReportLayout, SEPARATOR};
use vnetbench_streams::Role;
use vnetbench_system::cpu_list::CpuList;
use vnetbench_system::waiting::WaitOutcome;

/// Time between two checks that data moves.
const PROGRESS_CHECK_INTERVAL: Duration = Duration::from_secs(1);
/// A stream also fails when the peer ends the test: time for the control connection to report that.
const FAILURE_GRACE: Duration = Duration::from_secs(1);
/// Time that a client's test may take beyond its announced duration.
const OVERTIME: Duration = Duration::from_secs(30);
/// A last interval without data and shorter than this share of a full one is not printed.
const MIN_INTERVAL_SHARE: f64 = 0.1;

/// A test with its load and its counters.
pub struct RunningTest {
    /// The threads that send and receive.
    pub load: LoadThreads,
    /// The counters.
    pub record: TestRecord,
    /// The layout of the output.
    pub layout: ReportLayout,
    parameters: TestParameters,
    options: SessionOptions,
    started: Instant,
    /// CPU time of the thread that controls the test, at its start.
    cpu_at_start: CpuTime,
    is_client: bool,
}

impl RunningTest {
    /// Starts the threads, which wait for `run`; `labels` are the printed stream numbers, in order.
    pub fn prepare(
        streams: Vec<Arc<TestStream>>,
        labels: &[u32],
        parameters: &TestParameters,
        options: &SessionOptions,
        is_client: bool,
        cpus: &CpuList,
    ) -> Result<Self, TestError> {
        let layout = ReportLayout {
            is_udp: parameters.is_udp(),
            is_client,
            is_bidirectional: parameters.direction == Direction::Bidirectional,
            format: options.format,
            streams: labels
                .iter()
                .copied()
                .zip(streams.iter().map(|stream| stream.role == Role::Source))
                .collect(),
        };
        let failed = |error| {
            TestError::refused(
                ErrorCode::CreateStream,
                format!("cannot start the streams: {error}"),
            )
        };
        let shared = SharedLoad::new(parameters, is_client).map_err(failed)?;
        let load = LoadThreads::spawn(streams, shared, cpus).map_err(failed)?;
        Ok(Self {
            record: TestRecord::new(&load.streams, parameters.is_udp()),
            load,
            layout,
            parameters: parameters.clone(),
            options: options.clone(),
            started: Instant::now(),
            cpu_at_start: CpuTime::current_thread(),
            is_client,
        })
    }

    /// Runs the load until its end condition, or until `on_bytes` returns true: the peer has ended the test.
    pub fn run(
        &mut self,
        control: &ControlConnection,
        printer: &mut Printer,
        on_bytes: &mut dyn FnMut(&[u8]) -> Result<bool, TestError>,
    ) -> Result<(), TestError> {
        printer.print_line(&self.layout.interval_header());
        self.record = TestRecord::new(&self.load.streams, self.parameters.is_udp());
        self.started = Instant::now();
        self.cpu_at_start = CpuTime::current_thread();
        self.load.start();
        let mut schedule = self.schedule();
        let mut progress = Progress {
            bytes: 0,
            changed_at: self.started,
        };
        loop {
            let waker = schedule
                .failure_deadline
                .is_none()
                .then_some(&self.load.shared.waker);
            let waited = control.wait(waker, schedule.next_wakeup(Instant::now()))?;
            let now = Instant::now();
            if waited == WaitOutcome::Ready && on_bytes(&control.read()?)? {
                return Ok(());
            }
            if waited == WaitOutcome::Woken {
                if self.load.first_error().is_none() {
                    return Ok(());
                }
                schedule.failure_deadline = Some(now + FAILURE_GRACE);
            }
            if self.run_due_actions(&mut schedule, now, printer)? {
                return Ok(());
            }
            self.check_progress(&mut progress, now)?;
            if now >= schedule.deadline {
                return Err(TestError::refused(
                    ErrorCode::IdleTimeout,
                    format!("{} did not end the test after its duration", control.peer),
                ));
            }
        }
    }

    /// Returns the initial schedule.
    fn schedule(&self) -> Schedule {
        let time = match self.parameters.end_condition {
            EndCondition::After(time) => time,
            _ => Duration::from_secs_f64(MAX_DURATION_S),
        };
        let omitted_until = self.started + self.parameters.omit;
        let end = omitted_until + time;
        let ends_by_time =
            self.is_client && matches!(self.parameters.end_condition, EndCondition::After(_));
        Schedule {
            end: ends_by_time.then_some(end),
            deadline: end + OVERTIME,
            omit_end: (!self.parameters.omit.is_zero()).then_some(omitted_until),
            interval_end: self
                .options
                .interval
                .map(|interval| self.started + interval),
            failure_deadline: None,
        }
    }

    /// Performs the actions that are due; returns whether the test is over.
    fn run_due_actions(
        &mut self,
        schedule: &mut Schedule,
        now: Instant,
        printer: &mut Printer,
    ) -> Result<bool, TestError> {
        let is_due = |at: Option<Instant>| at.is_some_and(|at| now >= at);
        if is_due(schedule.failure_deadline) {
            return Err(self.stream_error());
        }
        if is_due(schedule.omit_end) {
            self.close_interval(now, true, printer);
            self.record.reset_baseline();
            self.load.shared.activate_quota();
            schedule.omit_end = None;
            schedule.interval_end = self.options.interval.map(|interval| now + interval);
        }
        if is_due(schedule.end) {
            return Ok(true);
        }
        if is_due(schedule.interval_end) {
            self.close_interval(now, schedule.omit_end.is_some(), printer);
            // Skip interval ends that are already in the past.
            schedule.interval_end =
                schedule
                    .interval_end
                    .zip(self.options.interval)
                    .map(|(tick, interval)| {
                        let next = tick + interval;
                        if next > now { next } else { now + interval }
                    });
        }
        Ok(false)
    }

    fn check_progress(&self, progress: &mut Progress, now: Instant) -> Result<(), TestError> {
        let moved = self.record.total_bytes();
        if moved != progress.bytes {
            *progress = Progress {
                bytes: moved,
                changed_at: now,
            };
        } else if now - progress.changed_at >= self.options.idle_timeout {
            return Err(TestError::refused(
                ErrorCode::IdleTimeout,
                format!(
                    "no data moved for {:.1} s",
                    self.options.idle_timeout.as_secs_f64()
                ),
            ));
        }
        Ok(())
    }

    fn stream_error(&self) -> TestError {
        self.load.first_error().map_or_else(
            || TestError::failed("a stream failed"),
            |(stream, error)| {
                let (code, action) = match stream.role {
                    Role::Source => (ErrorCode::StreamWrite, "write to"),
                    Role::Sink => (ErrorCode::StreamRead, "read from"),
                };
                let hint = match error.raw_os_error() {
                    Some(libc::EMSGSIZE) => {
                        "; the datagram is larger than the path's MTU. Use a smaller -l"
                    }
                    _ => "",
                };
                TestError::Refused {
                    code,
                    errno: error.raw_os_error().unwrap_or(0),
                    message: format!("cannot {action} stream {}: {error}{hint}", stream.id),
                }
            },
        )
    }

    fn close_interval(&mut self, now: Instant, omitted: bool, printer: &mut Printer) {
        let interval = self.record.close_interval(now, omitted);
        let first = self.record.intervals.is_empty() && self.record.dropped_intervals == 0;
        if !first && self.layout.streams.len() > 1 {
            printer.print_line(SEPARATOR);
        }
        printer.print_lines(&self.layout.interval_lines(&interval));
        self.record.push_interval(interval);
    }

    /// Closes the last interval at this time.
    pub fn finish(&mut self, end: Instant, printer: &mut Printer) {
        let since = end
            .saturating_duration_since(self.record.last_at())
            .as_secs_f64();
        let whole = self
            .options
            .interval
            .map_or(f64::INFINITY, |interval| interval.as_secs_f64());
        let none_yet = self.record.seconds_since_start(self.record.last_at()) == 0.0;
        if none_yet || self.record.has_unreported_bytes() || since > MIN_INTERVAL_SHARE * whole {
            self.close_interval(end.max(self.record.last_at()), false, printer);
        }
    }

    /// Returns this host's results. Call it once, from the thread that controls the test: it adds its CPU time.
    pub fn local_results(&self) -> TestResults {
        self.load.shared.cpu.add_current_thread(self.cpu_at_start);
        TestResults {
            cpu: self.load.shared.cpu.usage_over(self.started.elapsed()),
            congestion_control: (!self.parameters.is_udp())
                .then(|| {
                    self.load
                        .streams
                        .first()
                        .and_then(|stream| congestion_control(&stream.socket))
                })
                .flatten(),
            streams: self.record.stream_results(),
            server_text: None,
            server_json: None,
        }
    }

    /// Returns the protocol's field: 1 for a sender with retransmit counts, 0 for UDP, -1 for a receiver.
    pub fn sender_has_retransmits(&self) -> i32 {
        match (
            self.parameters.is_udp(),
            self.layout.streams.iter().any(|(_, is_sender)| *is_sender),
        ) {
            (true, _) => 0,
            (false, true) => 1,
            (false, false) => -1,
        }
    }

    /// Combines both hosts' results.
    pub fn final_report(
        &self,
        local_results: &TestResults,
        peer: Option<&TestResults>,
    ) -> FinalReport {
        let roles: Vec<(u32, Role)> = self
            .layout
            .streams
            .iter()
            .zip(&self.load.streams)
            .map(|((label, _), stream)| (*label, stream.role))
            .collect();
        FinalReport::new(
            &roles,
            local_results,
            peer,
            &self.record.extremes,
            &self.record.out_of_order(),
        )
    }

    /// Prints the final lines.
    pub fn print_report(&self, report: &FinalReport, printer: &mut Printer) {
        printer.print_line(SEPARATOR);
        printer.print_line(&self.layout.final_header());
        printer.print_lines(&self.layout.final_lines(report));
    }

    /// Returns the kept intervals as JSON.
    pub fn intervals_json(&self) -> Vec<serde_json::Value> {
        self.record
            .intervals
            .iter()
            .map(|interval| json::interval_json(&self.layout, interval))
            .collect()
    }

    /// Returns what the peer sent on a stream, in bytes (TCP) or datagrams (UDP).
    ///
    /// It is known only without omitted time: each host omits by its own clock.
    pub fn expected_count(&self, peer: &TestResults, id: u32) -> Option<u64> {
        let stream = peer
            .find_stream(id)
            .filter(|_| self.parameters.omit.is_zero())?;
        Some(if self.parameters.is_udp() {
            stream.datagrams
        } else {
            stream.bytes
        })
    }
}

/// The next times at which a running test must act.
struct Schedule {
    /// This host ends the test; `None` if the peer or the load ends it.
    end: Option<Instant>,
    /// This host aborts the test.
    deadline: Instant,
    /// The omitted time ends; `None` if there is none or it is over.
    omit_end: Option<Instant>,
    /// The current interval ends.
    interval_end: Option<Instant>,
    /// A stream has failed: until this time the peer can report the reason.
    failure_deadline: Option<Instant>,
}

impl Schedule {
    /// Returns the next time to act, at most `PROGRESS_CHECK_INTERVAL` from now.
    fn next_wakeup(&self, now: Instant) -> Instant {
        [
            self.end,
            self.interval_end,
            self.failure_deadline,
            self.omit_end,
        ]
        .into_iter()
        .flatten()
        .fold(
            self.deadline.min(now + PROGRESS_CHECK_INTERVAL),
            Instant::min,
        )
    }
}

/// The last time at which data moved.
struct Progress {
    bytes: u64,
    changed_at: Instant,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intervals_restart_after_the_omitted_time_and_late_interval_ends_are_skipped() {
        let s = Duration::from_secs_f64;
        let parameters = TestParameters {
            omit: s(1.5),
            ..TestParameters::default()
        };
        let options = SessionOptions {
            interval: Some(s(1.0)),
            format: crate::units::RateFormat::default(),
            json: false,
            idle_timeout: s(1.0),
        };
        let cpus = CpuList::default();
        let mut running =
            RunningTest::prepare(vec![], &[], &parameters, &options, true, &cpus).unwrap();
        let mut printer = Printer {
            prefix: String::new(),
            is_silent: true,
            transcript: None,
        };
        let mut schedule = running.schedule();
        let wakeups = [0.4, 1.0, 1.5, 2.5, 3.7, 6.2, 11.5].map(|at| {
            let now = running.started + s(at);
            let ends = running
                .run_due_actions(&mut schedule, now, &mut printer)
                .unwrap();
            (
                ends,
                (schedule.next_wakeup(now) - running.started).as_secs_f64(),
            )
        });
        let deadline = [1.0, 1.5, 2.5, 3.5, 4.5, 7.2];
        assert_eq!(wakeups[..6], deadline.map(|next| (false, next)));
        assert!(wakeups[6].0);
        let ends = |omitted| -> Vec<f64> {
            let kept = running.record.intervals.iter();
            let kept = kept.filter(|kept| kept.is_omitted == omitted);
            kept.map(|kept| (kept.end_s * 10.0).round()).collect()
        };
        assert_eq!(ends(true), [10.0, 15.0]);
        assert_eq!(ends(false), [10.0, 22.0, 47.0]);
    }
}
