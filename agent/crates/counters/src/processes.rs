//! CPU time of other programs: which processes used the most between the start and the end of a trial.
//!
//! Each process has a CPU clock (clock_getcpuclockid(3)). It sums all threads, ended ones included, and one system call
//! reads it. The kernel advances it at its ticks and when a thread leaves its CPU, so it is exact but for the threads that
//! run at that moment: each may be late by up to one tick.

use std::collections::{HashMap, HashSet};
use std::fs;
use std::io;
use std::time::{Duration, Instant};

use rustix::thread::Pid;
use rustix::time::{ClockId, clock_gettime};
use serde::Serialize;

use crate::process_table::{
    BenchProcesses, ProcessId, list_processes, read_process_of, read_process_stat,
};
use crate::thread_time::NANOS_PER_S;
use vnetbench_system::cpu_list::CpuList;

/// Maximum number of processes in a result.
const MAX_LISTED_PROCESSES: usize = 16;
/// A process with less CPU time is left out.
const MIN_CPU_NANOS: u64 = 1_000_000;
/// Maximum number of threads of a process whose CPU sets are read.
const MAX_THREADS_WITH_AFFINITY: usize = 256;
/// Kernel threads that process packets on behalf of the load.
const SOFTIRQ_THREAD_PREFIX: &str = "ksoftirqd/";

/// Finds the other programs that use the most CPU time.
pub struct BusyProcessScanner {
    /// Processes of the testbed, such as virtual machines.
    testbed_processes: HashSet<ProcessId>,
}

/// The CPU time of all processes at one moment.
pub struct ProcessesReading {
    at: Instant,
    /// Time since the machine started, by which the kernel dates the start of a process.
    since_boot: Duration,
    cpu_nanos_by_process: HashMap<ProcessId, u64>,
}

/// The CPU time of other programs between two moments.
#[derive(Debug, Serialize)]
pub struct ProcessChanges {
    /// The processes with the most CPU time, the busiest first.
    pub processes: Vec<ProcessUse>,
    /// Seconds between the two moments.
    pub processes_interval_s: f64,
}

/// The CPU time of one process.
#[derive(Debug, Serialize)]
pub struct ProcessUse {
    name: String,
    pid: ProcessId,
    cpu_s: f64,
    /// The CPUs that at least one of its threads may use.
    cpus: String,
    threads: u64,
    #[serde(rename = "kernel", skip_serializing_if = "std::ops::Not::not")]
    is_kernel_thread: bool,
}

impl BusyProcessScanner {
    /// Returns a scanner that leaves out the processes of these threads.
    pub fn new(testbed_threads: impl IntoIterator<Item = u32>) -> Self {
        let processes = testbed_threads.into_iter().filter_map(read_process_of);
        Self {
            testbed_processes: processes.collect(),
        }
    }

    /// Reads the CPU time of all processes.
    ///
    /// # Errors
    ///
    /// Fails if /proc cannot be listed.
    pub fn read(&self) -> io::Result<ProcessesReading> {
        let since_boot = clock_gettime(ClockId::Boottime);
        let at = Instant::now();
        let times = list_processes()?.filter_map(|pid| Some((pid, read_cpu_nanos(pid)?)));
        Ok(ProcessesReading {
            at,
            since_boot: Duration::new(since_boot.tv_sec as u64, since_boot.tv_nsec as u32),
            cpu_nanos_by_process: times.collect(),
        })
    }

    /// Reads the CPU time of all processes, and returns those other programs that used the most since `earlier`.
    ///
    /// # Errors
    ///
    /// Fails if /proc cannot be listed.
    pub fn read_changes_since(&self, earlier: &ProcessesReading) -> io::Result<ProcessChanges> {
        let now = self.read()?;
        let mut used: Vec<(u64, ProcessId)> = now
            .cpu_nanos_by_process
            .iter()
            .filter(|(pid, _)| !self.testbed_processes.contains(pid))
            .map(|(pid, nanos)| (cpu_nanos_since(earlier, *pid, *nanos), *pid))
            .filter(|(nanos, _)| *nanos >= MIN_CPU_NANOS)
            .collect();
        used.sort_unstable_by(|a, b| b.cmp(a));
        let bench = BenchProcesses::find();
        let processes = used.into_iter().filter_map(|(_, pid)| {
            let nanos = now.cpu_nanos_by_process[&pid];
            describe_process_outside_bench(pid, nanos, earlier, &bench)
        });
        let mut processes: Vec<ProcessUse> = processes.take(MAX_LISTED_PROCESSES).collect();
        // A process that took over the id of another one has less CPU time than it seemed to have.
        processes.sort_by(|a, b| b.cpu_s.total_cmp(&a.cpu_s));
        Ok(ProcessChanges {
            processes,
            processes_interval_s: (now.at - earlier.at).as_secs_f64(),
        })
    }
}

impl ProcessesReading {
    /// Returns the number of processes.
    pub fn len(&self) -> usize {
        self.cpu_nanos_by_process.len()
    }

    /// Returns whether no process is visible.
    pub fn is_empty(&self) -> bool {
        self.cpu_nanos_by_process.is_empty()
    }
}

/// Returns the CPU time of a process since an earlier reading. A process without an earlier time is new.
fn cpu_nanos_since(earlier: &ProcessesReading, pid: ProcessId, cpu_nanos_now: u64) -> u64 {
    match earlier.cpu_nanos_by_process.get(&pid) {
        Some(before) if *before <= cpu_nanos_now => cpu_nanos_now - before,
        _ => cpu_nanos_now,
    }
}

fn describe_process_outside_bench(
    pid: ProcessId,
    cpu_nanos: u64,
    earlier: &ProcessesReading,
    bench: &BenchProcesses,
) -> Option<ProcessUse> {
    let stat = read_process_stat(pid)?;
    let is_softirq_thread = stat.is_kernel_thread && stat.name.starts_with(SOFTIRQ_THREAD_PREFIX);
    if is_softirq_thread || bench.contains(pid) {
        return None;
    }
    // The process id may have belonged to another process at the earlier reading.
    let nanos = match stat.started > earlier.since_boot {
        true => cpu_nanos,
        false => cpu_nanos_since(earlier, pid, cpu_nanos),
    };
    Some(ProcessUse {
        name: stat.name,
        pid,
        cpu_s: nanos as f64 / NANOS_PER_S as f64,
        cpus: read_allowed_cpus(pid),
        threads: stat.threads,
        is_kernel_thread: stat.is_kernel_thread,
    })
}

/// Reads the CPU clock of a process; `None` if the process has ended.
fn read_cpu_nanos(pid: ProcessId) -> Option<u64> {
    // The clock of the scheduler (CPUCLOCK_SCHED) of a process (include/linux/posix-timers_types.h).
    let clock = (!pid.cast_signed() << 3) | 2;
    // SAFETY: an all-zero `timespec` is valid: it holds only integers.
    let mut time: libc::timespec = unsafe { std::mem::zeroed() };
    // SAFETY: `time` is valid for writes during the call.
    let status = unsafe { libc::clock_gettime(clock, &mut time) };
    (status == 0).then(|| time.tv_sec as u64 * NANOS_PER_S + time.tv_nsec as u64)
}

/// Returns the CPUs that at least one of the process's first threads may use; empty if the process has ended.
fn read_allowed_cpus(pid: ProcessId) -> String {
    let Ok(tasks) = fs::read_dir(format!("/proc/{pid}/task")) else {
        return String::new();
    };
    let threads = tasks.filter_map(|task| task.ok()?.file_name().to_str()?.parse().ok());
    let lists = threads
        .take(MAX_THREADS_WITH_AFFINITY)
        .filter_map(|tid| CpuList::read_thread_affinity(Some(Pid::from_raw(tid)?)).ok());
    let all = lists.flat_map(|list| list.iter().collect::<Vec<_>>());
    all.collect::<CpuList>().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn burn(duration: Duration) {
        let until = Instant::now() + duration;
        while Instant::now() < until {}
    }

    #[test]
    fn the_clock_of_a_process_counts_all_its_threads() {
        let own = std::process::id();
        let before = read_cpu_nanos(own).expect("this process runs");
        let threads: Vec<_> = (0..2)
            .map(|_| {
                std::thread::spawn(|| {
                    let start = clock_gettime(ClockId::ThreadCPUTime);
                    burn(Duration::from_millis(20));
                    let end = clock_gettime(ClockId::ThreadCPUTime);
                    let nanos = |time: rustix::time::Timespec| {
                        time.tv_sec as u64 * NANOS_PER_S + time.tv_nsec as u64
                    };
                    nanos(end) - nanos(start)
                })
            })
            .collect();
        let spent: u64 = threads.into_iter().map(|t| t.join().expect("ends")).sum();
        let counted = read_cpu_nanos(own).expect("this process runs") - before;
        assert!(counted >= spent, "{counted} of {spent}");
    }

    #[test]
    fn a_process_that_has_ended_has_no_clock() {
        let mut child = std::process::Command::new("true").spawn().expect("starts");
        child.wait().expect("a child");
        assert_eq!(read_cpu_nanos(child.id()), None);
    }

    #[test]
    fn a_reused_process_id_counts_from_zero() {
        let reading = ProcessesReading {
            at: Instant::now(),
            since_boot: Duration::ZERO,
            cpu_nanos_by_process: HashMap::from([(7, 500), (8, 500)]),
        };
        assert_eq!(cpu_nanos_since(&reading, 7, 800), 300);
        assert_eq!(cpu_nanos_since(&reading, 8, 100), 100);
        assert_eq!(cpu_nanos_since(&reading, 9, 100), 100);
    }
}
