//! CPU time and wait time of the threads that carry a trial's load: their sum, and the busiest thread.

use std::sync::{Arc, OnceLock};

use crate::reading::{CounterValue, Counters};
use crate::thread_time::{ThreadTimeReader, ThreadTimes};

/// A load thread. Its times stay available after the thread has ended.
#[derive(Debug, Default)]
pub struct LoadThread {
    /// Not set if the system does not report thread times.
    clock: OnceLock<ThreadTimeReader>,
    final_reading: OnceLock<FinalThreadReading>,
}

/// What is known of a thread when it ends.
#[derive(Debug)]
struct FinalThreadReading {
    time: ThreadTimes,
    last_cpu: Option<u32>,
}

impl LoadThread {
    /// Records the start. The thread itself calls this first and drops the guard last.
    pub fn record_start(self: &Arc<Self>) -> ThreadEndGuard {
        if let Ok(clock) = ThreadTimeReader::open_current() {
            let _ = self.clock.set(clock);
        }
        ThreadEndGuard(Arc::clone(self))
    }

    /// Records the final times. The kernel does not report them after the thread has ended.
    fn record_final_times(&self) {
        if let Some(time) = self.cpu_and_wait_time() {
            let last_cpu = self.last_cpu();
            let _ = self
                .final_reading
                .set(FinalThreadReading { time, last_cpu });
        }
    }

    /// Returns CPU time and wait time since the thread began.
    pub fn cpu_and_wait_time(&self) -> Option<ThreadTimes> {
        match self.final_reading.get() {
            Some(reading) => Some(reading.time),
            None => self.clock.get()?.read().ok(),
        }
    }

    /// Returns the CPU that the thread last ran on.
    pub fn last_cpu(&self) -> Option<u32> {
        match self.final_reading.get() {
            Some(reading) => reading.last_cpu,
            None => self.clock.get()?.last_cpu(),
        }
    }
}

/// Records a load thread's final times when it ends, also by a panic.
pub struct ThreadEndGuard(Arc<LoadThread>);

impl Drop for ThreadEndGuard {
    fn drop(&mut self) {
        self.0.record_final_times();
    }
}

/// Adds the counters of all load threads between two readings in the same order. A value unknown for any thread is omitted.
///
/// `last_cpu` gets the index of the busiest thread only, because it is the most expensive reading.
pub fn push_thread_counters(
    earlier: &[Option<ThreadTimes>],
    now: &[Option<ThreadTimes>],
    last_cpu: impl FnOnce(usize) -> Option<u32>,
    into: &mut Counters,
) {
    if now.is_empty() {
        return;
    }
    into.push("load_threads", CounterValue::Flag(now.len() as u64));
    let spent = now
        .iter()
        .zip(earlier)
        .map(|(now, earlier)| Some(now.as_ref()?.since(earlier.as_ref()?)));
    let Some(spent) = spent.collect::<Option<Vec<ThreadTimes>>>() else {
        return;
    };
    let waited: Option<u64> = spent.iter().map(|thread| thread.waited_nanos).sum();
    let cpu = spent.iter().map(|thread| thread.cpu_nanos).sum();
    let busiest = (0..spent.len()).max_by_key(|index| spent[*index].runnable_nanos());
    let index = busiest.expect("a load has at least one thread");
    let busiest = spent[index];
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
    if let Some(cpu) = last_cpu(index) {
        into.push("busiest_thread_cpu", CounterValue::Flag(u64::from(cpu)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counters_json(
        earlier: &[Option<ThreadTimes>],
        now: &[Option<ThreadTimes>],
        cpus: &[u32],
    ) -> String {
        let mut counters = Counters::default();
        push_thread_counters(
            earlier,
            now,
            |index| cpus.get(index).copied(),
            &mut counters,
        );
        serde_json::to_string(&counters).expect("serializes")
    }

    fn time(cpu_s: f64, waited_s: f64) -> Option<ThreadTimes> {
        Some(ThreadTimes {
            cpu_nanos: (cpu_s * 1e9) as u64,
            waited_nanos: Some((waited_s * 1e9) as u64),
        })
    }

    #[test]
    fn the_busiest_thread_has_the_longest_runnable_time() {
        let earlier = [time(1.0, 0.0), time(8.0, 1.0), time(3.0, 0.0)];
        let now = [time(1.5, 0.0), time(8.25, 1.5), time(3.25, 0.0)];
        assert_eq!(
            counters_json(&earlier, &now, &[0, 3, 1]),
            r#"{"load_threads":3,"threads_cpu_s":1.0,"threads_waited_s":0.5,"busiest_thread_cpu_s":0.25,"busiest_thread_waited_s":0.5,"busiest_thread_cpu":3}"#
        );
    }

    #[test]
    fn values_unknown_for_any_thread_are_omitted() {
        let ticks = |cpu_nanos| {
            Some(ThreadTimes {
                cpu_nanos,
                waited_nanos: None,
            })
        };
        assert_eq!(
            counters_json(&[ticks(0)], &[ticks(500_000_000)], &[]),
            r#"{"load_threads":1,"threads_cpu_s":0.5,"busiest_thread_cpu_s":0.5}"#
        );
        assert_eq!(
            counters_json(&[time(0.0, 0.0), None], &[time(1.0, 0.0), None], &[2, 3]),
            r#"{"load_threads":2}"#
        );
        assert_eq!(counters_json(&[], &[], &[]), "{}");
    }

    #[test]
    fn an_ended_thread_keeps_its_times_even_after_a_panic() {
        for has_fault in [false, true] {
            let thread = Arc::new(LoadThread::default());
            let counted_thread = Arc::clone(&thread);
            let work = move || {
                let _running = counted_thread.record_start();
                while counted_thread
                    .cpu_and_wait_time()
                    .expect("the thread runs")
                    .cpu_nanos
                    < 20_000_000
                {}
                if has_fault {
                    // Unwinds without printing a panic message.
                    std::panic::resume_unwind(Box::new("a fault"));
                }
            };
            let ended = std::thread::spawn(work).join();
            assert_eq!(ended.is_err(), has_fault);
            let spent = thread
                .cpu_and_wait_time()
                .expect("the time is recorded")
                .cpu_nanos;
            assert!(spent >= 20_000_000 && thread.last_cpu().is_some());
        }
    }
}
