//! The load of one test from its first byte to its last, the same on both sides: intervals, what is omitted, the end.

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

/// How often it is looked whether anything moves at all.
const PROGRESS_CHECK_INTERVAL: Duration = Duration::from_secs(1);
/// A stream that breaks may be a peer's that has ended its test: so long its control connection has to say so.
const FAILURE_GRACE: Duration = Duration::from_secs(1);
/// How much longer than it said itself a client's test may take.
const OVERTIME: Duration = Duration::from_secs(30);
/// An interval that is shorter than this share of a whole one is not worth a line, unless it has data.
const MIN_INTERVAL_SHARE: f64 = 0.1;

pub struct RunningTest {
    pub load: LoadThreads,
    pub record: TestRecord,
    pub layout: ReportLayout,
    parameters: TestParameters,
    options: SessionOptions,
    started: Instant,
    /// Of the thread that conducts the test.
    cpu_at_start: CpuTime,
    is_client: bool,
}

impl RunningTest {
    /// `shown`: what the streams are called, in their order.
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
                format!("the streams cannot be started: {error}"),
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

    /// Drives the load until its own end, or until `heard` says that the peer has ended it.
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
                    format!(
                        "{} did not end the test when its time was over",
                        control.peer
                    ),
                ));
            }
        }
    }

    /// What is due from its beginning on.
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

    /// Does what is due by now; returns whether that is to end the test.
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
            // A tick that came too late to be of use is left out.
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
                    "nothing has moved for {:.1} s",
                    self.options.idle_timeout.as_secs_f64()
                ),
            ));
        }
        Ok(())
    }

    fn stream_error(&self) -> TestError {
        self.load.first_error().map_or_else(
            || TestError::failed("a stream broke"),
            |(stream, error)| {
                let (code, did) = match stream.role {
                    Role::Source => (ErrorCode::StreamWrite, "be written to"),
                    Role::Sink => (ErrorCode::StreamRead, "be read from"),
                };
                let hint = match error.raw_os_error() {
                    Some(libc::EMSGSIZE) => {
                        "; the datagram is larger than the path's MTU allows: ask for less with -l"
                    }
                    _ => "",
                };
                TestError::Refused {
                    code,
                    errno: error.raw_os_error().unwrap_or(0),
                    message: format!("stream {} could not {did}: {error}{hint}", stream.id),
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

    /// Closes the last interval; nothing is counted any more.
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

    /// What this side has counted; to be called once, by the thread that conducts the test.
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

    /// The number by which the other side knows what this side's retransmits are worth.
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

    pub fn print_report(&self, report: &FinalReport, printer: &mut Printer) {
        printer.print_line(SEPARATOR);
        printer.print_line(&self.layout.final_header());
        printer.print_lines(&self.layout.final_lines(report));
    }

    pub fn intervals_json(&self) -> Vec<serde_json::Value> {
        self.record
            .intervals
            .iter()
            .map(|interval| json::interval_json(&self.layout, interval))
            .collect()
    }

    /// What the peer says that it has sent on a stream, in what `Record::drain` counts; known only where nothing is
    /// omitted, since each side omits by its own clock.
    pub fn expected_count(&self, peer: &TestResults, id: u32) -> Option<u64> {
        let stream = peer
            .parse_stream(id)
            .filter(|_| self.parameters.omit.is_zero())?;
        Some(if self.parameters.is_udp() {
            stream.datagrams
        } else {
            stream.bytes
        })
    }
}

/// What a test that runs is waiting for.
struct Schedule {
    /// This side ends it; `None` where the other side or the load does.
    end: Option<Instant>,
    /// This side gives it up.
    deadline: Instant,
    /// `None` where nothing is omitted, or nothing any more.
    omit_end: Option<Instant>,
    /// An interval is over.
    interval_end: Option<Instant>,
    /// A stream has broken, and until then the peer may say why.
    failure_deadline: Option<Instant>,
}

impl Schedule {
    /// When there is something to do next, and be it to look whether anything moves.
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

struct Progress {
    bytes: u64,
    changed_at: Instant,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intervals_begin_anew_behind_what_is_omitted_and_late_ticks_are_left_out() {
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
