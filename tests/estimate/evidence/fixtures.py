"""Trials whose counters are known, for tests of the figures that are made of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from tests import fixtures
from vnetbench.estimate.time_series import metric_time_series
from vnetbench.estimate.evidence import collect_evidence
from vnetbench.estimate.evidence.trial_data import TrialData, build_trial_data
from vnetbench.estimate.steady_state import select_steady_part
from vnetbench.estimate.trial_metrics import steady_metrics
from vnetbench.results.records import HOST, Sample, EndpointRecord, TrialRecord, Observation

EVEN = [8e9] * 20
"""1 s in 20 samples of 50 ms, 50 MB each."""


def case(trial: TrialRecord, cut: int = 0, testbed: Mapping[str, Any] | None = None) -> TrialData:
    """A trial after its first `cut` intervals."""
    part = select_steady_part(trial, cut)
    return build_trial_data(part, steady_metrics(part), metric_time_series(trial), testbed or {})


def evidence(trial: TrialRecord, cut: int = 0, testbed: Mapping[str, Any] | None = None) -> dict[str, float]:
    """Its figures."""
    return collect_evidence(case(trial, cut, testbed))


def even(**effective: object) -> TrialRecord:
    """A stream of 8 Gbit/s from a1 to b1, which share the kernel of the host."""
    trial = fixtures.make_trial(rates=EVEN)
    return replace(trial, effective={**trial.effective, **effective})


def at(trial: TrialRecord, endpoint: str, change: Callable[[EndpointRecord], EndpointRecord]) -> TrialRecord:
    """The trial with another side."""
    return replace(trial, endpoints=tuple(change(x) if x.name == endpoint else x for x in trial.endpoints))


def counting(trial: TrialRecord, endpoint: str, **counters: float | Sequence[float]) -> TrialRecord:
    """With more counters in each sample of an endpoint, of the same value or of one each."""

    def change(place: int, sample: Sample) -> Sample:
        values = {k: v[place] if isinstance(v, Sequence) else v for k, v in counters.items()}
        return replace(sample, counters={**sample.counters, **values})

    return at(trial, endpoint, lambda side: _each(side, change))


def telling(trial: TrialRecord, endpoint: str, **info: object) -> TrialRecord:
    """With more said of each stream of an endpoint, in each sample the same or one value each."""

    def change(place: int, sample: Sample) -> Sample:
        now = {k: v[place] if isinstance(v, list) else v for k, v in info.items()}
        own = {k: now.pop(k) for k in ("bytes", "rtt_us", "cwnd", "retransmits") if k in now}
        streams = (replace(x, details={**x.details, **now}, **own) for x in sample.streams)  # type: ignore[arg-type]
        return replace(sample, streams=tuple(streams))

    return at(trial, endpoint, lambda side: _each(side, change))


def of_cpus(trial: TrialRecord, endpoint: str, *cpus: Mapping[str, float]) -> TrialRecord:
    """With these CPUs in each sample, numbered in order."""
    numbered = tuple({"cpu": number, **cpu} for number, cpu in enumerate(cpus))
    return at(trial, endpoint, lambda side: _each(side, lambda _, x: replace(x, cpu=numbered)))


def with_totals(trial: TrialRecord, endpoint: str, **totals: object) -> TrialRecord:
    """With more in what the endpoint said at the end."""
    return at(trial, endpoint, lambda side: replace(side, totals={**side.totals, **totals}))


def watching(
    trial: TrialRecord,
    threads: Mapping[str, float] | None = None,
    waited: Mapping[str, float] | None = None,
    **interfaces: Mapping[str, Any],
) -> TrialRecord:
    """With this seen by the host in each sample."""
    seen = Observation(threads or {}, interfaces, None, waited or {})
    return at(trial, HOST, lambda side: _each(side, lambda _, x: replace(x, observation=seen)))


def _each(side: EndpointRecord, change: Callable[[int, Sample], Sample]) -> EndpointRecord:
    return replace(side, samples=tuple(change(i, x) for i, x in enumerate(side.samples)))
