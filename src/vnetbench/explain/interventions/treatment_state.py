"""What the series needs to know about the treatment: time shares, CPU time that it could use, and noise."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from vnetbench.estimate.evidence.time_accounting.metrics import time_shares
from vnetbench.estimate.matching import all_levels
from vnetbench.estimate.summary import CampaignSummary, TreatmentSummary
from vnetbench.study.factors.cpu_lists import parse_cpu_list
from vnetbench.study.factors.directions import FORWARD, REVERSE
from vnetbench.study.factors.stream_counts import count_load_threads_per_vm, count_streams_per_direction
from vnetbench.study.model import Level

_ASSUMED_NOISE = 0.05
"""Noise of a treatment with fewer than three trials."""
_ROLES_BY_DIRECTION = {FORWARD: ("sender", "receiver"), REVERSE: ("receiver", "sender")}
"""Roles of the first and the second VM of a pair, if only one of them sends."""


@dataclass(frozen=True)
class TreatmentState:
    """The state of the unchanged treatment, from its trials."""

    levels: Mapping[str, Level]
    """All levels, defaults included."""
    effective_settings: Mapping[str, object]
    """Settings that were read back."""
    time_shares: Mapping[str, float]
    """Mean shares of the trials; empty without a time accounting."""
    cpu_capacity_by_vm: tuple[float, float] | None
    """CPU time that the first and the second VM of a pair can use, as a number of CPUs; None if unknown.

    It is what a VM would get if its threads always wanted a CPU, up to one CPU for each thread. A quota below
    it takes CPU time away where CPU time is scarce, and none where another resource limits. (A quota below
    what a VM uses would lower every result, because the work for each byte stays the same.)
    """
    rate_per_stream_bps: float
    """Median goodput of one stream in bit/s; 0 if unknown."""
    noise: float
    """Standard deviation of the logarithm of the deciding metric between trials."""


def read_treatment_state(summary: CampaignSummary, treatment: TreatmentSummary) -> TreatmentState:
    """Return the state of a treatment from its trials."""
    levels = all_levels(summary, treatment)
    values = treatment.values_of_trials_with_metric(summary.deciding_metric)
    return TreatmentState(
        levels,
        treatment.effective,
        _mean_time_shares([time_shares(point.evidence) for point in treatment.points]),
        _cpu_capacity_by_vm(treatment, levels, _testbed_cpu_count(summary, treatment)),
        _rate_per_stream_bps(treatment, levels),
        _log_standard_deviation_or_assumed_noise(values),
    )


def _mean_time_shares(shares_by_trial: Sequence[Mapping[str, float]]) -> Mapping[str, float]:
    known = [shares for shares in shares_by_trial if shares]
    names = dict.fromkeys(name for shares in known for name in shares)
    return {name: sum(shares.get(name, 0.0) for shares in known) / len(known) for name in names}


def _rate_per_stream_bps(treatment: TreatmentSummary, levels: Mapping[str, Level]) -> float:
    goodput, streams = treatment.metrics.get("goodput_bps"), sum(count_streams_per_direction(levels))
    return goodput.value / streams / int(levels.get("pairs", 1)) if goodput and streams else 0.0


def _log_standard_deviation_or_assumed_noise(values: Sequence[float]) -> float:
    logs = [math.log(value) for value in values if value > 0]
    return statistics.stdev(logs) if len(logs) >= 3 else _ASSUMED_NOISE


def _testbed_cpu_count(summary: CampaignSummary, treatment: TreatmentSummary) -> int | None:
    """Return how many CPUs the testbed could use when it was measured; None if unknown.

    Another machine, or a process with fewer CPUs, may read the results file.
    """
    allowed = summary.facts.get("bench", {}).get("cpus_allowed")
    if isinstance(allowed, int):
        return allowed
    load_cpus = treatment.evidence_values("load_cpus")
    return round(statistics.median(load_cpus)) if load_cpus else None


def _cpu_capacity_by_vm(
    treatment: TreatmentSummary, levels: Mapping[str, Level], testbed_cpu_count: int | None
) -> tuple[float, float] | None:
    direction = str(levels.get("direction", FORWARD))
    roles = _ROLES_BY_DIRECTION.get(direction, ("sender", "sender"))
    metrics = [f"{role}_cpu_percent" for role in roles]
    if direction not in _ROLES_BY_DIRECTION:
        metrics = ["first_vm_cpu_percent", "second_vm_cpu_percent"]
    capacities = []
    for vm, (role, metric) in enumerate(zip(roles, metrics, strict=True)):
        runnable = treatment.evidence_values(f"{role}_thread_runnable_percent")
        if not runnable or metric not in treatment.metrics:
            return None
        used = treatment.metrics[metric].value / 100 / int(levels.get("pairs", 1))
        most = _usable_cpu_limit_of_vm(vm, levels, testbed_cpu_count)
        # A thread that gets a CPU for a part of the time in which it wants one would get the same part of
        # all the time if it always wanted one.
        capacities.append(min(most, 100 * used / median) if (median := statistics.median(runnable)) else most)
    return capacities[0], capacities[1]


def _usable_cpu_limit_of_vm(vm: int, levels: Mapping[str, Level], testbed_cpu_count: int | None) -> float:
    """Return how many CPUs the first (0) or second (1) VM of a pair can use at once."""
    cpus, quota = str(levels.get("cpus", "any")), levels.get("cpu_quota")
    threads = count_load_threads_per_vm(levels)
    count = threads if testbed_cpu_count is None else testbed_cpu_count
    if cpus.endswith(" each"):
        count = int(cpus.split()[0])
    elif cpus[:1].isdigit():
        count = len(parse_cpu_list(cpus.split("/")[-1 if vm else 0]))
    limit = float(min(threads, count))
    return min(limit, quota) if isinstance(quota, int | float) else limit
