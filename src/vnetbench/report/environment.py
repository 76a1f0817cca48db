"""The facts about a campaign's environment, and the differences between two environments."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from vnetbench.audit.stored import AUDIT_FACTS_SUBJECT
from vnetbench.estimate.summary import CampaignSummary

_IGNORED_VOLATILE_FACTS = {
    "pid", "load_average", "mac", "mhz", "available_congestion_control", "read",
    "kernel_id",
}  # fmt: skip
"""Facts that differ between two campaigns on the same machine."""
_FACTS_SET_BY_TREATMENTS = {"interfaces": {"mtu", "name", "offloads", "channels", "rings", "coalescing"}}
"""Facts within a list that treatments set, or that the path of the fact already contains."""
_IGNORED_TESTBED_FACTS = {"name", "endpoints", "guest_start_s"}


@dataclass(frozen=True)
class Fact:
    """One fact. Its name is a path such as `tcp.rmem`; locations with the same value share one fact."""

    locations: tuple[str, ...]
    name: str
    value: str


@dataclass(frozen=True)
class FactDifference:
    """One fact that differs between two campaigns. An empty text means that a campaign lacks the fact."""

    locations: tuple[str, ...]
    name: str
    before: str
    after: str


def list_facts(summary: CampaignSummary) -> tuple[Fact, ...]:
    """Return every fact but those of the audit, in the order of the results file."""
    locations: dict[tuple[str, str], list[str]] = {}
    for location, facts in _facts_without_audit(summary).items():
        for name, value in _flatten_facts(facts):
            locations.setdefault((name, value), []).append(location)
    return tuple(Fact(tuple(shared), name, value) for (name, value), shared in locations.items())


def find_differences(before: CampaignSummary, after: CampaignSummary) -> tuple[FactDifference, ...]:
    """Return the differences in machine, tools, testbed and measurement settings.

    Volatile facts are ignored. A group of facts that only one campaign has, such as an interface, is one
    difference.
    """
    first, second = _environment_facts(before), _environment_facts(after)
    locations: dict[tuple[str, str, str], list[str]] = {}
    for location in dict.fromkeys((*first, *second)):
        for name, *values in _diff_values(first.get(location), second.get(location)):
            locations.setdefault((name, values[0], values[1]), []).append(location)
    return tuple(FactDifference(tuple(shared), *key) for key, shared in locations.items())


def _environment_facts(summary: CampaignSummary) -> dict[str, object]:
    testbed = {key: value for key, value in summary.testbed.items() if key not in _IGNORED_TESTBED_FACTS}
    timing = {name: "automatic" if value is None else value for name, value in vars(summary.timing).items()}
    settings = {"workload": summary.workload, "timing": timing}
    return {**_facts_without_audit(summary), "testbed": testbed, "study": settings}


def _facts_without_audit(summary: CampaignSummary) -> dict[str, Mapping[str, object]]:
    return {subject: facts for subject, facts in summary.facts.items() if subject != AUDIT_FACTS_SUBJECT}


def _diff_values(before: object, after: object, path: str = "") -> Iterator[tuple[str, str, str]]:
    """Yield the path and both values for each difference between two nested values."""
    first, second = _child_values_by_key(before), _child_values_by_key(after)
    if first is None or second is None:
        if before != after:
            yield path or "all facts", _summarise_value(before), _summarise_value(after)
        return
    ignored = _IGNORED_VOLATILE_FACTS | _FACTS_SET_BY_TREATMENTS.get(path.split(".")[0], set())
    for name in dict.fromkeys((*first, *second)):
        if name not in ignored:
            yield from _diff_values(first.get(name), second.get(name), f"{path}.{name}" if path else name)


def _summarise_value(value: object) -> str:
    """Return the text of a value; a group of facts becomes its driver or its number of facts."""
    children = _child_values_by_key(value)
    if children is None:
        return "" if value is None else _fact_value_text(value)
    return str(children.get("driver") or f"{sum(1 for _ in _flatten_facts(value))} facts")


def _flatten_facts(value: object, path: str = "") -> Iterator[tuple[str, str]]:
    """Yield the path and the text of every single value."""
    children = _child_values_by_key(value)
    if children is None:
        yield path, _fact_value_text(value)
        return
    for name, child in children.items():
        yield from _flatten_facts(child, f"{path}.{name}" if path else name)


def _child_values_by_key(value: object) -> dict[str, object] | None:
    """Return the parts of a nested value by name; None for a single value.

    The elements of a list of objects go by their own `name`, or by their index.
    """
    if isinstance(value, Mapping):
        return {str(name): child for name, child in value.items()}
    if isinstance(value, list | tuple) and any(isinstance(each, Mapping) for each in value):
        return {
            str(each.get("name", index) if isinstance(each, Mapping) else index): each
            for index, each in enumerate(value)
        }
    return None


def _fact_value_text(value: object) -> str:
    if isinstance(value, list | tuple):
        return ", ".join(map(_fact_value_text, value))
    return "unknown" if value is None else str(value)
