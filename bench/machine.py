"""What a result was measured on: the machine's facts, the tools' versions, and how quiet it was."""

from __future__ import annotations

import os
import re
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from bench.binaries import Binary
from bench.cpu_time import TICK_S, cpu_time
from bench.testbed import CONGESTION_CONTROL
from vnetbench import __version__
from vnetbench.agents.binary import agent_sha256
from vnetbench.agents.client import AgentClient

QUIET_SHARE = 0.05
_LISTENED_S = 1.0


@dataclass(frozen=True)
class Machine:
    """Facts in the words in which they are shown."""

    facts: Mapping[str, str]
    label: str
    """Of the machine and the time, for a file's name; without the host's name."""


def look(observer: AgentClient, binaries: Sequence[Binary]) -> Machine:
    """The facts; takes a second, to see how quiet the machine is."""
    found = observer.call("agent.facts")
    now = datetime.now(UTC)
    cpu = str(found["cpu"].get("model") or "unknown CPU")
    count = len(os.sched_getaffinity(0))
    busy = _busy_share()
    return Machine(
        {
            "date": f"{now:%Y-%m-%d %H:%M} UTC",
            "CPU": f"{cpu}, {count} CPUs, {_megahertz(found)}",
            "hypervisor": str(found.get("hypervisor") or "none"),
            "kernel": f"Linux {found['kernel']['release']}",
            "cycles": _cycles(found["perf"]),
            "busy before the start": f"{100 * busy:.0f} % of all CPUs" + _remark(busy),
            "path": f"two namespaces joined by veths and a bridge, MTU 1500, {CONGESTION_CONTROL}",
            "vnetbench": f"{__version__} at {_revision()}, agent {agent_sha256()[:12]}",
            "peers": ", ".join(binary.label for binary in binaries) or "none",
        },
        f"{now:%Y%m%d-%H%M}-{_slug(cpu)}-{count}-cpus",
    )


def _megahertz(facts: Mapping[str, Any]) -> str:
    mhz = facts["cpu"].get("mhz")
    return f"{mhz:.0f} MHz stated" if mhz else "clock unknown"


def _cycles(perf: Mapping[str, Any]) -> str:
    if perf["system_cycles"] == "hardware":
        return "hardware counters of the whole host"
    return f"estimated as CPU time of the whole host × clock: {perf['reason']}"


def _remark(busy: float) -> str:
    return "" if busy <= QUIET_SHARE else ": not a quiet machine, so trust the ratios and no figure by itself"


def _revision() -> str:
    described = subprocess.run(
        ["git", "-C", str(Path(__file__).parent), "describe", "--always", "--dirty"],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    return described.stdout.strip() or "an unknown revision"


def _busy_share() -> float:
    before = cpu_time()
    time.sleep(_LISTENED_S)
    after = cpu_time()
    return 1 - (after.idle - before.idle) / max(TICK_S, after.whole - before.whole)


def _slug(text: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")[:40]
