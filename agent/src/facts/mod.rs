//! `agent.facts`: what this endpoint is. A fact that cannot be read is null, never a guess.

mod adapter;
mod files;
mod interface;
mod platform;

use serde_json::{Value, json};

pub use self::interface::describe;

use self::files::{line_of, number_of, numbers_of, value_in, words_of};
use vnetbench_counters::{ProcessCycles, availability, mean_clock_hz};
use vnetbench_interfaces::interface::names;
use vnetbench_system::cpu_list::CpuList;

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
        "hypervisor": platform::hypervisor(),
        "dmi": platform::dmi(),
        "services": platform::services(),
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
