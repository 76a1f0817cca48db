"""What a reader has to know beside the figures: how to read them, what was not measured, what is odd."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from vnetbench.estimate.datagrams import SHARE_METRICS
from vnetbench.estimate.model import Estimate
from vnetbench.estimate.summary import CampaignSummary, TreatmentSummary
from vnetbench.quantity import format_exact_share
from vnetbench.report.tables.columns import UNMEASURED_STATES
from vnetbench.report.text.emulation_warning import emulation_warnings
from vnetbench.wording.estimate_text import metric_noun
from vnetbench.wording.factor_text import pluralize, factor_label, level_text, factor_names
from vnetbench.wording.treatment_names import treatment_name, varying_factors

_NUMBER_PATTERN = re.compile(r"\d+(\.\d+)?")
"""Notes that differ in their numbers alone are one."""
_MAX_NAMED_TREATMENTS = 2
"""So many treatments that share a fate are named."""
_SHARE_METRICS = tuple(dict.fromkeys(name for shares in SHARE_METRICS.values() for name in shares))
_MAX_LISTED_TRIALS = 12
"""So many trials are named; the page and the JSON have them all."""


def legend(summary: CampaignSummary) -> str:
    """What the figures are, in as many sentences as this campaign needs."""
    if summary.reference is not None:
        return f"Each figure is {summary.reference.value_description}."
    share = format_exact_share(summary.precision.confidence)
    parts = [f"Median of the trials ± the wider side of its {share} interval."]
    main = summary.main_metric
    estimates = [t.metrics[main] for t in summary.treatments if main in t.metrics]
    if any(each.low is None for each in estimates):
        parts.append("± ?: too few trials for an interval.")
    if any(each.is_single_search for t in summary.treatments for each in t.metrics.values()):
        parts.append("Of a treatment that was searched once ± is what its search says of its own answer.")
    if any(point.search_answers for treatment in summary.treatments for point in treatment.points):
        parts.append("One search: half of its own interval, of the least sure one.")
    if any(_is_zero_with_bound(t.metrics[name]) for t in summary.treatments for name in _SHARE_METRICS if name in t.metrics):
        parts.append(f"A share of 0 ± x: not one was seen, and more than x is ruled out ({share}).")
    if any(each.modes for each in estimates):
        parts.append(
            "Two figures with shares: the trials fall into two modes, no single value stands for both."
        )
    return " ".join((*emulation_warnings(summary), *parts))


def _is_zero_with_bound(share: Estimate) -> bool:
    return share.value == 0 and share.low == 0 and bool(share.high)


def campaign_notes(summary: CampaignSummary) -> tuple[str, ...]:
    """One note a fact: what was refused or failed, what is odd, what is the same everywhere, warnings."""
    return (
        *_treatment_notes(summary),
        *_outlier_notes(summary),
        *_send_mode_notes(summary),
        *_constant_factor_notes(summary),
        *((summary.proof_note,) if summary.proof_note else ()),
        *summary.warnings,
    )


def _treatment_notes(summary: CampaignSummary) -> Iterator[str]:
    reasons: dict[tuple[str, str], list[str]] = {}
    for treatment in summary.treatments:
        if treatment.failures:
            what = treatment.stopped_by if treatment.stopped_by in UNMEASURED_STATES else "trials failed"
            why = "; ".join(dict.fromkeys(treatment.failures))
            reasons.setdefault((what, why), []).append(treatment_name(summary, treatment))
    for (what, why), names in reasons.items():
        yield f"{_list_names(names)}: {what}: {why}"
    alike: dict[str, list[TreatmentSummary]] = {}
    for treatment in summary.treatments:
        if treatment.notes:
            alike.setdefault(_NUMBER_PATTERN.sub("0", treatment.notes[0]), []).append(treatment)
    for treatments in alike.values():
        names = [treatment_name(summary, treatment) for treatment in treatments]
        count = sum(len(treatment.notes) for treatment in treatments)
        more = f" (and {count - 1} more)" if count > 1 else ""
        yield f"{_list_names(names)}: {treatments[0].notes[0]}{more}"


def _list_names(names: list[str]) -> str:
    """One treatment by its name, several by their number and the first of them."""
    if len(names) == 1:
        return names[0]
    more = ", …" if len(names) > _MAX_NAMED_TREATMENTS else ""
    return f"{len(names)} treatments ({'; '.join(names[:_MAX_NAMED_TREATMENTS])}{more})"


def _outlier_notes(summary: CampaignSummary) -> Iterator[str]:
    main = summary.main_metric
    measured = [t for t in summary.treatments if main in t.metrics]
    outliers = [t.points[place].trial for t in measured for place in t.metrics[main].outliers]
    if outliers:
        counts = pluralize(len(outliers), "outlier")
        yield f"{counts} in {metric_noun(main)}, kept in the estimates: {_list_trials(outliers)}"


def _list_trials(numbers: list[int]) -> str:
    listed = ", ".join(map(str, sorted(numbers)[:_MAX_LISTED_TRIALS]))
    more = f" and {len(numbers) - _MAX_LISTED_TRIALS} more" if len(numbers) > _MAX_LISTED_TRIALS else ""
    return f"trial{'' if len(numbers) == 1 else 's'} {listed}{more}"


def _send_mode_notes(summary: CampaignSummary) -> Iterator[str]:
    """What `send_mode = auto` came to."""
    chosen: dict[str, list[str]] = {}
    for treatment in summary.treatments:
        calibration = treatment.effective.get("calibration")
        if isinstance(calibration, Mapping):
            chosen.setdefault(str(calibration["send_mode"]), []).append(treatment_name(summary, treatment))
    for mode, names in chosen.items():
        treatments = "every treatment" if len(names) == len(summary.treatments) else _list_names(names)
        yield f"send_mode = auto came to {mode} in {treatments}"


def _constant_factor_notes(summary: CampaignSummary) -> Iterator[str]:
    varying = factor_names(varying_factors(summary.treatments, summary.factors))
    fixed = [
        f"{factor_label(factor.name)}: {level_text(factor.name, factor.levels[0])}"
        for factor in summary.factors
        if factor.name not in varying and factor.levels
    ]
    if fixed and varying:
        yield f"The same in every treatment: {', '.join(fixed)}"
