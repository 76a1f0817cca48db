//! `agent.facts`: what this endpoint is. A fact that cannot be read is null, never a guess.

use serde_json::{Value, json};

use crate::counters::{ProcessCycles, availability, mean_clock_hz};
use crate::cpu_list::CpuList;
use crate::interface::{Interface, names};

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
        "hypervisor": hypervisor(),
        "interfaces": names().iter().map(|name| interface(name)).collect::<Vec<_>>(),
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

/// What an interface is; all null but its name where there is none of it.
pub fn interface(name: &str) -> Value {
    let interface = Interface::named(name).ok();
    let interface = interface.as_ref();
    json!({
        "name": name,
        "mac": interface.and_then(|i| i.mac().ok()),
        "mtu": interface.and_then(|i| i.mtu().ok()),
        "driver": interface.and_then(|i| i.driver().ok()),
        "rx_queues": interface.and_then(|i| count_of_queues(i, "rx-")),
        "tx_queues": interface.and_then(|i| count_of_queues(i, "tx-")),
    })
}

fn count_of_queues(interface: &Interface, kind: &str) -> Option<usize> {
    let queues = std::fs::read_dir(interface.sysfs().ok()?.join("queues")).ok()?;
    let of_kind = queues
        .flatten()
        .filter(|entry| entry.file_name().to_string_lossy().starts_with(kind));
    Some(of_kind.count())
}

/// What this endpoint runs on; null on bare metal, or where the processor does not say.
#[cfg(target_arch = "x86_64")]
fn hypervisor() -> Option<String> {
    use std::arch::x86_64::__cpuid;
    /// Bit 31 of ECX of leaf 1: a hypervisor is there, and leaf 0x40000000 holds its twelve letters.
    const PRESENT: u32 = 1 << 31;
    if __cpuid(1).ecx & PRESENT == 0 {
        return None;
    }
    let leaf = __cpuid(0x4000_0000);
    let letters = [leaf.ebx, leaf.ecx, leaf.edx]
        .map(u32::to_le_bytes)
        .concat();
    let name = String::from_utf8_lossy(&letters);
    let name = name.trim_matches(['\0', ' ']);
    let known = match name {
        "KVMKVMKVM" => "KVM",
        "VMwareVMware" => "VMware",
        "Microsoft Hv" => "Hyper-V",
        "XenVMMXenVMM" => "Xen",
        "TCGTCGTCGTCG" => "QEMU (TCG)",
        other => other,
    };
    Some(known.into())
}

#[cfg(not(target_arch = "x86_64"))]
fn hypervisor() -> Option<String> {
    line_of("/sys/hypervisor/type")
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
