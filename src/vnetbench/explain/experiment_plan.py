"""What proves suspicions: a treatment as it was, and with each suspect's setting, interleaved."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from vnetbench.errors import BenchError
from vnetbench.estimate.matching import all_levels
from vnetbench.estimate.paired_ratios import fewest_blocks
from vnetbench.estimate.summary import CampaignSummary, TreatmentSummary
from vnetbench.explain.model import REPRESENTATIVE, Finding, CandidateCause
from vnetbench.explain.experiment_command import baseline_level
from vnetbench.quantity import spell_duration
from vnetbench.study.factors.registry import FACTORS, format_levels
from vnetbench.study.file.load import parse_study
from vnetbench.study.model import Level, Plan, Study, Treatment
from vnetbench.study.plan import make_plan

MAX_CANDIDATES = 2
"""So many are tried at once; each is a treatment more in every block."""
MIN_TRIALS = 8
"""Of each treatment: two more than a 95 % interval needs, since the ratio is trimmed."""
_MAX_TRIAL_S = 5.0


@dataclass(frozen=True)
class ExperimentPlan:
    """What is to be run, of which treatment, and for which suspects."""

    study: Study
    plan: Plan
    treatment: TreatmentSummary
    candidates: tuple[CandidateCause, ...]


def plan_experiment(summary: CampaignSummary, findings: Sequence[Finding]) -> ExperimentPlan | None:
    """For the first finding with suspects that a setting can prove; None where there is none.

    Of several suspects two are tried together; the first alone where both settings cannot stand in one study.
    """
    by_index = {treatment.index: treatment for treatment in summary.treatments}
    for finding in findings:
        suspects = _testable_candidates(finding)
        treatment = by_index.get(int(str(finding.details.get(REPRESENTATIVE, -1))))
        while suspects and treatment is not None:
            found = _plan_candidates(summary, treatment, suspects)
            if found is not None:
                return found
            suspects = suspects[:-1]
    return None


def _testable_candidates(finding: Finding) -> tuple[CandidateCause, ...]:
    """The first of those that a setting can prove; of several with one setting the first stands for all."""
    by_setting: dict[frozenset[tuple[str, Level]], CandidateCause] = {}
    for each in finding.candidates:
        if each.cause.setting and each.experiment_result is None:
            by_setting.setdefault(frozenset(each.cause.setting.items()), each)
    return tuple(by_setting.values())[:MAX_CANDIDATES]


def _plan_candidates(
    summary: CampaignSummary, treatment: TreatmentSummary, suspects: tuple[CandidateCause, ...]
) -> ExperimentPlan | None:
    base = _baseline_levels(summary, treatment, suspects)
    if base is None:
        return None
    tried = [base, *({**base, **suspect.cause.setting} for suspect in suspects)]
    levels = {name: tuple(dict.fromkeys(each[name] for each in tried)) for name in base}
    try:
        study = parse_study(
            summary.study_text, summary.study_path, tuple(_study_overrides(summary, treatment, levels))
        )
    except BenchError:
        return None
    # The study alone would ask for all combinations of the levels, and for what it changes together.
    plan = Plan(tuple(Treatment(at, each) for at, each in enumerate(tried)), make_plan(study, None).seed)
    return ExperimentPlan(study, plan, treatment, suspects)


def _baseline_levels(
    summary: CampaignSummary, treatment: TreatmentSummary, suspects: Sequence[CandidateCause]
) -> dict[str, Level] | None:
    """The treatment with a level of each factor that is to be set otherwise; None where one is not known."""
    present, base = all_levels(summary, treatment), dict(treatment.factors)
    for suspect in suspects:
        for name, level in suspect.cause.setting.items():
            was = baseline_level(present, name, level)
            if was is None or was == level:
                return None
            base[name] = was
    return base


def _study_overrides(
    summary: CampaignSummary, treatment: TreatmentSummary, levels: Mapping[str, tuple[Level, ...]]
) -> Iterator[str]:
    trials = max(MIN_TRIALS, fewest_blocks(summary.precision.confidence))
    own = {
        "precision.fewest_trials": str(trials),
        "precision.most_trials": str(trials),
        "precision.time_limit": "none",
        "timing.duration": spell_duration(_trial_duration_s(summary, treatment)),
        **{name: format_levels(name, of_it) for name, of_it in levels.items()},
    }
    for override in summary.overrides:
        key = override.partition("=")[0].strip()
        if key not in own and key not in FACTORS:
            yield override
    yield from (f"{key}={text}" for key, text in own.items())


def _trial_duration_s(summary: CampaignSummary, treatment: TreatmentSummary) -> float:
    """As the study has it, else as the treatment's trials were; never long."""
    asked = summary.timing.duration_s
    return min(_MAX_TRIAL_S, asked or median(point.duration_s for point in treatment.points))
