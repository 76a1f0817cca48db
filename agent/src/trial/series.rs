//! The samples of a trial: taken at whole multiples of the interval after its start, told at once.

use std::time::{Duration, Instant};

use super::report::{Instrument, Sample};
use super::sampler::{Sampler, Snapshot};
use crate::outbox::Outbox;
use crate::rpc;

/// What takes longest to read is read no more often than this.
const WHOLE_EVERY: Duration = Duration::from_millis(100);

/// The samples that have been taken, and when the next one is due.
pub struct Series {
    start: Instant,
    interval: Duration,
    /// How many intervals the next sample closes, counted from the start.
    next: u64,
    last: Option<Snapshot>,
    pub instrument: Instrument,
}

impl Series {
    pub fn new(start: Instant, interval: Duration) -> Self {
        Self {
            start,
            interval,
            next: 1,
            last: None,
            instrument: Instrument::default(),
        }
    }

    pub fn next_at(&self) -> Instant {
        self.start + Duration::from_nanos(self.interval.as_nanos() as u64 * self.next)
    }

    /// Takes the sample that is due; returns the fault that it met. Where this comes so late that further samples are
    /// due too, it closes their intervals with its own, and the gap in `seq` says so.
    pub fn sample(
        &mut self,
        trial: &str,
        sampler: &mut Sampler,
        first: &Snapshot,
        now: Instant,
        outbox: &Outbox,
    ) -> Option<String> {
        let late = now.saturating_duration_since(self.next_at());
        self.instrument.sampler_late_max = self.instrument.sampler_late_max.max(late);
        let closed = ((now - self.start).as_nanos() / self.interval.as_nanos()) as u64;
        let is_whole = completes(self.interval, self.next - 1, closed);
        self.next = closed + 1;

        let snapshot = sampler.read(is_whole);
        let then = self.last.as_ref().unwrap_or(first);
        let since = self.last.as_ref().map_or(self.start, |last| last.at);
        let event = Sample {
            trial,
            seq: closed - 1,
            t_s: (snapshot.at - self.start).as_secs_f64(),
            interval_s: (snapshot.at - since).as_secs_f64(),
            moved: sampler.between(then, &snapshot),
        };
        let sent = outbox.offer(rpc::event("trial.sample", &event));
        self.instrument.samples += 1;
        self.instrument.events_lost += u64::from(!sent);
        let fault = snapshot.fault().map(str::to_owned);
        self.last = Some(snapshot);
        fault
    }
}

/// Whether a sample is to be whole that closes the intervals after the first `before`, up to the one of number `closed`.
/// By numbers and not by the clock: no sample is a little too early for it.
fn completes(interval: Duration, before: u64, closed: u64) -> bool {
    let every = WHOLE_EVERY.as_nanos().div_ceil(interval.as_nanos()) as u64;
    closed / every > before / every
}

#[cfg(test)]
mod tests {
    use super::*;

    fn completing(interval_ms: u64, closed: &[u64]) -> Vec<u64> {
        let interval = Duration::from_millis(interval_ms);
        let mut before = 0;
        let mut whole = closed.to_vec();
        whole.retain(|&closed| completes(interval, std::mem::replace(&mut before, closed), closed));
        whole
    }

    #[test]
    fn samples_ten_times_a_second_or_fewer_are_all_whole() {
        assert_eq!(completing(100, &[1, 2, 3]), [1, 2, 3]);
        assert_eq!(completing(1000, &[1, 2, 3]), [1, 2, 3]);
    }

    #[test]
    fn of_more_samples_those_are_whole_with_which_a_tenth_of_a_second_is_over() {
        assert_eq!(completing(10, &[1, 9, 10, 11, 19, 20]), [10, 20]);
        assert_eq!(completing(30, &[1, 2, 3, 4, 5, 6, 7, 8]), [4, 8]);
    }

    #[test]
    fn a_sample_that_comes_late_makes_up_for_the_one_that_was_to_be_whole() {
        assert_eq!(completing(10, &[9, 12, 13, 20]), [12, 20]);
    }
}
