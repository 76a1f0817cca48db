//! The times at which a running test must act.

use std::time::{Duration, Instant};

use crate::limits::{EndCondition, MAX_DURATION_S};
use crate::parameters::TestParameters;

/// Time between two checks that data moves.
const PROGRESS_CHECK_INTERVAL: Duration = Duration::from_secs(1);
/// Time that a client's test may take beyond its announced duration.
const MAX_CLIENT_OVERTIME: Duration = Duration::from_secs(30);

/// The next times at which a running test must act.
pub struct TestSchedule {
    /// This host ends the test; `None` if the peer or the load ends it.
    pub end: Option<Instant>,
    /// This host aborts the test.
    pub deadline: Instant,
    /// The omitted time ends; `None` if there is none or it is over.
    pub omit_end: Option<Instant>,
    /// The current interval ends.
    pub interval_end: Option<Instant>,
    /// A stream has failed: until this time the peer can report the reason.
    pub failure_deadline: Option<Instant>,
}

impl TestSchedule {
    /// Creates the schedule of a test that starts now; `interval` is the time between interval lines.
    pub fn new(
        parameters: &TestParameters,
        interval: Option<Duration>,
        is_client: bool,
        now: Instant,
    ) -> Self {
        let duration = match parameters.end_condition {
            EndCondition::After(duration) => duration,
            _ => Duration::from_secs_f64(MAX_DURATION_S),
        };
        let omit_end = now + parameters.omit;
        let end = omit_end + duration;
        let ends_by_time = is_client && matches!(parameters.end_condition, EndCondition::After(_));
        Self {
            end: ends_by_time.then_some(end),
            deadline: end + MAX_CLIENT_OVERTIME,
            omit_end: (!parameters.omit.is_zero()).then_some(omit_end),
            interval_end: interval.map(|interval| now + interval),
            failure_deadline: None,
        }
    }

    /// Starts the next interval; skips interval ends that are already in the past.
    pub fn advance_interval(&mut self, interval: Option<Duration>, now: Instant) {
        self.interval_end = self.interval_end.zip(interval).map(|(end, interval)| {
            let next = end + interval;
            if next > now { next } else { now + interval }
        });
    }

    /// Returns the next time to act, at most `PROGRESS_CHECK_INTERVAL` from now.
    pub fn next_wakeup(&self, now: Instant) -> Instant {
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
