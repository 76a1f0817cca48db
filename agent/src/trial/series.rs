//! The samples of a trial: taken at whole multiples of the interval after the start, and sent at once.

use std::time::{Duration, Instant};

use super::fault::{Fault, FaultKind};
use super::report::{InstrumentCost, Sample};
use super::sampler::{Sampler, Snapshot};
use crate::outbox::Outbox;
use crate::rpc;
use vnetbench_counters::ReadScope;

/// The shortest time between two readings of the protocol counters, which take longest to read.
const MIN_PROTOCOL_READ_INTERVAL: Duration = Duration::from_millis(100);
/// The shortest time between two readings of the queueing discipline, which take a kernel lock (RTNL).
const MIN_QDISC_READ_INTERVAL: Duration = Duration::from_millis(50);

/// The state of a trial's sampling: the last sample and the time of the next one.
pub struct SamplingState {
    start: Instant,
    interval: Duration,
    /// The number of the interval that the next sample closes, counted from 1 at the start.
    next_interval: u64,
    last: Option<Snapshot>,
    /// The cost and accuracy of the samples taken.
    pub instrument: InstrumentCost,
}

impl SamplingState {
    /// Returns a series whose first sample is due one interval after `start`.
    pub fn new(start: Instant, interval: Duration) -> Self {
        Self {
            start,
            interval,
            next_interval: 1,
            last: None,
            instrument: InstrumentCost::default(),
        }
    }

    /// Returns when the next sample is due.
    pub fn next_sample_at(&self) -> Instant {
        self.start + Duration::from_nanos(self.interval.as_nanos() as u64 * self.next_interval)
    }

    /// Takes and sends the due sample. Returns the fault that the sample detects, if any.
    ///
    /// A sample that is late by more than one interval closes all due intervals; `seq` then has a gap.
    pub fn take_sample(
        &mut self,
        trial: &str,
        sampler: &mut Sampler,
        initial: &Snapshot,
        now: Instant,
        outbox: &Outbox,
    ) -> Option<Fault> {
        let late = now.saturating_duration_since(self.next_sample_at());
        self.instrument.sampler_lateness_max = self.instrument.sampler_lateness_max.max(late);
        let closed = ((now - self.start).as_nanos() / self.interval.as_nanos()) as u64;
        let before = self.next_interval - 1;
        let read_scope = ReadScope {
            qdiscs: completes_period(MIN_QDISC_READ_INTERVAL, self.interval, before, closed),
            protocols: completes_period(MIN_PROTOCOL_READ_INTERVAL, self.interval, before, closed),
        };
        self.next_interval = closed + 1;

        let snapshot = sampler.read(read_scope);
        let previous = self.last.as_ref().unwrap_or(initial);
        let previous_at = self.last.as_ref().map_or(self.start, |last| last.at);
        let event = Sample {
            trial,
            seq: closed - 1,
            t_s: (snapshot.at - self.start).as_secs_f64(),
            interval_s: (snapshot.at - previous_at).as_secs_f64(),
            counts: sampler.counters_between_and_current_cpu(previous, &snapshot),
        };
        let is_queued = outbox.queue_droppable_event(rpc::format_event("trial.sample", &event));
        self.instrument.samples += 1;
        self.instrument.events_lost += u64::from(!is_queued);
        let fault = snapshot
            .interface_fault()
            .map(|message| FaultKind::Interface.into_fault(message));
        self.last = Some(snapshot);
        fault
    }
}

/// Returns whether a period of length `period` ends within intervals `before + 1` to `closed`.
///
/// Counts intervals instead of reading the clock, so that a sample slightly early still completes its period.
fn completes_period(period: Duration, interval: Duration, closed_before: u64, closed: u64) -> bool {
    let period_intervals = period.as_nanos().div_ceil(interval.as_nanos()) as u64;
    closed / period_intervals > closed_before / period_intervals
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the numbers of those closing intervals that complete a period.
    fn period_ends(period: Duration, interval_ms: u64, closed: &[u64]) -> Vec<u64> {
        let interval = Duration::from_millis(interval_ms);
        let mut before = 0;
        let mut ends = closed.to_vec();
        ends.retain(|&closed| {
            completes_period(
                period,
                interval,
                std::mem::replace(&mut before, closed),
                closed,
            )
        });
        ends
    }

    #[test]
    fn samples_every_100_ms_or_slower_contain_all_counters() {
        for period in [MIN_PROTOCOL_READ_INTERVAL, MIN_QDISC_READ_INTERVAL] {
            assert_eq!(period_ends(period, 100, &[1, 2, 3]), [1, 2, 3]);
            assert_eq!(period_ends(period, 1000, &[1, 2, 3]), [1, 2, 3]);
        }
    }

    #[test]
    fn samples_every_50_ms_contain_protocol_counters_every_second_time() {
        assert_eq!(
            period_ends(MIN_QDISC_READ_INTERVAL, 50, &[1, 2, 3, 4]),
            [1, 2, 3, 4]
        );
        assert_eq!(
            period_ends(MIN_PROTOCOL_READ_INTERVAL, 50, &[1, 2, 3, 4]),
            [2, 4]
        );
    }

    #[test]
    fn faster_samples_contain_slow_counters_when_a_period_completes() {
        let closed = [1, 5, 9, 10, 11, 15, 19, 20];
        assert_eq!(
            period_ends(MIN_PROTOCOL_READ_INTERVAL, 10, &closed),
            [10, 20]
        );
        assert_eq!(
            period_ends(MIN_QDISC_READ_INTERVAL, 10, &closed),
            [5, 10, 15, 20]
        );
        let closed = [1, 2, 3, 4, 5, 6, 7, 8];
        assert_eq!(period_ends(MIN_PROTOCOL_READ_INTERVAL, 30, &closed), [4, 8]);
        assert_eq!(
            period_ends(MIN_QDISC_READ_INTERVAL, 30, &closed),
            [2, 4, 6, 8]
        );
    }

    #[test]
    fn a_late_sample_contains_the_slow_counters_of_a_missed_one() {
        assert_eq!(
            period_ends(MIN_PROTOCOL_READ_INTERVAL, 10, &[9, 12, 13, 20]),
            [12, 20]
        );
    }
}
