"""What a reader has to know beside the figures: how to read them, what was not measured, what is odd."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from vnetbench.estimate.datagrams import SHARES
from vnetbench.estimate.model import Estimate
from vnetbench.estimate.summary import CampaignSummary, TreatmentSummary
from vnetbench.quantity import spell_share
from vnetbench.report.tables.columns import UNMEASURED
from vnetbench.report.text.emulation_warning import emulation
from vnetbench.wording.estimate_text import noun_of
from vnetbench.wording.factor_text import counted, factor_label, level_text, names_of
from vnetbench.wording.treatment_names import name_of, varying_factors

_NUMBER = re.compile(r"\d+(\.\d+)?")
"""Notes that differ in their numbers alone are one."""
_MOST_NAMED = 2
"""So many treatments that share a fate are named."""
_SHARES = tuple(dict.fromkeys(name for shares in SHARES.values() for name in shares))
_MOST_LISTED = 12
"""So many trials are named; the page and the JSON have them all."""


def legend(summary: CampaignSummary) -> str:
    """What the figures are, in as many sentences as this campaign needs."""
    if summary.reference is not None:
        return f"Each figure is {summary.reference.each}."
    share = spell_share(summary.precision.confidence)
    parts = [f"Median of the trials ± the wider side of its {share} interval."]
    main = summary.main_metric
    estimates = [t.metrics[main] for t in summary.treatments if main in t.metrics]
    if any(each.low is None for each in estimates):
        parts.append("± ?: too few trials for an interval.")
    if any(each.is_of_one_search for t in summary.treatments for each in t.metrics.values()):
        parts.append("Of a treatment that was searched once ± is what its search says of its own answer.")
    if any(point.answers for treatment in summary.treatments for point in treatment.points):
        parts.append("One search: half of its own interval, of the least sure one.")
    if any(_is_unseen(t.metrics[name]) for t in summary.treatments for name in _SHARES if name in t.metrics):
        parts.append(f"A share of 0 ± x: not one was seen, and more than x is ruled out ({share}).")
    if any(each.modes for each in estimates):
        parts.append(
            "Two figures with shares: the trials fall into two modes, no single value stands for both."
        )
    return " ".join((*emulation(summary), *parts))


def _is_unseen(share: Estimate) -> bool:
    return share.value == 0 and share.low == 0 and bool(share.high)


def notes(summary: CampaignSummary) -> tuple[str, ...]:
    """One note a fact: what was refused or failed, what is odd, what is the same everywhere, warnings."""
    return (
        *_of_treatments(summary),
        *_of_trials(summary),
        *_calibrated(summary),
        *_constant(summary),
        *((summary.about_proof,) if summary.about_proof else ()),
        *summary.warnings,
    )


def _of_treatments(summary: CampaignSummary) -> Iterator[str]:
    reasons: dict[tuple[str, str], list[str]] = {}
    for treatment in summary.treatments:
        if treatment.failures:
            what = treatment.stopped_by if treatment.stopped_by in UNMEASURED else "trials failed"
            why = "; ".join(dict.fromkeys(treatment.failures))
            reasons.setdefault((what, why), []).append(name_of(summary, treatment))
    for (what, why), names in reasons.items():
        yield f"{_listed(names)}: {what}: {why}"
    alike: dict[str, list[TreatmentSummary]] = {}
    for treatment in summary.treatments:
        if treatment.notes:
            alike.setdefault(_NUMBER.sub("0", treatment.notes[0]), []).append(treatment)
    for treatments in alike.values():
        names = [name_of(summary, treatment) for treatment in treatments]
        count = sum(len(treatment.notes) for treatment in treatments)
        more = f" (and {count - 1} more)" if count > 1 else ""
        yield f"{_listed(names)}: {treatments[0].notes[0]}{more}"


def _listed(names: list[str]) -> str:
    """One treatment by its name, several by their number and the first of them."""
    if len(names) == 1:
        return names[0]
    more = ", …" if len(names) > _MOST_NAMED else ""
    return f"{len(names)} treatments ({'; '.join(names[:_MOST_NAMED])}{more})"


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


def _calibrated(summary: CampaignSummary) -> Iterator[str]:
    """What `send_mode = auto` came to."""
    chosen: dict[str, list[str]] = {}
    for treatment in summary.treatments:
        calibration = treatment.effective.get("calibration")
        if isinstance(calibration, Mapping):
            chosen.setdefault(str(calibration["send_mode"]), []).append(name_of(summary, treatment))
    for mode, names in chosen.items():
        treatments = "every treatment" if len(names) == len(summary.treatments) else _listed(names)
        yield f"send_mode = auto came to {mode} in {treatments}"


def _constant(summary: CampaignSummary) -> Iterator[str]:
    varying = names_of(varying_factors(summary.treatments, summary.factors))
    fixed = [
        f"{factor_label(factor.name)}: {level_text(factor.name, factor.levels[0])}"
        for factor in summary.factors
        if factor.name not in varying and factor.levels
    ]
    if fixed and varying:
        yield f"The same in every treatment: {', '.join(fixed)}"
