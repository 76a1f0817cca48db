"""What the agent takes for itself while it samples under load."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from bench import agent
from bench.binaries import Binary
from bench.contest import Aim, Entrant, Figures, Measure, Row
from bench.ground import Ground, placement
from vnetbench.campaign.trial import Measured
from vnetbench.study.workloads import STREAM

_STREAMS = (1, 4, 64)
_MEASURES = tuple(
    Measure(f"{role}: % of a core", 3, higher_is_better=False, aim=Aim(0.5, of_best_peer=False))
    for role in ("source", "sink")
)


def own_cost(ground: Ground, binaries: Sequence[Binary], seconds: int) -> Row:
    """Ten samples a second of each side, at several numbers of loaded streams; no peer tells its own."""
    ground.place(placement(4))
    ours = tuple(
        Entrant(f"{agent.TOOL}, streams = {count}", {"": partial(_run, ground, count, seconds)}, is_ours=True)
        for count in _STREAMS
    )
    return Row("own-cost", "The agent's own cost at 10 samples/s", _MEASURES, ours)


def _run(ground: Ground, count: int, seconds: int) -> Figures:
    measured = agent.trial(ground, STREAM, seconds, {"streams": count})
    return {measure.name: _share(measured, measure.name.partition(":")[0]) for measure in _MEASURES}


def _share(measured: Measured, role: str) -> float:
    """CPU time of the sampling thread in percent of the trial's time."""
    totals: Mapping[str, Any] = agent.side(measured, role).totals
    return 100 * float(totals["instrument"]["sampler_cpu_s"]) / float(totals["duration_s"])
