"""Phrases in the sentences of findings: metrics, evidence, treatments, shares and ratios."""

from __future__ import annotations

from collections.abc import Sequence

from vnetbench.estimate.evidence import EVIDENCE_METRICS
from vnetbench.estimate.evidence.metric import YES_OR_NO_UNIT
from vnetbench.estimate.metrics import METRICS
from vnetbench.estimate.model import Ratio
from vnetbench.estimate.summary import CampaignSummary, TreatmentSummary
from vnetbench.explain.model import EvidenceItem
from vnetbench.quantity import format_interval, format_value
from vnetbench.study.factors.registry import FACTORS
from vnetbench.wording.factor_text import factor_names, treatment_phrase
from vnetbench.wording.treatment_names import treatment_name, varying_factors

_MAX_PLAIN_COUNT = 10_000
_MAX_EVIDENCE_ITEMS = 2
"""Maximum number of evidence items in a sentence. The finding lists all of them."""
_MAX_NAMED_TREATMENTS = 3
"""Maximum number of treatments that a sentence names. Of more it gives the number."""


def metric_label(name: str) -> str:
    """Return the label of a metric or an evidence metric, as it reads within a sentence."""
    if name in EVIDENCE_METRICS:
        return EVIDENCE_METRICS[name].label
    label = METRICS[name].label
    return label[:1].lower() + label[1:]


def metric_unit(name: str) -> str:
    """Return the unit of a metric or an evidence metric."""
    return EVIDENCE_METRICS[name].unit if name in EVIDENCE_METRICS else METRICS[name].unit


def format_metric(name: str, value: float) -> str:
    """Format a metric's value with its unit: `99.1 % of one CPU`, a count `4`, or a setting `yes`."""
    unit = metric_unit(name)
    if unit == YES_OR_NO_UNIT:
        return format_yes_no_median(value)
    return f"{value:.0f}" if is_plain_count(unit, value) else format_value(value, unit)


def format_yes_no_median(median: float) -> str:
    """Format the median of a metric that is 0 or 1 in each trial. Other values mean that trials differ."""
    return {0.0: "no", 1.0: "yes"}.get(median, "in some trials")


def is_plain_count(unit: str, *values: float) -> bool:
    """Return whether values without a unit are small integers: `4` queues, not `4.00`."""
    return unit == "1" and all(float(each).is_integer() and abs(each) < _MAX_PLAIN_COUNT for each in values)


def supporting_evidence_phrase(evidence: Sequence[EvidenceItem]) -> str:
    """Format the first items that support a cause: `sending thread's CPU 99.1 % of one CPU`."""
    supporting = [item for item in evidence if item.role == "supports"]
    texts = [_evidence_item_text(item) for item in supporting[:_MAX_EVIDENCE_ITEMS]]
    location = next((item.location for item in supporting if item.location), "")
    return ", ".join(texts) + (f" (at {location})" if location else "")


def _evidence_item_text(item: EvidenceItem) -> str:
    label, unit = metric_label(item.metric), metric_unit(item.metric)
    if unit == YES_OR_NO_UNIT and item.value in (0, 1):
        return label if item.value else f"{label}: no"
    if unit == "1" and not is_plain_count(unit, item.value, item.low, item.high):
        return f"{label} {format_value(item.value, unit)}"
    return f"{label} {format_metric(item.metric, item.value)}"


def other_factors_phrase(summary: CampaignSummary, treatment: TreatmentSummary, factor: str) -> str:
    """Return the treatment's levels of all other varying factors; empty if no other factor varies."""
    varying = [
        name for name in factor_names(varying_factors(summary.treatments, summary.factors)) if name != factor
    ]
    return treatment_phrase(treatment.factors, varying) if varying else ""


def list_treatment_names(summary: CampaignSummary, treatments: Sequence[TreatmentSummary]) -> str:
    """Return the names of a few treatments, or the number of many treatments and the first names."""
    names = "; ".join(treatment_name(summary, each) for each in treatments[:_MAX_NAMED_TREATMENTS])
    return names if len(treatments) <= _MAX_NAMED_TREATMENTS else f"{len(treatments)} treatments ({names}; …)"


def format_share_with_interval(share: float, low: float | None = None, high: float | None = None) -> str:
    """Format a share from 0 to 1 with its interval as whole percent: `71 [64, 78] %`."""
    interval = "" if low is None or high is None else f" [{100 * low:.0f}, {100 * high:.0f}]"
    return f"{100 * share:.0f}{interval} %"


def format_ratio_with_interval(ratio: Ratio) -> str:
    """Format a ratio with its interval, if it has one: `1.42 [1.38, 1.46]`."""
    return format_interval(ratio.value, ratio.low, ratio.high, "1").text


def ratio_interval_fields(ratio: Ratio) -> dict[str, float]:
    """Return the interval as fields of a chart row; empty without an interval."""
    return {} if ratio.low is None or ratio.high is None else {"low": ratio.low, "high": ratio.high}


def is_numeric_factor(factor: str) -> bool:
    """Return whether the factor's levels are numbers. Single levels may be words."""
    return factor in FACTORS and FACTORS[factor].is_numeric
