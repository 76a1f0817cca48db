"""Which process is which, told so that a reused process id is not taken for another; and how one ended."""

from __future__ import annotations

import os
import signal
from pathlib import Path


def current_process_identity() -> str:
    """`pid:start` of this process; start is in clock ticks since boot, with the boot's id before it."""
    return _process_identity(os.getpid()) or f"{os.getpid()}:"


def is_process_alive(identity: str) -> bool:
    """Whether the process that gave itself this identity still runs on this boot."""
    pid = identity.split(":", 1)[0]
    return pid.isdigit() and _process_identity(int(pid)) == identity


def _process_identity(pid: int) -> str | None:
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return None
    # The program's name may hold spaces and brackets: fields count from the last bracket (proc(5)).
    fields = stat.rpartition(")")[2].split()
    state, start = fields[0], fields[19]
    return None if state == "Z" else f"{pid}:{boot}:{start}"


def format_exit_status(code: int) -> str:
    """How a child ended, by what `subprocess` says of it: "killed by SIGKILL", "exit code 1"."""
    return f"killed by {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"
