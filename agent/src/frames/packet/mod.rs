//! Frames made and counted through packet sockets (packet(7)), where a port or a privilege has nothing better.

pub mod ring;
pub mod sink;
pub mod source;

use rustix::time::{ClockId, clock_gettime};

/// CLOCK_MONOTONIC, which programs read too (bpf_ktime_get_ns).
pub fn monotonic_nanos() -> u64 {
    nanos_of(ClockId::Monotonic)
}

fn nanos_of(clock: ClockId) -> u64 {
    let time = clock_gettime(clock);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}
