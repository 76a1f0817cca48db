//! Runs the load of one test in both roles: intervals, omitted time, progress check and end.

use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::control_connection::ControlConnection;
use crate::cpu_time::CpuTime;
use crate::json;
use crate::load_threads::LoadThreads;
use crate::parameters::{Direction, TestParameters};
use crate::printer::Printer;
use crate::record::TestRecord;
use crate::report::{FinalReport, StreamLabel};
use crate::results::{RetransmitReporting, TestResults};
use crate::schedule::TestSchedule;
use crate::session_options::SessionOptions;
use crate::sockets::read_congestion_control;
use crate::states::{ErrorCode, TestError};
use crate::streams::{SharedLoad, TestStream};
use crate::text::{ReportLayout, SEPARATOR};
use vnetbench_streams::Role;
use vnetbench_system::cpu_list::CpuList;
use vnetbench_system::waiting::WaitOutcome;

/// A stream also fails when the peer ends the test: time for the control connection to report that.
const FAILURE_REPORT_DELAY: Duration = Duration::from_secs(1);
/// A last interval without data and shorter than this share of a full one is not printed.
const MIN_EMPTY_LAST_INTERVAL_SHARE: f64 = 0.1;

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
    /// Starts the threads, which wait for `run`; `printed_stream_numbers` are in order.
    pub fn prepare(
        streams: Vec<Arc<TestStream>>,
        printed_stream_numbers: &[u32],
        parameters: &TestParameters,
        options: &SessionOptions,
        is_client: bool,
        cpus: &CpuList,
    ) -> Result<Self, TestError> {
        let layout = ReportLayout {
            is_udp: parameters.is_udp(),
            is_client,
            is_bidirectional: parameters.direction == Direction::Bidirectional,
            format: options.format.unwrap_or_default(),
            streams: printed_stream_numbers
                .iter()
                .zip(&streams)
                .map(|(label, stream)| StreamLabel {
                    label: *label,
                    is_sender: stream.role == Role::Source,
                })
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
        let mut schedule = TestSchedule::new(
            &self.parameters,
            self.options.line_interval(),
            self.is_client,
            self.started,
        );
        let mut progress = Progress {
            bytes: 0,
            changed_at: self.started,
        };
        loop {
            let waker = schedule
                .failure_deadline
                .is_none()
                .then_some(&self.load.shared.waker);
            let outcome = control.wait(waker, schedule.next_wakeup(Instant::now()))?;
            let now = Instant::now();
            if outcome == WaitOutcome::Ready && on_bytes(&control.read()?)? {
                return Ok(());
            }
            if outcome == WaitOutcome::Woken {
                if self.load.first_error().is_none() {
                    return Ok(());
                }
                schedule.failure_deadline = Some(now + FAILURE_REPORT_DELAY);
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

    /// Performs the actions that are due; returns whether the test is over.
    fn run_due_actions(
        &mut self,
        schedule: &mut TestSchedule,
        now: Instant,
        printer: &mut Printer,
    ) -> Result<bool, TestError> {
        let is_due = |at: Option<Instant>| at.is_some_and(|at| now >= at);
        if is_due(schedule.failure_deadline) {
            return Err(self.stream_error());
        }
        if is_due(schedule.omit_end) {
            self.close_interval(now, true, printer);
            self.record.restart_at_last_closed_interval();
            self.load.shared.start_counting_quota();
            schedule.omit_end = None;
            schedule.interval_end = self.options.line_interval().map(|interval| now + interval);
        }
        if is_due(schedule.end) {
            return Ok(true);
        }
        if is_due(schedule.interval_end) {
            self.close_interval(now, schedule.omit_end.is_some(), printer);
            schedule.advance_interval(self.options.line_interval(), now);
        }
        Ok(false)
    }

    fn check_progress(&self, progress: &mut Progress, now: Instant) -> Result<(), TestError> {
        let bytes = self.record.total_bytes_with_omitted();
        if bytes != progress.bytes {
            *progress = Progress {
                bytes,
                changed_at: now,
            };
        } else if now - progress.changed_at >= self.options.idle_timeout {
            return Err(TestError::refused(
                ErrorCode::IdleTimeout,
                format!(
                    "no data was sent or received for {:.1} s",
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
                        ". The datagram is larger than the path's MTU. Use a smaller -l"
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

    fn close_interval(&mut self, now: Instant, is_omitted: bool, printer: &mut Printer) {
        let interval = self.record.close_interval(now, is_omitted);
        let is_first = self.record.intervals.is_empty() && self.record.dropped_intervals == 0;
        if !is_first && self.layout.streams.len() > 1 {
            printer.print_line(SEPARATOR);
        }
        printer.print_lines(&self.layout.format_interval_lines(&interval));
        self.record.keep_interval_for_json(interval);
    }

    /// Closes the last interval at this time.
    pub fn close_last_interval(&mut self, end: Instant, printer: &mut Printer) {
        let interval_s = end
            .saturating_duration_since(self.record.last_closed_at())
            .as_secs_f64();
        let full_interval_s = self
            .options
            .line_interval()
            .map_or(f64::INFINITY, |interval| interval.as_secs_f64());
        let is_first = self
            .record
            .seconds_since_counting_start(self.record.last_closed_at())
            == 0.0;
        if is_first
            || self.record.has_unreported_bytes()
            || interval_s > MIN_EMPTY_LAST_INTERVAL_SHARE * full_interval_s
        {
            self.close_interval(end.max(self.record.last_closed_at()), false, printer);
        }
    }

    /// Returns this host's results. Call it once, from the thread that controls the test: it adds its CPU time.
    pub fn finish_local_results(&self) -> TestResults {
        self.load.shared.cpu.add_current_thread(self.cpu_at_start);
        TestResults {
            cpu: self.load.shared.cpu.usage_over(self.started.elapsed()),
            congestion_control: (!self.parameters.is_udp())
                .then(|| {
                    self.load
                        .streams
                        .first()
                        .and_then(|stream| read_congestion_control(&stream.socket))
                })
                .flatten(),
            streams: self.record.results_until_last_closed_interval(),
            server_text: None,
            server_json: None,
        }
    }

    pub fn retransmit_reporting(&self) -> RetransmitReporting {
        match (
            self.parameters.is_udp(),
            self.layout.streams.iter().any(|stream| stream.is_sender),
        ) {
            (true, _) => RetransmitReporting::Udp,
            (false, true) => RetransmitReporting::Counted,
            (false, false) => RetransmitReporting::Receiver,
        }
    }

    /// Combines both hosts' results.
    pub fn final_report(
        &self,
        local_results: &TestResults,
        peer: Option<&TestResults>,
    ) -> FinalReport {
        FinalReport::new(
            &self.layout.streams,
            local_results,
            peer,
            &self.record.extremes,
            &self.record.out_of_order_counts_of_last_interval(),
        )
    }

    /// Prints the final lines.
    pub fn print_report(&self, report: &FinalReport, printer: &mut Printer) {
        printer.print_line(SEPARATOR);
        printer.print_line(&self.layout.final_column_headings());
        printer.print_lines(&self.layout.format_final_lines(report));
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
    pub fn bytes_or_datagrams_sent_by_peer(&self, peer: &TestResults, id: u32) -> Option<u64> {
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
        let seconds = Duration::from_secs_f64;
        let parameters = TestParameters {
            omit: seconds(1.5),
            ..TestParameters::default()
        };
        let options = SessionOptions {
            interval: seconds(1.0),
            format: None,
            json: false,
            idle_timeout: seconds(1.0),
        };
        let cpus = CpuList::default();
        let mut test =
            RunningTest::prepare(vec![], &[], &parameters, &options, true, &cpus).unwrap();
        let mut printer = Printer {
            prefix: String::new(),
            is_silent: true,
            transcript: None,
        };
        let mut schedule =
            TestSchedule::new(&parameters, options.line_interval(), true, test.started);
        let wakeups = [0.4, 1.0, 1.5, 2.5, 3.7, 6.2, 11.5].map(|at| {
            let now = test.started + seconds(at);
            let is_over = test
                .run_due_actions(&mut schedule, now, &mut printer)
                .unwrap();
            (
                is_over,
                (schedule.next_wakeup(now) - test.started).as_secs_f64(),
            )
        });
        let expected_wakeups = [1.0, 1.5, 2.5, 3.5, 4.5, 7.2];
        assert_eq!(wakeups[..6], expected_wakeups.map(|next| (false, next)));
        assert!(wakeups[6].0);
        let interval_ends = |is_omitted: bool| -> Vec<f64> {
            let intervals = test.record.intervals.iter();
            intervals
                .filter(|interval| interval.is_omitted == is_omitted)
                .map(|interval| (interval.end_s * 10.0).round())
                .collect()
        };
        assert_eq!(interval_ends(true), [10.0, 15.0]);
        assert_eq!(interval_ends(false), [10.0, 22.0, 47.0]);
    }
}
