"""The verdict of a check in two sentences: what the path carries, and what limits it."""

from __future__ import annotations

from collections.abc import Sequence

from vnetbench.check.ends import CheckedPath
from vnetbench.check.limits import PathLimit
from vnetbench.check.measurements import Measurement
from vnetbench.check.value_text import format_plain
from vnetbench.explain.limits import NO_LIMIT_CAUSE_NAME, UNEXPLAINED_CAUSE_NAME
from vnetbench.wording.factor_text import capitalize_sentence


def build_verdict(
    path: CheckedPath, measurements: Sequence[Measurement], limits: Sequence[PathLimit]
) -> tuple[str, str]:
    """Return the two sentences."""
    return _value_sentence(path, measurements), _limit_sentence(limits)


def _value_sentence(path: CheckedPath, measurements: Sequence[Measurement]) -> str:
    forward, reverse = (_best_goodput(measurements, each) for each in ("forward", "reverse"))
    clauses = []
    if forward is not None:
        clauses.append(f"carries {format_plain(forward)} from {path.first.name} to {path.second.name}")
    if reverse is not None:
        verb = "" if clauses else "carries "
        clauses.append(f"{verb}{format_plain(reverse)} from {path.second.name} to {path.first.name}")
    by_name = {each.name: each for each in reversed(measurements)}
    if idle := by_name.get("idle_latency"):
        loaded = by_name.get("loaded_latency")
        under_load = f", under load within {format_plain(loaded)} (99 %)" if loaded else ""
        clauses.append(f"answers in {format_plain(idle)}{under_load}")
    if not clauses:
        return f"Nothing could be measured between {path.first.name} and {path.second.name}."
    *head, last = clauses
    return f"The path {', '.join(head)} and {last}." if head else f"The path {last}."


def _best_goodput(measurements: Sequence[Measurement], direction: str) -> Measurement | None:
    own = [
        each
        for each in measurements
        if each.name in ("goodput", "single_stream_goodput") and each.direction == direction
    ]
    return max(own, key=lambda each: each.value, default=None)


def _limit_sentence(limits: Sequence[PathLimit]) -> str:
    if not limits:
        return "What limits it is unknown, because no measurement finished."
    first = limits[0]
    confidence = f" ({first.confidence})" if first.confidence else ""
    if first.prevents_measurement:
        return f"Measurements failed: {first.description}{confidence}."
    if first.cause == NO_LIMIT_CAUSE_NAME:
        return "The path carried the whole offered load, so nothing limits it at this rate."
    if first.cause == UNEXPLAINED_CAUSE_NAME:
        return "The counters do not explain what limits it."
    if not first.confidence:
        return f"{capitalize_sentence(first.description)}."
    if first.is_fault:
        return f"{capitalize_sentence(first.description)}{confidence}."
    return f"It is as fast as this system goes: {first.description}{confidence}."
