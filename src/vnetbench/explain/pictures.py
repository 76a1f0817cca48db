"""The small picture of a limit: the figure that speaks for it, of each treatment or each trial."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from statistics import median

from vnetbench.estimate.evidence import FIGURES
from vnetbench.estimate.summary import CampaignSummary, TreatmentSummary
from vnetbench.explain.model import Exhibit, Picture
from vnetbench.explain.words import label_of
from vnetbench.wording.labels import capitalised
from vnetbench.wording.treatments import name_of

_MOST_BARS = 12
"""More are no small picture."""


def picture_of(
    summary: CampaignSummary, treatments: Sequence[TreatmentSummary], exhibits: Sequence[Exhibit]
) -> Picture | None:
    """The first figure that speaks for a cause and is more than yes or no; None where there is none.

    Of several treatments a bar each, their medians with the least and the most of their trials; of one a bar
    a trial.
    """
    exhibit = next((each for each in exhibits if each.speaks == "for" and _is_amount(each)), None)
    if exhibit is None:
        return None
    name = exhibit.figure
    rows = list(_of_trials(treatments[0], name) if len(treatments) == 1 else _of(summary, treatments, name))
    return Picture(
        form="bars",
        title=capitalised(label_of(name)),
        x="trial" if len(treatments) == 1 else "treatment",
        y=f"{label_of(name)} ({FIGURES[name].unit})",
        rows=tuple(rows[:_MOST_BARS]),
        threshold=exhibit.threshold,
    )


def _is_amount(exhibit: Exhibit) -> bool:
    return FIGURES[exhibit.figure].unit != "0 or 1"


def _of(
    summary: CampaignSummary, treatments: Sequence[TreatmentSummary], name: str
) -> Iterator[dict[str, str | float]]:
    for treatment in treatments:
        values = [point.evidence[name] for point in treatment.points if name in point.evidence]
        if values:
            yield {
                "x": name_of(summary, treatment),
                "y": median(values),
                "low": min(values),
                "high": max(values),
            }


def _of_trials(treatment: TreatmentSummary, name: str) -> Iterator[dict[str, str | float]]:
    for number, point in enumerate(treatment.points, 1):
        if name in point.evidence:
            yield {"x": f"trial {number}", "y": point.evidence[name]}
