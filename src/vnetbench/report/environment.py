"""The facts of a campaign as lines to read, and what differs between the facts of two."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from vnetbench.estimate.summary import CampaignSummary

_VOLATILE_FACTS = {"pid", "load_average", "mac", "mhz", "available_congestion_control", "read"}
"""Facts that differ between two campaigns on one and the same machine, and say nothing."""
_TREATMENT_SETTINGS = {"interfaces": {"mtu", "name", "offloads", "channels", "rings", "coalescing"}}
"""Of the elements of a list: what a treatment sets anyway, or what the path says already."""
_TESTBED_IDENTITY = {"name", "endpoints", "starts_s"}


@dataclass(frozen=True)
class Fact:
    """One fact; `name` is its path, `tcp.rmem`. What holds at several places is one fact with all of them."""

    places: tuple[str, ...]
    name: str
    value: str


@dataclass(frozen=True)
class FactDifference:
    """One fact that two campaigns don't share; an empty text: not known to that campaign."""

    places: tuple[str, ...]
    name: str
    before: str
    after: str


def list_facts(summary: CampaignSummary) -> tuple[Fact, ...]:
    """Every fact, in the order of the file."""
    places: dict[tuple[str, str], list[str]] = {}
    for place, facts in summary.facts.items():
        for name, value in _leaf_facts(facts):
            places.setdefault((name, value), []).append(place)
    return tuple(Fact(tuple(at), name, value) for (name, value), at in places.items())


def find_differences(before: CampaignSummary, after: CampaignSummary) -> tuple[FactDifference, ...]:
    """What is not alike: machine, tools, testbed, and how it was measured.

    Facts of the moment are left out. A whole part that only one campaign has, such as an interface or all
    facts of a place, is one difference.
    """
    first, second = _environment(before), _environment(after)
    places: dict[tuple[str, str, str], list[str]] = {}
    for place in dict.fromkeys((*first, *second)):
        for name, *values in _diff_values(first.get(place), second.get(place)):
            places.setdefault((name, values[0], values[1]), []).append(place)
    return tuple(FactDifference(tuple(at), *key) for key, at in places.items())


def _environment(summary: CampaignSummary) -> dict[str, object]:
    testbed = {key: value for key, value in summary.testbed.items() if key not in _TESTBED_IDENTITY}
    timing = {
        name: "chosen by the bench" if value is None else value
        for name, value in vars(summary.timing).items()
    }
    measured = {"workload": summary.workload, "timing": timing}
    return {**summary.facts, "testbed": testbed, "study": measured}


def _diff_values(before: object, after: object, path: str = "") -> Iterator[tuple[str, str, str]]:
    """Paths at which two nested values are not alike, with both values."""
    first, second = _children(before), _children(after)
    if first is None or second is None:
        if before != after:
            yield path or "all facts", _summarise_value(before), _summarise_value(after)
        return
    ignored = _VOLATILE_FACTS | _TREATMENT_SETTINGS.get(path.split(".")[0], set())
    for name in dict.fromkeys((*first, *second)):
        if name not in ignored:
            yield from _diff_values(first.get(name), second.get(name), f"{path}.{name}" if path else name)


def _summarise_value(value: object) -> str:
    """A value in a few words: a whole part by the number of its facts."""
    parts = _children(value)
    if parts is None:
        return "" if value is None else _value_text(value)
    return str(parts.get("driver") or f"{sum(1 for _ in _leaf_facts(value))} facts")


def _leaf_facts(value: object, path: str = "") -> Iterator[tuple[str, str]]:
    parts = _children(value)
    if parts is None:
        yield path, _value_text(value)
        return
    for name, inner in parts.items():
        yield from _leaf_facts(inner, f"{path}.{name}" if path else name)


def _children(value: object) -> dict[str, object] | None:
    """What a nested value is made of; elements of a list of objects go by their own `name`. None: a leaf."""
    if isinstance(value, Mapping):
        return {str(name): inner for name, inner in value.items()}
    if isinstance(value, list | tuple) and any(isinstance(each, Mapping) for each in value):
        return {
            str(each.get("name", place) if isinstance(each, Mapping) else place): each
            for place, each in enumerate(value)
        }
    return None


def _value_text(value: object) -> str:
    if isinstance(value, list | tuple):
        return ", ".join(map(_value_text, value))
    return "unknown" if value is None else str(value)
