"""The facts of a campaign as lines to read, and what differs between the facts of two."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from vnetbench.estimate.summary import CampaignSummary

_OF_THE_MOMENT = {"pid", "load_average", "mac", "mhz", "available_congestion_control"}
"""Facts that differ between two campaigns on one and the same machine, and say nothing."""
_NAMES_OF_THE_BED = {"name", "endpoints"}


@dataclass(frozen=True)
class Fact:
    """One fact; `name` is its path, `tcp.rmem`. What holds at several places is one fact with all of them."""

    places: tuple[str, ...]
    name: str
    value: str


@dataclass(frozen=True)
class Difference:
    """One fact that two campaigns don't share; an empty text: not known to that campaign."""

    places: tuple[str, ...]
    name: str
    before: str
    after: str


def facts_of(summary: CampaignSummary) -> tuple[Fact, ...]:
    """Every fact, in the order of the file."""
    places: dict[tuple[str, str], list[str]] = {}
    for (place, name), value in _flat(summary).items():
        places.setdefault((name, value), []).append(place)
    return tuple(Fact(tuple(at), name, value) for (name, value), at in places.items())


def differences(before: CampaignSummary, after: CampaignSummary) -> tuple[Difference, ...]:
    """What is not alike: machine, tools, testbed, and how it was measured; facts of the moment left out."""
    first, second = (_lasting(summary) for summary in (before, after))
    places: dict[tuple[str, str, str], list[str]] = {}
    for place, name in {**first, **second}:
        values = first.get((place, name), ""), second.get((place, name), "")
        if values[0] != values[1]:
            places.setdefault((name, *values), []).append(place)
    return tuple(Difference(tuple(at), *key) for key, at in places.items())


def _lasting(summary: CampaignSummary) -> dict[tuple[str, str], str]:
    lasting = {
        (place, name): value
        for (place, name), value in _flat(summary).items()
        if not _OF_THE_MOMENT.intersection(name.split("."))
    }
    testbed = {key: value for key, value in summary.testbed.items() if key not in _NAMES_OF_THE_BED}
    lasting |= {("testbed", name): value for name, value in _leaves(testbed)}
    for name in ("duration_s", "warmup_s", "interval_s"):
        value = getattr(summary.timing, name)
        lasting["study", f"timing.{name}"] = "chosen by the bench" if value is None else str(value)
    return lasting | {("study", "workload"): summary.workload}


def _flat(summary: CampaignSummary) -> dict[tuple[str, str], str]:
    return {(place, name): value for place, facts in summary.facts.items() for name, value in _leaves(facts)}


def _leaves(value: object, path: str = "") -> Iterator[tuple[str, str]]:
    """Every leaf of nested facts with its path; elements of a list of objects go by their own `name`."""
    if isinstance(value, Mapping):
        for key, inner in value.items():
            yield from _leaves(inner, f"{path}.{key}" if path else str(key))
    elif isinstance(value, list | tuple) and any(isinstance(each, Mapping) for each in value):
        for place, each in enumerate(value):
            name = each.get("name", place) if isinstance(each, Mapping) else place
            yield from _leaves(each, f"{path}.{name}")
    elif isinstance(value, list | tuple):
        yield path, ", ".join(map(str, value))
    else:
        yield path, "unknown" if value is None else str(value)
