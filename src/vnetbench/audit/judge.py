"""Apply the rules to inventories."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Sequence

from vnetbench.audit.facts import FactValue
from vnetbench.audit.finding import AuditResult, Finding, Relevance, UnjudgedRule
from vnetbench.audit.inventory import Inventory, InventoryObject
from vnetbench.audit.rules import SEVERITIES, Rule

OWN_COMMAND_SUFFIX = "_command"
"""End of the names of facts that are commands of ours, not texts of others."""
_ON_OFF = {True: "on", False: "off"}


def judge(inventories: Iterable[Inventory], rules: Sequence[Rule]) -> AuditResult:
    """Return the findings of all rules in all inventories, most severe first."""
    findings: list[Finding] = []
    applied: dict[str, None] = {}
    unjudged: dict[tuple[str, str, str], UnjudgedRule] = {}
    notes: list[str] = []
    targets = []
    for inventory in inventories:
        targets.append(inventory.target)
        notes += inventory.notes
        for item in inventory.objects:
            for rule in rules:
                if rule.object != item.kind or item.platform not in rule.platforms:
                    continue
                if reason := _missing_reason(rule, item):
                    key = (inventory.target, rule.id, reason)
                    unjudged.setdefault(key, UnjudgedRule(rule.id, inventory.target, item.name, reason))
                elif applies(rule, item):
                    applied[rule.id] = None
                    if all(condition.holds(_values(item)) for condition in rule.finds_if):
                        findings.append(_make_finding(rule, item, inventory.target))
    order = {rule.id: (SEVERITIES.index(rule.severity), index) for index, rule in enumerate(rules)}
    findings.sort(key=lambda finding: order[finding.rule.id])
    return AuditResult(tuple(targets), tuple(findings), len(applied), tuple(unjudged.values()), tuple(notes))


def applies(rule: Rule, item: InventoryObject) -> bool:
    """Return whether all facts of a rule are known and its preconditions hold."""
    values = _values(item)
    return all(fact in values for fact in rule.facts_read) and all(
        condition.holds(values) for condition in rule.applies_if
    )


def _missing_reason(rule: Rule, item: InventoryObject) -> str:
    """Return why a rule cannot be judged, or an empty text. Facts that the object lacks are no reason."""
    reasons = [item.unreadable[fact] for fact in rule.facts_read if fact in item.unreadable]
    known = all(fact in item.facts or fact in item.unreadable for fact in rule.facts_read)
    return reasons[0] if reasons and known else ""


def _values(item: InventoryObject) -> dict[str, FactValue]:
    return {name: fact.value for name, fact in item.facts.items()}


def _make_finding(rule: Rule, item: InventoryObject, target: str) -> Finding:
    texts = {name: format_fact(fact.value) for name, fact in item.facts.items()} | {"name": item.name}
    quoted = {name: _quote_for_shell(name, fact.value) for name, fact in item.facts.items()}
    quoted["name"] = _quote_for_shell("name", item.name)
    fix = rule.fix_for(item.platform)
    read = dict.fromkeys(name for condition in rule.finds_if for name in condition.facts_read)
    return Finding(
        rule=rule,
        target=target,
        object_name=item.name,
        platform=item.platform,
        found=_fill(rule.found, texts),
        expected=_fill(rule.expected, texts),
        fix=_fill(fix, quoted),
        read_from=tuple(dict.fromkeys(item.facts[name].read_from for name in read)),
        matters_here=_relevance(rule),
    )


def _quote_for_shell(name: str, value: FactValue) -> str:
    """Return a value for a command: a name from a foreign file must not become a command of its own."""
    if isinstance(value, str) and not name.endswith(OWN_COMMAND_SUFFIX):
        return shlex.quote(value)
    return str(value)


def _fill(template: str, texts: dict[str, str]) -> str:
    """Fill in the facts of a text; a fact that is unknown stays a placeholder in capitals."""
    return template.format_map(_KnownTexts(texts))


class _KnownTexts(dict[str, str]):
    def __missing__(self, name: str) -> str:
        return name.upper()


def format_fact(value: FactValue) -> str:
    """Return a fact's value as text."""
    if isinstance(value, bool):
        return _ON_OFF[value]
    if isinstance(value, float):
        return f"{value:.3g}"
    return f"{value:,}" if isinstance(value, int) and value >= 10_000 else str(value)


def _relevance(rule: Rule) -> Relevance:
    if rule.proof is not None:
        return Relevance("provable", rule.proof.command)
    if rule.cause is not None:
        return Relevance(
            "provable", f"vnetbench explain names the cause {rule.cause} in a campaign over this path"
        )
    return Relevance("not measurable here", "")
