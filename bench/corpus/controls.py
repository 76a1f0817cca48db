"""Speeds of loads without a cause: kept for a while, since runs of many strengths have the same one.

A control that was measured on a faster machine would prove any cause: so one is taken only for the same
agent, on the same start of the machine, and for some minutes.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass

from bench.corpus.disturb.settings import boot
from vnetbench.agents.binary import agent_sha256

LONGEST_KEPT_S = 1800.0


@dataclass(frozen=True)
class Conditions:
    """Under what a control is measured, and a run that is held against it."""

    agent: str
    """SHA-256 of its binary."""
    boot: str
    at_s: float
    """Seconds since the epoch."""

    def hold_of(self, kept: Mapping[str, float | str]) -> bool:
        """Whether a control that is kept (see `entry`) would come out alike now."""
        if (kept.get("agent"), kept.get("boot")) != (self.agent, self.boot):
            return False
        return 0 <= self.at_s - float(kept.get("at_s", 0)) <= LONGEST_KEPT_S

    def entry(self, speed: float) -> dict[str, float | str]:
        """A control's speed as it is kept."""
        return {"speed": speed, **asdict(self)}


def conditions() -> Conditions:
    """Those of now."""
    return Conditions(agent_sha256(), boot(), time.time())
