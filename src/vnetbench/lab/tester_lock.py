"""One tester of frames at a time on a machine: two would take each other's CPUs, and measure that."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager

from vnetbench.errors import BenchError
from vnetbench.lab import registry


@contextmanager
def only_tester() -> Iterator[None]:
    """Be the only one meanwhile; raises BenchError where another is. The kernel ends it with the process."""
    registry.DIRECTORY.mkdir(parents=True, exist_ok=True)
    # The folder itself is locked: no file is left behind that says something which is no longer so.
    directory = os.open(registry.DIRECTORY, os.O_RDONLY | os.O_CLOEXEC)
    try:
        try:
            fcntl.flock(directory, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise BenchError(
                "another campaign of frames is at work on this machine, and each needs the first CPUs for "
                "itself: both would count what the other takes from it as loss",
                fix="wait for its end; vnetbench lab ls shows its testbeds",
            ) from None
        yield
    finally:
        os.close(directory)
