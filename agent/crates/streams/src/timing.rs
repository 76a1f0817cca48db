//! Latencies of requests, and the schedule of paced sources.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use vnetbench_system::histogram::Histogram;

/// Measurements of a source of requests. Its thread writes them, the sampler reads them.
#[derive(Debug)]
pub struct RequestTiming {
    /// Latency of transactions, from the sending of the request (in an open loop, from the time it was due).
    pub latency: Histogram,
    /// Time to connect, if each transaction has its own connection.
    pub connect: Option<Histogram>,
    /// Pacing of an open loop.
    pub pacing: Option<Pacing>,
    sent_requests: AtomicU64,
}

impl RequestTiming {
    /// Creates the measurements of requests on one connection; with a rate they form an open loop.
    pub fn for_requests(rate: Option<RequestRate>) -> Self {
        Self {
            latency: Histogram::new(),
            connect: None,
            pacing: rate.map(Pacing::new),
            sent_requests: AtomicU64::new(0),
        }
    }

    /// Creates the measurements of transactions with their own connections.
    pub fn for_transactions_with_connections() -> Self {
        Self {
            connect: Some(Histogram::new()),
            ..Self::for_requests(None)
        }
    }

    /// Counts a request.
    pub fn count_sent_request(&self) {
        let request = self.sent_requests.load(Ordering::Relaxed) + 1;
        self.sent_requests.store(request, Ordering::Relaxed);
    }

    /// Returns the requests sent (in an open loop, due) before this time and unanswered now.
    pub fn count_unanswered(&self, sent_before: Instant) -> u64 {
        let request = match &self.pacing {
            Some(pacing) => pacing.schedule.count_due_before(sent_before),
            None => self.sent_requests.load(Ordering::Relaxed),
        };
        request.saturating_sub(self.latency.count())
    }
}

/// Tolerance of a count of requests: rounding must not turn a whole number of intervals into one more.
const INTERVAL_ROUNDING_TOLERANCE: f64 = 1e-6;

/// The rate of requests on one connection.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RequestRate {
    /// Requests a second.
    pub per_s: f64,
    /// Time from the start to the first request.
    pub offset: Duration,
}

impl RequestRate {
    /// Returns the rate of connection `index`; the offsets spread the connections evenly over one gap.
    pub fn staggered(per_s: f64, index: usize, connection_count: usize) -> Self {
        Self {
            per_s,
            offset: Duration::from_secs_f64(index as f64 / connection_count as f64 / per_s),
        }
    }
}

/// The schedule of a paced source, and its deviations.
#[derive(Debug)]
pub struct Pacing {
    /// The times at which sends are due.
    pub schedule: Schedule,
    /// Delay of each send after its due time.
    pub lateness: Histogram,
}

impl Pacing {
    /// Creates the pacing of this rate.
    pub fn new(rate: RequestRate) -> Self {
        Self {
            schedule: Schedule::new(rate),
            lateness: Histogram::new(),
        }
    }
}

/// The times at which the sends of a paced source are due.
#[derive(Debug)]
pub struct Schedule {
    rate: RequestRate,
    started: OnceLock<Instant>,
}

impl Schedule {
    /// Creates a schedule without a start.
    pub fn new(rate: RequestRate) -> Self {
        Self {
            rate,
            started: OnceLock::new(),
        }
    }

    /// Returns the time between two sends.
    pub fn gap(&self) -> Duration {
        Duration::from_secs_f64(1.0 / self.rate.per_s)
    }

    /// Sets the start; a thread that runs later is late. Only the first call has an effect.
    pub fn set_start_once(&self, at: Instant) {
        let _ = self.started.set(at);
    }

    /// Returns the due time of a request, counted from 0; without a start, now becomes the start.
    ///
    /// It is computed from the start, so that errors do not add up.
    pub fn due_at(&self, number: u64) -> Instant {
        let started = *self.started.get_or_init(Instant::now);
        started + self.rate.offset + Duration::from_secs_f64(number as f64 / self.rate.per_s)
    }

    /// Returns the number of sends due until `then`, inclusive.
    pub fn count_due_until(&self, then: Instant) -> u64 {
        let Some(started) = self.started.get() else {
            return 0;
        };
        match then.checked_duration_since(*started + self.rate.offset) {
            Some(since) => {
                (since.as_secs_f64() * self.rate.per_s + INTERVAL_ROUNDING_TOLERANCE) as u64 + 1
            }
            None => 0,
        }
    }

    /// Returns the number of sends due before `then`, exclusive: a send due exactly at the end is not required.
    fn count_due_before(&self, then: Instant) -> u64 {
        let Some(started) = self.started.get() else {
            return 0;
        };
        match then.checked_duration_since(*started + self.rate.offset) {
            Some(since) => {
                (since.as_secs_f64() * self.rate.per_s - INTERVAL_ROUNDING_TOLERANCE).ceil() as u64
            }
            None => 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_due_at_equal_intervals() {
        let schedule = Schedule::new(RequestRate {
            per_s: 30_000.0,
            offset: Duration::from_micros(5),
        });
        let first = schedule.due_at(0);
        assert_eq!(
            schedule.due_at(30_000 * 3600) - first,
            Duration::from_secs(3600)
        );
        assert_eq!(schedule.count_due_before(first), 0);
        assert_eq!(
            schedule.count_due_before(first + Duration::from_nanos(50)),
            1
        );
        assert_eq!(
            schedule.count_due_before(first + Duration::from_millis(1)),
            30
        );
    }

    #[test]
    fn due_requests_without_an_answer_are_unanswered() {
        let timing = RequestTiming::for_requests(Some(RequestRate {
            per_s: 1000.0,
            offset: Duration::ZERO,
        }));
        assert_eq!(
            timing.count_unanswered(Instant::now()),
            0,
            "nothing before the start"
        );
        let begin = Instant::now();
        let pacing = timing.pacing.as_ref().expect("an open loop");
        pacing.schedule.set_start_once(begin);
        timing.latency.record(Duration::from_micros(30));
        assert_eq!(
            timing.count_unanswered(begin + Duration::from_micros(9500)),
            9
        );
    }

    #[test]
    fn sent_requests_of_a_closed_loop_are_unanswered_until_the_answer() {
        let timing = RequestTiming::for_requests(None);
        timing.count_sent_request();
        assert_eq!(timing.count_unanswered(Instant::now()), 1);
        timing.latency.record(Duration::from_micros(30));
        assert_eq!(timing.count_unanswered(Instant::now()), 0);
    }
}
