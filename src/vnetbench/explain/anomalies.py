"""Anomalies: what is unusual on a path, and which parts of it no trial saw."""

from __future__ import annotations

import math
import tomllib
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from importlib.resources import files
from statistics import median

from vnetbench.estimate.evidence import EVIDENCE_METRICS
from vnetbench.explain.phrases import format_metric, metric_label

_MAX_NAMED_ANOMALIES = 3


@dataclass(frozen=True)
class _HealthyRange:
    """The values of an evidence metric on a path without a fault."""

    metric: str
    largest_healthy_value: float = math.inf
    """Largest value of a healthy path."""
    smallest_healthy_value: float = -math.inf
    """Smallest value of a healthy path."""
    ignored_if_factor_set: tuple[str, ...] = ()
    """Factors with which a study asks for such values itself."""

    def contains(self, value: float) -> bool:
        """Return whether a value is healthy."""
        return self.smallest_healthy_value <= value <= self.largest_healthy_value


@dataclass(frozen=True)
class _ObservablePathPart:
    """A part of the path, and a metric that trials have only if they observed this part."""

    metric_if_observed: str
    label: str


@lru_cache
def _load_tables() -> tuple[tuple[_HealthyRange, ...], tuple[_ObservablePathPart, ...]]:
    """Return the healthy ranges whose metrics exist, and the parts of a path."""
    tables = tomllib.loads(files(__package__).joinpath("anomalies.toml").read_text(encoding="utf-8"))
    ranges = tuple(
        _HealthyRange(
            metric=each["metric"],
            largest_healthy_value=each.get("above", math.inf),
            smallest_healthy_value=each.get("below", -math.inf),
            ignored_if_factor_set=tuple(each.get("set_by", ())),
        )
        for each in tables["anomalies"]
    )
    parts = tuple(_ObservablePathPart(each["metric"], each["label"]) for each in tables["parts"])
    known = EVIDENCE_METRICS.keys()
    return tuple(each for each in ranges if each.metric in known), tuple(
        each for each in parts if each.metric_if_observed in known
    )


def find_abnormal_medians(
    trials: Sequence[Mapping[str, float]], factors_set_by_study: Collection[str] = ()
) -> dict[str, float]:
    """Return the evidence metrics whose median is outside of its healthy range, with that median.

    Args:
        trials: The evidence of the treatment's trials.
        factors_set_by_study: The factors that the study sets. What they ask for is not unusual.
    """
    found = {}
    for healthy in _load_tables()[0]:
        if set(healthy.ignored_if_factor_set) & set(factors_set_by_study):
            continue
        values = [evidence[healthy.metric] for evidence in trials if healthy.metric in evidence]
        if values and not healthy.contains(median(values)):
            found[healthy.metric] = median(values)
    return found


def unseen_path_parts(trials: Sequence[Mapping[str, float]]) -> tuple[str, ...]:
    """Return the labels of the parts of the path that no trial saw."""
    return tuple(
        part.label
        for part in _load_tables()[1]
        if not any(part.metric_if_observed in evidence for evidence in trials)
    )


def unusual_evidence_sentence(
    trials: Sequence[Mapping[str, float]],
    shown_metrics: Sequence[str] = (),
    factors_set_by_study: Collection[str] = (),
) -> str:
    """Return the sentence that says whether a natural limit is normal here.

    It names what is unusual. If nothing is, it names the parts of the path that no trial saw. It is empty
    if the finding shows everything unusual already.

    Args:
        trials: The evidence of the treatment's trials.
        shown_metrics: Metrics that the finding shows already.
        factors_set_by_study: The factors that the study sets.
    """
    unusual = find_abnormal_medians(trials, factors_set_by_study)
    anomalies = {name: value for name, value in unusual.items() if name not in shown_metrics}
    if anomalies:
        texts = [f"{metric_label(name)} {format_metric(name, value)}" for name, value in anomalies.items()]
        return f"Unusual here: {'; '.join(texts[:_MAX_NAMED_ANOMALIES])}."
    if unusual:
        return ""
    if unseen := unseen_path_parts(trials):
        return f"No fault is visible. Not observed: {', '.join(unseen)}."
    return "This is normal for an unpaced load."
