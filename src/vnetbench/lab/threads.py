"""Finds threads of other processes on this machine and pins them to CPUs."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

from vnetbench.lab.errors import TreatmentRefused
from vnetbench.study.factors.cpu_lists import format_cpu_list


def thread_names_by_id(pid: int) -> dict[int, str]:
    """Return the name of each thread of a process, by thread id."""
    found = {}
    for path in Path(f"/proc/{pid}/task").glob("*/comm"):
        with suppress(OSError):  # The thread has ended.
            found[int(path.parent.name)] = path.read_text().strip()
    return found


def pin_thread_and_read_cpu_list(thread_id: int, cpus: frozenset[int], owner: str) -> str:
    """Pin a thread and return the CPU list that was read back; empty if the thread has ended.

    Args:
        thread_id: The thread id.
        cpus: The CPUs that it may use.
        owner: The owner of the thread, for the error message.

    Raises:
        TreatmentRefused: if the kernel refuses or sets other CPUs.
    """
    try:
        os.sched_setaffinity(thread_id, cpus)
        found = frozenset(os.sched_getaffinity(thread_id))
    except ProcessLookupError:
        return ""
    except OSError as error:
        raise TreatmentRefused(
            f"cannot pin a thread to CPU {format_cpu_list(cpus)}: {error.strerror}",
            where=owner,
            fix="name CPUs that this machine lets you use",
        ) from error
    if found != cpus:
        raise TreatmentRefused(
            f"a thread was pinned to CPU {format_cpu_list(cpus)}, but may use {format_cpu_list(found)}",
            where=owner,
            fix="name CPUs that this machine lets you use",
        )
    return format_cpu_list(found)
