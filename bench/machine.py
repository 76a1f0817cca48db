"""Facts about the machine of a result: hardware, kernel, tool versions and other load."""

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

MAX_QUIET_SHARE = 0.05
"""Share of CPU time that other work may use on a quiet machine."""
_BUSY_OBSERVATION_S = 1.0


@dataclass(frozen=True)
class Machine:
    """Facts about the machine."""

    facts: Mapping[str, str]
    """By name, the text that reports show."""
    label: str
    """Date, CPU model and CPU count for the names of result files. It omits the host name."""


def describe_machine(observer: AgentClient, binaries: Sequence[Binary]) -> Machine:
    """Return the facts, after one second of observing other load."""
    facts = observer.call("agent.facts")
    now = datetime.now(UTC)
    cpu = str(facts["cpu"].get("model") or "unknown CPU")
    count = len(os.sched_getaffinity(0))
    busy = _measure_busy_share()
    return Machine(
        {
            "date": f"{now:%Y-%m-%d %H:%M} UTC",
            "CPU": f"{cpu}, {count} CPUs, {_clock_text(facts)}",
            "hypervisor": str(facts.get("hypervisor") or "none"),
            "kernel": f"Linux {facts['kernel']['release']}",
            "cycles": _cycle_source(facts["perf"]),
            "busy before the start": f"{100 * busy:.0f} % of all CPUs{_load_warning(busy)}",
            "path": f"two namespaces joined by veths and a bridge, MTU 1500, {CONGESTION_CONTROL}",
            "vnetbench": f"{__version__} at {_git_revision()}, agent {agent_sha256()[:12]}",
            "peers": ", ".join(binary.label for binary in binaries) or "none",
        },
        f"{now:%Y%m%d-%H%M}-{_to_slug(cpu)}-{count}-cpus",
    )


def _clock_text(facts: Mapping[str, Any]) -> str:
    mhz = facts["cpu"].get("mhz")
    return f"{mhz:.0f} MHz nominal" if mhz else "unknown clock rate"


def _cycle_source(perf: Mapping[str, Any]) -> str:
    if perf["system_cycles"] == "hardware":
        return "hardware counters of the whole host"
    return f"estimated as CPU time of the whole host × clock rate: {perf['reason']}"


def _load_warning(busy: float) -> str:
    if busy <= MAX_QUIET_SHARE:
        return ""
    return ". The machine is not quiet: use the ratios only, not the absolute values"


def _git_revision() -> str:
    completed = subprocess.run(
        ["git", "-C", str(Path(__file__).parent), "describe", "--always", "--dirty"],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    return completed.stdout.strip() or "an unknown revision"


def _measure_busy_share() -> float:
    before = cpu_time()
    time.sleep(_BUSY_OBSERVATION_S)
    after = cpu_time()
    return 1 - (after.idle - before.idle) / max(TICK_S, after.whole - before.whole)


def _to_slug(text: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")[:40]
