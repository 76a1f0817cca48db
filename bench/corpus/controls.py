"""Reuse of control measurements: runs of several strengths have the same load without their cause.

A control from a faster machine would confirm any cause. So a control is reused only for the same agent, in
the same boot of the machine, and for a limited time.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass

from bench.corpus.disturbances.sysctls import read_boot_id
from vnetbench.agents.binary import agent_sha256

MAX_CONTROL_AGE_S = 1800.0


@dataclass(frozen=True)
class Conditions:
    """Conditions of a measurement. The field names are keys of the stored controls."""

    agent: str
    """SHA-256 of the agent's binary."""
    boot: str
    """ID of the machine's boot."""
    at_s: float
    """Time in seconds since the epoch."""

    def allow_reuse(self, entry: Mapping[str, float | str]) -> bool:
        """Return whether a stored control (`to_entry`) is valid under these conditions."""
        if (entry.get("agent"), entry.get("boot")) != (self.agent, self.boot):
            return False
        return 0 <= self.at_s - float(entry.get("at_s", 0)) <= MAX_CONTROL_AGE_S

    def to_entry(self, speed: float) -> dict[str, float | str]:
        """Return the stored form of a control's speed."""
        return {"speed": speed, **asdict(self)}


def read_conditions() -> Conditions:
    """Return the current conditions."""
    return Conditions(agent_sha256(), read_boot_id(), time.time())
