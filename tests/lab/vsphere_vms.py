"""VMs of the simulator of vCenter, with what the lab `vsphere` needs of them."""

from __future__ import annotations

from typing import Any

from tests.vsphere_server import VsphereServer, finish, list_vms, reconfigure
from vnetbench.lab.vsphere import reconfiguration, settings
from vnetbench.lab.vsphere.session import import_vim

ORIGINAL_ENTRIES = {"coalescingScheme": "adapt", "pciSlotNumber": "192"}


def prepare_vm(vm: Any, name: str, mac: str) -> None:
    """Give a VM a name, a vmxnet3 adapter with this MAC address, entries, and running VMware Tools."""
    vim = import_vim("")
    (now,) = settings.list_adapters(vm.config, vim)
    devices = reconfiguration.replace_adapter(now, now, "vmxnet3")
    devices[-1].device.macAddress, devices[-1].device.addressType = mac, "assigned"
    spec = reconfiguration.make_spec(now, devices, "", ORIGINAL_ENTRIES)
    spec.name = name
    spec.extraConfig += [
        vim.option.OptionValue(key="SET.guest.toolsRunningStatus", value="guestToolsRunning"),
        vim.option.OptionValue(key="guestinfo.userdata", value="a secret of the guest"),
    ]
    reconfigure(vm, spec)


def find_vm(content: Any, name: str) -> Any:
    """Return the VM with a name."""
    (vm,) = (each for each in list_vms(content) if each.name == name)
    return vm


def adapter_level(server: VsphereServer, name: str) -> str:
    """Return the level of the factor `adapter` that a VM has now."""
    with server.session() as content:
        (adapter,) = settings.list_adapters(find_vm(content, name).config, import_vim(""))
        return settings.adapter_level(adapter)


def describe_vm(server: VsphereServer, name: str) -> dict[str, Any]:
    """Return all that a restore must bring back, and whether the VM runs."""
    with server.session() as content:
        vm = find_vm(content, name)
        (adapter,) = settings.list_adapters(vm.config, import_vim(""))
        return {
            "adapter": reconfiguration.describe_adapter(adapter),
            "entries": sorted((option.key, option.value) for option in vm.config.extraConfig),
            "latency": settings.read_latency_sensitivity(vm.config),
            "power": vm.runtime.powerState,
            "devices": sorted(device.key for device in vm.config.hardware.device),
        }


def set_slot(server: VsphereServer, name: str, slot: str) -> None:
    """Set the PCI slot of a VM's adapter; an empty one removes the entry."""
    with server.session() as content:
        vm = find_vm(content, name)
        (adapter,) = settings.list_adapters(vm.config, import_vim(""))
        reconfigure(vm, reconfiguration.make_spec(adapter, [], "", {settings.SLOT_ENTRY: slot}))


def power_off(server: VsphereServer, name: str) -> None:
    """Cut a VM's power."""
    with server.session() as content:
        finish(find_vm(content, name).PowerOffVM_Task())
