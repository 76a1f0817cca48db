//! The samples of a trial: taken at whole multiples of the interval after its start, told at once.

use std::time::{Duration, Instant};

use super::report::{InstrumentCost, Sample};
use super::sampler::{Sampler, Snapshot};
use crate::outbox::Outbox;
use crate::rpc;
use vnetbench_counters::ReadScope;

/// What takes longest to read is read no more often than this, and
const PROTOCOL_INTERVAL: Duration = Duration::from_millis(100);
/// what makes others wait no more often than this.
const QUEUE_INTERVAL: Duration = Duration::from_millis(50);

/// The samples that have been taken, and when the next one is due.
pub struct SampleSeries {
    start: Instant,
    interval: Duration,
    /// How many intervals the next sample closes, counted from the start.
    next: u64,
    last: Option<Snapshot>,
    pub instrument: InstrumentCost,
}

impl SampleSeries {
    pub fn new(start: Instant, interval: Duration) -> Self {
        Self {
            start,
            interval,
            next: 1,
            last: None,
            instrument: InstrumentCost::default(),
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
        let before = self.next - 1;
        let depth = ReadScope {
            queues: completes_period(QUEUE_INTERVAL, self.interval, before, closed),
            protocols: completes_period(PROTOCOL_INTERVAL, self.interval, before, closed),
        };
        self.next = closed + 1;

        let snapshot = sampler.read(depth);
        let then = self.last.as_ref().unwrap_or(first);
        let since = self.last.as_ref().map_or(self.start, |last| last.at);
        let event = Sample {
            trial,
            seq: closed - 1,
            t_s: (snapshot.at - self.start).as_secs_f64(),
            interval_s: (snapshot.at - since).as_secs_f64(),
            moved: sampler.between(then, &snapshot),
        };
        let sent = outbox.try_send_event(rpc::event("trial.sample", &event));
        self.instrument.samples += 1;
        self.instrument.events_lost += u64::from(!sent);
        let fault = snapshot.fault().map(str::to_owned);
        self.last = Some(snapshot);
        fault
    }
}

/// Whether what is read `every` so often at most is in a sample that closes the intervals after the first `before`, up to
/// the one of number `closed`. By numbers and not by the clock: no sample is a little too early for it.
fn completes_period(every: Duration, interval: Duration, before: u64, closed: u64) -> bool {
    let every = every.as_nanos().div_ceil(interval.as_nanos()) as u64;
    closed / every > before / every
}

#[cfg(test)]
mod tests {
    use super::*;

    fn completing(every: Duration, interval_ms: u64, closed: &[u64]) -> Vec<u64> {
        let interval = Duration::from_millis(interval_ms);
        let mut before = 0;
        let mut with = closed.to_vec();
        with.retain(|&closed| {
            completes_period(
                every,
                interval,
                std::mem::replace(&mut before, closed),
                closed,
            )
        });
        with
    }

    #[test]
    fn samples_ten_times_a_second_or_fewer_have_all() {
        for every in [PROTOCOL_INTERVAL, QUEUE_INTERVAL] {
            assert_eq!(completing(every, 100, &[1, 2, 3]), [1, 2, 3]);
            assert_eq!(completing(every, 1000, &[1, 2, 3]), [1, 2, 3]);
        }
    }

    #[test]
    fn samples_twenty_times_a_second_have_queues_and_every_second_one_protocols() {
        assert_eq!(completing(QUEUE_INTERVAL, 50, &[1, 2, 3, 4]), [1, 2, 3, 4]);
        assert_eq!(completing(PROTOCOL_INTERVAL, 50, &[1, 2, 3, 4]), [2, 4]);
    }

    #[test]
    fn of_more_samples_those_have_it_with_which_its_time_is_over() {
        let closed = [1, 5, 9, 10, 11, 15, 19, 20];
        assert_eq!(completing(PROTOCOL_INTERVAL, 10, &closed), [10, 20]);
        assert_eq!(completing(QUEUE_INTERVAL, 10, &closed), [5, 10, 15, 20]);
        let closed = [1, 2, 3, 4, 5, 6, 7, 8];
        assert_eq!(completing(PROTOCOL_INTERVAL, 30, &closed), [4, 8]);
        assert_eq!(completing(QUEUE_INTERVAL, 30, &closed), [2, 4, 6, 8]);
    }

    #[test]
    fn a_sample_that_comes_late_makes_up_for_the_one_that_was_to_have_it() {
        assert_eq!(
            completing(PROTOCOL_INTERVAL, 10, &[9, 12, 13, 20]),
            [12, 20]
        );
    }
}
