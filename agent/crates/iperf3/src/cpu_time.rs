//! CPU time of the threads of one test; several tests can share the process.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::results::CpuUsage;

/// Sum of the CPU time of a test's threads.
#[derive(Debug, Default)]
pub struct CpuTimeTotal {
    user_us: AtomicU64,
    system_us: AtomicU64,
}

impl CpuTimeTotal {
    /// Adds the CPU time that the calling thread used since `before`; the default value means its start.
    pub fn add_current_thread(&self, before: CpuTime) {
        self.add(CpuTime::current_thread(), before);
    }

    /// Adds the difference of two readings.
    pub fn add(&self, now: CpuTime, before: CpuTime) {
        self.user_us.fetch_add(
            now.user_us.saturating_sub(before.user_us),
            Ordering::Relaxed,
        );
        self.system_us.fetch_add(
            now.system_us.saturating_sub(before.system_us),
            Ordering::Relaxed,
        );
    }

    /// Returns the CPU usage in percent of one CPU over this time.
    pub fn usage_over(&self, elapsed: Duration) -> CpuUsage {
        let wall_us = elapsed.as_secs_f64().max(1e-6) * 1e6;
        let user = 100.0 * self.user_us.load(Ordering::Relaxed) as f64 / wall_us;
        let system = 100.0 * self.system_us.load(Ordering::Relaxed) as f64 / wall_us;
        CpuUsage {
            total: user + system,
            user,
            system,
        }
    }
}

/// A reading of CPU time.
#[derive(Debug, Clone, Copy, Default)]
pub struct CpuTime {
    user_us: u64,
    system_us: u64,
}

impl CpuTime {
    /// Returns the CPU time that the calling thread has used.
    pub fn current_thread() -> Self {
        Self::read(libc::RUSAGE_THREAD)
    }

    /// Returns the CPU time that this process has used.
    pub fn current_process() -> Self {
        Self::read(libc::RUSAGE_SELF)
    }

    fn read(target: i32) -> Self {
        // SAFETY: all-zero is a valid `rusage` (it holds integers only).
        let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
        // SAFETY: `usage` is valid for writes of its type for the whole call.
        unsafe { libc::getrusage(target, &mut usage) };
        let micros = |time: libc::timeval| time.tv_sec as u64 * 1_000_000 + time.tv_usec as u64;
        Self {
            user_us: micros(usage.ru_utime),
            system_us: micros(usage.ru_stime),
        }
    }
}
