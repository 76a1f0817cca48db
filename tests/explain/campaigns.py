"""Campaigns whose trials have evidence that was made up, of studies that can be read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from tests.report.campaigns import estimate
from vnetbench.estimate.summary import CampaignSummary, TreatmentSummary, TrialPoint
from vnetbench.study.file.load import parse_study
from vnetbench.study.plan import make_plan
from vnetbench.study.workloads import deciding_metric

Evidence = Mapping[str, float]

SENDER_FULL: Evidence = {
    "sender_thread_busy_percent": 98.0,
    "sender_thread_runnable_percent": 99.0,
    "receiver_thread_busy_percent": 40.0,
    "receiver_thread_runnable_percent": 41.0,
    "sender_thread_waiting_percent": 1.0,
    "receiver_thread_waiting_percent": 1.0,
    "busiest_cpu_percent": 99.0,
    "other_work_percent": 5.0,
    "other_cpus_idle_percent": 60.0,
}
QUOTA: Evidence = {**SENDER_FULL, "sender_thread_busy_percent": 30.0, "sender_throttled_percent": 60.0}
IDLE: Evidence = {
    **SENDER_FULL,
    "sender_thread_busy_percent": 10.0,
    "sender_thread_runnable_percent": 11.0,
    "busiest_cpu_percent": 20.0,
}


@dataclass(frozen=True)
class Made:
    """What the trials of one treatment are to show."""

    evidence: Evidence = field(default_factory=lambda: SENDER_FULL)
    value: float = 10e9
    """Of the deciding metric, about."""
    trials: int = 6
    values: Mapping[str, float] = field(default_factory=dict)
    """Other metrics."""


def campaign(study_text: str, *made: Made, path: str = "study.toml") -> CampaignSummary:
    """A campaign of a study; its treatments show what was made for them, in the order of the plan."""
    study = parse_study(study_text, path)
    treatments = [
        _treatment(treatment.index, treatment.factors, each, deciding_metric(study))
        for treatment, each in zip(make_plan(study, 1).treatments, made, strict=True)
    ]
    return CampaignSummary(
        path="made.vnb",
        title=study.title,
        question="",
        workload=study.workload,
        study_text=study_text,
        overrides=(),
        seed=1,
        status="finished",
        started_at="2026-03-21T09:30:00Z",
        elapsed_s=10.0,
        precision=study.precision,
        timing=study.timing,
        factors=study.factors,
        treatments=tuple(treatments),
        testbed_backend=study.testbed.backend,
        deciding_metric=deciding_metric(study),
        study_path=path,
    )


def _treatment(
    index: int, factors: Mapping[str, str | int | float], made: Made, main: str
) -> TreatmentSummary:
    points = [_point(index, number, made, main) for number in range(made.trials)]
    names = points[0].values if points else ()
    return TreatmentSummary(
        index=index,
        factors=factors,
        effective={},
        stopped_by="precision",
        metrics={name: estimate([point.values[name] for point in points]) for name in names},
        points=tuple(points),
    )


def _point(index: int, number: int, made: Made, main: str) -> TrialPoint:
    value = made.value * (1 + 0.001 * number)
    return TrialPoint(
        trial_id=100 * index + number,
        block=number,
        started_s=float(number),
        duration_s=1.0,
        warmup_s=0.0,
        has_steady_state=True,
        values={main: value, **made.values},
        evidence=made.evidence,
    )
