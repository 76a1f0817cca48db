"""Anomalies: what is unusual on a path, and which parts of it no trial saw."""

from __future__ import annotations

import math
import tomllib
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from importlib.resources import files
from statistics import median
from typing import Any

from vnetbench.explain.phrases import format_metric, metric_label

_MAX_NAMED_ANOMALIES = 3


@dataclass(frozen=True)
class HealthyRange:
    """The values of an evidence metric on a path without a fault."""

    metric: str
    largest_healthy_value: float = math.inf
    """Largest value of a healthy path."""
    smallest_healthy_value: float = -math.inf
    """Smallest value of a healthy path."""
    ignored_if_factor_set: tuple[str, ...] = ()
    """Factors with which a study asks for such values itself."""
    follows_from: tuple[str, ...] = ()
    """Causes that bring values outside the range."""
    is_setting: bool = False
    """Whether the metric is a setting, which exists without any effect too."""
    is_wait: bool = False
    """Whether the metric is a wait, whose causes `waits.toml` lists."""

    def contains(self, value: float) -> bool:
        """Return whether a value is healthy."""
        return self.smallest_healthy_value <= value <= self.largest_healthy_value


@dataclass(frozen=True)
class _ObservablePathPart:
    """A part of the path, and a metric that trials have only if they observed this part."""

    metric_if_observed: str
    label: str


@lru_cache
def load_healthy_ranges() -> tuple[HealthyRange, ...]:
    """Return the healthy ranges, in file order."""
    return tuple(
        HealthyRange(
            metric=each["metric"],
            largest_healthy_value=each.get("above", math.inf),
            smallest_healthy_value=each.get("below", -math.inf),
            ignored_if_factor_set=tuple(each.get("set_by", ())),
            follows_from=tuple(each.get("follows_from", ())),
            is_setting=each.get("is_setting", False),
            is_wait=each.get("is_wait", False),
        )
        for each in _load_table("anomalies")
    )


@lru_cache
def _load_path_parts() -> tuple[_ObservablePathPart, ...]:
    return tuple(_ObservablePathPart(each["metric"], each["label"]) for each in _load_table("parts"))


def _load_table(name: str) -> list[dict[str, Any]]:
    table = tomllib.loads(files(__package__).joinpath("anomalies.toml").read_text(encoding="utf-8"))
    return list(table[name])


def find_abnormal_medians(
    trials: Sequence[Mapping[str, float]], factors_set_by_study: Collection[str] = ()
) -> dict[str, float]:
    """Return the evidence metrics whose median is outside of its healthy range, with that median.

    Args:
        trials: The evidence of the treatment's trials.
        factors_set_by_study: The factors that the study sets. What they ask for is not unusual.
    """
    found = {}
    for healthy in load_healthy_ranges():
        if set(healthy.ignored_if_factor_set) & set(factors_set_by_study):
            continue
        values = [evidence[healthy.metric] for evidence in trials if healthy.metric in evidence]
        if values and not healthy.contains(median(values)):
            found[healthy.metric] = median(values)
    return found


def select_unaccounted_anomalies(
    abnormal_medians: Mapping[str, float], cause: str, metrics_of_cause: Collection[str]
) -> dict[str, float]:
    """Return the anomalies that a cause does not account for, without settings and waits (`waits.py`).

    Args:
        abnormal_medians: What `find_abnormal_medians` returned.
        cause: Name of the cause.
        metrics_of_cause: Evidence metrics that the cause's rule requires.
    """
    return {
        healthy.metric: abnormal_medians[healthy.metric]
        for healthy in load_healthy_ranges()
        if healthy.metric in abnormal_medians
        and not (healthy.is_setting or healthy.is_wait)
        and healthy.metric not in metrics_of_cause
        and cause not in healthy.follows_from
    }


def select_unexpected_anomalies(abnormal_medians: Mapping[str, float], cause: str) -> dict[str, float]:
    """Return the anomalies that a natural limit does not bring.

    Args:
        abnormal_medians: What `find_abnormal_medians` returned.
        cause: Name of the natural limit.
    """
    expected = {each.metric for each in load_healthy_ranges() if cause in each.follows_from}
    return {name: value for name, value in abnormal_medians.items() if name not in expected}


def unseen_path_parts(trials: Sequence[Mapping[str, float]]) -> tuple[str, ...]:
    """Return the labels of the parts of the path that no trial saw."""
    return tuple(
        part.label
        for part in _load_path_parts()
        if not any(part.metric_if_observed in evidence for evidence in trials)
    )


def unusual_evidence_sentence(
    trials: Sequence[Mapping[str, float]],
    shown_metrics: Sequence[str] = (),
    factors_set_by_study: Collection[str] = (),
    cause: str = "",
) -> str:
    """Return the sentence that says whether a natural limit is normal here.

    It names what is unusual. If nothing is, it names the parts of the path that no trial saw. It is empty
    if the finding shows everything unusual already.

    Args:
        trials: The evidence of the treatment's trials.
        shown_metrics: Metrics that the finding shows already.
        factors_set_by_study: The factors that the study sets.
        cause: Name of the natural limit, which brings some unusual values itself.
    """
    unusual = select_unexpected_anomalies(find_abnormal_medians(trials, factors_set_by_study), cause)
    anomalies = {name: value for name, value in unusual.items() if name not in shown_metrics}
    if anomalies:
        return f"Unusual here: {_list_anomalies(anomalies)}."
    if unusual:
        return ""
    if unseen := unseen_path_parts(trials):
        return f"No fault is visible. Not observed: {', '.join(unseen)}."
    return "This is normal for an unpaced load."


def unaccounted_evidence_sentence(
    trials: Sequence[Mapping[str, float]],
    cause: str,
    metrics_of_cause: Collection[str],
    factors_set_by_study: Collection[str] = (),
) -> str:
    """Return the sentence that says what a fault does not account for; empty if there is nothing.

    Args:
        trials: The evidence of the treatment's trials.
        cause: Name of the cause.
        metrics_of_cause: Evidence metrics that the cause's rule requires.
        factors_set_by_study: The factors that the study sets.
    """
    unusual = find_abnormal_medians(trials, factors_set_by_study)
    unaccounted = select_unaccounted_anomalies(unusual, cause, metrics_of_cause)
    return f"This cause does not account for: {_list_anomalies(unaccounted)}." if unaccounted else ""


def _list_anomalies(anomalies: Mapping[str, float]) -> str:
    texts = [f"{metric_label(name)} {format_metric(name, value)}" for name, value in anomalies.items()]
    return "; ".join(texts[:_MAX_NAMED_ANOMALIES])
