"""Texts for estimates: values and intervals in one unit per column, with two modes as two values."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from typing import Protocol

from vnetbench.estimate.metric import Metric
from vnetbench.estimate.metrics import METRICS
from vnetbench.estimate.model import Estimate, Ratio
from vnetbench.quantity import IntervalText, Scale, choose_scale, format_count_with_noun, format_interval


class MetricOwner(Protocol):
    """Something with estimates: a complete treatment, or one that still runs."""

    @property
    def metrics(self) -> Mapping[str, Estimate]:
        """Estimates by metric name."""
        ...


def find_metric(name: str) -> Metric:
    """Return the metric of that name; an unknown metric keeps its name and has no unit."""
    return METRICS.get(name) or Metric(name, "", name.replace("_", " ").capitalize())


def metric_noun(name: str) -> str:
    """Return a metric inside a sentence: `goodput`, `latency (99 %)`."""
    label, _, share = find_metric(name).label.partition(", ")
    return f"{label.lower()} ({share})" if share else label.lower()


def measured_metrics(treatments: Iterable[MetricOwner]) -> list[str]:
    """Return the metrics that at least one treatment has: known ones in their order, then any other."""
    names = {name for treatment in treatments for name in treatment.metrics}
    return [name for name in METRICS if name in names] + sorted(names - METRICS.keys())


def choose_metric_scale(treatments: Iterable[MetricOwner], name: str) -> Scale:
    """Return one scale for a metric in the whole report, so that its values are easy to compare."""
    values = [treatment.metrics[name].value for treatment in treatments if name in treatment.metrics]
    return choose_scale(find_metric(name).unit, max(map(abs, values), default=0.0))


def metric_heading(name: str, scale: Scale) -> str:
    """Return a metric's label with the unit of its column: `Goodput (Gbit/s)`."""
    label = find_metric(name).label
    return f"{label} ({scale.unit})" if scale.unit else label


def format_estimate(estimate: Estimate, name: str, scale: Scale) -> str:
    """Return an estimate in the unit of its column: `27.3 [26.9, 27.8]`, or both modes with their shares."""
    if estimate.modes:
        return "two modes: " + ", ".join(format_modes(estimate, name, scale))
    if estimate.is_published:
        note = "" if estimate.low is not None else " published without a range"
        return f"{_format_published_mean_with_range(estimate, name, scale)}{note}"
    text = _format_interval(estimate, name, scale)
    trials = format_count_with_noun(estimate.trial_count, "trial")
    return f"{text.value} {text.interval or 'no interval: ' + trials}"


def format_estimate_lines(estimate: Estimate, name: str, scale: Scale) -> tuple[str, ...]:
    """Return an estimate as the lines of a narrow column.

    The line is `27.3 ± 0.4` (the wider side), or `27.3 ± ?` without an interval. Each mode has one line.
    A published value is `27.3 [26.1, 28]` with its smallest and largest value, or `27.3` without them.
    """
    if estimate.modes:
        texts = _format_mode_intervals_and_shares(estimate, name, scale)
        return tuple(" ".join(filter(None, (text.value, text.plus_minus, share))) for text, share in texts)
    if estimate.is_published:
        return (_format_published_mean_with_range(estimate, name, scale),)
    text = _format_interval(estimate, name, scale)
    return (f"{text.value} {text.plus_minus or '± ?'}",)


def format_modes(estimate: Estimate, name: str, scale: Scale) -> list[str]:
    """Return `19.1 [18.7, 19.6] (30 %)` for each mode in ascending order; `19.1 (30 %)` with few trials."""
    texts = _format_mode_intervals_and_shares(estimate, name, scale)
    return [" ".join(filter(None, (text.value, text.interval, share))) for text, share in texts]


def _format_mode_intervals_and_shares(
    estimate: Estimate, name: str, scale: Scale
) -> Iterator[tuple[IntervalText, str]]:
    """Yield the interval and the share of each mode."""
    unit = find_metric(name).unit
    for mode in estimate.modes:
        text = format_interval(mode.value, mode.low, mode.high, unit, scale=scale)
        yield text, f"({mode.share * 100:.0f} %)"


def is_always_zero(treatments: Iterable[MetricOwner], name: str) -> bool:
    """Return whether all values of a metric and the ends of all its intervals are 0."""
    estimates = [treatment.metrics[name] for treatment in treatments if name in treatment.metrics]
    return all(each.value == 0 and not each.low and not each.high for each in estimates)


def format_ratio(ratio: Ratio) -> str:
    """Return a ratio: `1.42 [1.38, 1.46]`, or `1.42 (no interval: too few trials)`."""
    text = format_interval(ratio.value, ratio.low, ratio.high, "1")
    reason = "a value is 0" if ratio.value in (0, math.inf) else "too few trials"
    return f"{text.value} {text.interval or f'(no interval: {reason})'}"


def format_ratio_with_bracketed_interval(ratio: Ratio) -> str:
    """Return a ratio for a narrow column: `1.42 [1.38, 1.46]` or `1.42 [?]`."""
    text = format_interval(ratio.value, ratio.low, ratio.high, "1")
    return f"{text.value} {text.interval or '[?]'}"


def _format_published_mean_with_range(estimate: Estimate, name: str, scale: Scale) -> str:
    """Return a published value and its range with three digits each, because a range implies no precision."""
    ends = [end for end in (estimate.low, estimate.high) if end is not None]
    unit = find_metric(name).unit
    value, *rest = (
        format_interval(each, None, None, unit, scale=scale).value for each in (estimate.value, *ends)
    )
    return f"{value} [{', '.join(rest)}]" if rest else value


def _format_interval(estimate: Estimate, name: str, scale: Scale) -> IntervalText:
    return format_interval(estimate.value, estimate.low, estimate.high, find_metric(name).unit, scale=scale)


def finite_or_none(value: float) -> float | None:
    """Return the value for JSON: None for a ratio to 0, which JSON has no number for."""
    return value if math.isfinite(value) else None
