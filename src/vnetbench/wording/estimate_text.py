"""How an estimate is written: its value and interval in one unit a column, two modes as two."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from typing import Protocol

from vnetbench.estimate.metric import Metric
from vnetbench.estimate.metrics import METRICS
from vnetbench.estimate.model import Estimate, Ratio
from vnetbench.quantity import IntervalText, Scale, choose_scale, format_interval
from vnetbench.wording.factor_text import pluralize


class MetricOwner(Protocol):
    """Whatever has estimates: a treatment at its end, or one that still runs."""

    @property
    def metrics(self) -> Mapping[str, Estimate]: ...


def find_metric(name: str) -> Metric:
    """The metric of that name; one that this version does not know is shown by its name, without a unit."""
    return METRICS.get(name) or Metric(name, "", name.replace("_", " ").capitalize())


def metric_noun(name: str) -> str:
    """A metric within a sentence: `goodput`, `latency (99 %)`."""
    label, _, share = find_metric(name).label.partition(", ")
    return f"{label.lower()} ({share})" if share else label.lower()


def measured_metrics(treatments: Iterable[MetricOwner]) -> list[str]:
    """Metrics that at least one treatment has: the known ones in their order, then any other."""
    seen = {name for treatment in treatments for name in treatment.metrics}
    return [name for name in METRICS if name in seen] + sorted(seen - METRICS.keys())


def metric_scale(treatments: Iterable[MetricOwner], name: str) -> Scale:
    """One unit for a metric in the whole report, so that its figures can be compared by eye."""
    values = [treatment.metrics[name].value for treatment in treatments if name in treatment.metrics]
    return choose_scale(find_metric(name).unit, max(map(abs, values), default=0.0))


def metric_heading(name: str, scale: Scale) -> str:
    """A metric's label with the unit of its column, `Goodput (Gbit/s)`."""
    label = find_metric(name).label
    return f"{label} ({scale.unit})" if scale.unit else label


def format_estimate(estimate: Estimate, name: str, scale: Scale) -> str:
    """`27.3 [26.9, 27.8]` in the unit of its column, or both modes with their shares."""
    if estimate.modes:
        return "two modes: " + ", ".join(format_modes(estimate, name, scale))
    if estimate.is_published:
        alone = "" if estimate.low is not None else " published alone"
        return f"{_format_published(estimate, name, scale)}{alone}"
    text = _format_interval(estimate, name, scale)
    return f"{text.value} {text.interval or 'no interval: ' + pluralize(estimate.trial_count, 'trial')}"


def format_short_estimate(estimate: Estimate, name: str, scale: Scale) -> tuple[str, ...]:
    """Lines for a narrow column: `27.3 ± 0.4` (the wider side), `27.3 ± ?` without one; or a line a mode.

    A published figure is `27.3 [26.1, 28]`, its least and most, or `27.3` alone.
    """
    if estimate.modes:
        texts = _format_mode_intervals(estimate, name, scale)
        return tuple(" ".join(filter(None, (text.value, text.plus_minus, share))) for text, share in texts)
    if estimate.is_published:
        return (_format_published(estimate, name, scale),)
    text = _format_interval(estimate, name, scale)
    return (f"{text.value} {text.plus_minus or '± ?'}",)


def format_modes(estimate: Estimate, name: str, scale: Scale) -> list[str]:
    """`19.1 [18.7, 19.6] (30 %)` for each of two modes, ascending by value; `19.1 (30 %)` of few trials."""
    texts = _format_mode_intervals(estimate, name, scale)
    return [" ".join(filter(None, (text.value, text.interval, share))) for text, share in texts]


def _format_mode_intervals(estimate: Estimate, name: str, scale: Scale) -> Iterator[tuple[IntervalText, str]]:
    """Of each mode its interval and its share."""
    unit = find_metric(name).unit
    for mode in estimate.modes:
        text = format_interval(mode.value, mode.low, mode.high, unit, scale=scale)
        yield text, f"({mode.share * 100:.0f} %)"


def is_always_zero(treatments: Iterable[MetricOwner], name: str) -> bool:
    """Whether nothing of it was ever counted, and an interval, where there is one, says no more."""
    found = [treatment.metrics[name] for treatment in treatments if name in treatment.metrics]
    return all(each.value == 0 and not each.low and not each.high for each in found)


def format_ratio(ratio: Ratio) -> str:
    """`1.42 [1.38, 1.46]`, or `1.42 (no interval: too few trials)`."""
    text = format_interval(ratio.value, ratio.low, ratio.high, "1")
    why = "one of the two is 0" if ratio.value in (0, math.inf) else "too few trials"
    return f"{text.value} {text.interval or f'(no interval: {why})'}"


def format_short_ratio(ratio: Ratio) -> str:
    """`1.42 [1.38, 1.46]` or `1.42 [?]`, for a narrow column."""
    text = format_interval(ratio.value, ratio.low, ratio.high, "1")
    return f"{text.value} {text.interval or '[?]'}"


def _format_published(estimate: Estimate, name: str, scale: Scale) -> str:
    """Three digits each: least and most are no interval that would say how many are sure."""
    ends = [end for end in (estimate.low, estimate.high) if end is not None]
    unit = find_metric(name).unit
    value, *rest = (
        format_interval(each, None, None, unit, scale=scale).value for each in (estimate.value, *ends)
    )
    return f"{value} [{', '.join(rest)}]" if rest else value


def _format_interval(estimate: Estimate, name: str, scale: Scale) -> IntervalText:
    return format_interval(estimate.value, estimate.low, estimate.high, find_metric(name).unit, scale=scale)


def finite_or_none(value: float) -> float | None:
    """A figure as JSON has it: a ratio to a treatment that carried nothing has no number."""
    return value if math.isfinite(value) else None
