//! The threads that carry a trial's load: what they ran and waited for a CPU, all together and the one that had most to do.

use std::sync::OnceLock;

use super::thread_time::{ThreadClock, ThreadTime};
use super::{Amount, Counters};

/// One such thread; it lives on as a count when the thread has ended.
#[derive(Debug, Default)]
pub struct LoadThread {
    /// Not set where this system does not tell.
    clock: OnceLock<ThreadClock>,
    at_end: OnceLock<(ThreadTime, Option<u32>)>,
}

impl LoadThread {
    /// Called by the thread itself, first of all.
    pub fn note_start(&self) {
        if let Ok(clock) = ThreadClock::of_this_thread() {
            let _ = self.clock.set(clock);
        }
    }

    /// Called by the thread itself, last of all: nobody can ask the kernel afterwards.
    pub fn note_end(&self) {
        if let Some(time) = self.time() {
            let _ = self.at_end.set((time, self.last_cpu()));
        }
    }

    pub fn time(&self) -> Option<ThreadTime> {
        match self.at_end.get() {
            Some((time, _)) => Some(*time),
            None => self.clock.get()?.read().ok(),
        }
    }

    /// The CPU that it last ran on.
    pub fn last_cpu(&self) -> Option<u32> {
        match self.at_end.get() {
            Some((_, cpu)) => *cpu,
            None => self.clock.get()?.last_cpu(),
        }
    }
}

/// What the threads did between two readings, which stand in the same order; what is not known of each is left out.
/// `last_cpu` of a thread, by its place in that order, is asked of the busiest alone: it would be the dearest of all.
pub fn count(
    then: &[Option<ThreadTime>],
    now: &[Option<ThreadTime>],
    last_cpu: impl FnOnce(usize) -> Option<u32>,
    into: &mut Counters,
) {
    if now.is_empty() {
        return;
    }
    into.push("load_threads", Amount::Flag(now.len() as u64));
    let moved = now
        .iter()
        .zip(then)
        .map(|(now, then)| Some(now.as_ref()?.since(then.as_ref()?)));
    let Some(moved) = moved.collect::<Option<Vec<ThreadTime>>>() else {
        return;
    };
    let waited: Option<u64> = moved.iter().map(|thread| thread.waited_nanos).sum();
    let cpu = moved.iter().map(|thread| thread.cpu_nanos).sum();
    let busiest = (0..moved.len()).max_by_key(|place| moved[*place].wanted_nanos());
    let place = busiest.expect("there is one at least");
    let busiest = moved[place];
    for (name, nanos) in [
        ("threads_cpu_s", Some(cpu)),
        ("threads_waited_s", waited),
        ("busiest_thread_cpu_s", Some(busiest.cpu_nanos)),
        ("busiest_thread_waited_s", busiest.waited_nanos),
    ] {
        if let Some(nanos) = nanos {
            into.push(name, Amount::Nanos(nanos));
        }
    }
    if let Some(cpu) = last_cpu(place) {
        into.push("busiest_thread_cpu", Amount::Flag(u64::from(cpu)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counted(then: &[Option<ThreadTime>], now: &[Option<ThreadTime>], cpus: &[u32]) -> String {
        let mut counters = Counters::default();
        count(then, now, |place| cpus.get(place).copied(), &mut counters);
        serde_json::to_string(&counters).expect("serializes")
    }

    fn time(cpu_s: f64, waited_s: f64) -> Option<ThreadTime> {
        Some(ThreadTime {
            cpu_nanos: (cpu_s * 1e9) as u64,
            waited_nanos: Some((waited_s * 1e9) as u64),
        })
    }

    #[test]
    fn the_busiest_is_the_one_that_ran_or_wanted_to_run_longest() {
        let then = [time(1.0, 0.0), time(8.0, 1.0), time(3.0, 0.0)];
        let now = [time(1.5, 0.0), time(8.25, 1.5), time(3.25, 0.0)];
        assert_eq!(
            counted(&then, &now, &[0, 3, 1]),
            r#"{"load_threads":3,"threads_cpu_s":1.0,"threads_waited_s":0.5,"busiest_thread_cpu_s":0.25,"busiest_thread_waited_s":0.5,"busiest_thread_cpu":3}"#
        );
    }

    #[test]
    fn what_is_not_known_of_each_thread_is_left_out() {
        let ticks = |cpu_nanos| {
            Some(ThreadTime {
                cpu_nanos,
                waited_nanos: None,
            })
        };
        assert_eq!(
            counted(&[ticks(0)], &[ticks(500_000_000)], &[]),
            r#"{"load_threads":1,"threads_cpu_s":0.5,"busiest_thread_cpu_s":0.5}"#
        );
        assert_eq!(
            counted(&[time(0.0, 0.0), None], &[time(1.0, 0.0), None], &[2, 3]),
            r#"{"load_threads":2}"#
        );
        assert_eq!(counted(&[], &[], &[]), "{}");
    }

    #[test]
    fn a_thread_that_has_ended_keeps_what_it_spent_to_its_end() {
        let thread = LoadThread::default();
        let spent = std::thread::scope(|scope| {
            let work = || {
                thread.note_start();
                while thread.time().expect("it lives").cpu_nanos < 20_000_000 {}
                thread.note_end();
                (thread.time(), thread.last_cpu())
            };
            scope.spawn(work).join().expect("it ends")
        });
        assert!(spent.0.is_some() && spent.1.is_some());
        assert_eq!((thread.time(), thread.last_cpu()), spent);
    }
}
