"""Parts of injections that the second and the third set of causes share."""

from __future__ import annotations

import threading
from contextlib import ExitStack, suppress
from functools import partial

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
