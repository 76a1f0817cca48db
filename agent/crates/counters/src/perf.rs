//! Hardware counters: cycles and instructions of the agent's process or of the whole system (perf_event_open(2)).
//! Without them, cycles are estimated as CPU time × clock, and marked as estimated.

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::FromRawFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use perf_event_open_sys as sys;
use sys::bindings::{
    PERF_COUNT_HW_CPU_CYCLES, PERF_COUNT_HW_INSTRUCTIONS, PERF_FLAG_FD_CLOEXEC,
    PERF_FORMAT_TOTAL_TIME_ENABLED, PERF_FORMAT_TOTAL_TIME_RUNNING, PERF_TYPE_HARDWARE,
    perf_event_attr,
};

use crate::cpu::mean_clock_hz;
use crate::cpu_work::CpuWork;
use crate::reading::{CounterSource, CounterValue, Reading};
use vnetbench_system::cpu_list::CpuList;

const HARDWARE_EVENTS: [(&str, u32); 2] = [
    ("cycles", PERF_COUNT_HW_CPU_CYCLES),
    ("instructions", PERF_COUNT_HW_INSTRUCTIONS),
];

/// What is counted: this process with all threads that it starts later, or everything on one CPU.
#[derive(Clone, Copy)]
enum Scope {
    ProcessAndHeirs,
    Cpu(i32),
}

/// A reading of an event: its count, and how long it was enabled and really counted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct RawCount {
    value: u64,
    enabled_ns: u64,
    running_ns: u64,
}

struct Event {
    file: File,
}

impl Event {
    /// Opens one event. Kernels before 6.13 cannot read a group with `inherit` as a whole.
    fn open(config: u32, scope: Scope) -> io::Result<Self> {
        let mut attributes = perf_event_attr {
            size: size_of::<perf_event_attr>() as u32,
            type_: PERF_TYPE_HARDWARE,
            config: u64::from(config),
            read_format: u64::from(PERF_FORMAT_TOTAL_TIME_ENABLED | PERF_FORMAT_TOTAL_TIME_RUNNING),
            ..Default::default()
        };
        attributes.set_exclude_hv(1);
        let (process, cpu) = match scope {
            Scope::ProcessAndHeirs => {
                attributes.set_inherit(1);
                (0, -1)
            }
            Scope::Cpu(cpu) => (-1, cpu),
        };
        // SAFETY: `attributes` is a valid `perf_event_attr` with its size set, and lives during the call.
        let fd = unsafe {
            sys::perf_event_open(
                &mut attributes,
                process,
                cpu,
                -1,
                u64::from(PERF_FLAG_FD_CLOEXEC) as libc::c_ulong,
            )
        };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the call above returned this descriptor, and nothing else owns it.
        let file = unsafe { File::from_raw_fd(fd) };
        Ok(Self { file })
    }

    fn read(&self) -> Option<RawCount> {
        let mut bytes = [0; 24];
        (&self.file).read_exact(&mut bytes).ok()?;
        let word =
            |at: usize| u64::from_ne_bytes(bytes[at..at + 8].try_into().expect("eight bytes"));
        Some(RawCount {
            value: word(0),
            enabled_ns: word(8),
            running_ns: word(16),
        })
    }
}

/// Extrapolates a multiplexed hardware counter: count × enabled time ÷ running time.
#[derive(Default)]
struct ScaledCounter {
    last: RawCount,
    total: u64,
}

impl ScaledCounter {
    fn read(&mut self, event: &Event) -> u64 {
        if let Some(now) = event.read() {
            self.update(now);
        }
        self.total
    }

    fn update(&mut self, now: RawCount) {
        let value = now.value.saturating_sub(self.last.value);
        let enabled = now.enabled_ns.saturating_sub(self.last.enabled_ns);
        let running = now.running_ns.saturating_sub(self.last.running_ns);
        if running == 0 {
            // Nothing was counted. The next interval that was counted covers this time too.
            return;
        }
        self.last = now;
        self.total += (value as f64 * enabled as f64 / running as f64).round() as u64;
    }
}

/// Counts cycles and instructions of this process.
///
/// Open this on the first thread before any other starts: the kernel counts only descendants of a counted thread.
#[derive(Clone)]
pub struct ProcessCycles {
    events: Arc<[Event]>,
    reason: String,
}

impl ProcessCycles {
    /// Opens the counters, or keeps the reason why they are not available.
    pub fn open() -> Self {
        match open_all(Scope::ProcessAndHeirs) {
            Ok(events) => Self {
                events: events.into(),
                reason: String::new(),
            },
            Err(error) => Self {
                events: Arc::new([]),
                reason: explain_error(&error),
            },
        }
    }

    pub(crate) fn source(&self) -> ProcessCyclesSource {
        ProcessCyclesSource {
            events: Arc::clone(&self.events),
            scaled: Default::default(),
            last_nanos: None,
            estimate: CycleEstimator::default(),
        }
    }
}

fn open_all(scope: Scope) -> io::Result<Vec<Event>> {
    HARDWARE_EVENTS
        .iter()
        .map(|(_, config)| Event::open(*config, scope))
        .collect()
}

fn explain_error(error: &io::Error) -> String {
    match error.raw_os_error() {
        Some(libc::EACCES | libc::EPERM) => {
            "perf events are not permitted; run the agent as root or set kernel.perf_event_paranoid to -1".into()
        }
        Some(libc::ENOENT | libc::EOPNOTSUPP | libc::ENODEV) => {
            "this machine has no hardware counters; a guest needs a virtual PMU".into()
        }
        Some(libc::ENOSYS) => "this kernel has no perf events".into(),
        _ => format!("cannot open perf events: {error}"),
    }
}

pub(crate) struct ProcessCyclesSource {
    events: Arc<[Event]>,
    scaled: [ScaledCounter; HARDWARE_EVENTS.len()],
    last_nanos: Option<u64>,
    estimate: CycleEstimator,
}

impl CounterSource for ProcessCyclesSource {
    fn read(&mut self, into: &mut Reading) {
        if self.events.is_empty() {
            let now = into.process_cpu_nanos;
            let before = self.last_nanos.replace(now);
            let spent_s = before.map(|before| now.saturating_sub(before) as f64 / 1e9);
            self.estimate.read(spent_s, into);
            return;
        }
        for (((name, _), event), scaled) in HARDWARE_EVENTS
            .iter()
            .zip(self.events.iter())
            .zip(&mut self.scaled)
        {
            into.counters
                .push(name, CounterValue::Count(scaled.read(event)));
        }
    }
}

/// Counts cycles and instructions of all CPUs.
pub(crate) struct SystemCycles {
    cpus: Vec<(Vec<Event>, [ScaledCounter; HARDWARE_EVENTS.len()])>,
    last_times: Option<Vec<CpuWork>>,
    estimate: CycleEstimator,
}

impl SystemCycles {
    pub fn open() -> Self {
        Self {
            cpus: open_on_all_cpus().unwrap_or_default(),
            last_times: None,
            estimate: CycleEstimator::default(),
        }
    }
}

fn open_on_all_cpus() -> io::Result<Vec<(Vec<Event>, [ScaledCounter; HARDWARE_EVENTS.len()])>> {
    let online = std::fs::read_to_string("/sys/devices/system/cpu/online")?;
    let online = CpuList::parse(&online).map_err(io::Error::other)?;
    online
        .iter()
        .map(|cpu| Ok((open_all(Scope::Cpu(cpu as i32))?, Default::default())))
        .collect()
}

impl CounterSource for SystemCycles {
    fn read(&mut self, into: &mut Reading) {
        if self.cpus.is_empty() {
            let before = self.last_times.replace(into.cpu.clone());
            let spent_s = before.map(|before| CpuWork::busy_s_since(&into.cpu, &before));
            self.estimate.read(spent_s, into);
            return;
        }
        for (kind, (name, _)) in HARDWARE_EVENTS.iter().enumerate() {
            let total = self
                .cpus
                .iter_mut()
                .map(|(events, scaled)| scaled[kind].read(&events[kind]))
                .sum();
            into.counters.push(name, CounterValue::Count(total));
        }
    }
}

/// How long a clock reading is used. Reading /proc/cpuinfo takes about 15 µs for each CPU.
const CLOCK_RATE_LIFETIME: Duration = Duration::from_secs(1);

/// Estimates cycles as CPU time × clock.
#[derive(Default)]
struct CycleEstimator {
    cycles: u64,
    clock: Option<(Instant, f64)>,
}

impl CycleEstimator {
    /// Adds the cycles of `spent_s`, the CPU time since the previous reading. The first reading passes `None`: the clock does not yet reflect the load.
    fn read(&mut self, spent_s: Option<f64>, into: &mut Reading) {
        if let Some(spent_s) = spent_s {
            let Some(hz) = self.hz() else { return };
            self.cycles += (spent_s * hz) as u64;
        }
        into.counters
            .push("cycles", CounterValue::Count(self.cycles));
        into.counters
            .push("cycles_estimated", CounterValue::Flag(1));
    }

    fn hz(&mut self) -> Option<f64> {
        let now = Instant::now();
        if self
            .clock
            .is_none_or(|(at, _)| now - at >= CLOCK_RATE_LIFETIME)
        {
            self.clock = mean_clock_hz().map(|hz| (now, hz));
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
    let system = open_on_all_cpus();
    CycleCounterSupport {
        process: process.reason.is_empty(),
        system: system.is_ok(),
        reason: match system {
            Err(error) if process.reason.is_empty() => explain_error(&error),
            _ => process.reason.clone(),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_multiplexed_counter_is_extrapolated_to_its_enabled_time() {
        let mut scaled = ScaledCounter::default();
        let count = |value, enabled_ns, running_ns| RawCount {
            value,
            enabled_ns,
            running_ns,
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

    #[test]
    fn cycles_are_estimated_from_the_second_reading_on() {
        let mut estimate = CycleEstimator {
            cycles: 0,
            clock: Some((Instant::now() + CLOCK_RATE_LIFETIME, 2.5e9)),
        };
        let mut cycles_after = |spent_s| {
            let mut reading = Reading::default();
            estimate.read(spent_s, &mut reading);
            serde_json::to_string(&reading.counters).expect("serializes")
        };
        let json = |cycles| format!("{{\"cycles\":{cycles},\"cycles_estimated\":1}}");
        assert_eq!(cycles_after(None), json(0u64));
        assert_eq!(cycles_after(Some(2.0)), json(5_000_000_000));
        assert_eq!(cycles_after(Some(0.5)), json(6_250_000_000));
    }
}
