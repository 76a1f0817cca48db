//! The kernel's notation for a set of CPUs (`0-1,3`), the mask of sysfs (`b`), and the affinity of threads.

use std::collections::BTreeSet;
use std::io;
use std::os::unix::thread::JoinHandleExt;
use std::thread::JoinHandle;

use rustix::thread::{CpuSet, Pid, sched_getaffinity, sched_setaffinity};

use crate::error::{Error, Result};

/// What `sched_setaffinity` is asked about here (the kernel's usual upper bound of CPUs).
const MAX_CPUS: usize = CpuSet::MAX_CPU;

/// Longer than any list of so many CPUs needs to be: "0,2,4" and so on to the last.
const MAX_TEXT_BYTES: usize = 4096;

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct CpuList(BTreeSet<usize>);

impl CpuList {
    /// Of this one alone.
    pub fn single(cpu: usize) -> Self {
        Self(BTreeSet::from([cpu]))
    }

    /// Reads `0-1,3`; the empty text is the empty list.
    pub fn parse(text: &str) -> Result<Self> {
        if text.len() > MAX_TEXT_BYTES {
            return Err(Error::BadParameter(format!(
                "a CPU list may have {MAX_TEXT_BYTES} bytes; join its neighbours as in 0-7"
            )));
        }
        let wrong = || {
            Error::BadParameter(format!(
                "\"{text}\" is no CPU list; write it as 0-1,3 with CPUs below {MAX_CPUS}"
            ))
        };
        let mut cpus = BTreeSet::new();
        for part in text.trim().split(',') {
            if part.is_empty() && text.trim().is_empty() {
                break;
            }
            let (first, last) = part.split_once('-').unwrap_or((part, part));
            let first: usize = first.trim().parse().map_err(|_| wrong())?;
            let last: usize = last.trim().parse().map_err(|_| wrong())?;
            if first > last || last >= MAX_CPUS {
                return Err(wrong());
            }
            cpus.extend(first..=last);
        }
        Ok(Self(cpus))
    }

    /// Reads a mask of sysfs: hexadecimal words of 32 bits, highest first, with commas between (`00000000,0000000b`).
    pub fn from_mask(mask: &str) -> Option<Self> {
        let mut cpus = BTreeSet::new();
        for (index, word) in mask.trim().rsplit(',').enumerate() {
            let bits = u32::from_str_radix(word, 16).ok()?;
            cpus.extend(
                (0..32)
                    .filter(|b| bits & (1 << b) != 0)
                    .map(|b| index * 32 + b),
            );
        }
        Some(Self(cpus))
    }

    pub fn to_mask(&self) -> String {
        let words = self.0.last().map_or(0, |highest| highest / 32) + 1;
        let mut bits = vec![0u32; words];
        for cpu in &self.0 {
            bits[cpu / 32] |= 1 << (cpu % 32);
        }
        let words: Vec<String> = bits.iter().rev().map(|w| format!("{w:08x}")).collect();
        words.join(",")
    }

    pub fn iter(&self) -> impl Iterator<Item = usize> + '_ {
        self.0.iter().copied()
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Lets the thread (`None`: this one) run on these CPUs only.
    pub fn apply_to(&self, thread: Option<Pid>) -> rustix::io::Result<()> {
        let mut set = CpuSet::new();
        for cpu in &self.0 {
            set.set(*cpu);
        }
        sched_setaffinity(thread, &set)
    }

    /// Where the thread (`None`: this one) may run.
    pub fn of_thread(thread: Option<Pid>) -> rustix::io::Result<Self> {
        let set = sched_getaffinity(thread)?;
        Ok(Self((0..MAX_CPUS).filter(|cpu| set.is_set(*cpu)).collect()))
    }

    /// Where a thread that was started, and not joined yet, may run.
    pub fn of_thread_handle<T>(thread: &JoinHandle<T>) -> io::Result<Self> {
        // SAFETY: all zeroes are a valid, empty `cpu_set_t`.
        let mut set: libc::cpu_set_t = unsafe { std::mem::zeroed() };
        // SAFETY: the thread has not been joined, as its handle is here, and `set` is valid for writes of its size.
        let error = unsafe {
            libc::pthread_getaffinity_np(thread.as_pthread_t(), size_of_val(&set), &raw mut set)
        };
        if error != 0 {
            return Err(io::Error::from_raw_os_error(error));
        }
        // SAFETY: `set` was filled in, and every CPU that is asked about lies within it.
        let is_set = |cpu: &usize| unsafe { libc::CPU_ISSET(*cpu, &set) };
        Ok(Self((0..MAX_CPUS).filter(is_set).collect()))
    }
}

impl std::fmt::Display for CpuList {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut ranges: Vec<(usize, usize)> = Vec::new();
        for cpu in &self.0 {
            match ranges.last_mut() {
                Some((_, last)) if *last + 1 == *cpu => *last = *cpu,
                _ => ranges.push((*cpu, *cpu)),
            }
        }
        let text: Vec<String> = ranges
            .iter()
            .map(|(a, b)| {
                if a == b {
                    a.to_string()
                } else {
                    format!("{a}-{b}")
                }
            })
            .collect();
        out.write_str(&text.join(","))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_is_read_and_written_in_its_shortest_form() {
        let list = |text| CpuList::parse(text).map(|l| l.to_string());
        assert_eq!(list("3,0-1").expect("valid"), "0-1,3");
        assert_eq!(list("0,1,2").expect("valid"), "0-2");
        assert_eq!(list("").expect("valid"), "");
    }

    #[test]
    fn every_other_cpu_of_the_largest_machine_can_be_named() {
        let every_other: CpuList = CpuList((0..MAX_CPUS).step_by(2).collect());
        let text = every_other.to_string();
        assert_eq!(CpuList::parse(&text).expect("valid"), every_other);
        let repeated = "0-1023,".repeat(1000) + "0";
        assert!(CpuList::parse(&repeated).is_err(), "it costs too much");
    }

    #[test]
    fn what_is_no_list_is_refused() {
        for text in ["a", "1-", "-1", "3-1", ",", "1,,2", "0-99999999999", "1024"] {
            assert!(CpuList::parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_mask_holds_what_the_list_says() {
        let list = CpuList::parse("0-1,3,33").expect("valid");
        assert_eq!(list.to_mask(), "00000002,0000000b");
        assert_eq!(CpuList::from_mask("00000002,0000000b\n"), Some(list));
        assert_eq!(CpuList::default().to_mask(), "00000000");
        assert_eq!(
            CpuList::from_mask("f").map(|l| l.to_string()),
            Some("0-3".into())
        );
    }
}
