"""The QEMU that is installed: where it is, its version, the adapters that it has."""

from __future__ import annotations

import re
import shutil
import subprocess
from dataclasses import dataclass
from functools import lru_cache

from vnetbench.errors import BenchError

PROGRAM = "qemu-system-x86_64"
ANSWER_TIMEOUT_S = 20.0
INSTALL = "apt-get install qemu-system-x86 (or make demo-adapters, which does)"

DEVICES = {
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
"""What QEMU calls the hardware of each level of the factor `adapter`."""
VIRTIO = ("virtio-net", "virtio-net-vhost", "macvtap")
"""The levels that are virtio-net for the guest."""


@dataclass(frozen=True)
class Qemu:
    """An installed QEMU."""

    path: str
    version: str
    """As it says it, with the distribution's own number."""
    devices: frozenset[str]

    def check_adapter(self, adapter: str) -> None:
        """Raise BenchError where it has no such adapter."""
        if DEVICES[adapter] not in self.devices:
            newer = "; QEMU has it since 8.0" if adapter == "igb" else ""
            raise BenchError(
                f"this QEMU ({self.version}) has no adapter {adapter}{newer}",
                where="factors.adapter",
                fix="leave the level out, or install a QEMU that has it",
            )


def installed() -> Qemu:
    """The QEMU of this machine; raises BenchError where there is none, or it does not run."""
    path = shutil.which(PROGRAM)
    if path is None:
        raise BenchError(f"{PROGRAM} is not installed, which runs the guests", fix=INSTALL)
    return _asked(path)


@lru_cache
def _asked(path: str) -> Qemu:
    version = re.search(r"version (.*)", _says(path, "-version"))
    devices = re.findall(r'name "([^"]+)"', _says(path, "-device", "help"))
    if version is None:
        raise BenchError("this is no QEMU that runs here", where=path, fix=INSTALL)
    return Qemu(path, version[1].strip(), frozenset(devices))


def _says(*command: str) -> str:
    """What it prints; nothing where it does not run, or does not end."""
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, errors="replace", timeout=ANSWER_TIMEOUT_S
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout + done.stderr
