"""Prepares what guests need before any of them starts: QEMU, a kernel, an initramfs and an accelerator."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass

from vnetbench.errors import BenchError
from vnetbench.lab.guest import accelerator, initramfs, kernel, qemu
from vnetbench.lab.guest.accelerator import Accelerator
from vnetbench.lab.guest.hardware import KVM, TCG, BootImages, check_memory
from vnetbench.lab.guest.kernel import Kernel
from vnetbench.lab.guest.modules import ADAPTER_DRIVERS
from vnetbench.lab.guest.network import TUN_DEVICE, VHOST_NET_DEVICE, VHOST_VSOCK_DEVICE
from vnetbench.lab.guest.qemu import Qemu
from vnetbench.lab.guest.topology import GuestShape
from vnetbench.lab.guest.virtual_functions import find_vfio_function_pci_addresses

TEAM_MODULES = ("bonding", "bridge")
"""Modules of guests with a team."""


@dataclass(frozen=True)
class GuestPrerequisites:
    """Everything that guests are made of."""

    qemu: Qemu
    kernel: Kernel
    boot_images: BootImages
    accelerator: Accelerator

    def summary(self) -> str:
        """Return a line or two that describes the guests."""
        accelerator = self.accelerator
        how = (
            "with KVM"
            if accelerator.name == KVM
            else f"under TCG, without KVM: {accelerator.kvm_unavailable_reason}"
        )
        return f"guests: QEMU {self.qemu.version} {how}; kernel {self.kernel.release} ({self.kernel.source})"

    def describe(self) -> dict[str, object]:
        """Return the facts for the results file."""
        return {
            "accelerator": self.accelerator.name,
            "kvm_unavailable_reason": self.accelerator.kvm_unavailable_reason,
            "qemu": self.qemu.version,
            "guest_kernel": self.kernel.release,
            "guest_kernel_source": self.kernel.source,
        }


def find_qemu_and_fetch_kernel(adapters: Iterable[str], modules: Iterable[str] = ()) -> tuple[Qemu, Kernel]:
    """Return QEMU and a kernel for these adapters with these modules, downloaded if needed.

    Raises:
        BenchError: if one of them is missing.
    """
    kernel.check_architecture()
    installed_qemu = qemu.find_qemu()
    adapters = list(adapters)
    for adapter in adapters:
        installed_qemu.check_adapter(adapter)
    drivers = [name for adapter in adapters for name in ADAPTER_DRIVERS.get(adapter, ())]
    return installed_qemu, kernel.find_or_download_kernel(dict.fromkeys((*drivers, *modules)))


def prepare_guests(shapes: Iterable[GuestShape]) -> GuestPrerequisites:
    """Prepare everything that guests of these shapes need; raises BenchError."""
    shapes = list(shapes)
    has_team = any(shape.team_link_count for shape in shapes)
    installed_qemu, own_kernel = find_qemu_and_fetch_kernel(
        dict.fromkeys(shape.adapter for shape in shapes), TEAM_MODULES if has_team else ()
    )
    for shape in shapes:
        _check_host_devices(shape)
        check_memory(_count_guests(shape), shape.hardware(TCG))
    software = BootImages(own_kernel.image, initramfs.find_or_build_initramfs(own_kernel))
    return GuestPrerequisites(
        installed_qemu, own_kernel, software, accelerator.detect_accelerator(installed_qemu, software)
    )


def _count_guests(shape: GuestShape) -> int:
    if shape.team_link_count:
        return 2
    return shape.pairs * (2 if shape.role == "guest-to-guest" else 1)


def _check_host_devices(shape: GuestShape) -> None:
    """Raise BenchError if this machine's kernel lacks something that an adapter needs."""
    if not os.access(TUN_DEVICE, os.R_OK | os.W_OK):
        raise BenchError(
            f"{TUN_DEVICE} does not exist or cannot be opened, so guests have no network",
            where="testbed.lab",
            fix="run modprobe tun. A container needs this device",
        )
    if shape.adapter == "virtio-net-vhost" and not os.access(VHOST_NET_DEVICE, os.R_OK | os.W_OK):
        raise BenchError(
            f"{VHOST_NET_DEVICE} does not exist or cannot be opened, so the kernel cannot move packets",
            where="factors.adapter",
            fix="run modprobe vhost_net, and run vnetbench as root; or use virtio-net",
        )
    if shape.vsock and not os.access(VHOST_VSOCK_DEVICE, os.R_OK | os.W_OK):
        raise BenchError(
            f"{VHOST_VSOCK_DEVICE} does not exist or cannot be opened, so guests have no VSOCK",
            where="factors.transport",
            fix="run modprobe vhost_vsock, and run vnetbench as root; or leave out transport = vsock",
        )
    if shape.adapter == "vf":
        functions = find_vfio_function_pci_addresses(shape.vf_interface)
        if len(functions) < _count_guests(shape):
            raise BenchError(
                f"{_count_guests(shape)} guests need a virtual function each, but vfio has {len(functions)} "
                "virtual functions",
                where="testbed.vf_interface",
                fix="bind more virtual functions to vfio-pci, or request fewer guests",
            )
