//! Hardware counters: cycles and instructions of the agent's process, or of the whole system (perf_event_open(2)).
//! Where the hardware or the kernel refuses them, cycles are estimated as CPU time × clock, and marked so.

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::FromRawFd;
use std::sync::Arc;

use perf_event_open_sys as sys;
use sys::bindings::{
    PERF_COUNT_HW_CPU_CYCLES, PERF_COUNT_HW_INSTRUCTIONS, PERF_FLAG_FD_CLOEXEC,
    PERF_FORMAT_TOTAL_TIME_ENABLED, PERF_FORMAT_TOTAL_TIME_RUNNING, PERF_TYPE_HARDWARE,
    perf_event_attr,
};

use super::cpu::{Cpu, mean_clock_hz};
use super::process::cpu_nanos;
use super::{Amount, Reading, Source};
use crate::cpu_list::CpuList;

const KINDS: [(&str, u32); 2] = [
    ("cycles", PERF_COUNT_HW_CPU_CYCLES),
    ("instructions", PERF_COUNT_HW_INSTRUCTIONS),
];

/// Who is counted: this process with all threads that it starts later, or everything on one CPU.
#[derive(Clone, Copy)]
enum Scope {
    ProcessAndHeirs,
    Cpu(i32),
}

/// One event as the kernel gave it: its count, and for how long it was wanted and really counted.
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
    /// Each event is opened by itself: a group with `inherit` cannot be read as one on kernels before 6.13.
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
        // SAFETY: `attributes` is a valid `perf_event_attr` that states its own size, and lives through the call.
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
        // SAFETY: the call just above returned this descriptor, and nothing else owns it.
        let file = unsafe { File::from_raw_fd(fd) };
        Ok(Self { file })
    }

    fn read(&self) -> RawCount {
        let mut bytes = [0; 24];
        if (&self.file).read_exact(&mut bytes).is_err() {
            return RawCount::default();
        }
        let word = |at: usize| {
            u64::from_ne_bytes(bytes[at..at + 8].try_into().expect("eight bytes are eight"))
        };
        RawCount {
            value: word(0),
            enabled_ns: word(8),
            running_ns: word(16),
        }
    }
}

/// Makes a count whole where the hardware had to share its counters: what was counted, × wanted time ÷ counted time.
#[derive(Default)]
struct Scaled {
    last: RawCount,
    total: u64,
}

impl Scaled {
    fn update(&mut self, now: RawCount) -> u64 {
        let value = now.value.saturating_sub(self.last.value);
        let enabled = now.enabled_ns.saturating_sub(self.last.enabled_ns);
        let running = now.running_ns.saturating_sub(self.last.running_ns);
        self.last = now;
        self.total += if running == 0 || running == enabled {
            value
        } else {
            (value as f64 * enabled as f64 / running as f64) as u64
        };
        self.total
    }
}

/// Cycles and instructions of this process. Made on the first thread before any other is started: a thread is counted
/// when it descends from one that is.
#[derive(Clone)]
pub struct ProcessCycles {
    events: Arc<[Event]>,
    reason: String,
}

impl ProcessCycles {
    pub fn open() -> Self {
        match open_all(Scope::ProcessAndHeirs) {
            Ok(events) => Self {
                events: events.into(),
                reason: String::new(),
            },
            Err(error) => Self {
                events: Arc::new([]),
                reason: refusal(&error),
            },
        }
    }

    pub(super) fn source(&self) -> ProcessCyclesSource {
        ProcessCyclesSource {
            events: Arc::clone(&self.events),
            scaled: Default::default(),
            estimate: Estimate::default(),
        }
    }
}

fn open_all(scope: Scope) -> io::Result<Vec<Event>> {
    KINDS
        .iter()
        .map(|(_, config)| Event::open(*config, scope))
        .collect()
}

fn refusal(error: &io::Error) -> String {
    match error.raw_os_error() {
        Some(libc::EACCES | libc::EPERM) => {
            "perf events are not permitted here; run as root or set kernel.perf_event_paranoid to -1".into()
        }
        Some(libc::ENOENT | libc::EOPNOTSUPP | libc::ENODEV) => {
            "this machine has no hardware counters; a guest needs a virtual PMU".into()
        }
        Some(libc::ENOSYS) => "this kernel has no perf events".into(),
        _ => format!("perf events cannot be opened: {error}"),
    }
}

pub(super) struct ProcessCyclesSource {
    events: Arc<[Event]>,
    scaled: [Scaled; KINDS.len()],
    estimate: Estimate,
}

impl Source for ProcessCyclesSource {
    fn read(&mut self, into: &mut Reading) {
        if self.events.is_empty() {
            self.estimate.read(cpu_nanos(), into);
            return;
        }
        for (((name, _), event), scaled) in
            KINDS.iter().zip(self.events.iter()).zip(&mut self.scaled)
        {
            into.counters
                .push(name, Amount::Count(scaled.update(event.read())));
        }
    }
}

/// Cycles and instructions of every CPU together.
pub(super) struct SystemCycles {
    cpus: Vec<(Vec<Event>, [Scaled; KINDS.len()])>,
    cpu_times: Option<Cpu>,
    estimate: Estimate,
}

impl SystemCycles {
    pub fn open() -> Self {
        Self {
            cpus: open_on_all_cpus().unwrap_or_default(),
            cpu_times: Cpu::open(),
            estimate: Estimate::default(),
        }
    }
}

fn open_on_all_cpus() -> io::Result<Vec<(Vec<Event>, [Scaled; KINDS.len()])>> {
    let online = std::fs::read_to_string("/sys/devices/system/cpu/online")?;
    let online = CpuList::parse(&online).map_err(io::Error::other)?;
    online
        .iter()
        .map(|cpu| Ok((open_all(Scope::Cpu(cpu as i32))?, Default::default())))
        .collect()
}

impl Source for SystemCycles {
    fn read(&mut self, into: &mut Reading) {
        if self.cpus.is_empty() {
            if let Some(times) = &mut self.cpu_times {
                self.estimate.read(times.busy_nanos(), into);
            }
            return;
        }
        for (kind, (name, _)) in KINDS.iter().enumerate() {
            let total = self
                .cpus
                .iter_mut()
                .map(|(events, scaled)| scaled[kind].update(events[kind].read()))
                .sum();
            into.counters.push(name, Amount::Count(total));
        }
    }
}

/// Cycles from CPU time, by the clock as it stands at each reading.
#[derive(Default)]
struct Estimate {
    last_nanos: u64,
    cycles: u64,
}

impl Estimate {
    fn read(&mut self, cpu_nanos: u64, into: &mut Reading) {
        let Some(hz) = mean_clock_hz() else { return };
        let spent = cpu_nanos.saturating_sub(self.last_nanos);
        self.last_nanos = cpu_nanos;
        self.cycles += (spent as f64 * hz / 1e9) as u64;
        into.counters.push("cycles", Amount::Count(self.cycles));
        into.counters.push("cycles_estimated", Amount::Flag(1));
    }
}

/// What `agent.facts` says of the two kinds of cycles.
pub struct Availability {
    pub process: bool,
    pub system: bool,
    /// Why not, as a sentence; empty where both are there.
    pub reason: String,
}

pub fn availability(process: &ProcessCycles) -> Availability {
    let system = open_on_all_cpus();
    Availability {
        process: process.reason.is_empty(),
        system: system.is_ok(),
        reason: match system {
            Err(error) if process.reason.is_empty() => refusal(&error),
            _ => process.reason.clone(),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shared_counter_is_scaled_to_the_time_that_was_wanted() {
        let mut scaled = Scaled::default();
        let count = |value, enabled_ns, running_ns| RawCount {
            value,
            enabled_ns,
            running_ns,
        };
        assert_eq!(scaled.update(count(100, 10, 10)), 100);
        assert_eq!(scaled.update(count(200, 30, 20)), 300);
        assert_eq!(scaled.update(count(200, 40, 20)), 300);
    }
}
