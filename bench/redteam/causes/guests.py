"""Causes in QEMU guests. Only what acts on the host's side of a guest is injected."""

from __future__ import annotations

from contextlib import ExitStack

from bench.redteam.causes.common import CPU_TAKEN, programs
from bench.redteam.groups import quota
from bench.redteam.model import NOTHING, Cause, Value, tcp
from bench.redteam.target import Target, descendants, process_name

QEMU = "qemu-system"


def guest_processes(target: Target) -> list[int]:
    """Return the processes of the guests, in the order in which they started."""
    return [pid for pid in sorted(descendants(target.bench_pid)) if process_name(pid).startswith(QEMU)]


def _limit_guest(target: Target, value: Value, stack: ExitStack) -> None:
    group = stack.enter_context(quota("guest", guest_processes(target)[-1:], float(value)))
    target.log.append(f"host: cpu quota {value} % of a CPU for a guest in {group.name}")


CAUSES = (
    Cause("control-guests", "guests", "nothing is wrong with two guests", "nothing is injected", (0, 0, 0),
          (NOTHING,), (tcp(1),), None, lab="qemu"),
    Cause("guest-hogs", "guests", "programs of the host use the guests' CPUs", "N busy loops", (2, 4, 8),
          (*CPU_TAKEN, "steal"), (tcp(1), tcp(2)), programs("host", "spin 1.0 0.01"), lab="qemu"),
    Cause("guest-quota", "guests", "a quota limits one guest", "cpu.cfs_quota_us of QEMU's group",
          (60, 30, 15), ("cpu_quota",), (tcp(1), tcp(2)), _limit_guest, lab="qemu"),
)  # fmt: skip
