"""Saves booted guests as files and resumes guests from them, through QEMU's migration."""

from __future__ import annotations

import hashlib
import os
import time
from pathlib import Path

from vnetbench.lab.errors import TrialFailed
from vnetbench.lab.guest import cache
from vnetbench.lab.guest.hardware import (
    BOOT_OPTIONS,
    CPU_MODEL_BY_ACCELERATOR,
    KVM,
    MACHINE_TYPE,
    BootImages,
    Hardware,
)
from vnetbench.lab.guest.qemu_process import QemuProcess
from vnetbench.lab.guest.qmp import MonitorError

MAX_CACHE_BYTES = 2 * 2**30
"""Size limit of all cached snapshots, some twenty."""
SAVE_TIMEOUT_S = 60.0
RESUME_TIMEOUT_S = 60.0
_STATE_NAME = "state"
"""Name of the snapshot's open file in QEMU."""
_POLL_INTERVAL_S = 0.02
_MIGRATION_BYTES_PER_S = 2**40
"""Migration bandwidth, more than any disk's; QEMU's default would limit it to 128 MiB/s."""


class ResumeFailed(TrialFailed):
    """No guest could be resumed from a snapshot."""


def snapshot_path(qemu_version: str, hardware: Hardware, boot_images: BootImages) -> Path:
    """Return the path of a snapshot, whose name is a hash of everything that it depends on."""
    parts = [
        qemu_version,
        MACHINE_TYPE,
        BOOT_OPTIONS,
        repr(hardware),
        str(hardware.memory_mib),
        boot_images.identity(),
    ]
    if hardware.accelerator == KVM:
        parts.append(_host_cpu_features())
    parts.append(CPU_MODEL_BY_ACCELERATOR[hardware.accelerator])
    name = hashlib.sha256("\n".join(parts).encode()).hexdigest()[:32]
    return cache.cache_subfolder("snapshots") / f"{name}.state"


def save_snapshot(process: QemuProcess, path: Path) -> None:
    """Stop the guest and write its state to `path`; raises MonitorError or BenchError."""
    cache.remove_least_recently_used("snapshots", MAX_CACHE_BYTES)
    with cache.create_atomically(path) as temporary:
        process.monitor.execute("stop")
        process.monitor.execute("migrate-set-parameters", **{"max-bandwidth": _MIGRATION_BYTES_PER_S})
        _pass_file_descriptor(process, temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL)
        process.monitor.execute("migrate", uri=f"fd:{_STATE_NAME}")
        deadline = time.monotonic() + SAVE_TIMEOUT_S
        while (status := process.monitor.execute("query-migrate").get("status")) != "completed":
            if status in ("failed", "cancelled") or time.monotonic() > deadline:
                raise MonitorError(f"QEMU cannot save the guest's state (migration status {status})")
            time.sleep(_POLL_INTERVAL_S)


def resume_snapshot(process: QemuProcess, path: Path) -> None:
    """Resume a waiting QEMU as the guest in the file; raises ResumeFailed."""
    try:
        # QEMU would announce a MAC address to the switch that the guest is about to change.
        process.monitor.execute("migrate-set-parameters", **{"announce-rounds": 0})
        _pass_file_descriptor(process, path, os.O_RDONLY)
        process.monitor.execute("migrate-incoming", uri=f"fd:{_STATE_NAME}")
        deadline = time.monotonic() + RESUME_TIMEOUT_S
        while (status := process.monitor.execute("query-status")["status"]) == "inmigrate":
            if time.monotonic() > deadline:
                raise ResumeFailed(f"QEMU still has status {status} after {RESUME_TIMEOUT_S:g} s")
            time.sleep(_POLL_INTERVAL_S)
        process.monitor.execute("cont")
    except MonitorError:
        raise ResumeFailed(process.end_reason()) from None
    cache.mark_used(path)


def _pass_file_descriptor(process: QemuProcess, path: Path, flags: int) -> None:
    """Open a file and give it to QEMU; raises MonitorError."""
    try:
        descriptor = os.open(path, flags | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise MonitorError(f"cannot open the snapshot {path} ({error.strerror})") from error
    try:
        process.monitor.pass_descriptor(_STATE_NAME, descriptor)
    finally:
        os.close(descriptor)


def _host_cpu_features() -> str:
    """Return model and features of this machine's CPU, on which the guest's features depend."""
    wanted = ("model name", "flags", "microcode")
    lines = Path("/proc/cpuinfo").read_text().split("\n\n")[0].splitlines()
    return "\n".join(line for line in lines if line.partition("\t")[0].strip() in wanted)
