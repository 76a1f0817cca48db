//! Hardware counters: cycles and instructions of the agent's process or of the whole system (perf_event_open(2)).
//! Without them, cycles are estimated as CPU time × clock, and marked as estimated.

use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use perf_event::events::{Event, Hardware};
use perf_event::{Builder, CountAndTime, Counter};

use crate::cpu::read_mean_clock_hz;
use crate::cpu_work::CpuWork;
use crate::reading::{CounterSource, CounterValue, Reading};
use vnetbench_system::cpu_list::CpuList;

const HARDWARE_EVENTS: [(&str, Hardware); 2] = [
    ("cycles", Hardware::CPU_CYCLES),
    ("instructions", Hardware::INSTRUCTIONS),
];

/// What is counted: this process with all threads that it starts later, or everything on one CPU.
#[derive(Clone, Copy)]
enum CountedScope {
    ProcessAndHeirs,
    Cpu(usize),
}

/// Opens a counter of user and kernel time. Kernels before 6.13 cannot read a group of inherited counters.
fn open_counter(event: impl Event, scope: CountedScope) -> io::Result<Counter> {
    let mut builder = Builder::new(event);
    match scope {
        CountedScope::ProcessAndHeirs => builder.observe_self().any_cpu().inherit(true),
        CountedScope::Cpu(cpu) => builder.any_pid().one_cpu(cpu),
    };
    builder.include_kernel().enabled(true).build()
}

/// The counters of one scope, in the order of [`HARDWARE_EVENTS`].
type HardwareCounters = [Counter; HARDWARE_EVENTS.len()];

fn open_hardware_counters(scope: CountedScope) -> io::Result<HardwareCounters> {
    let [(_, cycles), (_, instructions)] = HARDWARE_EVENTS;
    Ok([
        open_counter(cycles, scope)?,
        open_counter(instructions, scope)?,
    ])
}

/// Extrapolates a multiplexed hardware counter: count × enabled time ÷ running time.
struct ExtrapolatedCount {
    last: CountAndTime,
    total: u64,
}

impl Default for ExtrapolatedCount {
    fn default() -> Self {
        Self {
            last: CountAndTime {
                count: 0,
                time_enabled: 0,
                time_running: 0,
            },
            total: 0,
        }
    }
}

impl ExtrapolatedCount {
    /// Reads the counter and returns its extrapolated count. A failed reading leaves the count as it was.
    fn read(&mut self, counter: &mut Counter) -> u64 {
        if let Ok(now) = counter.read_count_and_time() {
            self.update(now);
        }
        self.total
    }

    fn update(&mut self, now: CountAndTime) {
        let count = now.count.saturating_sub(self.last.count);
        let enabled_ns = now.time_enabled.saturating_sub(self.last.time_enabled);
        let running_ns = now.time_running.saturating_sub(self.last.time_running);
        if running_ns == 0 {
            // Nothing was counted. The next interval that was counted covers this time too.
            return;
        }
        self.last = now;
        self.total += (count as f64 * enabled_ns as f64 / running_ns as f64).round() as u64;
    }
}

/// Counts cycles and instructions of this process.
///
/// Open this on the first thread before any other starts: the kernel counts only descendants of a counted thread.
#[derive(Clone)]
pub struct ProcessCycles {
    /// The counters, or the reason why they are not available.
    counters: Result<Arc<Mutex<HardwareCounters>>, String>,
}

impl ProcessCycles {
    /// Opens the counters, or keeps the reason why they are not available.
    pub fn open() -> Self {
        let counters = open_hardware_counters(CountedScope::ProcessAndHeirs);
        Self {
            counters: counters
                .map(|counters| Arc::new(Mutex::new(counters)))
                .map_err(|error| explain_counter_error(&error)),
        }
    }

    pub(crate) fn make_source(&self) -> ProcessCyclesSource {
        ProcessCyclesSource {
            counters: self.counters.as_ref().ok().map(Arc::clone),
            scaled: Default::default(),
            last_nanos: None,
            estimate: CycleEstimator::default(),
        }
    }
}

fn explain_counter_error(error: &io::Error) -> String {
    match error.raw_os_error() {
        Some(libc::EACCES | libc::EPERM) => {
            "the system does not permit perf events. Run the agent as root, or set kernel.perf_event_paranoid to -1".into()
        }
        Some(libc::ENOENT | libc::EOPNOTSUPP | libc::ENODEV) => {
            "this machine has no hardware counters. A guest needs a virtual PMU".into()
        }
        Some(libc::ENOSYS) => "this kernel has no perf events".into(),
        _ => format!("cannot open perf events: {error}"),
    }
}

/// Reads the cycles of this process, or estimates them.
pub(crate) struct ProcessCyclesSource {
    counters: Option<Arc<Mutex<HardwareCounters>>>,
    scaled: [ExtrapolatedCount; HARDWARE_EVENTS.len()],
    last_nanos: Option<u64>,
    estimate: CycleEstimator,
}

impl CounterSource for ProcessCyclesSource {
    fn read(&mut self, into: &mut Reading) {
        let Some(counters) = &self.counters else {
            let now = into.process_cpu_nanos;
            let before = self.last_nanos.replace(now);
            let spent_s = before.map(|before| now.saturating_sub(before) as f64 / 1e9);
            self.estimate.add_estimated_cycles(spent_s, into);
            return;
        };
        let mut counters = counters.lock().unwrap_or_else(PoisonError::into_inner);
        for (((name, _), counter), scaled) in HARDWARE_EVENTS
            .iter()
            .zip(counters.iter_mut())
            .zip(&mut self.scaled)
        {
            into.counters
                .push(name, CounterValue::Count(scaled.read(counter)));
        }
    }
}

/// The counters of one CPU, with their extrapolated counts.
struct CpuCycles {
    counters: HardwareCounters,
    scaled: [ExtrapolatedCount; HARDWARE_EVENTS.len()],
}

/// Counts cycles and instructions of all CPUs.
pub(crate) struct SystemCycles {
    cpus: Vec<CpuCycles>,
    last_times: Option<Vec<CpuWork>>,
    estimate: CycleEstimator,
}

impl SystemCycles {
    /// Opens the counters of all CPUs. Without them, readings hold estimates.
    pub fn open_or_estimate() -> Self {
        Self {
            cpus: open_on_all_cpus().unwrap_or_default(),
            last_times: None,
            estimate: CycleEstimator::default(),
        }
    }
}

fn open_on_all_cpus() -> io::Result<Vec<CpuCycles>> {
    let online = std::fs::read_to_string("/sys/devices/system/cpu/online")?;
    let online = CpuList::parse(&online).map_err(io::Error::other)?;
    online
        .iter()
        .map(|cpu| {
            Ok(CpuCycles {
                counters: open_hardware_counters(CountedScope::Cpu(cpu))?,
                scaled: Default::default(),
            })
        })
        .collect()
}

impl CounterSource for SystemCycles {
    fn read(&mut self, into: &mut Reading) {
        if self.cpus.is_empty() {
            let before = self.last_times.replace(into.cpu.clone());
            let spent_s = before.map(|before| CpuWork::total_busy_s_between(&before, &into.cpu));
            self.estimate.add_estimated_cycles(spent_s, into);
            return;
        }
        for (event, (name, _)) in HARDWARE_EVENTS.iter().enumerate() {
            let total = self
                .cpus
                .iter_mut()
                .map(|cpu| cpu.scaled[event].read(&mut cpu.counters[event]))
                .sum();
            into.counters.push(name, CounterValue::Count(total));
        }
    }
}

/// How long a clock reading is used. Reading /proc/cpuinfo takes about 15 µs for each CPU.
const CLOCK_RATE_CACHE_TIME: Duration = Duration::from_secs(1);

/// Estimates cycles as CPU time × clock.
#[derive(Default)]
struct CycleEstimator {
    cycles: u64,
    clock: Option<(Instant, f64)>,
}

impl CycleEstimator {
    /// Adds the cycles of `spent_s`, the CPU time since the previous reading. The first reading passes `None`: the clock does not yet reflect the load.
    fn add_estimated_cycles(&mut self, spent_s: Option<f64>, into: &mut Reading) {
        if let Some(spent_s) = spent_s {
            let Some(hz) = self.read_clock_hz() else {
                return;
            };
            self.cycles += (spent_s * hz) as u64;
        }
        into.counters
            .push("cycles", CounterValue::Count(self.cycles));
        into.counters
            .push("cycles_estimated", CounterValue::Flag(1));
    }

    fn read_clock_hz(&mut self) -> Option<f64> {
        let now = Instant::now();
        if self
            .clock
            .is_none_or(|(at, _)| now - at >= CLOCK_RATE_CACHE_TIME)
        {
            self.clock = read_mean_clock_hz().map(|hz| (now, hz));
        }
        self.clock.map(|(_, hz)| hz)
    }
}

/// Which cycle counters this machine supports, for `agent.facts`.
pub struct CycleCounterSupport {
    /// Whether cycles of this process can be counted.
    pub process: bool,
    /// Whether cycles of the whole system can be counted.
    pub system: bool,
    /// Why a counter is not available, as a sentence; empty if both are.
    pub reason: String,
}

/// Probes which cycle counters this machine supports.
pub fn probe_cycle_counters(process: &ProcessCycles) -> CycleCounterSupport {
    let process = process.counters.as_ref().map(drop);
    let system = open_on_all_cpus().map_err(|error| explain_counter_error(&error));
    CycleCounterSupport {
        process: process.is_ok(),
        system: system.is_ok(),
        reason: match (process, system) {
            (Err(reason), _) => reason.clone(),
            (Ok(()), Err(reason)) => reason,
            (Ok(()), Ok(_)) => String::new(),
        },
    }
}

#[cfg(test)]
mod tests {
    use perf_event::events::Software;
    use rustix::time::{ClockId, clock_gettime};

    use super::*;

    #[test]
    fn a_multiplexed_counter_is_extrapolated_to_its_enabled_time() {
        let mut scaled = ExtrapolatedCount::default();
        let count = |count, time_enabled, time_running| CountAndTime {
            count,
            time_enabled,
            time_running,
        };
        let mut total_after = |now| {
            scaled.update(now);
            scaled.total
        };
        assert_eq!(total_after(count(100, 10, 10)), 100);
        assert_eq!(total_after(count(200, 30, 20)), 300);
        assert_eq!(total_after(count(200, 40, 20)), 300);
        assert_eq!(total_after(count(300, 50, 30)), 500);
    }

    /// Opens a counter, or checks the reason if this process may not count.
    fn open_software_counter(event: Software, scope: CountedScope) -> Option<Counter> {
        open_counter(event, scope)
            .map_err(|error| {
                assert!(
                    explain_counter_error(&error).contains("not permitted"),
                    "{error}"
                )
            })
            .ok()
    }

    #[test]
    fn a_counter_of_the_process_includes_threads_that_start_later() {
        let Some(mut counter) =
            open_software_counter(Software::TASK_CLOCK, CountedScope::ProcessAndHeirs)
        else {
            return;
        };
        let mut scaled = ExtrapolatedCount::default();
        let before = scaled.read(&mut counter);
        let spent = std::thread::spawn(|| {
            while clock_gettime(ClockId::ThreadCPUTime).tv_nsec < 20_000_000 {}
            clock_gettime(ClockId::ThreadCPUTime).tv_nsec as u64
        });
        let spent_ns = spent.join().expect("the thread ends");
        assert!(scaled.read(&mut counter) - before >= spent_ns);
    }

    #[test]
    fn a_counter_of_a_cpu_counts_all_processes() {
        let Some(mut counter) = open_software_counter(Software::CPU_CLOCK, CountedScope::Cpu(0))
        else {
            return;
        };
        let mut scaled = ExtrapolatedCount::default();
        let before = scaled.read(&mut counter);
        std::thread::sleep(Duration::from_millis(20));
        assert!(scaled.read(&mut counter) - before >= 20_000_000);
    }

    #[test]
    fn cycles_are_estimated_from_the_second_reading_on() {
        let mut estimate = CycleEstimator {
            cycles: 0,
            clock: Some((Instant::now() + CLOCK_RATE_CACHE_TIME, 2.5e9)),
        };
        let mut cycles_after = |spent_s| {
            let mut reading = Reading::default();
            estimate.add_estimated_cycles(spent_s, &mut reading);
            serde_json::to_string(&reading.counters).expect("serializes")
        };
        let json = |cycles| format!("{{\"cycles\":{cycles},\"cycles_estimated\":1}}");
        assert_eq!(cycles_after(None), json(0u64));
        assert_eq!(cycles_after(Some(2.0)), json(5_000_000_000));
        assert_eq!(cycles_after(Some(0.5)), json(6_250_000_000));
    }
}
