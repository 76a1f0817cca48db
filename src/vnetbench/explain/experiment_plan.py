"""Plan the experiment that tests candidate causes.

The plan has the treatment as it was, and the treatment with each candidate's setting, interleaved in blocks.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from vnetbench.errors import BenchError
from vnetbench.estimate.matching import all_levels
from vnetbench.estimate.paired_ratios import min_blocks_for_paired_ratio
from vnetbench.estimate.summary import CampaignSummary, TreatmentSummary
from vnetbench.explain.experiment_command import level_before_setting
from vnetbench.explain.model import REPRESENTATIVE_INDEX_KEY, CandidateCause, Finding
from vnetbench.quantity import format_exact_duration
from vnetbench.study.factors.registry import FACTORS, format_levels
from vnetbench.study.file.load import parse_study
from vnetbench.study.model import Level, Plan, Study, Treatment
from vnetbench.study.plan import make_plan

MAX_TESTED_CANDIDATES = 2
"""Maximum number of candidates in one experiment. Each adds a treatment to every block."""
MIN_TRIALS_PER_TREATMENT = 8
"""Minimum trials per treatment: two more than a 95 % interval needs, because the ratio is trimmed."""
_MAX_TRIAL_S = 5.0


@dataclass(frozen=True)
class ExperimentPlan:
    """Study and plan of an experiment, its treatment and the candidates that it tests."""

    study: Study
    plan: Plan
    treatment: TreatmentSummary
    candidates: tuple[CandidateCause, ...]


def plan_first_possible_experiment(
    summary: CampaignSummary, findings: Sequence[Finding]
) -> ExperimentPlan | None:
    """Plan an experiment for the first finding with testable candidates; return None if there is none.

    The experiment tests up to MAX_TESTED_CANDIDATES candidates, or fewer if no single study can have all
    their settings.
    """
    by_index = {treatment.index: treatment for treatment in summary.treatments}
    for finding in findings:
        candidates = _first_untested_candidates(finding)
        treatment = by_index.get(int(str(finding.details.get(REPRESENTATIVE_INDEX_KEY, -1))))
        while candidates and treatment is not None:
            plan = _plan_candidates(summary, treatment, candidates)
            if plan is not None:
                return plan
            candidates = candidates[:-1]
    return None


def _first_untested_candidates(finding: Finding) -> tuple[CandidateCause, ...]:
    """Return the first candidates with different settings and without an experiment."""
    by_setting: dict[frozenset[tuple[str, Level]], CandidateCause] = {}
    for each in finding.candidates:
        if each.cause.experiment_levels and each.experiment_result is None:
            by_setting.setdefault(frozenset(each.cause.experiment_levels.items()), each)
    return tuple(by_setting.values())[:MAX_TESTED_CANDIDATES]


def _plan_candidates(
    summary: CampaignSummary, treatment: TreatmentSummary, candidates: tuple[CandidateCause, ...]
) -> ExperimentPlan | None:
    """Plan an experiment with all these candidates; return None if no valid study has their settings."""
    baseline = _levels_before_candidate_settings(summary, treatment, candidates)
    if baseline is None:
        return None
    planned = [baseline, *({**baseline, **candidate.cause.experiment_levels} for candidate in candidates)]
    levels = {name: tuple(dict.fromkeys(each[name] for each in planned)) for name in baseline}
    try:
        study = parse_study(
            summary.study_text, summary.study_path, tuple(_study_overrides(summary, treatment, levels))
        )
    except BenchError:
        return None
    # The study's own plan would combine all levels. The experiment needs only the planned combinations.
    treatments = tuple(Treatment(index, each) for index, each in enumerate(planned))
    return ExperimentPlan(study, Plan(treatments, make_plan(study, None).seed), treatment, candidates)


def _levels_before_candidate_settings(
    summary: CampaignSummary, treatment: TreatmentSummary, candidates: Sequence[CandidateCause]
) -> dict[str, Level] | None:
    """Return the treatment's levels, including all factors that the experiment changes.

    Return None if a level is unknown, or if the treatment has a candidate's setting already.
    """
    present, baseline = all_levels(summary, treatment), dict(treatment.factors)
    for candidate in candidates:
        for name, level in candidate.cause.experiment_levels.items():
            before = level_before_setting(present, name, level)
            if before is None or before == level:
                return None
            baseline[name] = before
    return baseline


def _study_overrides(
    summary: CampaignSummary, treatment: TreatmentSummary, levels: Mapping[str, tuple[Level, ...]]
) -> Iterator[str]:
    """Yield the `--set` texts that turn the campaign's study into the experiment's study."""
    trials = max(MIN_TRIALS_PER_TREATMENT, min_blocks_for_paired_ratio(summary.required_precision.confidence))
    overrides = {
        "precision.min_trials": str(trials),
        "precision.max_trials": str(trials),
        "precision.time_limit": "none",
        "timing.duration": format_exact_duration(_trial_duration_s(summary, treatment)),
        **{name: format_levels(name, factor_levels) for name, factor_levels in levels.items()},
    }
    for override in summary.overrides:
        key = override.partition("=")[0].strip()
        if key not in overrides and key not in FACTORS:
            yield override
    yield from (f"{key}={text}" for key, text in overrides.items())


def _trial_duration_s(summary: CampaignSummary, treatment: TreatmentSummary) -> float:
    """Return the study's trial duration, or the measured one, limited to _MAX_TRIAL_S."""
    duration_s = summary.timing.duration_s
    return min(_MAX_TRIAL_S, duration_s or median(point.duration_s for point in treatment.points))
