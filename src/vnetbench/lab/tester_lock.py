"""Locks the machine for one frame tester, because two would take each other's CPUs."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager

from vnetbench.errors import BenchError
from vnetbench.lab import registry


@contextmanager
def hold_tester_lock() -> Iterator[None]:
    """Hold the tester lock; raises BenchError if another process holds it.

    The kernel releases the lock when the process ends.
    """
    registry.REGISTRY_FOLDER.mkdir(parents=True, exist_ok=True)
    # Locks the folder itself, so that no stale lock file can remain.
    directory = os.open(registry.REGISTRY_FOLDER, os.O_RDONLY | os.O_CLOEXEC)
    try:
        try:
            fcntl.flock(directory, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise BenchError(
                "another campaign with frames runs on this machine, and each campaign would count the CPU "
                "time "
                "of the other as frame loss",
                fix="wait until the other campaign ends. vnetbench lab ls shows its testbeds",
            ) from None
        yield
    finally:
        os.close(directory)
