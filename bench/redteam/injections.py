"""Parts of injections that the second and the third set of causes share."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from functools import partial
from itertools import cycle
from pathlib import Path

from bench.redteam.model import Inject, Value
from bench.redteam.runner import LOAD_BYTES
from bench.redteam.target import InjectionError, Target

WATCH_S = 0.02


def fill_in(text: str, target: Target, value: Value) -> str:
    """Replace placeholders in a command.

    `@v` is the intensity, `@1` and `@2` are its words, `@a1` and `@b1` are the addresses of the VMs, and
    `@cpu` is the last CPU of the shape.
    """
    for endpoint in ("a1", "b1"):
        if f"@{endpoint}" in text:
            text = text.replace(f"@{endpoint}", target.address(endpoint))
    for number, word in enumerate(str(value).split(), start=1):
        text = text.replace(f"@{number}", word)
    return text.replace("@v", str(value)).replace("@cpu", str(target.cpus[-1]))


def shell(where: str, script: str) -> Inject:
    """Return an injection that runs the lines of a shell script on an endpoint."""

    def inject(target: Target, value: Value, stack: ExitStack) -> None:
        text = fill_in(script, target, value)
        target.log += [f"{where}: {line.strip()}" for line in text.strip().splitlines()]
        target.run(where, "sh -e", stdin=text)

    return inject


shell_a1 = partial(shell, "a1")
shell_b1 = partial(shell, "b1")
shell_sw = partial(shell, "sw")


def nft(where: str, lines: str) -> Inject:
    """Return an injection of nftables commands."""

    def inject(target: Target, value: Value, stack: ExitStack) -> None:
        text = fill_in(lines, target, value)
        target.log.append(f"{where}: nft: {'; '.join(text.strip().splitlines()[:5])}")
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


def string_rules(endpoint: str, rule_start: str, patterns: Sequence[str]) -> Inject:
    """Return an injection of rules that search the payload, as many as the intensity says.

    Args:
        endpoint: Where the rules stand.
        rule_start: The chain and the first matches of each rule, such as `-A INPUT -i eth0`.
        patterns: What the rules search for, at least as many as the largest intensity.
    """

    def inject(target: Target, value: Value, stack: ExitStack) -> None:
        lines = [
            f"{rule_start} -m string --algo kmp --string {patterns[number]} -j DROP"
            for number in range(int(value))
        ]
        target.log.append(f"{endpoint}: {lines[0]} and {len(lines) - 1} more")
        target.run(endpoint, "iptables-restore --noflush", stdin="\n".join(["*filter", *lines, "COMMIT", ""]))

    return inject


def bridge_source_rules(address_start: str, statement: str) -> Inject:
    """Return an injection of rules by which the bridge compares the source of each frame.

    Args:
        address_start: The first four bytes of the addresses. No station has them.
        statement: What a rule does with a frame that matches.
    """

    def inject(target: Target, value: Value, stack: ExitStack) -> None:
        lines = ["add table bridge t", "add chain bridge t c { type filter hook forward priority 0; }"]
        for number in range(int(value)):
            address = f"{address_start}:{number >> 8:02x}:{number & 255:02x}"
            lines.append(f"add rule bridge t c ether saddr {address} {statement}")
        target.log.append(f"sw: {value} nft rules in the bridge's forward hook")
        target.run("sw", "nft -f -", stdin="\n".join([*lines, ""]))

    return inject


def limit_files(target: Target, endpoint: str, spare: int) -> None:
    """Leave the agent of an endpoint only so many further file descriptors."""
    pid = target.agents[endpoint]
    limit = sum(1 for _ in Path(f"/proc/{pid}/fd").iterdir()) + spare
    target.run("host", f"prlimit --pid {pid} --nofile={limit}:{limit}")


def alternate(
    target: Target,
    stack: ExitStack,
    first: Callable[[], object],
    first_s: float,
    second: Callable[[], object],
    second_s: float,
) -> None:
    """Perform two actions in turn until the injection ends, and wait some seconds after each.

    An error of the first action is raised here, later ones are ignored (`Target.repeat`).
    """
    turns = cycle(((first, first_s), (second, second_s)))

    def act() -> float:
        action, wait_s = next(turns)
        action()
        return wait_s

    target.repeat(stack, act)


def in_turn(*parts: Inject) -> Inject:
    """Return an injection that makes several others in turn, with the same value."""

    def inject(target: Target, value: Value, stack: ExitStack) -> None:
        for part in parts:
            part(target, value, stack)

    return inject


def after(seconds: float, part: Inject, *, first_bytes: bool = False) -> Inject:
    """Return an injection that comes some seconds later, so that the fault begins while the load runs.

    Args:
        seconds: The delay.
        part: The injection. What it starts ends with the whole injection.
        first_bytes: Whether the delay begins with the first bytes of the load, and not at once.
    """

    def inject(target: Target, value: Value, stack: ExitStack) -> None:
        stopped = threading.Event()
        parts = stack.enter_context(ExitStack())

        def run() -> None:
            while first_bytes and target.sent_bytes("a1") < LOAD_BYTES:
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


def spin_on_each_cpu(duty: str = "1.0", period_s: float = 0.02, prefix: str = "") -> Inject:
    """Return an injection of one program on each CPU that uses a share (`duty`) of it."""

    def inject(target: Target, value: Value, stack: ExitStack) -> None:
        for cpu in target.cpus:
            words = f"spin {fill_in(duty, target, value)} {period_s}"
            target.program_with(stack, f"{prefix} taskset -c {cpu}".strip(), words)

    return inject
