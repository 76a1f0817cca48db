"""How an estimate is written: its value and interval in one unit a column, two modes as two, or why there is none."""

from __future__ import annotations

from vnetbench.estimate.metrics import METRICS, Metric
from vnetbench.estimate.model import Estimate
from vnetbench.estimate.summary import CampaignSummary
from vnetbench.quantity import Scale, format_interval, scale_for


def metric_of(name: str) -> Metric:
    """The metric of that name; one that this version does not know is shown by its name, without a unit."""
    return METRICS.get(name) or Metric(name, "", name.replace("_", " ").capitalize())


def measured_metrics(summary: CampaignSummary) -> list[str]:
    """Metrics that at least one treatment has: the known ones in their order, then any other."""
    seen = {name for treatment in summary.treatments for name in treatment.metrics}
    return [name for name in METRICS if name in seen] + sorted(seen - METRICS.keys())


def scale_of(summary: CampaignSummary, name: str) -> Scale:
    """One unit for a metric in the whole report, so that its figures can be compared by eye."""
    values = [treatment.metrics[name].value for treatment in summary.treatments if name in treatment.metrics]
    return scale_for(metric_of(name).unit, max(map(abs, values), default=0.0))


def heading(name: str, scale: Scale) -> str:
    """A metric's label with the unit of its column, `Goodput (Gbit/s)`."""
    label = metric_of(name).label
    return f"{label} ({scale.unit})" if scale.unit else label


def value_text(estimate: Estimate, name: str, scale: Scale) -> str:
    """The value alone, in the unit of its column and with the digits that its interval justifies."""
    return format_interval(
        estimate.value, estimate.low, estimate.high, metric_of(name).unit, scale=scale
    ).value


def interval_text(estimate: Estimate, name: str, scale: Scale) -> str:
    """`[26.9, 27.8]`, or why there is no interval."""
    if len(estimate.modes) == 2:
        return "two modes: no interval of one value"
    text = format_interval(
        estimate.value, estimate.low, estimate.high, metric_of(name).unit, scale=scale
    ).interval
    return text or f"no interval: {trials_text(estimate.trials)}"


def figure(estimate: Estimate, name: str, scale: Scale) -> str:
    """The value with its interval, or both modes with their shares; never one without the other."""
    if len(estimate.modes) == 2:
        return "two modes " + " | ".join(mode_texts(estimate, name, scale))
    return f"{value_text(estimate, name, scale)} {interval_text(estimate, name, scale)}"


def mode_texts(estimate: Estimate, name: str, scale: Scale) -> list[str]:
    """`19.1 (30 %)` for each of two modes, ascending by value."""
    unit = metric_of(name).unit
    values = [format_interval(mode.value, None, None, unit, scale=scale).value for mode in estimate.modes]
    return [f"{value} ({mode.share * 100:.0f} %)" for value, mode in zip(values, estimate.modes, strict=True)]


def trials_text(trials: int) -> str:
    """`1 trial`, `4 trials`."""
    return f"{trials} trial{'' if trials == 1 else 's'}"
