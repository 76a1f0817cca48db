"""The audit in a results file: facts of each machine, and the findings at that time (docs/results-file.md).

vnetbench judges the stored facts again when it reads the file. So a corrected rule holds for old campaigns
too, and no text of a foreign file becomes advice.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Any, cast, get_args

from vnetbench.audit.facts import FACTS, FactValue
from vnetbench.audit.inventory import PLATFORMS, Inventory, InventoryObject, shorten
from vnetbench.audit.judge import judge
from vnetbench.audit.rules import load_rules
from vnetbench.audit.settings import SettingsAudit, judge_settings
from vnetbench.quantity import format_count_with_noun

AUDIT_FACTS_SUBJECT = "audit"
"""Subject of the audit among the facts of a results file."""
UNREAD_KEY = "not_read"
MAX_OBJECTS = 64
"""Most objects stored of a machine."""
_MAX_STORED_INTEGER = 2**63 - 1
_MAX_UNREAD_TEXTS = 500


def keep_objects_of_path(inventory: Inventory, interfaces: Collection[str]) -> Inventory:
    """Return the inventory without interfaces that cannot carry the load.

    Args:
        inventory: What was read of a machine.
        interfaces: Names of the interfaces of the load. Adapters with a link are kept too, because they may
            be below these: members of a bond, ports of a bridge.
    """
    kept = [
        each
        for each in inventory.objects
        if each.kind != "interface"
        or each.name in interfaces
        or (each.has("is_physical") and each.has("carrier"))
    ]
    notes = list(inventory.notes)
    if len(kept) > MAX_OBJECTS:
        left_out = format_count_with_noun(len(kept) - MAX_OBJECTS, "object")
        notes.append(f"{inventory.target}: {left_out} of the audit not stored.")
    return Inventory(inventory.target, kept[:MAX_OBJECTS], notes)


def machine_to_json(inventory: Inventory) -> dict[str, Any]:
    """Return a machine as a results file stores it: its settings, and the findings of now."""
    findings = judge([inventory], list(load_rules().values())).findings
    return {
        "objects": [_object_to_json(each) for each in inventory.objects],
        "notes": list(inventory.notes),
        "findings": [
            {
                "rule": each.rule.id,
                "severity": each.rule.severity,
                "problem": each.rule.problem,
                "object": each.object_name,
                "found": each.found,
                "expected": each.expected,
                "fix": each.fix,
            }
            for each in findings
        ],
    }


def unread_to_json(sentence: str) -> dict[str, Any]:
    """Return a machine that could not be read, as a results file stores it."""
    return {UNREAD_KEY: sentence}


def audit_to_facts(audit: SettingsAudit) -> dict[str, dict[str, Any]]:
    """Return what a results file stores of an audit, by machine."""
    read = {each.target: machine_to_json(each) for each in audit.inventories}
    return {**read, **{name: unread_to_json(sentence) for name, sentence in audit.unread.items()}}


def read_stored_audit(facts: Mapping[str, Mapping[str, object]]) -> SettingsAudit | None:
    """Return the audit of a campaign from its facts, judged by the rules of now; None if it has none."""
    stored = facts.get(AUDIT_FACTS_SUBJECT)
    if not stored:
        return None
    inventories: list[Inventory] = []
    unread: dict[str, str] = {}
    for name, machine in stored.items():
        sentence = machine.get(UNREAD_KEY) if isinstance(machine, Mapping) else None
        if isinstance(sentence, str):
            unread[shorten(str(name))] = shorten(sentence)
        elif isinstance(machine, Mapping):
            inventories.append(_machine_from_json(shorten(str(name)), machine))
    return judge_settings(inventories, unread)


def _object_to_json(item: InventoryObject) -> dict[str, Any]:
    unreadable: dict[str, list[str]] = {}
    for fact, reason in item.unreadable.items():
        unreadable.setdefault(reason, []).append(fact)
    facts = {name: _rounded(fact.value) for name, fact in item.facts.items()}
    fields: dict[str, Any] = {"kind": item.kind, "name": item.name, "platform": item.platform, "facts": facts}
    return {**fields, "unreadable": unreadable} if unreadable else fields


def _rounded(value: FactValue) -> FactValue:
    return float(f"{value:.4g}") if isinstance(value, float) else value


def _machine_from_json(name: str, machine: Mapping[str, object]) -> Inventory:
    notes = machine.get("notes")
    texts = [shorten(each) for each in notes if isinstance(each, str)] if isinstance(notes, list) else []
    return Inventory(name, list(_objects_from_json(machine.get("objects"))), texts[:MAX_OBJECTS])


def _objects_from_json(objects: object) -> Iterator[InventoryObject]:
    """Yield the objects whose kind and platform this version knows, with the facts that have their type."""
    for each in objects[:MAX_OBJECTS] if isinstance(objects, list) else ():
        fields = each if isinstance(each, Mapping) else {}
        kind, platform, name = (fields.get(key) for key in ("kind", "platform", "name"))
        if not (isinstance(kind, str) and kind in FACTS and platform in PLATFORMS and isinstance(name, str)):
            continue
        item = InventoryObject(kind, name, cast(str, platform))
        facts = fields.get("facts")
        for fact, value in facts.items() if isinstance(facts, Mapping) else ():
            if fact in FACTS[kind] and _has_type(value, FACTS[kind][fact].type):
                item.add(fact, value, "the results file")
        unreadable = fields.get("unreadable")
        for reason, names in unreadable.items() if isinstance(unreadable, Mapping) else ():
            for fact in names[:_MAX_UNREAD_TEXTS] if isinstance(names, list) else ():
                if isinstance(fact, str) and fact in FACTS[kind]:
                    item.unreadable[fact] = shorten(str(reason))
        yield item


def _has_type(value: object, expected: type[FactValue]) -> bool:
    assert expected in get_args(FactValue)
    if expected is float:
        return type(value) in (int, float)
    return type(value) is expected and (expected is not int or abs(cast(int, value)) <= _MAX_STORED_INTEGER)
