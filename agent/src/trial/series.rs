//! The samples of a trial: taken at whole multiples of the interval after its start, told at once.

use std::time::{Duration, Instant};

use super::report::{Instrument, Sample};
use super::sampler::{Sampler, Snapshot};
use crate::outbox::Outbox;
use crate::rpc;

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
        self.next = closed + 1;

        let snapshot = sampler.read();
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
