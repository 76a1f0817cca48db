"""What the agents take for themselves while they sample under load."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from bench import agent
from bench.binaries import Binary
from bench.comparison import Aim, Competitor, RunValues, Measure, ComparisonSpec
from bench.testbed import PeerTestbed, split_cpus
from vnetbench.campaign.trial import TrialMeasurement
from vnetbench.study.factors.cpu_lists import parse_cpu_list
from vnetbench.study.workloads import TCP_STREAM

_STREAMS = (1, 4, 64)
_ROLES = {"source": "source", "sink": "sink", "host": "observe"}
"""The sides as the table has them, and their roles."""
_SAMPLE, _SHARE = "µs", "%"
_MEASURES = tuple(
    measure
    for name in _ROLES
    for measure in (
        Measure(f"{name}: {_SAMPLE}", 0, higher_is_better=False),
        Measure(f"{name}: {_SHARE}", 2, higher_is_better=False, aim=Aim(1, is_relative=False)),
    )
)


def sampled_every(interval_ms: int) -> Callable[[PeerTestbed, Sequence[Binary], int], ComparisonSpec]:
    """Both sides and the host, with several numbers of loaded streams; no peer tells its own."""

    def row(ground: PeerTestbed, binaries: Sequence[Binary], seconds: int) -> ComparisonSpec:
        ground.assign_cpus(split_cpus(4))
        ours = tuple(
            Competitor(
                f"{agent.TOOL}, streams = {count}",
                {"": partial(_run, ground, count, interval_ms / 1e3, seconds)},
                is_ours=True,
            )
            for count in _STREAMS
        )
        return ComparisonSpec(
            f"own-cost-{interval_ms}ms",
            f"The agents' own cost, every {interval_ms} ms: µs of CPU time a sample, % of the CPUs",
            _MEASURES,
            ours,
        )

    return row


def _run(ground: PeerTestbed, count: int, interval_s: float, seconds: int) -> RunValues:
    measured = agent.trial(ground, TCP_STREAM, seconds, {"streams": count}, interval_s)
    cpus = {
        "source": len(parse_cpu_list(ground.cpus_of(ground.source))),
        "sink": len(parse_cpu_list(ground.cpus_of(ground.sink))),
        "host": len(os.sched_getaffinity(0)),
    }
    return {
        figure: value for name in _ROLES for figure, value in _of_side(name, measured, cpus[name]).items()
    }


def _of_side(name: str, measured: TrialMeasurement, cpus: int) -> RunValues:
    """The sampling thread's CPU time a sample, and all of the agent's that is not the load's own threads'."""
    totals: Mapping[str, Any] = agent.side(measured, _ROLES[name]).totals
    instrument, counters = totals["instrument"], totals["counters"]
    process_s = counters["process_cpu_user_s"] + counters["process_cpu_system_s"]
    own_s = process_s - counters.get("threads_cpu_s", 0.0)
    return {
        f"{name}: {_SAMPLE}": 1e6 * float(instrument["sampler_cpu_s"]) / float(instrument["samples"]),
        f"{name}: {_SHARE}": 100 * own_s / (float(totals["duration_s"]) * cpus),
    }
