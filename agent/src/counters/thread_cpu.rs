//! CPU time of threads of other processes (a guest's vCPUs, what moves its packets), whatever became of them since.

use std::fs::File;
use std::io;

use serde::{Deserialize, Serialize};

use super::proc_file::{first_number, short_text};
use crate::error::{Error, Result};

const NANOS_PER_S: u64 = 1_000_000_000;

/// A thread to watch, by the number that the kernel has for it (gettid(2)).
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Asked {
    name: String,
    tid: u32,
}

pub struct ThreadCpu {
    name: String,
    file: File,
    kind: Kind,
    last_nanos: u64,
    is_gone: bool,
}

#[derive(Clone, Copy)]
enum Kind {
    /// By the scheduler's clock, brought forward at every tick.
    Schedstat,
    /// In ticks of 10 ms, where the kernel does not keep the other.
    Stat,
}

/// One thread at one moment.
#[derive(Debug, Clone)]
pub struct Spent {
    name: String,
    nanos: u64,
    is_gone: bool,
}

#[derive(Debug, Serialize)]
pub struct Moved {
    name: String,
    cpu_s: f64,
    /// The thread has ended: what it had spent by its last reading is all that is known.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    gone: bool,
}

impl ThreadCpu {
    pub fn open(asked: Asked) -> Result<Self> {
        let Asked { name, tid } = asked;
        let refused = |error: io::Error| {
            let operation = format!("read the CPU time of {name} (thread {tid})");
            Error::system(operation, error)
        };
        // /proc/<tid>/stat would be that of its whole process.
        let file = |of: &str| File::open(format!("/proc/{tid}/task/{tid}/{of}"));
        let schedstat = file("schedstat").and_then(|file| Ok((first_number(&file)?, file)));
        let (kind, file, last_nanos) = match schedstat {
            // A kernel without CONFIG_SCHED_INFO has the file, and only zeroes in it.
            Ok((nanos, file)) if nanos > 0 => (Kind::Schedstat, file, nanos),
            _ => {
                let file = file("stat").map_err(refused)?;
                let nanos = Kind::Stat.read(&file).map_err(refused)?;
                (Kind::Stat, file, nanos)
            }
        };
        Ok(Self {
            name,
            file,
            kind,
            last_nanos,
            is_gone: false,
        })
    }

    pub fn read(&mut self) -> Spent {
        match self.kind.read(&self.file) {
            Ok(nanos) => self.last_nanos = nanos,
            Err(_) => self.is_gone = true,
        }
        Spent {
            name: self.name.clone(),
            nanos: self.last_nanos,
            is_gone: self.is_gone,
        }
    }
}

impl Kind {
    fn read(self, file: &File) -> io::Result<u64> {
        match self {
            Self::Schedstat => first_number(file),
            Self::Stat => {
                let text = short_text(file)?;
                let ticks = ticks_of(&text).ok_or(io::ErrorKind::InvalidData)?;
                Ok(ticks * (NANOS_PER_S / rustix::param::clock_ticks_per_second()))
            }
        }
    }
}

/// User and system time of a line of stat (proc(5)), whose second word is a name that may hold anything.
fn ticks_of(stat: &str) -> Option<u64> {
    let (_, after_name) = stat.rsplit_once(')')?;
    let mut words = after_name.split_ascii_whitespace().skip(11);
    let user: u64 = words.next()?.parse().ok()?;
    let system: u64 = words.next()?.parse().ok()?;
    Some(user + system)
}

impl Spent {
    pub fn since(&self, earlier: &Self) -> Moved {
        Moved {
            name: self.name.clone(),
            cpu_s: self.nanos.saturating_sub(earlier.nanos) as f64 / NANOS_PER_S as f64,
            gone: self.is_gone,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_with_brackets_does_not_hide_the_times() {
        let stat =
            "4242 (CPU 0/KVM) )) S 1 4242 4242 0 -1 4194368 5 0 0 0 731 269 0 0 20 0 4 0 99 0 0";
        assert_eq!(ticks_of(stat), Some(1000));
        assert_eq!(ticks_of("4242 (x) S 1"), None);
    }

    #[test]
    fn both_ways_to_tell_this_threads_time_agree() {
        let of = |file| File::open(format!("/proc/thread-self/{file}")).expect("proc");
        let (stat, schedstat) = (of("stat"), of("schedstat"));
        let mut spent = 0;
        while spent < NANOS_PER_S / 10 {
            spent = Kind::Stat.read(&stat).expect("it lives");
        }
        let exact = Kind::Schedstat.read(&schedstat).expect("it lives");
        assert!(exact.abs_diff(spent) < NANOS_PER_S / 20, "{exact} {spent}");
    }
}
