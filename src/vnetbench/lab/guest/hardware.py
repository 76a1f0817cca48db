"""A guest's hardware and software as data, and the command line that starts QEMU with them."""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from vnetbench.errors import BenchError
from vnetbench.lab.guest.initramfs import INIT_FILE_NAME
from vnetbench.lab.guest.qemu import QEMU_DEVICE_BY_ADAPTER, SANDBOX_OPTIONS, VIRTIO_ADAPTERS

KVM, TCG = "kvm", "tcg"
AGENT_PORT_NAME = "vnetbench.agent"
MACHINE_TYPE = "q35"
CPU_MODEL_BY_ACCELERATOR = {KVM: "host", TCG: "max"}
BOOT_OPTIONS = f"console=ttyS0 loglevel=5 panic=-1 rdinit=/{INIT_FILE_NAME} -- init"
"""panic=-1: after a panic the kernel reboots at once, and QEMU ends (-no-reboot)."""
MEMORY_MIB, MEMORY_PER_EXTRA_VCPU_MIB = 256, 64
FIRST_CID, CID_COUNT = 1 << 16, 1 << 30
"""First VSOCK address of guests and their number, above addresses in common use (vsock(7))."""
QEMU_OVERHEAD_MIB = 96
"""Memory of a QEMU besides its guest's: its code, and the translated code under TCG."""
ADAPTERS_RESTORING_COMMAND_LINE_MAC = ("vmxnet3",)
"""Adapters that take the command line's MAC address again when their driver resets them, as for an MTU."""
ADAPTERS_WITH_SERIAL_NUMBER = ("e1000e", "igb")
"""PCIe adapters whose configuration space holds the command line's MAC address as a serial number. QEMU
resumes or migrates a guest only to an adapter with the same one."""
NEW_GENERATION = "auto"
"""Generation id of a guest that starts: QEMU makes a new one (vmgenid)."""
DEFAULT_VIRTIO_RING_SIZE = 256
"""Default descriptors of a virtio ring; larger rings are part of the hardware."""


@dataclass(frozen=True)
class Adapter:
    """One virtual network adapter as the guest sees it."""

    factor_level: str
    """A level of the factor `adapter`."""
    queues: int = 1
    virtio_rx_ring: int = DEFAULT_VIRTIO_RING_SIZE
    virtio_tx_ring: int = DEFAULT_VIRTIO_RING_SIZE
    """Descriptors of virtio rings only; other adapters have the rings that their drivers request."""
    link_speed_mbps: int | None = None
    """Speed that a virtio adapter reports, with full duplex; None for an unknown speed. If the duplex mode is
    unknown, the bonding driver sends no LACP frames (bond_3ad.c, `ad_update_actor_keys`)."""


@dataclass(frozen=True)
class Hardware:
    """The hardware that guests of one shape share, so that one snapshot serves them all."""

    accelerator: str
    vcpus: int
    adapters: tuple[Adapter, ...]
    vsock: bool = False
    """Whether the guest has VSOCK to the host."""

    @property
    def memory_mib(self) -> int:
        """Memory of the guest."""
        return MEMORY_MIB + MEMORY_PER_EXTRA_VCPU_MIB * (self.vcpus - 1)

    @property
    def required_host_memory_per_guest_mib(self) -> int:
        """Memory that the guest takes on the host."""
        return self.memory_mib + QEMU_OVERHEAD_MIB

    @property
    def can_snapshot(self) -> bool:
        """Whether QEMU can write the guest's state to a file, which vfio devices and VSOCK prevent."""
        return not self.vsock and all(adapter.factor_level != "vf" for adapter in self.adapters)


@dataclass(frozen=True)
class BootImages:
    """What a guest boots."""

    kernel: Path
    initramfs: Path

    def identity(self) -> str:
        """Return a text that changes whenever a guest would boot something else."""
        return f"{hashlib.sha256(self.kernel.read_bytes()).hexdigest()} {self.initramfs.name}"


@dataclass(frozen=True)
class AdapterBackend:
    """What one adapter is connected to on the host."""

    netdev: str = ""
    """Value of QEMU's -netdev, without its id; empty for a device of the host's own."""
    mac: str = ""
    """MAC address of the adapter."""
    device_options: str = ""
    """More properties for QEMU's -device."""
    file_descriptors: tuple[int, ...] = ()
    """Open file descriptors that the backend refers to."""


@dataclass(frozen=True)
class QemuRuntimeFiles:
    """Sockets and logs of one QEMU."""

    folder: Path
    file_stem: str

    @property
    def agent_socket(self) -> Path:
        """Socket of the agent's port."""
        return self.folder / f"{self.file_stem}.agent"

    @property
    def monitor_socket(self) -> Path:
        """Socket of QEMU's monitor."""
        return self.folder / f"{self.file_stem}.monitor"

    @property
    def migration_socket(self) -> Path:
        """Socket at which this QEMU waits for a guest that migrates to it."""
        return self.folder / f"{self.file_stem}.migration"

    @property
    def console_log(self) -> Path:
        """Console output of the guest's kernel."""
        return self.folder / f"{self.file_stem}.console"

    @property
    def qemu_log(self) -> Path:
        """Output of QEMU itself."""
        return self.folder / f"{self.file_stem}.qemu"


def qemu_command(
    program: str,
    hardware: Hardware,
    boot_images: BootImages,
    backends: Sequence[AdapterBackend],
    files: QemuRuntimeFiles,
    *,
    awaits_snapshot: bool,
    is_sandboxed: bool = True,
    generation_id: str = NEW_GENERATION,
) -> list[str]:
    """Return QEMU's command line.

    With `awaits_snapshot`, the guest waits until its monitor names the state to resume from. A sandboxed QEMU
    cannot start a program, change its user or its priority: a guest that takes it over gains less. A guest
    that migrates keeps its `generation_id`.
    """
    has_migrated = generation_id != NEW_GENERATION
    accelerator = "kvm" if hardware.accelerator == KVM else "tcg,thread=multi"
    line = [
        program, *(("-sandbox", SANDBOX_OPTIONS) if is_sandboxed else ()),
        "-nodefaults", "-no-user-config", "-display", "none", "-no-reboot",
        "-name", f"{files.file_stem},debug-threads=on",
        "-machine", MACHINE_TYPE, "-accel", accelerator,
        "-cpu", CPU_MODEL_BY_ACCELERATOR[hardware.accelerator],
        "-smp", str(hardware.vcpus), "-m", f"{hardware.memory_mib}M",
        "-kernel", str(boot_images.kernel), "-initrd", str(boot_images.initramfs), "-append", BOOT_OPTIONS,
        "-serial", f"file:{files.console_log}",
        "-chardev", f"socket,id=monitor,path={files.monitor_socket},server=on,wait=off",
        "-mon", "monitor,mode=control",
        # Notifies a resumed guest, so that its random numbers differ from other guests of the snapshot.
        "-device", f"vmgenid,guid={generation_id}",
        "-device", "virtio-serial-pci",
        "-chardev", f"socket,id=agent,path={files.agent_socket},server=on,wait=off",
        "-device", f"virtserialport,chardev=agent,name={AGENT_PORT_NAME}",
    ]  # fmt: skip
    for number, (adapter, backend) in enumerate(zip(hardware.adapters, backends, strict=True)):
        line += _adapter_arguments(number, adapter, backend, has_migrated)
    if hardware.vsock:
        # All guests of the host share these addresses, including those of other benches.
        cid = FIRST_CID + secrets.randbelow(CID_COUNT)
        line += ["-device", f"vhost-vsock-pci,guest-cid={cid}"]
    return [*line, "-incoming", "defer"] if awaits_snapshot else line


def check_memory(guest_count: int, hardware: Hardware) -> None:
    """Raise BenchError if this machine has too little memory for this number of guests."""
    per_guest_mib = hardware.required_host_memory_per_guest_mib
    available_mib, needed_mib = _available_host_memory_mib(), guest_count * per_guest_mib
    if needed_mib > available_mib:
        pairs = available_mib // per_guest_mib // 2
        raise BenchError(
            f"{guest_count} guests need {needed_mib} MiB of memory, but only {available_mib} MiB are free",
            where="factors.guests",
            fix=(f"request at most guests = {pairs} (each is a pair), or " if pairs else "")
            + f"free at least {needed_mib - available_mib} MiB of memory",
        )


def count_guests_fitting_free_memory(hardware: Hardware) -> int:
    """Return how many more guests fit into half of the free memory."""
    return _available_host_memory_mib() // 2 // hardware.required_host_memory_per_guest_mib


def _available_host_memory_mib() -> int:
    for line in Path("/proc/meminfo").read_text().splitlines():
        if line.startswith("MemAvailable:"):
            return int(line.split()[1]) // 1024
    return 0


def _adapter_arguments(
    number: int, adapter: Adapter, backend: AdapterBackend, has_migrated: bool
) -> list[str]:
    device = [QEMU_DEVICE_BY_ADAPTER[adapter.factor_level]]
    if backend.netdev:
        # No option ROM, because guests do not boot from the network.
        device += [f"netdev=net{number}", "romfile="]
        # A snapshot holds a guest that has no MAC address of its own yet. After a migration, QEMU announces
        # the command line's address to the switch.
        has_own_mac = adapter.factor_level in ADAPTERS_RESTORING_COMMAND_LINE_MAC or (
            has_migrated and adapter.factor_level not in ADAPTERS_WITH_SERIAL_NUMBER
        )
        device.append(f"mac={backend.mac if has_own_mac else guest_mac(0, 0, number)}")
    if adapter.factor_level in ADAPTERS_RESTORING_COMMAND_LINE_MAC:
        device.append("x-disable-pcie=on")  # As PCIe, its configuration space would hold the MAC address too.
    if adapter.factor_level in VIRTIO_ADAPTERS:
        device.append(f"rx_queue_size={adapter.virtio_rx_ring}")
        device.append(f"tx_queue_size={adapter.virtio_tx_ring}")
        if adapter.link_speed_mbps is not None:
            device += [f"speed={adapter.link_speed_mbps}", "duplex=full"]
        if adapter.queues > 1:
            # One interrupt for each queue, plus one for configuration changes and one for control.
            device += ["mq=on", f"vectors={2 * adapter.queues + 2}"]
    if backend.device_options:
        device.append(backend.device_options)
    netdev = ["-netdev", f"{backend.netdev},id=net{number}"] if backend.netdev else []
    return [*netdev, "-device", ",".join(device)]


def guest_mac(side_number: int, pair: int, adapter_index: int) -> str:
    """Return a MAC address with QEMU's prefix for guests."""
    return f"52:54:00:{side_number:02x}:{pair:02x}:{adapter_index:02x}"
