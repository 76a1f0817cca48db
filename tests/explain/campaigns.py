"""Simulated campaigns of valid studies, with given evidence."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from tests.report.campaigns import estimate
from vnetbench.estimate.summary import CampaignSummary, TreatmentSummary, TrialPoint
from vnetbench.study.file.load import parse_study
from vnetbench.study.plan import make_plan
from vnetbench.study.workloads import choose_deciding_metric

Evidence = Mapping[str, float]

SENDER_SATURATED: Evidence = {
    "sender_thread_busy_percent": 98.0,
    "sender_thread_runnable_percent": 99.0,
    "receiver_thread_busy_percent": 40.0,
    "receiver_thread_runnable_percent": 41.0,
    "sender_thread_waiting_percent": 1.0,
    "time_sender_running_percent": 97.0,
    "time_receiver_running_percent": 1.0,
    "cpu_work_time_percent": 98.0,
    "programs_time_percent": 0.0,
    "quota_time_percent": 0.0,
    "hypervisor_time_percent": 0.0,
    "load_cpus_occupied_percent": 70.0,
    "load_cpus_programs_percent": 0.0,
    "load_cpus_hypervisor_percent": 0.0,
    "receiver_thread_waiting_percent": 1.0,
    "busiest_cpu_percent": 99.0,
    "other_work_cpus": 0.05,
    "netfilter_rules": 0.0,
    "other_cpus_idle_percent": 60.0,
}
QUOTA: Evidence = {
    **SENDER_SATURATED,
    "sender_thread_busy_percent": 30.0,
    "sender_throttled_percent": 60.0,
    "quota_time_percent": 60.0,
    "time_sender_running_percent": 30.0,
}
IDLE: Evidence = {
    **SENDER_SATURATED,
    "sender_thread_busy_percent": 10.0,
    "sender_thread_runnable_percent": 11.0,
    "time_sender_running_percent": 9.0,
    "cpu_work_time_percent": 10.0,
    "busiest_cpu_percent": 20.0,
}


@dataclass(frozen=True)
class SimulatedTreatment:
    """Values and evidence of one treatment's trials."""

    evidence: Evidence = field(default_factory=lambda: SENDER_SATURATED)
    value: float = 10e9
    """Approximate value of the deciding metric."""
    trials: int = 6
    values: Mapping[str, float] = field(default_factory=dict)
    """Other metrics."""


def campaign(study_text: str, *simulated: SimulatedTreatment, path: str = "study.toml") -> CampaignSummary:
    """Return a campaign of a study with these treatments, in the order of the plan."""
    study = parse_study(study_text, path)
    treatments = [
        _treatment(treatment.index, treatment.factors, each, choose_deciding_metric(study))
        for treatment, each in zip(make_plan(study, 1).treatments, simulated, strict=True)
    ]
    return CampaignSummary(
        path="simulated.vnb",
        title=study.title,
        question="",
        workload=study.workload,
        study_text=study_text,
        overrides=(),
        seed=1,
        status="finished",
        started_at="2026-03-21T09:30:00Z",
        elapsed_s=10.0,
        required_precision=study.precision,
        timing=study.timing,
        factors=study.factors,
        treatments=tuple(treatments),
        testbed_backend=study.testbed.backend,
        deciding_metric=choose_deciding_metric(study),
        study_path=path,
    )


def _treatment(
    index: int, factors: Mapping[str, str | int | float], simulated: SimulatedTreatment, metric: str
) -> TreatmentSummary:
    points = [_point(index, number, simulated, metric) for number in range(simulated.trials)]
    names = points[0].values if points else ()
    return TreatmentSummary(
        index=index,
        factors=factors,
        effective={},
        stop_reason="precision",
        metrics={name: estimate([point.values[name] for point in points]) for name in names},
        points=tuple(points),
    )


def _point(index: int, number: int, simulated: SimulatedTreatment, metric: str) -> TrialPoint:
    value = simulated.value * (1 + 0.001 * number)
    return TrialPoint(
        trial_id=100 * index + number,
        block=number,
        since_campaign_start_s=float(number),
        duration_s=1.0,
        warmup_s=0.0,
        has_steady_state=True,
        values={metric: value, **simulated.values},
        evidence=simulated.evidence,
    )
