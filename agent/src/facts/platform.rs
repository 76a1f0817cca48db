//! Facts about the platform: the hypervisor, the machine that its firmware reports, and services that change results.

use serde_json::{Value, json};

use super::files::read_line;

const DMI_FOLDER: &str = "/sys/class/dmi/id";
/// The vendor and the start of the product name (SMBIOS, system information) of each hypervisor.
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

/// Returns the vendor and product name that the firmware reports.
pub fn read_dmi_facts() -> Value {
    json!({"vendor": read_dmi_vendor(), "product": read_dmi_product()})
}

fn read_dmi_vendor() -> Option<String> {
    read_line(&format!("{DMI_FOLDER}/sys_vendor"))
}

fn read_dmi_product() -> Option<String> {
    read_line(&format!("{DMI_FOLDER}/product_name"))
}

/// Returns the hypervisor that CPUID reports, or else the firmware. Returns `None` on bare metal, or if neither reports it.
pub fn detect_hypervisor() -> Option<String> {
    find_hypervisor_without_dmi().or_else(|| {
        find_hypervisor_by_dmi(&read_dmi_vendor()?, &read_dmi_product()?).map(str::to_owned)
    })
}

fn find_hypervisor_by_dmi(vendor: &str, product: &str) -> Option<&'static str> {
    let entry = HYPERVISORS_BY_DMI
        .iter()
        .find(|(known_vendor, prefix, _)| *known_vendor == vendor && product.starts_with(prefix));
    entry.map(|(_, _, name)| *name)
}

#[cfg(target_arch = "x86_64")]
fn find_hypervisor_without_dmi() -> Option<String> {
    use std::arch::x86_64::__cpuid;
    /// Bit 31 of ECX of leaf 1: a hypervisor exists, and leaf 0x40000000 contains its signature of twelve characters.
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
        // The hypervisor hides its name; the firmware may report it.
        "" => return None,
        other => other,
    };
    Some(known.into())
}

#[cfg(not(target_arch = "x86_64"))]
fn find_hypervisor_without_dmi() -> Option<String> {
    read_line("/sys/hypervisor/type")
}

/// Returns which services run, by the names of their processes, and tuned's profile. Null if /proc does not show it.
pub fn read_service_facts() -> Value {
    let running = list_process_names();
    let is_running = |name: &str| {
        running
            .as_ref()
            .map(|names| names.iter().any(|n| n == name))
    };
    json!({
        "tuned": is_running("tuned"),
        "tuned_profile": read_line("/etc/tuned/active_profile").filter(|profile| !profile.is_empty()),
        "open_vm_tools": is_running("vmtoolsd"),
        "qemu_guest_agent": is_running("qemu-ga"),
    })
}

fn list_process_names() -> Option<Vec<String>> {
    let entries = std::fs::read_dir("/proc").ok()?.flatten();
    let name = |entry: std::fs::DirEntry| read_line(entry.path().join("comm").to_str()?);
    Some(entries.filter_map(name).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hypervisor_is_derived_from_the_firmware() {
        assert_eq!(
            find_hypervisor_by_dmi("VMware, Inc.", "VMware20,1"),
            Some("VMware")
        );
        assert_eq!(
            find_hypervisor_by_dmi("Microsoft Corporation", "Virtual Machine"),
            Some("Hyper-V")
        );
        assert_eq!(
            find_hypervisor_by_dmi("Microsoft Corporation", "Surface Pro"),
            None
        );
        assert_eq!(find_hypervisor_by_dmi("Dell Inc.", "PowerEdge R650"), None);
    }

    #[test]
    fn process_names_contain_this_process() {
        let own = read_line("/proc/self/comm").expect("Linux");
        assert!(list_process_names().expect("Linux").contains(&own));
    }
}
