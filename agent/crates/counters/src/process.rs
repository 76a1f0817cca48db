//! CPU time and context switches of the agent's own process.

use crate::reading::{CounterSource, CounterValue, Reading};

pub struct ProcessUsageReader;

impl CounterSource for ProcessUsageReader {
    fn read(&mut self, into: &mut Reading) {
        let usage = read_process_usage();
        let (user, system) = (
            timeval_to_nanos(usage.ru_utime),
            timeval_to_nanos(usage.ru_stime),
        );
        into.process_cpu_nanos = user + system;
        let counters = &mut into.counters;
        counters.push("process_cpu_user_s", CounterValue::Nanos(user));
        counters.push("process_cpu_system_s", CounterValue::Nanos(system));
        counters.push(
            "voluntary_switches",
            CounterValue::Count(usage.ru_nvcsw as u64),
        );
        counters.push(
            "involuntary_switches",
            CounterValue::Count(usage.ru_nivcsw as u64),
        );
    }
}

/// Reads `getrusage`, which uses the scheduler's clock; /proc/self/stat has ticks of 10 ms.
fn read_process_usage() -> libc::rusage {
    // SAFETY: an all-zero `rusage` is valid: it holds only integers.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: `usage` is valid for writes during the call.
    unsafe { libc::getrusage(libc::RUSAGE_SELF, &mut usage) };
    usage
}

fn timeval_to_nanos(time: libc::timeval) -> u64 {
    time.tv_sec as u64 * 1_000_000_000 + time.tv_usec as u64 * 1000
}
