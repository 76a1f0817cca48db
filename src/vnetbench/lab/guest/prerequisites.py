"""What must be there before guests are raised: looked for, fetched, built, tried; or said, with the fix."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass

from vnetbench.errors import BenchError
from vnetbench.lab.guest import accelerator, initramfs, kernel, qemu
from vnetbench.lab.guest.accelerator import Accelerator
from vnetbench.lab.guest.hardware import KVM, TCG, Software, check_memory
from vnetbench.lab.guest.kernel import Kernel
from vnetbench.lab.guest.modules import DRIVERS
from vnetbench.lab.guest.network import TUN, VHOST, VHOST_VSOCK
from vnetbench.lab.guest.qemu import Qemu
from vnetbench.lab.guest.topology import GuestShape
from vnetbench.lab.guest.virtual_functions import functions_of


@dataclass(frozen=True)
class Ready:
    """All that guests are made of."""

    qemu: Qemu
    kernel: Kernel
    software: Software
    accelerator: Accelerator

    def in_words(self) -> str:
        """What guests are, in a line or two."""
        how = (
            "with KVM" if self.accelerator.name == KVM else f"under TCG, without KVM: {self.accelerator.why}"
        )
        return f"guests: QEMU {self.qemu.version} {how}; kernel {self.kernel.release} ({self.kernel.source})"

    def as_facts(self) -> dict[str, object]:
        """For the results file."""
        return {
            "accelerator": self.accelerator.name,
            "why_no_kvm": self.accelerator.why,
            "qemu": self.qemu.version,
            "guest_kernel": self.kernel.release,
            "guest_kernel_from": self.kernel.source,
        }


def fetch(adapters: Iterable[str]) -> tuple[Qemu, Kernel]:
    """QEMU and a kernel for guests with these adapters, fetched where it must be; raises BenchError."""
    kernel.check_architecture()
    found = qemu.installed()
    adapters = list(adapters)
    for adapter in adapters:
        found.check_adapter(adapter)
    drivers = [name for adapter in adapters for name in DRIVERS.get(adapter, ())]
    return found, kernel.prepared(dict.fromkeys(drivers))


def get_ready(shapes: Iterable[GuestShape]) -> Ready:
    """All that guests of these shapes need, built where it must be; raises BenchError."""
    shapes = list(shapes)
    found, own_kernel = fetch(dict.fromkeys(shape.adapter for shape in shapes))
    for shape in shapes:
        _check_host(shape)
        check_memory(_guests(shape), shape.hardware(TCG))
    software = Software(own_kernel.image, initramfs.built(own_kernel))
    return Ready(found, own_kernel, software, accelerator.found(found, software))


def _guests(shape: GuestShape) -> int:
    return shape.guests * (2 if shape.role == "guest-to-guest" else 1)


def _check_host(shape: GuestShape) -> None:
    """What an adapter wants of this machine's own kernel; raises BenchError."""
    if not os.access(TUN, os.R_OK | os.W_OK):
        raise BenchError(
            f"{TUN} is not here, or may not be opened: guests have no network", where="testbed.lab",
            fix="modprobe tun; in a container it needs that device",
        )  # fmt: skip
    if shape.adapter == "virtio-net-vhost" and not os.access(VHOST, os.R_OK | os.W_OK):
        raise BenchError(
            f"{VHOST} is not here, or may not be opened: this kernel does not move virtio's packets itself",
            where="factors.adapter",
            fix="modprobe vhost_net, and run as root; or take virtio-net",
        )
    if shape.vsock and not os.access(VHOST_VSOCK, os.R_OK | os.W_OK):
        raise BenchError(
            f"{VHOST_VSOCK} is not here, or may not be opened: guests have no VSOCK to this machine",
            where="factors.transport",
            fix="modprobe vhost_vsock, and run as root; or leave transport = vsock out",
        )
    if shape.adapter == "vf":
        functions = functions_of(shape.vf_of)
        if len(functions) < _guests(shape):
            raise BenchError(
                f"{_guests(shape)} guests want a virtual function each, and vfio has {len(functions)}",
                where="testbed.vf_of",
                fix="give more of them to vfio-pci, or ask for fewer guests",
            )
