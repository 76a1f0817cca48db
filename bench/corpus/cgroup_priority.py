"""CPU priority for runs of the corpus over all other work on the machine.

Runs are in a control group with the largest possible weight. Other work gets some hundredths of a CPU that
a run needs. Processes that a run starts, also as a disturbance, are in the same group and share its CPUs as
usual.
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
_PROC_CGROUP = Path("/proc/self/cgroup")
_WEIGHTED_CGROUP_TREES = (
    (Path("/sys/fs/cgroup/cpu"), "cpu", "cpu.shares", "262144"),
    (Path("/sys/fs/cgroup"), "", "cpu.weight", "10000"),
)
"""For both cgroup versions (cgroups(7)): the mount point, the controller's name in _PROC_CGROUP, and the
file and the value of the largest weight."""
_ACCOUNTING_TREE = (Path("/sys/fs/cgroup/cpuacct"), "cpuacct", "", "")
"""CPU accounting of cgroup version 1, which may be in a separate tree (see `undisturbed`)."""


@contextmanager
def run_with_cgroup_priority() -> Iterator[bool]:
    """Give this process and its children priority; yields whether that is possible."""
    with ExitStack() as stack:
        stack.enter_context(_lock_machine())
        is_first = any(stack.enter_context(_join_group(*tree)) for tree in _WEIGHTED_CGROUP_TREES)
        stack.enter_context(_join_group(*_ACCOUNTING_TREE))
        yield is_first


@contextmanager
def _lock_machine() -> Iterator[None]:
    """Lock the machine's corpus runs: two at a time would share one control group."""
    with _LOCK.open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise BenchError(
                "another process already makes corpus runs on this machine",
                where=str(_LOCK),
                fix="wait until it ends",
            ) from None
        yield


@contextmanager
def _join_group(root: Path, tree: str, file: str, weight: str) -> Iterator[bool]:
    """Move this process into the group below `root` and back at the end; yields whether that is possible."""
    group, before = root / _GROUP, _current_group(root, tree)
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
        _restore_group(before, root)
        with suppress(OSError):  # other processes are still in it
            group.rmdir()


def _current_group(root: Path, tree: str) -> Path:
    """Return the group of this process; the root if the group is not visible."""
    for line in _PROC_CGROUP.read_text().splitlines():
        _, controllers, path = line.split(":", 2)
        group = root / path.lstrip("/")
        if tree in controllers.split(",") and (group / _PROCESSES).exists():
            return group
    return root


def _restore_group(before: Path, root: Path) -> None:
    for group in (before, root):  # the original group may be gone
        with suppress(OSError):
            (group / _PROCESSES).write_text(str(os.getpid()))
            return
