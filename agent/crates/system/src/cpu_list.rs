//! Sets of CPUs: the kernel's list notation (`0-1,3`), the masks of sysfs (`b`), and the affinity of threads.

use std::collections::BTreeSet;
use std::io;
use std::os::unix::thread::JoinHandleExt;
use std::thread::JoinHandle;

use rustix::thread::{CpuSet, Pid, sched_getaffinity, sched_setaffinity};

use crate::error::{RequestError, Result};

/// Limit of CPU numbers (the kernel's usual maximum).
const MAX_CPUS: usize = CpuSet::MAX_CPU;

/// Limit of a list's length. The longest useful list names every other CPU: "0,2,4" and so on.
const MAX_TEXT_BYTES: usize = 4096;

/// A set of CPUs.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct CpuList(BTreeSet<usize>);

impl CpuList {
    /// Returns the set of one CPU.
    pub fn from_cpu(cpu: usize) -> Self {
        Self(BTreeSet::from([cpu]))
    }

    /// Parses a list such as `0-1,3`; an empty text is the empty set.
    ///
    /// # Errors
    ///
    /// Fails if the text is not a list or names a CPU beyond the limit.
    pub fn parse(text: &str) -> Result<Self> {
        if text.len() > MAX_TEXT_BYTES {
            return Err(RequestError::BadParameter(format!(
                "a CPU list may have at most {MAX_TEXT_BYTES} bytes; write ranges such as 0-7"
            )));
        }
        let invalid = || {
            RequestError::BadParameter(format!(
                "\"{text}\" is not a CPU list; write it as 0-1,3 with CPUs below {MAX_CPUS}"
            ))
        };
        let mut cpus = BTreeSet::new();
        for part in text.trim().split(',') {
            if part.is_empty() && text.trim().is_empty() {
                break;
            }
            let (first, last) = part.split_once('-').unwrap_or((part, part));
            let first: usize = first.trim().parse().map_err(|_| invalid())?;
            let last: usize = last.trim().parse().map_err(|_| invalid())?;
            if first > last || last >= MAX_CPUS {
                return Err(invalid());
            }
            cpus.extend(first..=last);
        }
        Ok(Self(cpus))
    }

    /// Parses a mask of sysfs: hexadecimal 32-bit words, highest first, separated by commas (`00000000,0000000b`).
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

    /// Formats the set as a mask of sysfs.
    pub fn to_mask(&self) -> String {
        let words = self.0.last().map_or(0, |highest| highest / 32) + 1;
        let mut bits = vec![0u32; words];
        for cpu in &self.0 {
            bits[cpu / 32] |= 1 << (cpu % 32);
        }
        let words: Vec<String> = bits.iter().rev().map(|w| format!("{w:08x}")).collect();
        words.join(",")
    }

    /// Returns the CPUs in ascending order.
    pub fn iter(&self) -> impl Iterator<Item = usize> + '_ {
        self.0.iter().copied()
    }

    /// Returns whether the set is empty.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Restricts a thread (`None`: the calling thread) to these CPUs.
    pub fn apply_to(&self, thread: Option<Pid>) -> rustix::io::Result<()> {
        let mut set = CpuSet::new();
        for cpu in &self.0 {
            set.set(*cpu);
        }
        sched_setaffinity(thread, &set)
    }

    /// Returns the CPUs that a thread (`None`: the calling thread) may run on.
    pub fn read_thread_affinity(thread: Option<Pid>) -> rustix::io::Result<Self> {
        let set = sched_getaffinity(thread)?;
        Ok(Self((0..MAX_CPUS).filter(|cpu| set.is_set(*cpu)).collect()))
    }

    /// Returns the CPUs that a thread which is not joined yet may run on.
    pub fn read_handle_affinity<T>(thread: &JoinHandle<T>) -> io::Result<Self> {
        // SAFETY: an all-zero `cpu_set_t` is valid and empty.
        let mut set: libc::cpu_set_t = unsafe { std::mem::zeroed() };
        // SAFETY: the thread has not been joined, because its handle still exists, and `set` is valid for writes of its size.
        let error = unsafe {
            libc::pthread_getaffinity_np(thread.as_pthread_t(), size_of_val(&set), &raw mut set)
        };
        if error != 0 {
            return Err(io::Error::from_raw_os_error(error));
        }
        // SAFETY: `set` is initialized, and every CPU is below its limit.
        let is_set = |cpu: &usize| unsafe { libc::CPU_ISSET(*cpu, &set) };
        Ok(Self((0..MAX_CPUS).filter(is_set).collect()))
    }
}

impl FromIterator<usize> for CpuList {
    fn from_iter<T: IntoIterator<Item = usize>>(cpus: T) -> Self {
        Self(cpus.into_iter().collect())
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
    fn a_list_is_formatted_in_its_shortest_form() {
        let list = |text| CpuList::parse(text).map(|l| l.to_string());
        assert_eq!(list("3,0-1").expect("valid"), "0-1,3");
        assert_eq!(list("0,1,2").expect("valid"), "0-2");
        assert_eq!(list("").expect("valid"), "");
    }

    #[test]
    fn a_list_of_every_other_cpu_of_the_largest_machine_is_valid() {
        let every_other: CpuList = CpuList((0..MAX_CPUS).step_by(2).collect());
        let text = every_other.to_string();
        assert_eq!(CpuList::parse(&text).expect("valid"), every_other);
        let repeated = "0-1023,".repeat(1000) + "0";
        assert!(CpuList::parse(&repeated).is_err(), "the text is too long");
    }

    #[test]
    fn invalid_lists_are_rejected() {
        for text in ["a", "1-", "-1", "3-1", ",", "1,,2", "0-99999999999", "1024"] {
            assert!(CpuList::parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_mask_holds_the_cpus_of_the_list() {
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
