"""Trials that fail, and links that come and go."""

from __future__ import annotations

import os
import signal
import time
from contextlib import ExitStack
from itertools import cycle

from bench.redteam.causes.common import commands
from bench.redteam.model import Cause, Inject, Value, crr, rr, tcp
from bench.redteam.target import Target

DOWN = ("link_down", "path_blocked")
FLAPPING = ("link_down", "path_interrupted", "path_loss")
LOADS = (tcp(1), rr(1), crr(1))


def _flap(where: str, dev: str) -> Inject:
    """Return an injection that takes an interface down for `value` ms of every 700."""

    def inject(target: Target, value: Value, stack: ExitStack) -> None:
        turns = cycle((("down", float(value) / 1000), ("up", 0.7 - float(value) / 1000)))

        def toggle() -> float:
            state, wait_s = next(turns)
            target.run(where, f"ip link set {dev} {state}")
            return wait_s

        target.repeat(stack, toggle)

    return inject


def _down(target: Target, value: Value, stack: ExitStack) -> None:
    """Take an interface down for good: a port of the switch, or the receiver's own."""
    where, dev = str(value).split()
    target.run(where, f"ip link set {dev} down")


def _kill(target: Target, value: Value, stack: ExitStack) -> None:
    """End an agent half a second after the load started."""
    time.sleep(0.5)
    target.log.append(f"host: kill -KILL {value}'s agent")
    os.kill(target.agents[str(value)], signal.SIGKILL)


CAUSES = (
    Cause("flapping-port", "failures", "a port of the switch goes down and comes back",
          "ip link set down for N of every 700 ms", (20, 80, 300),
          FLAPPING, (tcp(1), rr(1), tcp(4)), _flap("sw", "b1"),
          phase="load"),
    Cause("flapping-receiver", "failures", "the receiver's interface goes down and comes back",
          "ip link set down for N of every 700 ms", (20, 80, 300),
          FLAPPING, (tcp(1), rr(1), tcp(4)), _flap("b1", "eth0"),
          vswitches=("bridge", "direct"), phase="load"),
    Cause("blocked-port", "failures", "a firewall blocks the load's connections", "iptables -j N on --syn",
          ("DROP", "REJECT", "REJECT --reject-with tcp-reset"),
          ("no_connection", "connection_setup_loss"), LOADS,
          commands(("b1", "iptables -w -A INPUT -p tcp --syn -j {v}"))),
    Cause("interface-down", "failures", "an interface goes down during the load and stays down",
          "ip link set down", ("sw b1", "sw a1", "b1 eth0"), DOWN, LOADS, _down, phase="load"),
    Cause("agent-killed", "failures", "an agent is killed during the load", "kill -KILL",
          ("b1", "a1", "b1"), ("agent_gone",), LOADS, _kill, phase="load"),
)  # fmt: skip
