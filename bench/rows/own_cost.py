"""CPU time that the agents and the bench use under load, without the load itself."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from bench import agent
from bench.binaries import Binary
from bench.comparison import Aim, ComparisonSpec, Competitor, Measure, RunValues
from bench.testbed import PeerTestbed, split_cpus
from vnetbench.campaign.trial import TrialMeasurement
from vnetbench.results.records import OBSERVE
from vnetbench.study.factors.cpu_lists import parse_cpu_list
from vnetbench.study.workloads import TCP_STREAM

_STREAM_COUNTS = (1, 4, 16, 64)
_ROLES = {"source": "source", "sink": "sink", "host": "observe"}
"""Role of each endpoint, by its name in the table."""
_SAMPLE, _SHARE = "µs", "%"
_BENCH, _MACHINE = "bench: % of a CPU", "all: % of the machine"
_MEASURES = (
    Measure(_MACHINE, 2, higher_is_better=False, aim=Aim(2, is_relative=False)),
    Measure(_BENCH, 2, higher_is_better=False),
    *(
        measure
        for name in _ROLES
        for measure in (
            Measure(f"{name}: {_SAMPLE}", 0, higher_is_better=False),
            Measure(f"{name}: {_SHARE}", 2, higher_is_better=False, aim=Aim(1, is_relative=False)),
        )
    ),
)


def agent_cpu_cost(interval_ms: int) -> Callable[[PeerTestbed, Sequence[Binary], int], ComparisonSpec]:
    """Return a function that makes the comparison of stream counts. No peer reports its own cost.

    The bench is this process, which runs trials as a campaign does, without a display.
    """

    def make_spec(testbed: PeerTestbed, binaries: Sequence[Binary], seconds: int) -> ComparisonSpec:
        testbed.assign_cpus(split_cpus(4))
        ours = tuple(
            Competitor(
                f"{agent.TOOL}, streams = {count}",
                {"": partial(_measure_cost, testbed, count, interval_ms / 1e3, seconds)},
                is_ours=True,
            )
            for count in _STREAM_COUNTS
        )
        return ComparisonSpec(
            f"own-cost-{interval_ms}ms",
            f"Own cost, sampling every {interval_ms} ms: µs of CPU per sample, % of the CPUs",
            _MEASURES,
            ours,
        )

    return make_spec


def _measure_cost(testbed: PeerTestbed, streams: int, interval_s: float, seconds: int) -> RunValues:
    measurement = agent.run_trial(testbed, TCP_STREAM, seconds, {"streams": streams}, interval_s)
    cpu_counts = {
        "source": len(parse_cpu_list(testbed.cpu_list(testbed.source))),
        "sink": len(parse_cpu_list(testbed.cpu_list(testbed.sink))),
        "host": len(os.sched_getaffinity(0)),
    }
    host: Mapping[str, Any] = agent.endpoint_record(measurement, OBSERVE).totals
    bench_s = float(host["bench_cpu_s"])
    agents_s = sum(_own_cpu_s(agent.endpoint_record(measurement, role).totals) for role in _ROLES.values())
    return {
        _MACHINE: 100 * (bench_s + agents_s) / (seconds * cpu_counts["host"]),
        _BENCH: 100 * bench_s / seconds,
        **{
            measure: value
            for name in _ROLES
            for measure, value in _endpoint_cost(name, measurement, cpu_counts[name]).items()
        },
    }


def _endpoint_cost(name: str, measurement: TrialMeasurement, cpu_count: int) -> RunValues:
    """Return the sampler's CPU time per sample, and the agent's CPU share without its load threads."""
    totals: Mapping[str, Any] = agent.endpoint_record(measurement, _ROLES[name]).totals
    instrument = totals["instrument"]
    return {
        f"{name}: {_SAMPLE}": 1e6 * float(instrument["sampler_cpu_s"]) / float(instrument["samples"]),
        f"{name}: {_SHARE}": 100 * _own_cpu_s(totals) / (float(totals["duration_s"]) * cpu_count),
    }


def _own_cpu_s(totals: Mapping[str, Any]) -> float:
    """Return the CPU time of an agent without its load threads."""
    counters = totals["counters"]
    process_s = counters["process_cpu_user_s"] + counters["process_cpu_system_s"]
    return float(process_s - counters.get("threads_cpu_s", 0.0))
