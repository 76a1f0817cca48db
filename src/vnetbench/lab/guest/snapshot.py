"""Booted guests kept as files: QEMU's migration to a file, and its resuming from one."""

from __future__ import annotations

import hashlib
import shlex
import time
from pathlib import Path

from vnetbench.lab.errors import TrialFailed
from vnetbench.lab.guest import cache
from vnetbench.lab.guest.hardware import BOOT_OPTIONS, CPU_MODELS, KVM, MACHINE, Hardware, Software
from vnetbench.lab.guest.qemu_process import Machine
from vnetbench.lab.guest.qmp import MonitorError

MOST_BYTES = 2 * 2**30
"""Of all that are kept: some twenty."""
SAVING_TIMEOUT_S = 60.0
RESUMING_TIMEOUT_S = 60.0
_POLL_S = 0.02
_BYTES_PER_S = 2**40
"""More than any disk: the default would slow it to 128 MiB/s."""


class NotResumed(TrialFailed):
    """A snapshot from which no guest comes."""


def place(qemu_version: str, hardware: Hardware, software: Software) -> Path:
    """Where the snapshot of such guests is, or would be: a name of all that it depends on."""
    parts = [
        qemu_version,
        MACHINE,
        BOOT_OPTIONS,
        repr(hardware),
        str(hardware.memory_mib),
        software.identity(),
    ]
    if hardware.accelerator == KVM:
        parts.append(_host_cpu())
    parts.append(CPU_MODELS[hardware.accelerator])
    return (
        cache.folder("snapshots") / f"{hashlib.sha256(chr(10).join(parts).encode()).hexdigest()[:32]}.state"
    )


def save(machine: Machine, path: Path) -> None:
    """Stop the guest and write all that it is to `path`; raises MonitorError, BenchError."""
    cache.prune("snapshots", MOST_BYTES)
    with cache.making(path) as temporary:
        machine.monitor.do("stop")
        machine.monitor.do("migrate-set-parameters", **{"max-bandwidth": _BYTES_PER_S})
        machine.monitor.do("migrate", uri=f"exec:cat > {shlex.quote(str(temporary))}")
        deadline = time.monotonic() + SAVING_TIMEOUT_S
        while (status := machine.monitor.do("query-migrate").get("status")) != "completed":
            if status in ("failed", "cancelled") or time.monotonic() > deadline:
                raise MonitorError(f"QEMU could not keep the guest as a file (its migration is {status})")
            time.sleep(_POLL_S)


def resume(machine: Machine, path: Path) -> None:
    """Let a machine that waits go on as the guest in the file; raises NotResumed."""
    try:
        # QEMU would tell the switch of an address that the guest is about to lose.
        machine.monitor.do("migrate-set-parameters", **{"announce-rounds": 0})
        machine.monitor.do("migrate-incoming", uri=f"exec:cat {shlex.quote(str(path))}")
        deadline = time.monotonic() + RESUMING_TIMEOUT_S
        while (status := machine.monitor.do("query-status")["status"]) == "inmigrate":
            if time.monotonic() > deadline:
                raise NotResumed(f"QEMU is still in the state {status} after {RESUMING_TIMEOUT_S:g} s")
            time.sleep(_POLL_S)
        machine.monitor.do("cont")
    except MonitorError:
        raise NotResumed(machine.how_it_ended()) from None
    cache.use(path)


def _host_cpu() -> str:
    """Model and features of this machine's CPU: a guest that has them all runs on no other."""
    wanted = ("model name", "flags", "microcode")
    lines = Path("/proc/cpuinfo").read_text().split("\n\n")[0].splitlines()
    return "\n".join(line for line in lines if line.partition("\t")[0].strip() in wanted)
