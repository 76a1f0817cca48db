"""Trials with known counters, for tests of evidence metrics."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from tests import fixtures
from vnetbench.estimate.evidence import collect_evidence
from vnetbench.estimate.evidence.trial_data import TrialData, build_trial_data
from vnetbench.estimate.steady_state import select_steady_part
from vnetbench.estimate.time_series import metric_time_series
from vnetbench.estimate.trial_metrics import metrics_of_steady_part
from vnetbench.results.records import HOST, EndpointRecord, Observation, Sample, TrialRecord

UNIFORM_RATES_BPS = [8e9] * 20
"""1 s in 20 samples of 50 ms, 50 MB each."""


def trial_data(
    trial: TrialRecord, warmup_samples: int = 0, testbed: Mapping[str, Any] | None = None
) -> TrialData:
    """Return the data of a trial without its first `warmup_samples` intervals."""
    part = select_steady_part(trial, warmup_samples)
    return build_trial_data(part, metrics_of_steady_part(part), metric_time_series(trial), testbed or {})


def trial_evidence(
    trial: TrialRecord, warmup_samples: int = 0, testbed: Mapping[str, Any] | None = None
) -> dict[str, float]:
    """Return the evidence of a trial."""
    return collect_evidence(trial_data(trial, warmup_samples, testbed))


def uniform_trial(**effective: object) -> TrialRecord:
    """Return a trial of one stream of 8 Gbit/s from a1 to b1, which share the host's kernel."""
    trial = fixtures.make_trial(rates=UNIFORM_RATES_BPS)
    return replace(trial, effective={**trial.effective, **effective})


def change_endpoint(
    trial: TrialRecord, endpoint: str, change: Callable[[EndpointRecord], EndpointRecord]
) -> TrialRecord:
    """Return the trial with one endpoint changed."""
    return replace(trial, endpoints=tuple(change(x) if x.name == endpoint else x for x in trial.endpoints))


def with_counters(trial: TrialRecord, endpoint: str, **counters: float | Sequence[float]) -> TrialRecord:
    """Return the trial with counters added to an endpoint's samples: one value, or a list with one each."""

    def change(index: int, sample: Sample) -> Sample:
        values = {k: v[index] if isinstance(v, Sequence) else v for k, v in counters.items()}
        return replace(sample, counters={**sample.counters, **values})

    return change_endpoint(trial, endpoint, lambda x: _change_samples(x, change))


def with_stream_details(trial: TrialRecord, endpoint: str, **details: object) -> TrialRecord:
    """Return the trial with details added to an endpoint's streams: one value, or a list with one each."""

    def change(index: int, sample: Sample) -> Sample:
        new = {k: v[index] if isinstance(v, list) else v for k, v in details.items()}
        own = {k: new.pop(k) for k in ("bytes", "rtt_us", "cwnd", "retransmits") if k in new}
        streams = (replace(x, details={**x.details, **new}, **own) for x in sample.streams)  # type: ignore[arg-type]
        return replace(sample, streams=tuple(streams))

    return change_endpoint(trial, endpoint, lambda x: _change_samples(x, change))


def with_cpus(trial: TrialRecord, endpoint: str, *cpus: Mapping[str, float]) -> TrialRecord:
    """Return the trial with these CPUs, numbered in order, in each sample of an endpoint."""
    numbered = tuple({"cpu": number, **cpu} for number, cpu in enumerate(cpus))
    return change_endpoint(
        trial, endpoint, lambda x: _change_samples(x, lambda _, sample: replace(sample, cpu=numbered))
    )


def with_totals(trial: TrialRecord, endpoint: str, **totals: object) -> TrialRecord:
    """Return the trial with values added to the totals of an endpoint."""
    return change_endpoint(trial, endpoint, lambda x: replace(x, totals={**x.totals, **totals}))


def with_observation(
    trial: TrialRecord,
    threads: Mapping[str, float] | None = None,
    waited: Mapping[str, float] | None = None,
    **interfaces: Mapping[str, Any],
) -> TrialRecord:
    """Return the trial with this observation in each sample of the host."""
    observation = Observation(threads or {}, interfaces, None, waited or {})
    return change_endpoint(
        trial, HOST, lambda x: _change_samples(x, lambda _, sample: replace(sample, observation=observation))
    )


def _change_samples(endpoint: EndpointRecord, change: Callable[[int, Sample], Sample]) -> EndpointRecord:
    return replace(endpoint, samples=tuple(change(i, x) for i, x in enumerate(endpoint.samples)))
