//! `agent.facts`: what this endpoint is. A fact that cannot be read is null, never a guess.

mod adapter;
mod interface;
mod surroundings;

use serde_json::{Value, json};

pub use self::interface::describe;

use crate::counters::{ProcessCycles, availability, mean_clock_hz};
use crate::cpu_list::CpuList;
use crate::interface::names;

pub fn facts(cycles: &ProcessCycles) -> Value {
    let system = rustix::system::uname();
    let text = |part: &std::ffi::CStr| part.to_string_lossy().into_owned();
    let perf = availability(cycles);
    let kind = |hardware| if hardware { "hardware" } else { "estimated" };
    json!({
        "kernel": {
            "release": text(system.release()),
            "version": text(system.version()),
            "machine": text(system.machine()),
        },
        "hostname": text(system.nodename()),
        "cpu": cpu(),
        "memory_bytes": memory_bytes(),
        "tcp": {
            "congestion_control": line_of("/proc/sys/net/ipv4/tcp_congestion_control"),
            "available_congestion_control": words_of("/proc/sys/net/ipv4/tcp_available_congestion_control"),
            "rmem": numbers_of("/proc/sys/net/ipv4/tcp_rmem"),
            "wmem": numbers_of("/proc/sys/net/ipv4/tcp_wmem"),
        },
        "socket_buffers": {
            "rmem_max": number_of("/proc/sys/net/core/rmem_max"),
            "wmem_max": number_of("/proc/sys/net/core/wmem_max"),
        },
        "perf": {
            "process_cycles": kind(perf.process),
            "system_cycles": kind(perf.system),
            "reason": perf.reason,
        },
        "hypervisor": surroundings::hypervisor(),
        "dmi": surroundings::dmi(),
        "services": surroundings::services(),
        "interfaces": names().iter().map(|name| describe(name)).collect::<Vec<_>>(),
    })
}

fn cpu() -> Value {
    let online = line_of("/sys/devices/system/cpu/online");
    let count = online
        .as_deref()
        .and_then(|list| CpuList::parse(list).ok())
        .map(|list| list.iter().count());
    json!({
        "model": value_in("/proc/cpuinfo", "model name"),
        "count": count,
        "online": online,
        "mhz": mean_clock_hz().map(|hz| hz / 1e6),
    })
}

fn memory_bytes() -> Option<u64> {
    let text = value_in("/proc/meminfo", "MemTotal")?;
    let kib: u64 = text.strip_suffix(" kB")?.parse().ok()?;
    Some(kib * 1024)
}

fn line_of(path: &str) -> Option<String> {
    Some(std::fs::read_to_string(path).ok()?.trim().to_owned())
}

fn words_of(path: &str) -> Option<Vec<String>> {
    Some(
        line_of(path)?
            .split_ascii_whitespace()
            .map(str::to_owned)
            .collect(),
    )
}

fn number_of(path: &str) -> Option<u64> {
    line_of(path)?.parse().ok()
}

fn numbers_of(path: &str) -> Option<Vec<u64>> {
    words_of(path)?
        .iter()
        .map(|word| word.parse().ok())
        .collect()
}

/// The value of the first line `key : value` of a file.
fn value_in(path: &str, key: &str) -> Option<String> {
    let text = std::fs::read_to_string(path).ok()?;
    text.lines().find_map(|line| {
        let (name, value) = line.split_once(':')?;
        (name.trim() == key).then(|| value.trim().to_owned())
    })
}
