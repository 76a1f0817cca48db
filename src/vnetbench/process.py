"""Identities of processes that stay unique when the kernel reuses a process ID, and their exit status."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import NamedTuple

ProcessIdentity = str
"""`pid:boot:start`, with the start in clock ticks since boot: unique when the kernel reuses a process ID."""
BENCH_IDENTITY_VARIABLE = "VNETBENCH_BENCH"
"""The environment variable of an agent that contains the identity of its bench."""


def read_own_process_identity() -> ProcessIdentity:
    """Return the identity of this process."""
    return _read_process_identity(os.getpid()) or f"{os.getpid()}:"


def is_process_alive(identity: ProcessIdentity) -> bool:
    """Return whether the process with this identity still runs, on the same boot."""
    pid = identity.split(":", 1)[0]
    return pid.isdigit() and _read_process_identity(int(pid)) == identity


def _read_process_identity(pid: int) -> ProcessIdentity | None:
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return None
    # The program name can contain spaces and brackets, so fields count from the last bracket (proc(5)).
    fields = stat.rpartition(")")[2].split()
    state, start = fields[0], fields[19]
    return None if state == "Z" else f"{pid}:{boot}:{start}"


class FolderIdentity(NamedTuple):
    """What two paths of the same folder share."""

    device: int
    inode: int


def run_folder(pid: int) -> FolderIdentity | None:
    """Return the identity of the `/run` that a process sees; None if it has ended or is another user's.

    A container and a test run have a `/run` of their own, and with it other testbeds.
    """
    try:
        folder = Path(f"/proc/{pid}/root/run").stat()
    except OSError:
        return None
    return FolderIdentity(folder.st_dev, folder.st_ino)


def format_exit_status(code: int) -> str:
    """Return how a child process ended, by its `subprocess` code: "killed by SIGKILL", "exit code 1"."""
    return f"killed by {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"
