"""The rules in `causes/*.toml`: loading and validation."""

from __future__ import annotations

import tomllib
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from graphlib import CycleError, TopologicalSorter
from importlib.resources import files
from typing import Any

from vnetbench.errors import BenchError
from vnetbench.estimate.evidence import EVIDENCE_METRICS
from vnetbench.explain.model import Cause
from vnetbench.study.factors.registry import FACTORS, parse_level
from vnetbench.study.model import Level
from vnetbench.study.workloads import WORKLOAD_NAMES

CAUSE_FAMILIES = ("failures", "cpu", "window", "packets", "links", "teams", "instability", "instrument")
"""Families of causes, in listing order. Each has a rule file of its own."""

DOUBLED_LEVEL = "twice"
"""A level of a setting: two times the treatment's level."""

_CAUSE_TEXT_KEYS = ("description", "advice", "source")
_CONDITION_LIST_KEYS = ("requires", "any_of", "contradicts")
_SETTING_APPLIES_KEY = "setting_applies"
_PATTERN_KEYS = (*_CONDITION_LIST_KEYS, _SETTING_APPLIES_KEY)
_RULE_KEYS = {
    *_CAUSE_TEXT_KEYS,
    *_PATTERN_KEYS,
    "setting",
    "is_fault",
    "patterns",
    "explains",
    "workloads",
    "delays_delivered_load",
    "set_by",
}
_CONDITION_KEYS = {"metric", "from", "to", "weight"}


@dataclass(frozen=True)
class EvidenceCondition:
    """A ramp over one evidence metric: 0 at `value_of_degree_0`, 1 at `value_of_degree_1`."""

    metric: str
    value_of_degree_0: float
    value_of_degree_1: float
    """Less than `value_of_degree_0` if small values fulfil the condition."""
    weight: float = 1.0
    """Above 0, at most 1. A requirement's share in the mean, or the largest effect of another condition."""

    def fulfilment_degree(self, value: float) -> float:
        """Return how far the value fulfils the condition, 0 to 1, linear between both ends."""
        share = (value - self.value_of_degree_0) / (self.value_of_degree_1 - self.value_of_degree_0)
        return share if 0 < share < 1 else float(share >= 1)


@dataclass(frozen=True)
class EvidencePattern:
    """Evidence that a cause produces. A cause can have several patterns."""

    requires: tuple[EvidenceCondition, ...] = ()
    """All must hold. A missing metric leaves the pattern without a score."""
    alternatives: tuple[EvidenceCondition, ...] = ()
    """`any_of` in the file: one must hold, and the strongest counts."""
    contradicts: tuple[EvidenceCondition, ...] = ()
    """Conditions that lower the score."""
    setting_applies: bool = True
    """False if the cause's setting does not remove what causes this evidence."""

    @property
    def conditions(self) -> tuple[EvidenceCondition, ...]:
        """All conditions of the pattern."""
        return (*self.requires, *self.alternatives, *self.contradicts)


@dataclass(frozen=True)
class CauseRule:
    """A cause with the patterns that indicate it."""

    cause: Cause
    patterns: tuple[EvidencePattern, ...] = ()
    """The pattern with the best score counts."""
    less_specific_causes: tuple[str, ...] = ()
    """Less specific causes with the same evidence. This cause ranks before them."""
    workloads: tuple[str, ...] = WORKLOAD_NAMES
    """Workloads that the cause can limit."""
    workloads_delayed_if_delivered: tuple[str, ...] = ()
    """Workloads that the cause delays, repeats or reorders although all of their load arrives."""
    applies_if_any_factor_set: tuple[str, ...] = ()
    """Factors of which the study must set one for this cause to apply; empty: it always applies."""

    @property
    def supporting_metrics(self) -> frozenset[str]:
        """Evidence metrics that support the cause in any of its patterns."""
        return frozenset(
            condition.metric
            for pattern in self.patterns
            for condition in (*pattern.requires, *pattern.alternatives)
        )

    @property
    def has_patterns(self) -> bool:
        """False if only a comparison of trials can show the cause (`comparisons/`)."""
        return bool(self.patterns)


@lru_cache
def load_rules() -> Mapping[str, CauseRule]:
    """Return all rules by cause name, in file order.

    Raises:
        BenchError: a rule is invalid. The error names the file and the cause.
    """
    return parse_rules(
        {f"{family}.toml": _read_rule_file(family) for family in CAUSE_FAMILIES}, EVIDENCE_METRICS
    )


def get_cause(name: str) -> Cause:
    """Return the cause with this name; raise KeyError if it does not exist."""
    return load_rules()[name].cause


def parse_rules(texts: Mapping[str, str], metrics: Collection[str] | None = None) -> Mapping[str, CauseRule]:
    """Parse rule files.

    Args:
        texts: file name to TOML text. The name without its suffix is the family.
        metrics: names that conditions may use; None allows any name.

    Raises:
        BenchError: a rule is invalid.
    """
    parsed: dict[str, CauseRule] = {}
    for file, text in texts.items():
        for rule in _parse_file(file, text, metrics):
            if rule.cause.name in parsed:
                raise _rule_error(
                    file, f"the rule {rule.cause.name} is defined twice", "remove one of the two definitions"
                )
            parsed[rule.cause.name] = rule
    _check_explained_causes(parsed)
    return parsed


def _read_rule_file(family: str) -> str:
    return files(__package__).joinpath("causes", f"{family}.toml").read_text(encoding="utf-8")


def _parse_file(file: str, text: str, metrics: Collection[str] | None) -> Iterator[CauseRule]:
    try:
        tables = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise BenchError(f"the rules are not valid TOML: {error}", where=file, fix="fix the TOML") from error
    family = file.removesuffix(".toml")
    for name, table in tables.items():
        if not isinstance(table, dict):
            raise _rule_error(
                file, f"the rule {name} is not a table", f"write [{name}] and put its keys below"
            )
        if unknown := sorted(table.keys() - _RULE_KEYS):
            fix = f"use only these keys: {_join_names(_RULE_KEYS)}"
            raise _rule_error(file, f"the rule {name} has unknown keys: {', '.join(unknown)}", fix)
        yield _parse_rule(file, family, name, table, metrics)


def _parse_rule(
    file: str, family: str, name: str, table: Mapping[str, Any], metrics: Collection[str] | None
) -> CauseRule:
    for key in _CAUSE_TEXT_KEYS:
        if not isinstance(table.get(key), str) or not table[key].strip():
            raise _rule_error(file, f"the rule {name} has no {key}", f'write {key} = "…"')
    cause = Cause(
        name=name,
        family=family,
        description=table["description"],
        advice=table["advice"],
        experiment_levels=_parse_setting(file, name, table.get("setting", {})),
        source=table["source"],
        is_fault=table.get("is_fault", True),
    )
    # Most causes have a single pattern. Its conditions are then keys of the cause's own table.
    first_pattern = {key: table[key] for key in _PATTERN_KEYS if key in table}
    patterns = (*([first_pattern] if first_pattern else []), *table.get("patterns", ()))
    return CauseRule(
        cause=cause,
        patterns=tuple(_parse_pattern(file, name, each, metrics) for each in patterns),
        less_specific_causes=tuple(table.get("explains", ())),
        workloads=_parse_workloads(file, name, table.get("workloads", WORKLOAD_NAMES)),
        workloads_delayed_if_delivered=_parse_workloads(file, name, table.get("delays_delivered_load", ())),
        applies_if_any_factor_set=tuple(table.get("set_by", ())),
    )


def _parse_workloads(file: str, cause: str, names: Collection[str]) -> tuple[str, ...]:
    if unknown := [each for each in names if each not in WORKLOAD_NAMES]:
        fix = f"use only these workloads: {_join_names(WORKLOAD_NAMES)}"
        raise _rule_error(file, f"the rule {cause} names unknown workloads: {', '.join(unknown)}", fix)
    return tuple(names)


def _parse_pattern(
    file: str, cause: str, table: Mapping[str, Any], metrics: Collection[str] | None
) -> EvidencePattern:
    if not table.keys() <= set(_PATTERN_KEYS) or not table.keys() & {"requires", "any_of"}:
        what = f"the rule {cause} has a pattern without requires and any_of, or with unknown keys"
        raise _rule_error(file, what, "write requires or any_of, and optionally contradicts")
    requires, alternatives, contradicts = (
        tuple(_parse_condition(file, cause, key, each, metrics) for each in table.get(key, ()))
        for key in _CONDITION_LIST_KEYS
    )
    return EvidencePattern(
        requires, alternatives, contradicts, setting_applies=table.get(_SETTING_APPLIES_KEY, True) is True
    )


def _parse_setting(file: str, cause: str, table: Mapping[str, Any]) -> dict[str, Level]:
    """Parse levels in a study's syntax; keep TWICE unchanged."""
    if unknown := [factor for factor in table if factor not in FACTORS]:
        fix = f"use only these factors: {_join_names(FACTORS)}"
        raise _rule_error(file, f"the rule {cause} sets unknown factors: {', '.join(unknown)}", fix)
    try:
        return {name: raw if raw == DOUBLED_LEVEL else parse_level(name, raw) for name, raw in table.items()}
    except BenchError as error:
        what = f"the rule {cause} has a setting that studies do not accept: {error.what}"
        raise _rule_error(file, what, error.fix) from error


def _parse_condition(
    file: str, cause: str, key: str, table: Mapping[str, Any], metrics: Collection[str] | None
) -> EvidenceCondition:
    missing = {"metric", "from", "to"} - table.keys()
    if missing or table.keys() - _CONDITION_KEYS:
        fix = 'write { metric = "…", from = 0, to = 1 }, and optionally weight'
        raise _rule_error(file, f"the rule {cause} has a malformed condition under {key}", fix)
    name, weight = table["metric"], float(table.get("weight", 1.0))
    if metrics is not None and name not in metrics:
        fix = "use a metric that docs/evidence.md lists"
        raise _rule_error(file, f"the rule {cause} uses the unknown metric {name} under {key}", fix)
    if table["from"] == table["to"]:
        fix = "use different values for from and to"
        raise _rule_error(file, f"the rule {cause} has an empty ramp for {name}, because from equals to", fix)
    if not 0 < weight <= 1:
        fix = "use a weight above 0 and at most 1"
        raise _rule_error(
            file, f"the rule {cause} has the weight {weight:g} for {name}, which is out of range", fix
        )
    return EvidenceCondition(name, float(table["from"]), float(table["to"]), weight)


def _check_explained_causes(rules: Mapping[str, CauseRule]) -> None:
    for name, rule in rules.items():
        if unknown := [other for other in rule.less_specific_causes if other not in rules]:
            file = f"{rule.cause.family}.toml"
            fix = f"use only these causes: {_join_names(rules)}"
            raise _rule_error(file, f"the rule {name} explains unknown causes: {', '.join(unknown)}", fix)
    try:
        TopologicalSorter({name: rule.less_specific_causes for name, rule in rules.items()}).prepare()
    except CycleError as error:
        cycle = " explains ".join(error.args[1])
        fix = "remove explains from the less specific cause"
        raise BenchError(f"causes explain each other: {cycle}", where="explain/causes", fix=fix) from error


def _join_names(names: Collection[str]) -> str:
    return ", ".join(sorted(names))


def _rule_error(file: str, what: str, fix: str | None) -> BenchError:
    return BenchError(what, where=f"explain/causes/{file}", fix=fix)
