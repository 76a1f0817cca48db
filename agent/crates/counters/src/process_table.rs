//! The process table: /proc/<pid>/stat of each process, and which processes belong to the bench.

use std::collections::HashSet;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::time::Duration;

use crate::thread_time::{NANOS_PER_S, find_stat_field};

/// The flag of kernel threads in `stat` (PF_KTHREAD, include/linux/sched.h).
const KERNEL_THREAD_FLAG: u64 = 0x0020_0000;

/// A process id.
pub type ProcessId = u32;

/// What /proc/<pid>/stat says about a process.
pub struct ProcessStat {
    pub name: String,
    pub parent: ProcessId,
    pub is_kernel_thread: bool,
    pub threads: u64,
    /// Time from the machine's start to the process's start, rounded down to a clock tick.
    pub started: Duration,
}

/// The processes of the bench itself.
pub struct BenchProcesses {
    /// The agent and the processes that started it.
    agent_and_its_ancestors: HashSet<ProcessId>,
    /// Device and inode of the agent's executable, which all agents on this machine share.
    executable_device_and_inode: Option<(u64, u64)>,
}

impl BenchProcesses {
    /// Finds the bench's processes. The machine's first process is none of them, unless it is the agent.
    pub fn find() -> Self {
        let own = std::process::id();
        let mut agent_and_its_ancestors = HashSet::from([own]);
        let parent_of = |pid: &ProcessId| Some(read_process_stat(*pid)?.parent);
        let parents = std::iter::successors(parent_of(&own), parent_of);
        agent_and_its_ancestors.extend(parents.take_while(|parent| *parent > 1));
        Self {
            agent_and_its_ancestors,
            executable_device_and_inode: read_executable(own),
        }
    }

    /// Returns whether a process belongs to the bench.
    pub fn contains(&self, pid: ProcessId) -> bool {
        self.agent_and_its_ancestors.contains(&pid) || self.is_agent(pid)
    }

    /// Returns whether a process is an agent: it has the executable of this one.
    pub fn is_agent(&self, pid: ProcessId) -> bool {
        self.executable_device_and_inode.is_some()
            && read_executable(pid) == self.executable_device_and_inode
    }
}

/// Lists the ids of all processes that this process can see.
///
/// # Errors
///
/// Fails if /proc cannot be listed.
pub fn list_processes() -> io::Result<impl Iterator<Item = ProcessId>> {
    let entries = fs::read_dir("/proc")?;
    Ok(entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok()))
}

/// Returns the process of a thread.
pub fn read_process_of(tid: u32) -> Option<ProcessId> {
    let status = fs::read_to_string(format!("/proc/{tid}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("Tgid:"))?;
    line.trim().parse().ok()
}

/// Returns device and inode of a process's executable; `None` for kernel threads and without permission.
fn read_executable(pid: ProcessId) -> Option<(u64, u64)> {
    let file = fs::metadata(format!("/proc/{pid}/exe")).ok()?;
    Some((file.dev(), file.ino()))
}

/// Reads the state of a process; `None` if the process has ended.
pub fn read_process_stat(pid: ProcessId) -> Option<ProcessStat> {
    parse_process_stat(&fs::read(format!("/proc/{pid}/stat")).ok()?)
}

fn parse_process_stat(stat: &[u8]) -> Option<ProcessStat> {
    let number = |field: usize| find_stat_field(stat, field)?.parse::<u64>().ok();
    let name = {
        let start = stat.iter().position(|byte| *byte == b'(')? + 1;
        let end = stat.iter().rposition(|byte| *byte == b')')?;
        String::from_utf8_lossy(stat.get(start..end)?).into_owned()
    };
    let tick_nanos = NANOS_PER_S / rustix::param::clock_ticks_per_second();
    Some(ProcessStat {
        name,
        parent: number(4)? as ProcessId,
        is_kernel_thread: number(9)? & KERNEL_THREAD_FLAG != 0,
        threads: number(20)?,
        started: Duration::from_nanos(number(22)?.saturating_mul(tick_nanos)),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_with_brackets_and_kernel_threads_are_parsed() {
        let stat = b"17 (a) (b\xff) S 2 0 0 0 -1 2129984 0 0 0 0 0 5 0 0 20 0 3 0 250 0 0";
        let parsed = parse_process_stat(stat).expect("complete");
        assert_eq!(parsed.name, "a) (b\u{fffd}");
        assert_eq!((parsed.parent, parsed.threads), (2, 3));
        assert!(parsed.is_kernel_thread);
        let ticks = rustix::param::clock_ticks_per_second();
        assert_eq!(parsed.started, Duration::from_secs(250) / ticks as u32);
        assert!(parse_process_stat(b"17 (a) S 2").is_none());
    }

    #[test]
    fn the_process_itself_belongs_to_the_bench_and_the_first_process_does_not() {
        let bench = BenchProcesses::find();
        assert!(bench.contains(std::process::id()));
        assert!(!bench.contains(1) || std::process::id() == 1);
    }
}
