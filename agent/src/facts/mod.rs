//! `agent.facts`: a description of this endpoint. A fact that cannot be read is null, never a guess.

mod adapter;
mod files;
mod interface;
mod platform;

use serde_json::{Value, json};

pub use self::interface::read_interface_facts;

use self::files::{read_keyed_value, read_line, read_number, read_numbers, read_words};
use vnetbench_counters::{ProcessCycles, probe_cycle_counters, read_mean_clock_hz};
use vnetbench_interfaces::interface::list_interface_names;
use vnetbench_system::clock;
use vnetbench_system::cpu_list::CpuList;

/// Collects all facts about this endpoint.
pub fn collect_facts(cycles: &ProcessCycles) -> Value {
    let system = rustix::system::uname();
    let text = |part: &std::ffi::CStr| part.to_string_lossy().into_owned();
    let perf = probe_cycle_counters(cycles);
    let cycle_source = |hardware| if hardware { "hardware" } else { "estimated" };
    json!({
        "kernel": {
            "release": text(system.release()),
            "version": text(system.version()),
            "machine": text(system.machine()),
        },
        "kernel_id": clock::identity_hash().map(|hash| format!("{:032x}", u128::from_be_bytes(hash))),
        "hostname": text(system.nodename()),
        "cpu": read_cpu_facts(),
        "memory_bytes": read_memory_bytes(),
        "tcp": {
            "congestion_control": read_line("/proc/sys/net/ipv4/tcp_congestion_control"),
            "available_congestion_control": read_words("/proc/sys/net/ipv4/tcp_available_congestion_control"),
            "rmem": read_numbers("/proc/sys/net/ipv4/tcp_rmem"),
            "wmem": read_numbers("/proc/sys/net/ipv4/tcp_wmem"),
        },
        "socket_buffers": {
            "rmem_max": read_number("/proc/sys/net/core/rmem_max"),
            "wmem_max": read_number("/proc/sys/net/core/wmem_max"),
        },
        "perf": {
            "process_cycles": cycle_source(perf.process),
            "system_cycles": cycle_source(perf.system),
            "reason": perf.reason,
        },
        "hypervisor": platform::detect_hypervisor(),
        "dmi": platform::read_dmi_facts(),
        "services": platform::read_service_facts(),
        "interfaces": list_interface_names().iter().map(|name| read_interface_facts(name)).collect::<Vec<_>>(),
    })
}

fn read_cpu_facts() -> Value {
    let online = read_line("/sys/devices/system/cpu/online");
    let count = online
        .as_deref()
        .and_then(|list| CpuList::parse(list).ok())
        .map(|list| list.iter().count());
    json!({
        "model": read_keyed_value("/proc/cpuinfo", "model name"),
        "count": count,
        "online": online,
        "mhz": read_mean_clock_hz().map(|hz| hz / 1e6),
    })
}

fn read_memory_bytes() -> Option<u64> {
    let text = read_keyed_value("/proc/meminfo", "MemTotal")?;
    let kib: u64 = text.strip_suffix(" kB")?.parse().ok()?;
    Some(kib * 1024)
}
