"""Parts of injections that several files of the third set share."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from functools import partial
from pathlib import Path

from bench.redteam.causes_second.native import built
from bench.redteam.causes_second.probes import probed
from bench.redteam.model import THIRD, Cause, Inject, Load, Value
from bench.redteam.runner import LOAD_BYTES
from bench.redteam.target import InjectionError, Target

CPU_TAKEN = ("other_programs", "machine_busy")
CHANGES_MIDWAY = ("two_modes", "drift")
"""Names for a result that differs between trials because a fault begins or ends during the run."""
WATCH_S = 0.02
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


def fill_in(text: str, target: Target, value: Value) -> str:
    """Replace `@v` (the intensity), `@1` and `@2` (its words), and `@a1` and `@b1` (addresses)."""
    for endpoint in ("a1", "b1"):
        if f"@{endpoint}" in text:
            text = text.replace(f"@{endpoint}", target.address(endpoint))
    for number, word in enumerate(str(value).split(), start=1):
        text = text.replace(f"@{number}", word)
    return text.replace("@v", str(value))


def shell(where: str, script: str) -> Inject:
    """Return an injection that runs the lines of a shell script on an endpoint."""

    def inject(target: Target, value: Value, stack: ExitStack) -> None:
        text = fill_in(script, target, value)
        target.log += [f"{where}: {line.strip()}" for line in text.strip().splitlines()]
        target.run(where, "sh -e", stdin=text)

    return inject


def nft(where: str, lines: str) -> Inject:
    """Return an injection of nftables commands."""

    def inject(target: Target, value: Value, stack: ExitStack) -> None:
        text = fill_in(lines, target, value)
        target.log.append(f"{where}: nft: {'; '.join(text.strip().splitlines()[:5])}")
        target.run(where, "nft -f -", stdin=text)

    return inject


def drop_at_port(port: str, match: str) -> Inject:
    """Return an injection that drops frames that come into a port of the switch and match."""
    return nft(
        "sw",
        "add table netdev q\n"
        f'add chain netdev q c {{ type filter hook ingress device "{port}" priority 0; }}\n'
        f"add rule netdev q c {match} drop\n",
    )


def background(where: str, line: str, count: str = "1") -> Inject:
    """Return an injection that keeps as many copies of a command running as `count` says."""

    def inject(target: Target, value: Value, stack: ExitStack) -> None:
        for _ in range(int(fill_in(count, target, value))):
            target.spawn(stack, where, fill_in(line, target, value))

    return inject


def in_turn(*parts: Inject) -> Inject:
    """Return an injection that makes several others, with the same value."""

    def inject(target: Target, value: Value, stack: ExitStack) -> None:
        for part in parts:
            part(target, value, stack)

    return inject


def spin_on_each_cpu(duty: str, period_s: float = 0.02, prefix: str = "") -> Inject:
    """Return an injection of a program on each CPU that uses a share of it."""

    def inject(target: Target, value: Value, stack: ExitStack) -> None:
        for cpu in target.cpus:
            words = f"spin {fill_in(duty, target, value)} {period_s}"
            target.program_with(stack, f"{prefix} taskset -c {cpu}".strip(), words)

    return inject


def after_load(seconds: float, part: Inject) -> Inject:
    """Return an injection that comes some seconds after the first bytes of the load."""

    def inject(target: Target, value: Value, stack: ExitStack) -> None:
        stopped = threading.Event()
        parts = stack.enter_context(ExitStack())

        def run() -> None:
            while target.sent_bytes("a1") < LOAD_BYTES:
                if stopped.wait(WATCH_S):
                    return
            if not stopped.wait(seconds):
                with suppress(InjectionError, OSError):  # The testbed may be gone already.
                    part(target, value, parts)

        thread = threading.Thread(target=run, daemon=True)
        thread.start()
        stack.callback(thread.join, 5)
        stack.callback(stopped.set)

    return inject


def pulses(where: str, off: str, on: str) -> Inject:
    """Return an injection of two commands in turn. The value's words are the seconds of each state."""

    def inject(target: Target, value: Value, stack: ExitStack) -> None:
        off_s, on_s = map(float, str(value).split()[:2])
        off_text, on_text = fill_in(off, target, value), fill_in(on, target, value)
        state = {"is_off": True}
        target.log.append(f"{where}: {off_text} ({off_s} s), {on_text} ({on_s} s)")

        def act() -> float:
            state["is_off"] = not state["is_off"]
            run_quietly(target, where, off_text if state["is_off"] else on_text)
            return off_s if state["is_off"] else on_s

        target.repeat(stack, act)

    return inject


def run_quietly(target: Target, where: str, line: str) -> None:
    """Run a command without an entry in the log; raises InjectionError."""
    target.run(where, "sh -e", stdin=line)
    target.log.pop()


def long_path(delay: str) -> Inject:
    """Return an injection that replaces the bridge by a line that delays frames by microseconds."""

    def inject(target: Target, value: Value, stack: ExitStack) -> None:
        target.run("sw", "ip link set dev a1 nomaster")
        target.run("sw", "ip link set dev b1 nomaster")
        for port in ("a1", "b1"):
            target.run("sw", f"ip link set dev {port} promisc on")
        target.spawn(stack, "sw", f"{built('delay_line')} a1 b1 {fill_in(delay, target, value)} 1")

    return inject


def new_group(
    stack: ExitStack, parent: Path, name: str, settings: Sequence[tuple[str, str]], pid: int
) -> Path:
    """Make a control group of version 1 with settings, move a process into it, and undo both at the end."""
    from bench.redteam.groups import remove_group

    group = parent / name
    group.mkdir()
    stack.callback(remove_group, group)
    for file, text in settings:
        (group / file).write_text(text)
    (group / "cgroup.procs").write_text(str(pid))
    return group


shell_a1 = partial(shell, "a1")
shell_b1 = partial(shell, "b1")
shell_sw = partial(shell, "sw")
