//! The threads that carry a trial's load: what they ran and waited for a CPU, all together and the one that had most to do.

use std::sync::{Arc, OnceLock};

use crate::reading::{CounterValue, Counters};
use crate::thread_time::{ThreadClock, ThreadTime};

/// One such thread; it lives on as a count when the thread has ended.
#[derive(Debug, Default)]
pub struct LoadThread {
    /// Not set where this system does not tell.
    clock: OnceLock<ThreadClock>,
    at_end: OnceLock<(ThreadTime, Option<u32>)>,
}

impl LoadThread {
    /// Called by the thread itself, first of all; what it returns is to be dropped last of all.
    pub fn note_start(self: &Arc<Self>) -> Running {
        if let Ok(clock) = ThreadClock::of_this_thread() {
            let _ = self.clock.set(clock);
        }
        Running(Arc::clone(self))
    }

    /// By the thread itself: nobody can ask the kernel afterwards.
    fn note_end(&self) {
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

/// Held by such a thread while it runs: however it ends, by a fault of its own too, it notes what it has spent.
pub struct Running(Arc<LoadThread>);

impl Drop for Running {
    fn drop(&mut self) {
        self.0.note_end();
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
    into.push("load_threads", CounterValue::Flag(now.len() as u64));
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
            into.push(name, CounterValue::Nanos(nanos));
        }
    }
    if let Some(cpu) = last_cpu(place) {
        into.push("busiest_thread_cpu", CounterValue::Flag(u64::from(cpu)));
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
    fn a_thread_that_has_ended_keeps_what_it_spent_by_a_fault_too() {
        for has_fault in [false, true] {
            let thread = Arc::new(LoadThread::default());
            let counted = Arc::clone(&thread);
            let work = move || {
                let _running = counted.note_start();
                while counted.time().expect("it lives").cpu_nanos < 20_000_000 {}
                if has_fault {
                    // Without the words of a panic among those of the tests.
                    std::panic::resume_unwind(Box::new("a fault"));
                }
            };
            let ended = std::thread::spawn(work).join();
            assert_eq!(ended.is_err(), has_fault);
            let spent = thread.time().expect("it is kept").cpu_nanos;
            assert!(spent >= 20_000_000 && thread.last_cpu().is_some());
        }
    }
}
