"""Parts of injections that several files of the second set share."""

from __future__ import annotations

from contextlib import ExitStack

from bench.redteam.injections import fill_in
from bench.redteam.model import SECOND, Cause, Inject, Value, crr, mixed, rr, tcp, udp
from bench.redteam.probes import probed
from bench.redteam.target import Target

CPU_TAKEN = ("other_programs", "machine_busy", "shared_by_vms")
"""Names for CPU time that programs or VMs other than the load's use."""
TCP_LOADS = (tcp(1), tcp(4), mixed(2))
ALL_LOADS = (tcp(4), rr(8), udp(2), crr(4))


def second(
    id: str,
    family: str,
    description: str,
    method: str,
    intensities: tuple[Value, ...],
    accepted: tuple[str, ...],
    loads: tuple[object, ...],
    inject: Inject | None,
    **rest: object,
) -> Cause:
    """Return a cause of the second set."""
    return Cause(
        id, family, description, method, intensities, accepted, loads,  # type: ignore[arg-type]
        probed(id, inject), own_part=SECOND, **rest,  # type: ignore[arg-type]
    )  # fmt: skip


def background(where: str, script: str) -> Inject:
    """Return an injection that keeps a shell script running on an endpoint."""

    def inject(target: Target, value: Value, stack: ExitStack) -> None:
        text = fill_in(script, target, value)
        assert "'" not in text
        target.spawn(stack, where, f"sh -c '{text}'")

    return inject


def two_faults(first: Inject, second_fault: Inject) -> Inject:
    """Return an injection of two faults, whose values are the two words of the intensity."""

    def inject(target: Target, value: Value, stack: ExitStack) -> None:
        one, other = str(value).split()
        first(target, one, stack)
        second_fault(target, other, stack)

    return inject


def copies(count: int | None, part: Inject) -> Inject:
    """Return an injection that makes another one `count` times, or as often as the intensity says."""

    def inject(target: Target, value: Value, stack: ExitStack) -> None:
        for _ in range(count or int(value)):
            part(target, value, stack)

    return inject
