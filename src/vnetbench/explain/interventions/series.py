"""Plan a series of interventions on one treatment: its study, its treatments and their order."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from vnetbench.errors import BenchError
from vnetbench.estimate.summary import CampaignSummary, TreatmentSummary
from vnetbench.explain.experiment_command import build_experiment_command, level_before_setting
from vnetbench.explain.experiment_plan import MAX_TESTED_CANDIDATES
from vnetbench.explain.interventions.catalog import MIN_TESTED_TIME_SHARE, Intervention, list_interventions
from vnetbench.explain.interventions.planner import (
    BASE_TREATMENT_INDEX,
    InterventionSeries,
    PlannedIntervention,
    confidence_of_one_analysis,
)
from vnetbench.explain.interventions.treatment_state import TreatmentState, read_treatment_state
from vnetbench.explain.model import REPRESENTATIVE_INDEX_KEY, CandidateCause, Finding
from vnetbench.explain.rules import get_cause
from vnetbench.quantity import format_exact_duration, format_exact_share
from vnetbench.study.factors.registry import FACTORS, format_levels
from vnetbench.study.file.load import parse_study
from vnetbench.study.model import ONE_AT_A_TIME, Level, Plan, Study, Treatment
from vnetbench.study.plan import make_plan
from vnetbench.study.workloads import WORKLOADS

MAX_SERIES_DURATION_S = 60.0
"""Maximum duration of a series."""
TESTBED_REMOVAL_TIME_S = 2.0
"""Part of MAX_SERIES_DURATION_S for removing the testbed."""
MAX_INTERVENTIONS_PER_SERIES = 14
"""More do not fit into MAX_SERIES_DURATION_S."""
STEADY_TRIAL_S = 0.5
"""Duration of a trial without its warm-up."""
MIN_WARMUP_S, MAX_WARMUP_S = 0.1, 1.0
WARMUP_ROUND_TRIPS = 20
"""Round trips of a warm-up: in ten of them, slow start multiplies the window by a thousand."""
_MAX_BASE_TREATMENT_TRIALS = 100
"""Trials of the unchanged treatment. The time limit allows fewer."""


@dataclass(frozen=True)
class SeriesPlan:
    """Study and plan of a series, its treatment and its interventions."""

    study: Study
    plan: Plan
    series: InterventionSeries
    treatment: TreatmentSummary
    candidates: tuple[CandidateCause, ...]
    """Candidate causes whose advice the series tries."""


def plan_series(
    summary: CampaignSummary, findings: Sequence[Finding], chosen: Sequence[int], has_root: bool
) -> SeriesPlan | None:
    """Plan the series for the treatment that the first finding is about.

    Args:
        summary: The campaign.
        findings: Its findings, most important first.
        chosen: Indexes of the treatments to choose from; empty for all.
        has_root: Whether this machine allows changes that need root.

    Returns:
        The plan; None if the workload has no time accounting (frames), or if nothing can be changed.
    """
    if summary.is_imported or WORKLOADS[summary.workload].carries_frames:
        return None
    treatment, candidates = _choose_treatment(summary, findings, chosen)
    if treatment is None or not treatment.points:
        return None
    state = read_treatment_state(summary, treatment)
    catalog = list_interventions(state, summary.workload, summary.testbed_backend, has_root)
    advice = tuple(_advised_interventions(state, candidates, catalog))
    changes = [each.changed_levels for each in advice]
    others = [
        each
        for each in catalog
        if each.time_share >= MIN_TESTED_TIME_SHARE and each.changed_levels not in changes
    ]
    base: dict[str, Level] = dict(treatment.factors)
    kept: list[Intervention] = []
    for each in (*advice, *others):
        if len(kept) < MAX_INTERVENTIONS_PER_SERIES and _starts_from_base_levels(base, each):
            trial_base = {**base, **each.base_levels_of_changed_factors}
            if _try_parse_study(summary, treatment, trial_base, [*kept, each]) is not None:
                base, kept = trial_base, [*kept, each]
    study = _try_parse_study(summary, treatment, base, kept)
    if study is None or not kept:
        return None
    return _build_plan(summary, treatment, candidates, study, base, kept)


def _build_plan(
    summary: CampaignSummary,
    treatment: TreatmentSummary,
    candidates: tuple[CandidateCause, ...],
    study: Study,
    base: Mapping[str, Level],
    interventions: Sequence[Intervention],
) -> SeriesPlan:
    levels = [base, *({**base, **each.changed_levels} for each in interventions)]
    planned = tuple(
        PlannedIntervention(
            BASE_TREATMENT_INDEX + number,
            each.resource,
            each.resource_ratio,
            each.time_share,
            each.is_advice,
        )
        for number, each in enumerate(interventions, 1)
    )
    return SeriesPlan(
        study,
        Plan(tuple(Treatment(i, each) for i, each in enumerate(levels)), make_plan(study, None).seed),
        InterventionSeries(planned, summary.deciding_metric, study.precision.confidence),
        treatment,
        candidates,
    )


def _choose_treatment(
    summary: CampaignSummary, findings: Sequence[Finding], chosen: Sequence[int]
) -> tuple[TreatmentSummary | None, tuple[CandidateCause, ...]]:
    """Return the treatment of the first finding with a representative, and that finding's candidates.

    Without such a finding, the first chosen treatment has no candidates.
    """
    by_index = {treatment.index: treatment for treatment in summary.treatments}
    for finding in findings:
        index = int(str(finding.details.get(REPRESENTATIVE_INDEX_KEY, -1)))
        if index not in by_index:
            continue
        if not chosen or index in chosen:
            return by_index[index], finding.candidates
        # A finding about several treatments concerns the chosen one as well as its representative.
        treatment = by_index[next((each for each in chosen if each in finding.treatment_indices), index)]
        return treatment, tuple(
            _replace_setting_for_treatment(summary, treatment, each) for each in finding.candidates
        )
    return next((by_index[index] for index in chosen if index in by_index), None), ()


def _replace_setting_for_treatment(
    summary: CampaignSummary, treatment: TreatmentSummary, candidate: CandidateCause
) -> CandidateCause:
    """Return the candidate with the setting that its advice means in this treatment."""
    experiment = build_experiment_command(summary, treatment, get_cause(candidate.cause.name))
    return replace(candidate, cause=replace(candidate.cause, experiment_levels=experiment.changed_levels))


def _advised_interventions(
    state: TreatmentState, candidates: Sequence[CandidateCause], catalog: Sequence[Intervention]
) -> Iterator[Intervention]:
    """Yield the changes that the first candidates advise, with their resource if the catalog has it."""
    settings: list[Mapping[str, Level]] = []
    for candidate in candidates:
        changes = candidate.cause.experiment_levels
        if changes and changes not in settings and len(settings) < MAX_TESTED_CANDIDATES:
            settings.append(changes)
    for changes in settings:
        known = next((each for each in catalog if each.changed_levels == changes), None)
        if known is not None:
            yield replace(known, is_advice=True)
            continue
        base = {name: _level_in_treatment(state, name, level) for name, level in changes.items()}
        if all(level is not None for level in base.values()) and base != changes:
            before = {name: level for name, level in base.items() if level is not None}
            yield Intervention("", before, changes, None, 1.0, is_advice=True)


def _level_in_treatment(state: TreatmentState, name: str, new_level: Level) -> Level | None:
    """Return a factor's level in the treatment, as it was read back if no study sets it."""
    effective = state.effective_settings.get(name)
    if name not in state.levels and isinstance(effective, bool):
        return "on" if effective else "off"
    return level_before_setting(state.levels, name, new_level)


def _starts_from_base_levels(base: Mapping[str, Level], intervention: Intervention) -> bool:
    """Return whether the intervention starts from the levels of the unchanged treatment."""
    return all(
        base.get(name, level) == level for name, level in intervention.base_levels_of_changed_factors.items()
    )


def _try_parse_study(
    summary: CampaignSummary,
    treatment: TreatmentSummary,
    base: Mapping[str, Level],
    interventions: Sequence[Intervention],
) -> Study | None:
    """Return the study with the unchanged treatment and single changes to it; None if it is invalid."""
    levels = {
        name: tuple(dict.fromkeys([level, *(x.changed_levels[name] for x in interventions
                                            if name in x.changed_levels)]))
        for name, level in base.items()
    }  # fmt: skip
    overrides = tuple(_study_overrides(summary, treatment, levels))
    try:
        return parse_study(summary.study_text, summary.study_path, overrides)
    except BenchError:
        return None


def _choose_fixed_warmup_s(treatment: TreatmentSummary) -> float:
    """Return the fixed warm-up of the trials, so that a resumed series decides as the original one did."""
    round_trip_s = treatment.metrics["rtt_us"].value / 1e6 if "rtt_us" in treatment.metrics else 0.0
    return round(min(MAX_WARMUP_S, max(MIN_WARMUP_S, WARMUP_ROUND_TRIPS * round_trip_s)), 2)


def _study_overrides(
    summary: CampaignSummary, treatment: TreatmentSummary, levels: Mapping[str, tuple[Level, ...]]
) -> Iterator[str]:
    """Yield the `--set` texts that turn the campaign's study into the series' study."""
    warmup_s = _choose_fixed_warmup_s(treatment)
    confidence = confidence_of_one_analysis(summary.required_precision.confidence)
    overrides = {
        "combine": ONE_AT_A_TIME,
        "precision.confidence": format_exact_share(round(confidence, 6)),
        "precision.max_trials": str(_MAX_BASE_TREATMENT_TRIALS),
        "precision.time_limit": format_exact_duration(MAX_SERIES_DURATION_S - TESTBED_REMOVAL_TIME_S),
        "timing.warmup": format_exact_duration(warmup_s),
        "timing.duration": format_exact_duration(round(warmup_s + STEADY_TRIAL_S, 2)),
        **{name: format_levels(name, factor_levels) for name, factor_levels in levels.items()},
    }
    for override in summary.overrides:
        key = override.partition("=")[0].strip()
        if key not in overrides and key not in FACTORS:
            yield override
    yield from (f"{key}={text}" for key, text in overrides.items())
