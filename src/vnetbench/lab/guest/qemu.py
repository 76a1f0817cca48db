"""Finds the installed QEMU, its version and its adapters."""

from __future__ import annotations

import re
import shutil
import subprocess
from dataclasses import dataclass
from functools import lru_cache

from vnetbench.errors import BenchError

QEMU_PROGRAM = "qemu-system-x86_64"
PROGRAM_OUTPUT_TIMEOUT_S = 20.0
INSTALL_COMMAND = "apt-get install qemu-system-x86 (or make demo-adapters, which does)"

QEMU_DEVICE_BY_ADAPTER = {
    "virtio-net": "virtio-net-pci",
    "virtio-net-vhost": "virtio-net-pci",
    "macvtap": "virtio-net-pci",
    "vmxnet3": "vmxnet3",
    "e1000e": "e1000e",
    "e1000": "e1000",
    "rtl8139": "rtl8139",
    "igb": "igb",
    "vf": "vfio-pci",
}
"""QEMU's device for each level of the factor `adapter`."""
SANDBOX_OPTIONS = "on,obsolete=deny,elevateprivileges=deny,spawn=deny,resourcecontrol=deny"
"""System calls that QEMU's seccomp filter refuses (qemu-system(1)). Guests need none of them: the bench opens
taps and snapshots, and pins the threads."""
VIRTIO_ADAPTERS = ("virtio-net", "virtio-net-vhost", "macvtap")
"""Levels of `adapter` that are virtio-net for the guest."""
_DEVICE_NAME = r'name "([^"]+)"'


@dataclass(frozen=True)
class Qemu:
    """An installed QEMU."""

    path: str
    version: str
    """Version with the distribution's suffix."""
    devices: frozenset[str]
    has_sandbox: bool
    """Whether it was built with seccomp."""

    def check_adapter(self, adapter: str) -> None:
        """Raise BenchError if this QEMU lacks an adapter."""
        if QEMU_DEVICE_BY_ADAPTER[adapter] not in self.devices:
            hint = ". QEMU has this adapter since version 8.0" if adapter == "igb" else ""
            raise BenchError(
                f"this QEMU ({self.version}) has no adapter {adapter}{hint}",
                where="factors.adapter",
                fix="leave the level out, or install a QEMU with this adapter",
            )


def find_qemu() -> Qemu:
    """Return the QEMU of this machine; raises BenchError if there is none or it does not run."""
    path = shutil.which(QEMU_PROGRAM)
    if path is None:
        raise BenchError(f"{QEMU_PROGRAM}, which runs the guests, is not installed", fix=INSTALL_COMMAND)
    return _query_qemu(path)


@lru_cache
def _query_qemu(path: str) -> Qemu:
    version = re.search(r"version (.*)", _stdout_and_stderr_or_empty(path, "-version"))
    devices = re.findall(_DEVICE_NAME, _stdout_and_stderr_or_empty(path, "-device", "help"))
    sandboxed = _stdout_and_stderr_or_empty(path, "-sandbox", SANDBOX_OPTIONS, "-device", "help")
    if version is None:
        raise BenchError(
            "this program is not a QEMU that runs on this machine", where=path, fix=INSTALL_COMMAND
        )
    return Qemu(path, version[1].strip(), frozenset(devices), bool(re.search(_DEVICE_NAME, sandboxed)))


def _stdout_and_stderr_or_empty(*command: str) -> str:
    """Return a program's output; empty if it does not run or exceeds the time limit."""
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, errors="replace", timeout=PROGRAM_OUTPUT_TIMEOUT_S
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout + done.stderr
