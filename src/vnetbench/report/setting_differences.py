"""Audited settings that differ between two campaigns."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from vnetbench.audit.inventory import Inventory, InventoryObject
from vnetbench.audit.judge import format_fact
from vnetbench.audit.settings import SettingsAudit
from vnetbench.audit.stored import read_stored_audit
from vnetbench.estimate.summary import CampaignSummary

_COUNTER_SUFFIXES = ("_ppm", "_percent")
"""Ends of the names of facts that are counters, which differ at each reading."""


class SettingDifference(NamedTuple):
    """A setting that differs. An empty text means that a campaign lacks it."""

    setting: str
    """Machine, object and fact: `web-01, ens192: tso`."""
    before: str
    after: str


@dataclass(frozen=True)
class SettingsComparison:
    """What the audits of two campaigns say about each other."""

    audited_campaigns: tuple[str, ...]
    """`before` and `after`, if their results files have an audit."""
    differences: tuple[SettingDifference, ...]


def compare_settings(before: CampaignSummary, after: CampaignSummary) -> SettingsComparison:
    """Return the settings that differ between two campaigns, machine by machine."""
    audits = {"before": read_stored_audit(before.facts), "after": read_stored_audit(after.facts)}
    audited = tuple(name for name, audit in audits.items() if audit is not None)
    first, second = map(_machines_by_name, audits.values())
    names = _match_machines(first, second)
    differences = (each for a, b in names.items() for each in _differences(first[a], second[b]))
    return SettingsComparison(audited, tuple(differences))


def _machines_by_name(audit: SettingsAudit | None) -> dict[str, Inventory]:
    return {} if audit is None else {each.target: each for each in audit.inventories}


def _match_machines(first: Mapping[str, Inventory], second: Mapping[str, Inventory]) -> dict[str, str]:
    """Return the machines of both campaigns: equal names, or guests that differ in their adapter only."""
    matches = {name: name for name in first if name in second}
    left = {_guest_name(name): name for name in second if name not in matches}
    for name in first:
        if name not in matches and (other := left.pop(_guest_name(name), None)):
            matches[name] = other
    return matches


def _guest_name(machine: str) -> str:
    """Return the name of a guest without its adapter: `a1` of `a1 (vmxnet3)`."""
    return machine.partition(" (")[0]


def _differences(before: Inventory, after: Inventory) -> Iterator[SettingDifference]:
    first, second = _objects_by_key(before), _objects_by_key(after)
    machine = before.target if before.target == after.target else _guest_name(before.target)
    for key in dict.fromkeys((*first, *second)):
        kind, name = key
        location = machine if kind == "machine" else f"{machine}, {name}"
        values = [_setting_texts(objects.get(key)) for objects in (first, second)]
        if not all(values):
            has = ["" if not each else "present" for each in values]
            yield SettingDifference(location, *has)
            continue
        for fact in dict.fromkeys((*values[0], *values[1])):
            old, new = (each.get(fact, "") for each in values)
            if old != new:
                yield SettingDifference(f"{location}: {fact}", old, new)


def _objects_by_key(inventory: Inventory) -> dict[tuple[str, str], InventoryObject]:
    return {(each.kind, each.name): each for each in inventory.objects}


def _setting_texts(item: InventoryObject | None) -> dict[str, str]:
    if item is None:
        return {}
    return {
        name: format_fact(fact.value)
        for name, fact in item.facts.items()
        if not name.endswith(_COUNTER_SUFFIXES) and not _is_copied_from_machine(item, name)
    }


def _is_copied_from_machine(item: InventoryObject, fact: str) -> bool:
    """Return whether an interface only repeats a fact of its machine, which would stand twice."""
    return item.kind == "interface" and fact in ("hypervisor", "cpus")
