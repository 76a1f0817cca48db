//! What a source of requests times: how long answers take; and how well what is sent at set times keeps them.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use vnetbench_system::histogram::Histogram;

/// Written by the stream's own thread only, read by the sampler.
#[derive(Debug)]
pub struct RequestTiming {
    /// Of whole transactions, from the moment when the request was sent, in an open loop when it was due.
    pub latency: Histogram,
    /// Of connecting alone, where each transaction has a connection of its own.
    pub connect: Option<Histogram>,
    pub pacing: Option<Pacing>,
    sent_requests: AtomicU64,
}

impl RequestTiming {
    pub fn for_requests(pace: Option<RequestRate>) -> Self {
        Self {
            latency: Histogram::new(),
            connect: None,
            pacing: pace.map(Pacing::new),
            sent_requests: AtomicU64::new(0),
        }
    }

    pub fn for_connections() -> Self {
        Self {
            connect: Some(Histogram::new()),
            ..Self::for_requests(None)
        }
    }

    /// One more request has been made.
    pub fn count_request(&self) {
        let request = self.sent_requests.load(Ordering::Relaxed) + 1;
        self.sent_requests.store(request, Ordering::Relaxed);
    }

    /// How many of the requests that were made until then, in an open loop that were due before, have no answer now.
    pub fn unanswered(&self, then: Instant) -> u64 {
        let request = match &self.pacing {
            Some(pacing) => pacing.schedule.count_due_before(then),
            None => self.sent_requests.load(Ordering::Relaxed),
        };
        request.saturating_sub(self.latency.count())
    }
}

/// Of a count of requests: an interval that is a whole number of them must not become one more.
const ROUNDING: f64 = 1e-6;

/// How often requests are due on one connection, and how long after the start the first one is.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RequestRate {
    pub per_s: f64,
    pub first: Duration,
}

impl RequestRate {
    /// That of connection number `place` of so many: together they are spread evenly over the time between two.
    pub fn staggered(per_s: f64, place: usize, connections: usize) -> Self {
        Self {
            per_s,
            first: Duration::from_secs_f64(place as f64 / connections as f64 / per_s),
        }
    }
}

#[derive(Debug)]
pub struct Pacing {
    pub schedule: Schedule,
    /// How much later than intended each request was sent.
    pub late: Histogram,
}

impl Pacing {
    pub fn new(pace: RequestRate) -> Self {
        Self {
            schedule: Schedule::new(pace),
            late: Histogram::new(),
        }
    }
}

/// When what is sent at set times is due.
#[derive(Debug)]
pub struct Schedule {
    pace: RequestRate,
    began: OnceLock<Instant>,
}

impl Schedule {
    pub fn new(pace: RequestRate) -> Self {
        Self {
            pace,
            began: OnceLock::new(),
        }
    }

    /// From one to the next.
    pub fn gap(&self) -> Duration {
        Duration::from_secs_f64(1.0 / self.pace.per_s)
    }

    /// Sets the start that all requests are due after; a thread that comes to run later is late.
    pub fn begin(&self, at: Instant) {
        // Of two starts the first counts.
        let _ = self.began.set(at);
    }

    /// When the request of that number, counted from 0, is due. Each is reckoned from the start, so that errors do not add
    /// up. Without a start this is it.
    pub fn due_at(&self, number: u64) -> Instant {
        let began = *self.began.get_or_init(Instant::now);
        began + self.pace.first + Duration::from_secs_f64(number as f64 / self.pace.per_s)
    }

    /// How many are due until then, that moment included: a thread that is awake then sends it.
    pub fn count_due_until(&self, then: Instant) -> u64 {
        let Some(began) = self.began.get() else {
            return 0;
        };
        match then.checked_duration_since(*began + self.pace.first) {
            Some(since) => (since.as_secs_f64() * self.pace.per_s + ROUNDING) as u64 + 1,
            None => 0,
        }
    }

    /// How many are due before then: what is due at the very moment of the end need not be sent any more.
    fn count_due_before(&self, then: Instant) -> u64 {
        let Some(began) = self.began.get() else {
            return 0;
        };
        match then.checked_duration_since(*began + self.pace.first) {
            Some(since) => (since.as_secs_f64() * self.pace.per_s - ROUNDING).ceil() as u64,
            None => 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_due_at_equal_distances_from_the_start() {
        let schedule = Schedule::new(RequestRate {
            per_s: 30_000.0,
            first: Duration::from_micros(5),
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
    fn what_was_due_and_not_answered_is_owed() {
        let timing = RequestTiming::for_requests(Some(RequestRate {
            per_s: 1000.0,
            first: Duration::ZERO,
        }));
        assert_eq!(
            timing.unanswered(Instant::now()),
            0,
            "nothing before the start"
        );
        let begin = Instant::now();
        let pacing = timing.pacing.as_ref().expect("an open loop");
        pacing.schedule.begin(begin);
        timing.latency.record(Duration::from_micros(30));
        assert_eq!(timing.unanswered(begin + Duration::from_micros(9500)), 9);
    }

    #[test]
    fn a_closed_loop_owes_what_was_asked() {
        let timing = RequestTiming::for_requests(None);
        timing.count_request();
        assert_eq!(timing.unanswered(Instant::now()), 1);
        timing.latency.record(Duration::from_micros(30));
        assert_eq!(timing.unanswered(Instant::now()), 0);
    }
}
