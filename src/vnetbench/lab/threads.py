"""Threads of other processes of this machine: found by their process, and put on CPUs."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

from vnetbench.lab.errors import TreatmentRefused
from vnetbench.study.factors.cpu_lists import spell_cpu_list


def named_tasks(pid: int) -> dict[int, str]:
    """The names of a process's threads."""
    found = {}
    for path in Path(f"/proc/{pid}/task").glob("*/comm"):
        with suppress(OSError):  # it has ended meanwhile
            found[int(path.parent.name)] = path.read_text().strip()
    return found


def move(thread: int, cpus: frozenset[int], what: str) -> str:
    """Where a thread may run once it was moved; empty for one that has ended meanwhile.

    Raises TreatmentRefused, naming `what` it is of, where the kernel did something else.
    """
    try:
        os.sched_setaffinity(thread, cpus)
        found = frozenset(os.sched_getaffinity(thread))
    except ProcessLookupError:
        return ""
    except OSError as error:
        raise TreatmentRefused(
            f"a thread cannot be placed on CPU {spell_cpu_list(cpus)}: {error.strerror}", where=what,
            fix="name CPUs that this machine lets you use",
        ) from error  # fmt: skip
    if found != cpus:
        raise TreatmentRefused(
            f"a thread was placed on CPU {spell_cpu_list(cpus)}, and may use {spell_cpu_list(found)}",
            where=what, fix="name CPUs that this machine lets you use",
        )  # fmt: skip
    return spell_cpu_list(found)
