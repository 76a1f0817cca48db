//! What this endpoint runs on and beside: the hypervisor, the machine that it shows, and services that change results.

use serde_json::{Value, json};

use super::files::read_line;

const DMI: &str = "/sys/class/dmi/id";
/// A vendor and the beginning of a product (SMBIOS, system information), and the hypervisor that shows them.
const HYPERVISORS_BY_DMI: [(&str, &str, &str); 9] = [
    ("VMware, Inc.", "", "VMware"),
    ("QEMU", "", "QEMU"),
    ("Red Hat", "", "KVM"),
    ("Microsoft Corporation", "Virtual Machine", "Hyper-V"),
    ("Xen", "", "Xen"),
    ("innotek GmbH", "VirtualBox", "VirtualBox"),
    ("Parallels", "", "Parallels"),
    ("Google", "Google Compute Engine", "KVM"),
    ("OpenStack", "", "KVM"),
];

/// What the firmware calls this machine.
pub fn dmi_facts() -> Value {
    json!({"vendor": vendor(), "product": product()})
}

fn vendor() -> Option<String> {
    read_line(&format!("{DMI}/sys_vendor"))
}

fn product() -> Option<String> {
    read_line(&format!("{DMI}/product_name"))
}

/// What this endpoint runs on: what the processor says, or else the firmware. Null on bare metal, or where neither says.
pub fn hypervisor() -> Option<String> {
    hypervisor_by_cpuid().or_else(|| hypervisor_by_dmi(&vendor()?, &product()?).map(str::to_owned))
}

fn hypervisor_by_dmi(vendor: &str, product: &str) -> Option<&'static str> {
    let known = HYPERVISORS_BY_DMI
        .iter()
        .find(|(of, begins, _)| *of == vendor && product.starts_with(begins));
    known.map(|(_, _, name)| *name)
}

#[cfg(target_arch = "x86_64")]
fn hypervisor_by_cpuid() -> Option<String> {
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
        // It is there, and does not say which: the firmware may.
        "" => return None,
        other => other,
    };
    Some(known.into())
}

#[cfg(not(target_arch = "x86_64"))]
fn by_processor() -> Option<String> {
    read_line("/sys/hypervisor/type")
}

/// Whether they run here, by the names of their processes, and what tuned has set; null where /proc does not show that.
pub fn service_facts() -> Value {
    let running = process_names();
    let runs = |name: &str| {
        running
            .as_ref()
            .map(|names| names.iter().any(|n| n == name))
    };
    json!({
        "tuned": runs("tuned"),
        "tuned_profile": read_line("/etc/tuned/active_profile").filter(|profile| !profile.is_empty()),
        "open_vm_tools": runs("vmtoolsd"),
        "qemu_guest_agent": runs("qemu-ga"),
    })
}

fn process_names() -> Option<Vec<String>> {
    let entries = std::fs::read_dir("/proc").ok()?.flatten();
    let name = |entry: std::fs::DirEntry| read_line(entry.path().join("comm").to_str()?);
    Some(entries.filter_map(name).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hypervisor_is_known_by_what_its_firmware_shows() {
        assert_eq!(
            hypervisor_by_dmi("VMware, Inc.", "VMware20,1"),
            Some("VMware")
        );
        assert_eq!(
            hypervisor_by_dmi("Microsoft Corporation", "Virtual Machine"),
            Some("Hyper-V")
        );
        assert_eq!(
            hypervisor_by_dmi("Microsoft Corporation", "Surface Pro"),
            None
        );
        assert_eq!(hypervisor_by_dmi("Dell Inc.", "PowerEdge R650"), None);
    }

    #[test]
    fn a_process_that_runs_is_seen() {
        let own = read_line("/proc/self/comm").expect("Linux");
        assert!(process_names().expect("Linux").contains(&own));
    }
}
