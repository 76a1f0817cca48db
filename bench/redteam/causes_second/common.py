"""Parts of injections that several files of the second set share."""

from __future__ import annotations

import threading
from contextlib import ExitStack, suppress
from functools import partial

from bench.redteam.causes_second.probes import probed
from bench.redteam.model import SECOND, Cause, Inject, Value, crr, mixed, rr, tcp, udp
from bench.redteam.target import InjectionError, Target

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


def fill_in(text: str, target: Target, value: Value) -> str:
    """Replace `@v`, `@a1`, `@b1` (addresses) and `@cpu` (the last CPU of the shape) in a command."""
    for endpoint in ("a1", "b1"):
        if f"@{endpoint}" in text:
            text = text.replace(f"@{endpoint}", target.address(endpoint))
    return text.replace("@v", str(value)).replace("@cpu", str(target.cpus[-1]))


def shell(where: str, script: str) -> Inject:
    """Return an injection that runs the lines of a shell script on an endpoint; `@v` is the intensity."""

    def inject(target: Target, value: Value, stack: ExitStack) -> None:
        text = fill_in(script, target, value)
        target.log += [f"{where}: {line.strip()}" for line in text.strip().splitlines()]
        target.run(where, "sh -e", stdin=text)

    return inject


def background(where: str, script: str) -> Inject:
    """Return an injection that keeps a shell script running on an endpoint."""

    def inject(target: Target, value: Value, stack: ExitStack) -> None:
        text = fill_in(script, target, value)
        assert "'" not in text
        target.spawn(stack, where, f"sh -c '{text}'")

    return inject


def nft(where: str, lines: str) -> Inject:
    """Return an injection that adds a table `t` with a chain `c` to nftables; `@v` is the intensity."""

    def inject(target: Target, value: Value, stack: ExitStack) -> None:
        text = fill_in(lines, target, value)
        target.log.append(f"{where}: nft: {'; '.join(text.strip().splitlines())}")
        target.run(where, "nft -f -", stdin=text)

    return inject


def rule_at_port(port: str, hook: str, rule: str) -> Inject:
    """Return an injection of an nftables rule at a port of the switch, where `hook` is ingress or egress."""
    return nft(
        "sw",
        "add table netdev t\n"
        f'add chain netdev t c {{ type filter hook {hook} device "{port}" priority 0; }}\n'
        f"add rule netdev t c {rule}\n",
    )


def both(*parts: Inject) -> Inject:
    """Return an injection that makes several others in turn, with the same value."""

    def inject(target: Target, value: Value, stack: ExitStack) -> None:
        for part in parts:
            part(target, value, stack)

    return inject


def two_faults(first: Inject, second_fault: Inject) -> Inject:
    """Return an injection of two faults, whose values are the two words of the intensity."""

    def inject(target: Target, value: Value, stack: ExitStack) -> None:
        one, other = str(value).split()
        first(target, one, stack)
        second_fault(target, other, stack)

    return inject


def after(seconds: float, part: Inject) -> Inject:
    """Return an injection that starts some seconds after the load, so that the fault comes halfway."""

    def inject(target: Target, value: Value, stack: ExitStack) -> None:
        stopped = threading.Event()

        def run() -> None:
            if not stopped.wait(seconds):
                with suppress(InjectionError, OSError):  # The testbed may be gone already.
                    part(target, value, stack)

        thread = threading.Thread(target=run, daemon=True)
        thread.start()
        stack.callback(thread.join, 5)
        stack.callback(stopped.set)

    return inject


def hogs(duty: str = "1.0", period_s: float = 0.02, prefix: str = "") -> Inject:
    """Return an injection of one busy program on each CPU; `@v` in `duty` is the intensity."""

    def inject(target: Target, value: Value, stack: ExitStack) -> None:
        for cpu in target.cpus:
            words = f"spin {fill_in(duty, target, value)} {period_s}"
            target.program_with(stack, f"{prefix} taskset -c {cpu}".strip(), words)

    return inject


def copies(count: int | None, part: Inject) -> Inject:
    """Return an injection that makes another one `count` times, or as often as the intensity says."""

    def inject(target: Target, value: Value, stack: ExitStack) -> None:
        for _ in range(count or int(value)):
            part(target, value, stack)

    return inject


shell_a1 = partial(shell, "a1")
shell_b1 = partial(shell, "b1")
shell_sw = partial(shell, "sw")
