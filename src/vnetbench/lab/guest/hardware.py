"""A guest as data: its hardware, what it boots, what its adapters are plugged into; QEMU's command line."""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from vnetbench.errors import BenchError
from vnetbench.lab.guest.initramfs import INIT
from vnetbench.lab.guest.qemu import DEVICES, VIRTIO

KVM, TCG = "kvm", "tcg"
AGENT_PORT = "vnetbench.agent"
MACHINE = "q35"
CPU_MODELS = {KVM: "host", TCG: "max"}
BOOT_OPTIONS = f"console=ttyS0 loglevel=5 panic=-1 rdinit=/{INIT} -- init"
"""panic=-1: a kernel that panics reboots at once, and QEMU ends (-no-reboot)."""
MEMORY_MIB, MEMORY_OF_VCPU_MIB = 256, 64
FIRST_CID, CIDS = 1 << 16, 1 << 30
"""Addresses of VSOCK that guests get, far from those given by hand (0 to 2 are taken, vsock(7))."""
QEMU_ITSELF_MIB = 96
"""What a QEMU takes beside its guest's memory: its code, and under TCG what it has translated."""
FORGETFUL = ("vmxnet3",)
"""Adapters that QEMU gives the address of its command line when their driver resets them (as for an MTU)."""
VIRTIO_RING = 256
"""Descriptors of a virtio ring without further ado; larger ones are part of the hardware."""


@dataclass(frozen=True)
class Adapter:
    """One virtual network adapter, as the guest sees it."""

    kind: str
    """A level of the factor `adapter`."""
    queues: int = 1
    rx_ring: int = VIRTIO_RING
    tx_ring: int = VIRTIO_RING
    """Of virtio only, as the rest have the rings that their drivers ask for."""


@dataclass(frozen=True)
class Hardware:
    """What guests of one kind have in common: one snapshot serves them all."""

    accelerator: str
    vcpus: int
    adapters: tuple[Adapter, ...]
    vsock: bool = False
    """Whether it has VSOCK to the host."""

    @property
    def memory_mib(self) -> int:
        """Of the guest."""
        return MEMORY_MIB + MEMORY_OF_VCPU_MIB * (self.vcpus - 1)

    @property
    def needs_mib(self) -> int:
        """Of the host."""
        return self.memory_mib + QEMU_ITSELF_MIB

    @property
    def can_be_kept(self) -> bool:
        """Whether QEMU can write its state to a file: not that of hardware, or of VSOCK."""
        return not self.vsock and all(adapter.kind != "vf" for adapter in self.adapters)


@dataclass(frozen=True)
class Software:
    """What a guest boots."""

    kernel: Path
    initramfs: Path

    def identity(self) -> str:
        """Changes whenever a guest would boot something else."""
        return f"{hashlib.sha256(self.kernel.read_bytes()).hexdigest()} {self.initramfs.name}"


@dataclass(frozen=True)
class Plug:
    """What one adapter is plugged into."""

    backend: str = ""
    """QEMU's -netdev, without its id; empty for hardware of the host's own."""
    mac: str = ""
    """The address that the adapter is to have."""
    device: str = ""
    """Further properties of QEMU's -device."""
    descriptors: tuple[int, ...] = ()
    """Open files that the backend names."""


@dataclass(frozen=True)
class Files:
    """Where one QEMU listens and writes."""

    folder: Path
    name: str

    @property
    def agent(self) -> Path:
        """The socket of the agent's port."""
        return self.folder / f"{self.name}.agent"

    @property
    def monitor(self) -> Path:
        """The socket of QEMU's monitor."""
        return self.folder / f"{self.name}.monitor"

    @property
    def console(self) -> Path:
        """What the guest's kernel writes."""
        return self.folder / f"{self.name}.console"

    @property
    def said(self) -> Path:
        """What QEMU itself writes."""
        return self.folder / f"{self.name}.qemu"


def command_line(
    program: str,
    hardware: Hardware,
    software: Software,
    plugs: Sequence[Plug],
    files: Files,
    *,
    waiting: bool,
) -> list[str]:
    """QEMU's command line; `waiting`: for a state to resume from, told by its monitor."""
    accelerator = "kvm" if hardware.accelerator == KVM else "tcg,thread=multi"
    line = [
        program, "-nodefaults", "-no-user-config", "-display", "none", "-no-reboot",
        "-name", f"{files.name},debug-threads=on",
        "-machine", MACHINE, "-accel", accelerator, "-cpu", CPU_MODELS[hardware.accelerator],
        "-smp", str(hardware.vcpus), "-m", f"{hardware.memory_mib}M",
        "-kernel", str(software.kernel), "-initrd", str(software.initramfs), "-append", BOOT_OPTIONS,
        "-serial", f"file:{files.console}",
        "-chardev", f"socket,id=monitor,path={files.monitor},server=on,wait=off",
        "-mon", "monitor,mode=control",
        # A resumed guest is told so, and makes itself other random numbers than the others of its snapshot.
        "-device", "vmgenid,guid=auto",
        "-device", "virtio-serial-pci",
        "-chardev", f"socket,id=agent,path={files.agent},server=on,wait=off",
        "-device", f"virtserialport,chardev=agent,name={AGENT_PORT}",
    ]  # fmt: skip
    for number, (adapter, plug) in enumerate(zip(hardware.adapters, plugs, strict=True)):
        line += _adapter(number, adapter, plug)
    if hardware.vsock:
        # Guests of the whole host share these addresses, other benches' too.
        cid = FIRST_CID + secrets.randbelow(CIDS)
        line += ["-device", f"vhost-vsock-pci,guest-cid={cid}"]
    return [*line, "-incoming", "defer"] if waiting else line


def check_memory(guests: int, hardware: Hardware) -> None:
    """Raise BenchError where this machine has not the memory for so many guests at once."""
    available_mib, needed_mib = _available_mib(), guests * hardware.needs_mib
    if needed_mib > available_mib:
        raise BenchError(
            f"{guests} guests need {needed_mib} MiB of memory, and {available_mib} MiB are free",
            where="factors.guests",
            fix=f"ask for guests = {available_mib // hardware.needs_mib // 2} at most, each a pair, or make "
            "room",
        )


def room_for(hardware: Hardware) -> int:
    """How many more guests find memory here while half of what is free stays free."""
    return _available_mib() // 2 // hardware.needs_mib


def _available_mib() -> int:
    for line in Path("/proc/meminfo").read_text().splitlines():
        if line.startswith("MemAvailable:"):
            return int(line.split()[1]) // 1024
    return 0


def _adapter(number: int, adapter: Adapter, plug: Plug) -> list[str]:
    device = [DEVICES[adapter.kind]]
    if plug.backend:
        # Without an option ROM: guests do not boot from the network.
        device += [f"netdev=net{number}", "romfile="]
        # A snapshot holds a guest that has no address of its own yet.
        device.append(f"mac={plug.mac if adapter.kind in FORGETFUL else mac(0, 0, number)}")
    if adapter.kind in FORGETFUL:
        device.append("x-disable-pcie=on")  # as PCIe it would have its address in its configuration space too
    if adapter.kind in VIRTIO:
        device.append(f"rx_queue_size={adapter.rx_ring}")
        device.append(f"tx_queue_size={adapter.tx_ring}")
        if adapter.queues > 1:
            # An interrupt for each queue, for changes of the configuration, and for control.
            device += ["mq=on", f"vectors={2 * adapter.queues + 2}"]
    if plug.device:
        device.append(plug.device)
    backend = ["-netdev", f"{plug.backend},id=net{number}"] if plug.backend else []
    return [*backend, "-device", ",".join(device)]


def mac(side: int, pair: int, number: int) -> str:
    """A MAC address of those that QEMU's guests have."""
    return f"52:54:00:{side:02x}:{pair:02x}:{number:02x}"
