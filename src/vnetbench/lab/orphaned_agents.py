"""Agents that outlive their bench: an agent that is stopped (SIGSTOP) cannot end with it."""

from __future__ import annotations

import os
import signal
import time
from contextlib import suppress
from pathlib import Path

from vnetbench.process import BENCH_IDENTITY_VARIABLE, is_process_alive

END_TIMEOUT_S = 5.0
"""Time in which an agent that continues restores its settings and ends."""


def end_stopped_agents_of_ended_benches() -> int:
    """Let this user's stopped agents continue and end, kill those that do not, and return their number.

    An agent that runs ends by itself when its bench has ended, so it is left alone.
    """
    agents = [int(path.name) for path in Path("/proc").glob("[0-9]*") if _is_stopped_orphan(path)]
    remaining = {pid: start for pid in agents if (start := _read_start(pid)) is not None}
    for number in (signal.SIGCONT, signal.SIGKILL):
        for pid in remaining:
            with suppress(ProcessLookupError):
                os.kill(pid, number)
        deadline = time.monotonic() + END_TIMEOUT_S
        while remaining and time.monotonic() < deadline:
            remaining = {pid: start for pid, start in remaining.items() if _read_start(pid) == start}
            time.sleep(0.02)
    return len(agents)


def _is_stopped_orphan(process: Path) -> bool:
    """Return whether a process is a stopped agent of ours whose bench has ended.

    A process of another user may have any environment. In another PID namespace, such as a container's, the
    bench's process id would mean another process.
    """
    with suppress(OSError):
        if process.stat().st_uid != os.geteuid() or _read_fields(int(process.name))[0] != "T":
            return False
        if any((process / "ns" / kind).readlink() != Path("/proc/self/ns", kind).readlink()
               for kind in ("pid", "user")):  # fmt: skip
            return False
        prefix = f"{BENCH_IDENTITY_VARIABLE}=".encode()
        variables = (process / "environ").read_bytes().split(b"\0")
        bench = next((each.removeprefix(prefix) for each in variables if each.startswith(prefix)), None)
        return bench is not None and not is_process_alive(bench.decode(errors="replace"))
    return False


def _read_start(pid: int) -> str | None:
    """Return when a process started, in clock ticks; None if it has ended."""
    with suppress(OSError):
        fields = _read_fields(pid)
        return None if fields[0] == "Z" else fields[19]
    return None


def _read_fields(pid: int) -> list[str]:
    """Return the fields of proc_pid_stat(5) from the state on, which follows the name."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
