"""What runs the guests' code: KVM where a guest really comes up with it, else QEMU's own translator (TCG)."""

from __future__ import annotations

import os
import secrets
from dataclasses import dataclass
from pathlib import Path

from vnetbench.lab import registry
from vnetbench.lab.guest.hardware import KVM, TCG, Files, Hardware, Software, command_line
from vnetbench.lab.guest.launcher import reach_agent
from vnetbench.lab.guest.qemu import Qemu
from vnetbench.lab.guest.qemu_process import Machine, MachineEnded

DEVICE = Path("/dev/kvm")
PATIENCE_S = 15.0
"""With KVM a guest is there after a second or two, in a nested one after some more."""


@dataclass(frozen=True)
class Accelerator:
    """What was found to run guests."""

    name: str
    why: str
    """Why it is not KVM; empty where it is."""


def found(qemu: Qemu, software: Software) -> Accelerator:
    """KVM where a guest boots with it, which is tried; else TCG, and why."""
    if not DEVICE.exists():
        return Accelerator(
            TCG, f"{DEVICE} is not here: the CPU's virtualisation is off, or not passed on to this VM"
        )
    if not os.access(DEVICE, os.R_OK | os.W_OK):
        return Accelerator(TCG, f"{DEVICE} may not be opened: run as root, or join the group kvm")
    name = f"probe-{secrets.token_hex(3)}"
    registry.register(name, "trying KVM", {})
    try:
        _boot(qemu, software, name)
    except MachineEnded as error:
        return Accelerator(TCG, f"{DEVICE} is here, but no guest comes up with it ({error})")
    finally:
        registry.remove(name)
    return Accelerator(KVM, "")


def _boot(qemu: Qemu, software: Software, name: str) -> None:
    files = Files(registry.folder(name), "kvm")
    line = command_line(qemu.path, Hardware(KVM, 1, ()), software, (), files, waiting=False)
    machine = Machine(line, files, name)
    try:
        reach_agent(machine, PATIENCE_S).close()
    finally:
        machine.close()
