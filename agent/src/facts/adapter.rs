//! The model of an interface's adapter, by its common name.

use std::path::Path;

use vnetbench_interfaces::interface::{Interface, read_bus_type};

/// PCI vendor and device ids (pci.ids) of the adapters that guests have: emulated, paravirtual, and virtual functions.
const MODELS_BY_PCI_ID: [(&str, &str); 37] = [
    ("15ad:07b0", "vmxnet3"),
    ("15ad:0720", "vmxnet"),
    ("1af4:1000", "virtio-net"),
    ("1af4:1041", "virtio-net"),
    ("8086:10d3", "e1000e"),
    ("8086:1004", "e1000"),
    ("8086:100e", "e1000"),
    ("8086:100f", "e1000"),
    ("8086:10c9", "igb"),
    ("8086:1521", "igb"),
    ("8086:1533", "igb"),
    ("8086:10ca", "igbvf"),
    ("8086:1520", "igbvf"),
    ("8086:10fb", "ixgbe"),
    ("8086:1528", "ixgbe"),
    ("8086:10ed", "ixgbevf"),
    ("8086:1515", "ixgbevf"),
    ("8086:1565", "ixgbevf"),
    ("8086:1572", "i40e"),
    ("8086:154c", "iavf"),
    ("8086:1889", "iavf"),
    ("8086:1592", "ice"),
    ("8086:1593", "ice"),
    ("10ec:8139", "rtl8139"),
    ("1022:2000", "pcnet"),
    ("1414:00ba", "mana"),
    ("15b3:1014", "mlx5 vf"),
    ("15b3:1016", "mlx5 vf"),
    ("15b3:1018", "mlx5 vf"),
    ("15b3:101a", "mlx5 vf"),
    ("15b3:101c", "mlx5 vf"),
    ("15b3:101e", "mlx5 vf"),
    ("1ae0:0042", "gve"),
    ("1d0f:ec20", "ena"),
    ("1d0f:ec21", "ena"),
    ("1d0f:0ec2", "ena"),
    ("1d0f:1ec2", "ena"),
];

/// Returns the adapter's model, or its PCI ids (`8086:1234`) if the model is unknown.
///
/// Returns `None` if the interface has no hardware.
pub fn identify_adapter_model(interface: &Interface) -> Option<String> {
    let device = interface.bus_device_path().ok()?;
    match read_bus_type(&device)?.as_str() {
        "pci" => {
            let ids = format!(
                "{}:{}",
                read_pci_id(&device, "vendor")?,
                read_pci_id(&device, "device")?
            );
            Some(find_model_by_pci_id(&ids).map_or(ids, str::to_owned))
        }
        "vmbus" => Some("hv_netvsc".into()),
        "xen" => Some("xen-netfront".into()),
        "virtio" | "platform"
            if interface
                .driver_name()
                .is_ok_and(|name| name == "virtio_net") =>
        {
            Some("virtio-net".into())
        }
        bus => Some(bus.into()),
    }
}

fn find_model_by_pci_id(vendor_and_device: &str) -> Option<&'static str> {
    let (_, model) = MODELS_BY_PCI_ID
        .iter()
        .find(|(known, _)| *known == vendor_and_device)?;
    Some(model)
}

/// Reads a PCI id from sysfs, without its prefix `0x`.
fn read_pci_id(device: &Path, file: &str) -> Option<String> {
    let text = std::fs::read_to_string(device.join(file)).ok()?;
    Some(text.trim().strip_prefix("0x")?.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_pci_ids_have_a_model_name() {
        assert_eq!(find_model_by_pci_id("15ad:07b0"), Some("vmxnet3"));
        assert_eq!(find_model_by_pci_id("8086:10d3"), Some("e1000e"));
        assert_eq!(find_model_by_pci_id("ffff:0001"), None);
    }

    #[test]
    fn an_interface_without_hardware_has_no_adapter_model() {
        assert_eq!(
            identify_adapter_model(&Interface::open("lo").expect("lo")),
            None
        );
    }
}
