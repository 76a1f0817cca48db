"""Parts of injections that several files of the third set share."""

from __future__ import annotations

from contextlib import ExitStack
from functools import partial

from bench.redteam.compiled_programs import built
from bench.redteam.injections import alternate, fill_in, rule_at_port
from bench.redteam.model import THIRD, Cause, Inject, Load, Value
from bench.redteam.probes import probed
from bench.redteam.target import Target

CPU_TAKEN = ("other_programs", "machine_busy")
CHANGES_MIDWAY = ("two_modes", "drift")
"""Names for a result that differs between trials because a fault begins or ends during the run."""
EARLY_S = 0.3
"""Delay of faults that begin within the first trial, so that each trial has an effect."""


def third(
    id: str,
    family: str,
    description: str,
    method: str,
    intensities: tuple[Value, Value],
    accepted: tuple[str, ...],
    loads: tuple[Load, ...],
    inject: Inject,
    vswitches: tuple[str, ...] = ("bridge",),
    phase: str = "testbed",
    min_cpus: int = 1,
) -> Cause:
    """Return a cause of the third set. Its intensities are a moderate and a clearly harmful value."""
    return Cause(
        f"third-{id}", family, description, method, intensities, accepted, loads, probed(id, inject),
        own_part=THIRD, vswitches=vswitches, phase=phase, min_cpus=min_cpus,
    )  # fmt: skip


def drop_at_port(port: str, match: str) -> Inject:
    """Return an injection that drops frames that come into a port of the switch and match."""
    return rule_at_port(port, "ingress", f"{match} drop")


def background(where: str, line: str, count: str = "1") -> Inject:
    """Return an injection that keeps as many copies of a command running as `count` says."""

    def inject(target: Target, value: Value, stack: ExitStack) -> None:
        for _ in range(int(fill_in(count, target, value))):
            target.spawn(stack, where, fill_in(line, target, value))

    return inject


def pulses(where: str, off: str, on: str) -> Inject:
    """Return an injection of two commands in turn. The value's words are the seconds of each state."""

    def inject(target: Target, value: Value, stack: ExitStack) -> None:
        off_s, on_s = map(float, str(value).split()[:2])
        off_text, on_text = fill_in(off, target, value), fill_in(on, target, value)
        target.log.append(f"{where}: {off_text} ({off_s} s), {on_text} ({on_s} s)")
        run = partial(target.run, where, "sh -e", is_logged=False)
        alternate(target, stack, partial(run, stdin=on_text), on_s, partial(run, stdin=off_text), off_s)

    return inject


def long_path(delay: str) -> Inject:
    """Return an injection that replaces the bridge by a line that delays frames by microseconds."""

    def inject(target: Target, value: Value, stack: ExitStack) -> None:
        target.run("sw", "ip link set dev a1 nomaster")
        target.run("sw", "ip link set dev b1 nomaster")
        for port in ("a1", "b1"):
            target.run("sw", f"ip link set dev {port} promisc on")
        target.spawn(stack, "sw", f"{built('delay_line')} a1 b1 {fill_in(delay, target, value)} 1")

    return inject
