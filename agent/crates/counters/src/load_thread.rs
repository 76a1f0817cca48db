//! CPU time and wait time of the threads that carry a trial's load: their sum, and the busiest thread.

use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

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
    pub fn record_start(self: &Arc<Self>) -> FinalThreadTimesGuard {
        if let Ok(clock) = ThreadTimeReader::open_current() {
            let _ = self.clock.set(clock);
        }
        FinalThreadTimesGuard(Arc::clone(self))
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
pub struct FinalThreadTimesGuard(Arc<LoadThread>);

impl Drop for FinalThreadTimesGuard {
    fn drop(&mut self) {
        self.0.record_final_times();
    }
}

/// The last reading of a load thread. With many threads, it can be older than the sample that contains it.
#[derive(Debug, Clone, Copy, Default)]
pub struct ThreadReading {
    /// The times since the thread began; `None` if they are unknown.
    times: Option<ThreadTimes>,
    at: Option<Instant>,
    /// The time between this reading and the one before, and what the thread used in it.
    last_window: Option<(Duration, ThreadTimes)>,
}

impl ThreadReading {
    /// Returns the reading of `times` at a moment after this one.
    pub fn next_reading(&self, times: Option<ThreadTimes>, at: Instant) -> Self {
        let next = Self {
            times,
            at: Some(at),
            last_window: None,
        };
        Self {
            last_window: next.window_since_if_times_known(self),
            ..next
        }
    }

    /// Returns the time since `earlier`, and what the thread used in it; `None` if a time is unknown.
    fn window_since_if_times_known(&self, earlier: &Self) -> Option<(Duration, ThreadTimes)> {
        let window = self.at?.saturating_duration_since(earlier.at?);
        Some((window, self.times?.since(&earlier.times?)))
    }

    /// Returns what the thread used in an interval since `earlier`, at the rate of its last window if that is older.
    fn use_in(&self, interval: Duration, earlier: &Self) -> Option<ThreadTimes> {
        let is_new = self.at > earlier.at;
        let (window, used) = if is_new {
            self.window_since_if_times_known(earlier)?
        } else {
            self.last_window?
        };
        let scale = |nanos: u64| {
            let scaled = u128::from(nanos) * interval.as_nanos() / window.as_nanos().max(1);
            u64::try_from(scaled).unwrap_or(u64::MAX)
        };
        Some(ThreadTimes {
            cpu_nanos: scale(used.cpu_nanos),
            waited_nanos: used.waited_nanos.map(scale),
        })
    }
}

/// Adds the counters of all load threads between two readings in the same order. A value unknown for any thread is omitted.
///
/// A thread that was not read since `earlier` adds nothing to the sums: its next reading covers the time. The busiest thread
/// is that with the highest rate in the `interval`, or else in its last window.
///
/// `last_cpu` gets the index of the busiest thread only, because it is the most expensive reading.
pub fn push_thread_counters(
    earlier: &[ThreadReading],
    now: &[ThreadReading],
    interval: Duration,
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
        .map(|(now, earlier)| Some(now.times?.since(&earlier.times?)));
    let Some(spent) = spent.collect::<Option<Vec<ThreadTimes>>>() else {
        return;
    };
    let waited: Option<u64> = spent.iter().map(|thread| thread.waited_nanos).sum();
    let cpu = spent.iter().map(|thread| thread.cpu_nanos).sum();
    let uses = now.iter().zip(earlier).enumerate();
    let uses =
        uses.filter_map(|(index, (now, earlier))| Some((index, now.use_in(interval, earlier)?)));
    let busiest = uses.max_by_key(|(_, thread)| thread.runnable_nanos());
    for (name, nanos) in [
        ("threads_cpu_s", Some(cpu)),
        ("threads_waited_s", waited),
        (
            "busiest_thread_cpu_s",
            busiest.map(|(_, thread)| thread.cpu_nanos),
        ),
        (
            "busiest_thread_waited_s",
            busiest.and_then(|(_, thread)| thread.waited_nanos),
        ),
    ] {
        if let Some(nanos) = nanos {
            into.push(name, CounterValue::Nanos(nanos));
        }
    }
    if let Some(cpu) = busiest.and_then(|(index, _)| last_cpu(index)) {
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
        let start = Instant::now();
        let interval = Duration::from_secs(2);
        let read = |times: &[Option<ThreadTimes>], at| {
            let unread = ThreadReading::default();
            times
                .iter()
                .map(|times| unread.next_reading(*times, at))
                .collect::<Vec<_>>()
        };
        push_thread_counters(
            &read(earlier, start),
            &read(now, start + interval),
            interval,
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
    fn threads_that_are_read_in_turn_count_once_and_keep_their_rate() {
        let start = Instant::now();
        let after = |seconds| start + Duration::from_secs(seconds);
        let unread = ThreadReading::default();
        let first = [unread.next_reading(time(5.0, 0.0), start); 2];
        // Thread 0 is read after 1 s and 3 s, thread 1 after 2 s.
        let second = [first[0].next_reading(time(5.25, 0.25), after(1)), first[1]];
        let third = [second[0], first[1].next_reading(time(6.5, 0.0), after(2))];
        let fourth = [third[0].next_reading(time(6.25, 0.25), after(3)), third[1]];
        let counters = |earlier: &[ThreadReading], now: &[ThreadReading]| {
            let mut counters = Counters::default();
            let second = Duration::from_secs(1);
            push_thread_counters(
                earlier,
                now,
                second,
                |index| Some(index as u32),
                &mut counters,
            );
            serde_json::to_value(&counters).expect("serializes")
        };
        let samples = [
            (counters(&first, &second), 0.25, 0.25, 0.25, 0),
            (counters(&second, &third), 1.5, 0.0, 0.75, 1),
            (counters(&third, &fourth), 1.0, 0.0, 0.75, 1),
        ];
        for (sample, cpu_s, waited_s, busiest_cpu_s, busiest) in samples {
            assert_eq!(sample["threads_cpu_s"], cpu_s);
            assert_eq!(sample["threads_waited_s"], waited_s);
            assert_eq!(sample["busiest_thread_cpu_s"], busiest_cpu_s);
            assert_eq!(sample["busiest_thread_cpu"], busiest);
        }
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
