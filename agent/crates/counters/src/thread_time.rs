//! How long a thread ran, how long it was ready to run and waited for a CPU (`/proc/<pid>/task/<tid>/schedstat`), and where.

use std::fs::File;
use std::io;
use std::path::Path;

use crate::proc_file::{numbers, read_short};

pub const NANOS_PER_S: u64 = 1_000_000_000;

/// Since the thread began.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ThreadTime {
    pub cpu_nanos: u64,
    /// In the queue of a CPU that something else ran on; `None` where the kernel does not keep it.
    pub waited_nanos: Option<u64>,
}

impl ThreadTime {
    pub fn since(&self, earlier: &Self) -> Self {
        let waited = self.waited_nanos.zip(earlier.waited_nanos);
        Self {
            cpu_nanos: self.cpu_nanos.saturating_sub(earlier.cpu_nanos),
            waited_nanos: waited.map(|(now, then)| now.saturating_sub(then)),
        }
    }

    /// For how long it had something to do.
    pub fn wanted_nanos(&self) -> u64 {
        self.cpu_nanos + self.waited_nanos.unwrap_or(0)
    }
}

/// Where a thread's times are read, whatever became of it since.
#[derive(Debug)]
pub struct ThreadClock {
    file: File,
    kind: Kind,
    /// Its `stat`, where it is to be told on which CPU it runs.
    place: Option<File>,
}

#[derive(Debug, Clone, Copy)]
enum Kind {
    /// By the scheduler's clock, brought forward at every tick.
    Schedstat,
    /// In ticks of 10 ms, and without what it waited, where the kernel does not keep the other.
    Stat,
}

impl ThreadClock {
    /// Of another thread, by the number that the kernel has for it (gettid(2)).
    pub fn of(tid: u32) -> io::Result<Self> {
        // /proc/<tid>/stat would be that of its whole process.
        Self::below(Path::new(&format!("/proc/{tid}/task/{tid}")))
    }

    pub fn of_this_thread() -> io::Result<Self> {
        let folder = Path::new("/proc/thread-self");
        Ok(Self {
            place: File::open(folder.join("stat")).ok(),
            ..Self::below(folder)?
        })
    }

    fn below(folder: &Path) -> io::Result<Self> {
        let schedstat = File::open(folder.join("schedstat"));
        if let Ok(file) = schedstat
            && is_kept(&file)
        {
            let kind = Kind::Schedstat;
            return Ok(Self {
                file,
                kind,
                place: None,
            });
        }
        let file = File::open(folder.join("stat"))?;
        let kind = Kind::Stat;
        Ok(Self {
            file,
            kind,
            place: None,
        })
    }

    /// An error where the thread has ended.
    pub fn read(&self) -> io::Result<ThreadTime> {
        match self.kind {
            Kind::Schedstat => {
                let [cpu_nanos, waited, _] = numbers(&self.file)?;
                Ok(ThreadTime {
                    cpu_nanos,
                    waited_nanos: Some(waited),
                })
            }
            Kind::Stat => {
                let ticks = read_short(&self.file, ticks_of)?;
                Ok(ThreadTime {
                    cpu_nanos: ticks * (NANOS_PER_S / rustix::param::clock_ticks_per_second()),
                    waited_nanos: None,
                })
            }
        }
    }

    /// The CPU that it last ran on, where it is to be told; several times as dear as `read`.
    pub fn last_cpu(&self) -> Option<u32> {
        let cpu = |stat: &[u8]| field_of(stat, 39)?.parse().ok();
        read_short(self.place.as_ref()?, cpu).ok()
    }
}

/// A kernel without CONFIG_SCHED_INFO has the file, and only zeroes in it: the last is how often the thread came to run.
fn is_kept(schedstat: &File) -> bool {
    matches!(numbers(schedstat), Ok([_, _, runs]) if runs > 0)
}

/// User and system time of a line of stat.
fn ticks_of(stat: &[u8]) -> Option<u64> {
    let user: u64 = field_of(stat, 14)?.parse().ok()?;
    let system: u64 = field_of(stat, 15)?.parse().ok()?;
    Some(user + system)
}

/// A field of a line of stat by its number in proc(5), 3 or more: the second is a name that may hold anything.
fn field_of(stat: &[u8], number: usize) -> Option<&str> {
    let name_ends = stat.iter().rposition(|byte| *byte == b')')?;
    let after_name = std::str::from_utf8(&stat[name_ends + 1..]).ok()?;
    after_name.split_ascii_whitespace().nth(number - 3)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_with_brackets_does_not_hide_the_times() {
        let stat =
            b"4242 (CPU 0/KVM) )\xff) S 1 4242 4242 0 -1 4194368 5 0 0 0 731 269 0 0 20 0 4 0 99 0 0";
        assert_eq!(ticks_of(stat), Some(1000));
        assert_eq!(ticks_of(b"4242 (x) S 1"), None);
    }

    #[test]
    fn a_thread_that_may_use_one_cpu_is_told_to_run_there() {
        let allowed = rustix::thread::sched_getaffinity(None).expect("a set of CPUs");
        let last = (0..rustix::thread::CpuSet::MAX_CPU).rfind(|&cpu| allowed.is_set(cpu));
        let cpu = last.expect("one at least");
        let json = std::thread::spawn(move || {
            let mut only = rustix::thread::CpuSet::new();
            only.set(cpu);
            rustix::thread::sched_setaffinity(None, &only).expect("it is among ours");
            ThreadClock::of_this_thread().map(|clock| clock.last_cpu())
        });
        let json = json.join().expect("it ends").expect("readable");
        assert_eq!(json, u32::try_from(cpu).ok());
    }

    #[test]
    fn both_ways_to_tell_this_threads_time_agree() {
        let of = |file, kind| ThreadClock {
            file: File::open(format!("/proc/thread-self/{file}")).expect("proc"),
            kind,
            place: None,
        };
        let (stat, schedstat) = (of("stat", Kind::Stat), of("schedstat", Kind::Schedstat));
        let spent = |clock: &ThreadClock| clock.read().expect("it lives").cpu_nanos;
        while spent(&stat) < NANOS_PER_S / 10 {}
        let (stat, exact) = (spent(&stat), spent(&schedstat));
        assert!(exact.abs_diff(stat) < NANOS_PER_S / 20, "{exact} {stat}");
    }

    #[test]
    fn a_kernel_that_keeps_no_times_of_the_scheduler_tells_ticks() {
        let folder = std::env::temp_dir().join(format!("vnetbench-thread-{}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("a folder");
        let write = |file, text| std::fs::write(folder.join(file), text).expect("a file");
        write("stat", "7 (x) R 1 7 7 0 -1 0 0 0 0 0 20 5 0 0 20 0");
        write("schedstat", "0 0 0\n");
        let ticks = ThreadClock::below(&folder).and_then(|clock| clock.read());
        write("schedstat", "250 40 3\n");
        let exact = ThreadClock::below(&folder).and_then(|clock| clock.read());
        std::fs::remove_dir_all(&folder).expect("it is ours");
        let time = |cpu_nanos, waited_nanos| ThreadTime {
            cpu_nanos,
            waited_nanos,
        };
        let tick = NANOS_PER_S / rustix::param::clock_ticks_per_second();
        assert_eq!(ticks.expect("readable"), time(25 * tick, None));
        assert_eq!(exact.expect("readable"), time(250, Some(40)));
    }
}
