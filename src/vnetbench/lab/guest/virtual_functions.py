"""Virtual functions of an adapter of the host (SR-IOV) that guests can have by vfio."""

from __future__ import annotations

from pathlib import Path

from vnetbench.errors import BenchError

_NETWORK = Path("/sys/class/net")


def functions_of(interface: str) -> list[str]:
    """The virtual functions of an adapter of the host that vfio has, by PCI address; raises BenchError."""
    device = _NETWORK / interface / "device"
    if not device.exists():
        raise BenchError(
            f"this machine has no adapter {interface}", where="testbed.vf_of", fix="ip link lists them"
        )
    found = sorted(path.resolve() for path in device.glob("virtfn*"))
    if not found:
        raise BenchError(
            f"{interface} has no virtual functions", where="testbed.vf_of",
            fix=f"echo 2 > {device}/sriov_numvfs (the adapter and the firmware must have SR-IOV)",
        )  # fmt: skip
    ours = [path.name for path in found if (path / "driver").resolve().name == "vfio-pci"]
    if not ours:
        raise BenchError(
            f"no virtual function of {interface} is given to vfio", where="testbed.vf_of",
            fix=f"modprobe vfio-pci; driverctl set-override {found[0].name} vfio-pci",
        )  # fmt: skip
    return ours
