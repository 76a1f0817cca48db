"""Detects what can run guests: KVM if a guest really boots with it, else QEMU's translator (TCG)."""

from __future__ import annotations

import os
import secrets
from dataclasses import dataclass
from pathlib import Path

from vnetbench.lab import registry
from vnetbench.lab.guest.hardware import KVM, TCG, BootImages, Hardware, QemuRuntimeFiles, qemu_command
from vnetbench.lab.guest.launcher import connect_agent
from vnetbench.lab.guest.qemu import Qemu
from vnetbench.lab.guest.qemu_process import QemuEnded, QemuProcess

KVM_DEVICE = Path("/dev/kvm")
PROBE_TIMEOUT_S = 15.0
"""With KVM a guest boots in a second or two; nested virtualisation takes longer."""


@dataclass(frozen=True)
class Accelerator:
    """The accelerator that runs guests."""

    name: str
    kvm_unavailable_reason: str
    """Why KVM is not used; empty if it is."""


def detect_accelerator(qemu: Qemu, boot_images: BootImages) -> Accelerator:
    """Return KVM if a trial guest boots with it, else TCG with the reason."""
    if not KVM_DEVICE.exists():
        return Accelerator(
            TCG, f"{KVM_DEVICE} does not exist: virtualisation is off in the CPU or not exposed to this VM"
        )
    if not os.access(KVM_DEVICE, os.R_OK | os.W_OK):
        return Accelerator(TCG, f"cannot open {KVM_DEVICE}: run as root, or join the group kvm")
    name = f"probe-{secrets.token_hex(3)}"
    registry.register_testbed(name, "probing KVM", {})
    try:
        _boot_probe(qemu, boot_images, name)
    except QemuEnded as error:
        return Accelerator(TCG, f"{KVM_DEVICE} exists, but no guest boots with it ({error})")
    finally:
        registry.remove_testbed_and_list_remaining_groups(name)
    return Accelerator(KVM, "")


def _boot_probe(qemu: Qemu, boot_images: BootImages, testbed_name: str) -> None:
    files = QemuRuntimeFiles(registry.ensure_testbed_folder(testbed_name), "kvm")
    line = qemu_command(
        qemu.path, Hardware(KVM, 1, ()), boot_images, (), files,
        awaits_snapshot=False, is_sandboxed=qemu.has_sandbox,
    )  # fmt: skip
    machine = QemuProcess(line, files, testbed_name)
    try:
        connect_agent(machine, PROBE_TIMEOUT_S).close()
    finally:
        machine.close()
