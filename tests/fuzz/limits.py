"""Limits of an example or a mutant: CPU time, and files that it may change."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

MAX_CPU_S = 60.0
"""CPU time of one example or mutant, which usually takes less than a second. A longer one never ends."""


class TimeLimitExceeded(BaseException):
    """An example or a mutant took more than MAX_CPU_S; no handler of the product catches it."""


@contextmanager
def limit_cpu_time() -> Iterator[None]:
    """Raise TimeLimitExceeded in the body after MAX_CPU_S of CPU time, however busy the machine is."""

    def stop(number: int, frame: FrameType | None) -> None:
        raise TimeLimitExceeded(f"more than {MAX_CPU_S:.0f} s of CPU time")

    previous = signal.signal(signal.SIGPROF, stop)
    signal.setitimer(signal.ITIMER_PROF, MAX_CPU_S)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, previous)


def read_folder(folder: Path) -> dict[str, bytes]:
    """Return the contents of all files in a folder by name."""
    return {each.name: each.read_bytes() for each in folder.iterdir() if each.is_file()}
