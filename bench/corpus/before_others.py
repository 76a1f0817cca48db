"""Runs go before all other work on the machine, so that what is seen in them is what was put there.

A control group with the largest weight there is: what else runs gets some hundredths of a CPU that a run
wants. What a run itself puts there, processes that compute too, is in the group with it, and shares as ever.
"""

from __future__ import annotations

import fcntl
import os
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from vnetbench.errors import BenchError

_GROUP = "vnetbench-corpus"
_LOCK = Path(tempfile.gettempdir()) / "vnetbench-corpus.lock"
_PROCESSES = "cgroup.procs"
_GROUPS = Path("/proc/self/cgroup")
_TREES = (
    (Path("/sys/fs/cgroup/cpu"), "cpu", "cpu.shares", "262144"),
    (Path("/sys/fs/cgroup"), "", "cpu.weight", "10000"),
)
"""Of both versions (cgroups(7)): where groups are, what names the tree in _GROUPS, and the file and the
figure of the largest weight."""
_ACCOUNTS = (Path("/sys/fs/cgroup/cpuacct"), "cpuacct", "", "")
"""Of the first version, which may count CPU time in a tree of its own; see `undisturbed`."""


@contextmanager
def before_others() -> Iterator[bool]:
    """This process and what it starts before all others, as long as it lasts; tells whether that is so."""
    with ExitStack() as stack:
        stack.enter_context(_alone())
        is_first = any(stack.enter_context(_within(*tree)) for tree in _TREES)
        stack.enter_context(_within(*_ACCOUNTS))
        yield is_first


@contextmanager
def _alone() -> Iterator[None]:
    """Nobody else makes runs meanwhile: of the same control group, they would not be told from one's own."""
    with _LOCK.open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise BenchError(
                "runs of a corpus are made on this machine already",
                where=str(_LOCK),
                fix="wait until they are",
            ) from None
        yield


@contextmanager
def _within(root: Path, tree: str, file: str, weight: str) -> Iterator[bool]:
    """This process in the group below `root`, as long as it lasts; tells whether that could be had."""
    group, before = root / _GROUP, _group_in(root, tree)
    try:
        group.mkdir(exist_ok=True)
        if file:
            (group / file).write_text(weight)
        (group / _PROCESSES).write_text(str(os.getpid()))
    except OSError:
        yield False
        return
    try:
        yield True
    finally:
        _go_back(before, root)
        with suppress(OSError):  # another one's runs are in it still
            group.rmdir()


def _group_in(root: Path, tree: str) -> Path:
    """The group that this process is in; the root where it cannot be seen from here."""
    for line in _GROUPS.read_text().splitlines():
        _, controllers, path = line.split(":", 2)
        group = root / path.lstrip("/")
        if tree in controllers.split(",") and (group / _PROCESSES).exists():
            return group
    return root


def _go_back(before: Path, root: Path) -> None:
    for group in (before, root):  # the one that it came from may be gone
        with suppress(OSError):
            (group / _PROCESSES).write_text(str(os.getpid()))
            return
