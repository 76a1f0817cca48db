//! CPU time of a thread, its wait for a CPU (`/proc/<pid>/task/<tid>/schedstat`), and the CPU that it last ran on.

use std::fs::File;
use std::io;
use std::path::Path;

use crate::proc_file::{read_numbers, read_short_file};

/// Nanoseconds per second.
pub const NANOS_PER_S: u64 = 1_000_000_000;

/// Times of a thread since it began.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ThreadTimes {
    /// CPU time.
    pub cpu_nanos: u64,
    /// Time in the run queue of a busy CPU; `None` if the kernel does not count it.
    pub waited_nanos: Option<u64>,
}

impl ThreadTimes {
    /// Returns the times since `earlier`.
    pub fn since(&self, earlier: &Self) -> Self {
        let waited = self.waited_nanos.zip(earlier.waited_nanos);
        Self {
            cpu_nanos: self.cpu_nanos.saturating_sub(earlier.cpu_nanos),
            waited_nanos: waited.map(|(now, earlier)| now.saturating_sub(earlier)),
        }
    }

    /// Returns the time during which the thread ran or was ready to run.
    pub fn runnable_nanos(&self) -> u64 {
        self.cpu_nanos + self.waited_nanos.unwrap_or(0)
    }
}

/// Reads the times of a thread.
#[derive(Debug)]
pub struct ThreadTimeReader {
    file: File,
    source: TimeSource,
    /// The file `stat`, which names the CPU.
    stat_file: Option<File>,
}

#[derive(Debug, Clone, Copy)]
enum TimeSource {
    /// The file `schedstat`: the scheduler's clock, updated at every tick.
    Schedstat,
    /// The file `stat`: ticks of 10 ms and no wait times.
    Stat,
}

impl ThreadTimeReader {
    /// Opens the times of any thread by its thread id (gettid(2)).
    pub fn open(tid: u32) -> io::Result<Self> {
        // /proc/<tid>/stat would be that of the whole process.
        Self::open_from_task_folder(Path::new(&format!("/proc/{tid}/task/{tid}")))
    }

    /// Opens the times of the calling thread, with the CPU that it runs on.
    pub fn open_current() -> io::Result<Self> {
        let folder = Path::new("/proc/thread-self");
        Ok(Self {
            stat_file: File::open(folder.join("stat")).ok(),
            ..Self::open_from_task_folder(folder)?
        })
    }

    fn open_from_task_folder(folder: &Path) -> io::Result<Self> {
        let schedstat = File::open(folder.join("schedstat"));
        if let Ok(file) = schedstat
            && has_schedstat_times(&file)
        {
            let kind = TimeSource::Schedstat;
            return Ok(Self {
                file,
                source: kind,
                stat_file: None,
            });
        }
        let file = File::open(folder.join("stat"))?;
        let kind = TimeSource::Stat;
        Ok(Self {
            file,
            source: kind,
            stat_file: None,
        })
    }

    /// Reads the times; fails if the thread has ended.
    pub fn read(&self) -> io::Result<ThreadTimes> {
        match self.source {
            TimeSource::Schedstat => {
                let [cpu_nanos, waited, _] = read_numbers(&self.file)?;
                Ok(ThreadTimes {
                    cpu_nanos,
                    waited_nanos: Some(waited),
                })
            }
            TimeSource::Stat => {
                let ticks = read_short_file(&self.file, parse_cpu_ticks)?;
                Ok(ThreadTimes {
                    cpu_nanos: ticks * (NANOS_PER_S / rustix::param::clock_ticks_per_second()),
                    waited_nanos: None,
                })
            }
        }
    }

    /// Returns the CPU that the thread last ran on, for clocks of `open_current`. Several times slower than `read`.
    pub fn last_cpu(&self) -> Option<u32> {
        let cpu = |stat: &[u8]| find_stat_field(stat, 39)?.parse().ok();
        read_short_file(self.stat_file.as_ref()?, cpu).ok()
    }
}

/// Returns whether the kernel fills in schedstat. Without CONFIG_SCHED_INFO the file has only zeros, even for the number of runs.
fn has_schedstat_times(schedstat: &File) -> bool {
    matches!(read_numbers(schedstat), Ok([_, _, runs]) if runs > 0)
}

/// Parses user and system time of `stat`, in ticks.
fn parse_cpu_ticks(stat: &[u8]) -> Option<u64> {
    let user: u64 = find_stat_field(stat, 14)?.parse().ok()?;
    let system: u64 = find_stat_field(stat, 15)?.parse().ok()?;
    Some(user + system)
}

/// Returns a field of `stat` by its number in proc(5), from 3 on. Field 2 is a name that may hold any bytes.
pub fn find_stat_field(stat: &[u8], field_number: usize) -> Option<&str> {
    let name_ends = stat.iter().rposition(|byte| *byte == b')')?;
    let after_name = std::str::from_utf8(&stat[name_ends + 1..]).ok()?;
    after_name.split_ascii_whitespace().nth(field_number - 3)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_name_with_brackets_is_skipped() {
        let stat =
            b"4242 (CPU 0/KVM) )\xff) S 1 4242 4242 0 -1 4194368 5 0 0 0 731 269 0 0 20 0 4 0 99 0 0";
        assert_eq!(parse_cpu_ticks(stat), Some(1000));
        assert_eq!(parse_cpu_ticks(b"4242 (x) S 1"), None);
    }

    #[test]
    fn a_pinned_thread_reports_its_cpu() {
        let allowed = rustix::thread::sched_getaffinity(None).expect("a set of CPUs");
        let last = (0..rustix::thread::CpuSet::MAX_CPU).rfind(|&cpu| allowed.is_set(cpu));
        let cpu = last.expect("at least one CPU");
        let reported_cpu = std::thread::spawn(move || {
            let mut one_cpu = rustix::thread::CpuSet::new();
            one_cpu.set(cpu);
            rustix::thread::sched_setaffinity(None, &one_cpu).expect("the CPU is allowed");
            ThreadTimeReader::open_current().map(|clock| clock.last_cpu())
        });
        let reported_cpu = reported_cpu
            .join()
            .expect("the thread ends")
            .expect("readable");
        assert_eq!(reported_cpu, u32::try_from(cpu).ok());
    }

    #[test]
    fn schedstat_and_stat_agree() {
        let of = |file, kind| ThreadTimeReader {
            file: File::open(format!("/proc/thread-self/{file}")).expect("proc"),
            source: kind,
            stat_file: None,
        };
        let (stat, schedstat) = (
            of("stat", TimeSource::Stat),
            of("schedstat", TimeSource::Schedstat),
        );
        let spent = |clock: &ThreadTimeReader| clock.read().expect("the thread runs").cpu_nanos;
        while spent(&stat) < NANOS_PER_S / 10 {}
        let (stat, exact) = (spent(&stat), spent(&schedstat));
        assert!(exact.abs_diff(stat) < NANOS_PER_S / 20, "{exact} {stat}");
    }

    #[test]
    fn ticks_are_used_if_schedstat_is_empty() {
        let folder = std::env::temp_dir().join(format!("vnetbench-thread-{}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("a folder");
        let write = |file, text| std::fs::write(folder.join(file), text).expect("a file");
        write("stat", "7 (x) R 1 7 7 0 -1 0 0 0 0 0 20 5 0 0 20 0");
        write("schedstat", "0 0 0\n");
        let ticks = ThreadTimeReader::open_from_task_folder(&folder).and_then(|clock| clock.read());
        write("schedstat", "250 40 3\n");
        let exact = ThreadTimeReader::open_from_task_folder(&folder).and_then(|clock| clock.read());
        std::fs::remove_dir_all(&folder).expect("the test can remove its files");
        let time = |cpu_nanos, waited_nanos| ThreadTimes {
            cpu_nanos,
            waited_nanos,
        };
        let tick = NANOS_PER_S / rustix::param::clock_ticks_per_second();
        assert_eq!(ticks.expect("readable"), time(25 * tick, None));
        assert_eq!(exact.expect("readable"), time(250, Some(40)));
    }
}
