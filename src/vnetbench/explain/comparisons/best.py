"""The best treatment and those not worse than it, by less than what matters in practice.

That a treatment cannot be told from the best does not make it as good: with few trials nothing can be told.
So it counts as not worse only where the whole interval of its ratio to the best lies within the difference
that the study asked to be told (a test of non-inferiority, one of the two of Schuirmann 1987, "A comparison
of the two one-sided tests procedure and the power approach for assessing the equivalence of average
bioavailability", Journal of Pharmacokinetics and Biopharmaceutics 15(6)).
"""

from __future__ import annotations

from dataclasses import dataclass

from vnetbench.estimate.effects import find_best_treatment
from vnetbench.estimate.metrics import is_lower_better
from vnetbench.estimate.model import BestTreatment, Estimate, Ratio
from vnetbench.estimate.summary import CampaignSummary, TreatmentSummary
from vnetbench.explain.comparisons.words import ends_of, named
from vnetbench.explain.model import Finding, EvidenceChart
from vnetbench.quantity import format_interval, spell_share
from vnetbench.wording.estimate_text import finite_or_none, metric_of, noun_of
from vnetbench.wording.factor_text import capitalised, counted
from vnetbench.wording.treatment_names import name_of

_COSTS = ("cycles_per_byte", "cycles_per_transaction", "cycles_per_datagram", "host_cpu_percent")
"""What the load costs, the most telling first: among equals the cheapest is named."""
_MOST_DRAWN = 12


@dataclass(frozen=True)
class Standing:
    """The best treatment and how all others stand to it; indices, best median first."""

    best: BestTreatment
    margin: float
    """A share of the best value: a smaller difference does not matter."""
    not_worse: tuple[int, ...]
    """Those that are surely within the margin."""
    worse: tuple[int, ...]
    """Those told from the best, beyond chance, and not surely within the margin."""
    unsure: tuple[int, ...]
    """Neither: they cannot be told from it, and might be worse by more than the margin."""


def standing(summary: CampaignSummary) -> Standing | None:
    """How the treatments stand by the deciding metric; None with fewer than two that were measured.

    The margin is the half-width that the study asked for: what it did not ask to tell, it takes for alike.
    """
    found = find_best_treatment(summary, summary.main_metric)
    if found is None or not found.ratios:
        return None
    margin = summary.precision.half_width
    not_worse = tuple(i for i, ratio in found.ratios.items() if _is_within(summary, ratio, margin))
    worse = tuple(i for i in found.ratios if i not in found.tied_with and i not in not_worse)
    unsure = tuple(i for i in found.tied_with if i not in not_worse)
    return Standing(found, margin, not_worse, worse, unsure)


def findings(summary: CampaignSummary) -> tuple[Finding, ...]:
    """One finding on the best; none where nothing is compared with an interval."""
    found = standing(summary)
    if found is None or all(ratio.p_value is None for ratio in found.best.ratios.values()):
        return ()
    by_index = {each.index: each for each in summary.treatments}
    first = by_index[found.best.index]
    equals = [first, *(by_index[index] for index in found.not_worse)]
    says = f"{noun_of(summary.main_metric)} is best with {name_of(summary, first)}{_figure(summary, first)}. "
    says += _equals_text(summary, found, equals[1:]) + _cheapest(summary, equals)
    if found.unsure:
        unsure = [by_index[index] for index in found.unsure]
        says += f" Too unsure to say: {named(summary, unsure)}."
    if found.worse:
        says += f" {counted(len(found.worse), 'treatment')} {'is' if len(found.worse) == 1 else 'are'} worse."
    return (
        Finding(
            kind="best",
            text=capitalised(says),
            treatments=tuple(each.index for each in equals),
            chart=_picture(summary, found),
            details=_details(summary, found),
        ),
    )


def _is_within(summary: CampaignSummary, ratio: Ratio, margin: float) -> bool:
    if ratio.low is None or ratio.high is None:
        return False
    if is_lower_better(summary.main_metric):
        return ratio.high < 1 / (1 - margin)
    return ratio.low > 1 - margin


def _figure(summary: CampaignSummary, treatment: TreatmentSummary) -> str:
    found: Estimate = treatment.metrics[summary.main_metric]
    unit = metric_of(summary.main_metric).unit
    return f" ({format_interval(found.value, found.low, found.high, unit).text})"


def _equals_text(summary: CampaignSummary, found: Standing, equals: list[TreatmentSummary]) -> str:
    margin = spell_share(found.margin)
    if not equals:
        return f"No other treatment is surely within {margin} of it."
    return f"Not worse by {margin} or more: {named(summary, equals)}."


def _cheapest(summary: CampaignSummary, equals: list[TreatmentSummary]) -> str:
    """Which of several that are as good costs the least."""
    if len(equals) < 2:
        return ""
    cost = next((name for name in _COSTS if all(name in each.metrics for each in equals)), None)
    if cost is None:
        return ""
    cheapest = min(equals, key=lambda each: each.metrics[cost].value)
    if cheapest is equals[0]:
        return f" Of these it also has the least {metric_of(cost).label.lower()}."
    ratio = cheapest.metrics[cost].value / equals[0].metrics[cost].value
    return f" The cheapest of these is {name_of(summary, cheapest)}: {noun_of(cost)} times {ratio:.2f}."


def _picture(summary: CampaignSummary, found: Standing) -> EvidenceChart:
    by_index = {each.index: each for each in summary.treatments}
    places = {
        **dict.fromkeys(found.not_worse, "not worse"),
        **dict.fromkeys(found.worse, "worse"),
        **dict.fromkeys(found.unsure, "unsure"),
    }
    return EvidenceChart(
        chart_type="effects",
        title="Treatments against the best",
        x_label="",
        y_label=f"{noun_of(summary.main_metric)}, times that of {name_of(summary, by_index[found.best.index])}",
        rows=tuple(
            {
                "x": name_of(summary, by_index[index]),
                "y": ratio.value,
                "series": places[index],
                **ends_of(ratio),
            }
            for index, ratio in list(found.best.ratios.items())[:_MOST_DRAWN]
            if index in places and finite_or_none(ratio.value) is not None
        ),
    )


def _details(summary: CampaignSummary, found: Standing) -> dict[str, object]:
    return {
        "metric": summary.main_metric,
        "best": found.best.index,
        "margin": found.margin,
        "not_worse": list(found.not_worse),
        "worse": list(found.worse),
        "unsure": list(found.unsure),
        "ratios": {
            str(index): {"ratio": finite_or_none(ratio.value), "low": ratio.low, "high": ratio.high}
            for index, ratio in found.best.ratios.items()
        },
    }
