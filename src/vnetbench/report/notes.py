"""What a reader has to know beside the figures: how to read them, what was not measured, what is odd."""

from __future__ import annotations

from collections.abc import Iterator

from vnetbench.estimate.summary import CampaignSummary, TreatmentSummary
from vnetbench.quantity import spell_share
from vnetbench.report.columns import UNMEASURED, varying_factors
from vnetbench.report.figures import noun_of
from vnetbench.report.labels import counted, factor_label, level_text, names_of, treatment_phrase

_MOST_LISTED = 12
"""So many trials are named; the page and the JSON have them all."""


def legend(summary: CampaignSummary) -> str:
    """What the figures are, in as many sentences as this campaign needs."""
    share = spell_share(summary.precision.confidence)
    parts = [f"Median of the trials ± the wider side of its {share} interval."]
    main = summary.main_metric
    estimates = [t.metrics[main] for t in summary.treatments if main in t.metrics]
    if any(each.low is None for each in estimates):
        parts.append("± ?: too few trials for an interval.")
    if any(each.modes for each in estimates):
        parts.append(
            "Two figures with shares: the trials fall into two modes, no single value stands for both."
        )
    return " ".join(parts)


def notes(summary: CampaignSummary) -> tuple[str, ...]:
    """One note a fact: what was refused or failed, what is odd, what is the same everywhere, warnings."""
    return (*_of_treatments(summary), *_of_trials(summary), *_constant(summary), *summary.warnings)


def name_of(summary: CampaignSummary, treatment: TreatmentSummary) -> str:
    """The treatment by the factors that vary in this campaign."""
    return treatment_phrase(treatment.factors, names_of(varying_factors(summary.treatments, summary.factors)))


def _of_treatments(summary: CampaignSummary) -> Iterator[str]:
    for treatment in summary.treatments:
        name = name_of(summary, treatment)
        if treatment.failures:
            what = treatment.stopped_by if treatment.stopped_by in UNMEASURED else "trials failed"
            yield f"{name}: {what}: {'; '.join(dict.fromkeys(treatment.failures))}"
        for note in treatment.notes:
            yield f"{name}: {note}"


def _of_trials(summary: CampaignSummary) -> Iterator[str]:
    main = summary.main_metric
    measured = [t for t in summary.treatments if main in t.metrics]
    outliers = [t.points[place].trial for t in measured for place in t.metrics[main].outliers]
    if outliers:
        counts = counted(len(outliers), "outlier")
        yield f"{counts} in {noun_of(main)}, kept in the estimates: {_trials(outliers)}"


def _trials(numbers: list[int]) -> str:
    listed = ", ".join(map(str, sorted(numbers)[:_MOST_LISTED]))
    more = f" and {len(numbers) - _MOST_LISTED} more" if len(numbers) > _MOST_LISTED else ""
    return f"trial{'' if len(numbers) == 1 else 's'} {listed}{more}"


def _constant(summary: CampaignSummary) -> Iterator[str]:
    varying = names_of(varying_factors(summary.treatments, summary.factors))
    fixed = [
        f"{factor_label(factor.name)}: {level_text(factor.name, factor.levels[0])}"
        for factor in summary.factors
        if factor.name not in varying and factor.levels
    ]
    if fixed and varying:
        yield f"The same in every treatment: {', '.join(fixed)}"
