"""Finds SR-IOV virtual functions of a host's adapter that guests can use through vfio."""

from __future__ import annotations

from pathlib import Path

from vnetbench.errors import BenchError

_SYSFS_INTERFACES_FOLDER = Path("/sys/class/net")


def find_vfio_function_pci_addresses(interface: str) -> list[str]:
    """Return the PCI addresses of an adapter's functions that vfio owns; raises BenchError for none."""
    device = _SYSFS_INTERFACES_FOLDER / interface / "device"
    if not device.exists():
        raise BenchError(
            f"this machine has no adapter {interface}",
            where="testbed.vf_interface",
            fix="run ip link to list the adapters",
        )
    found = sorted(path.resolve() for path in device.glob("virtfn*"))
    if not found:
        raise BenchError(
            f"{interface} has no virtual functions",
            where="testbed.vf_interface",
            fix=f"echo 2 > {device}/sriov_numvfs (adapter and firmware must support SR-IOV)",
        )
    ours = [path.name for path in found if (path / "driver").resolve().name == "vfio-pci"]
    if not ours:
        raise BenchError(
            f"vfio owns no virtual function of {interface}",
            where="testbed.vf_interface",
            fix=f"modprobe vfio-pci; driverctl set-override {found[0].name} vfio-pci",
        )
    return ours
