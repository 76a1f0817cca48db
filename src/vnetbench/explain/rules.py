"""The rules as they stand in `causes/*.toml`: read and checked when they are loaded, nothing judged yet."""

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
from vnetbench.study.workloads import WORKLOADS

FAMILIES = ("cpu", "window", "packets", "links", "instability", "instrument")
"""Each is a file of rules, in the order in which they are listed."""

TWICE = "twice"
"""A level of a setting: two times what the treatment has."""

_TEXT_KEYS = ("says", "change", "source")
_PATTERN_KEYS = ("needs", "any", "denies")
_KEYS = {*_TEXT_KEYS, *_PATTERN_KEYS, "setting", "is_fault", "signs", "explains", "workloads"}
_CONDITION_KEYS = {"figure", "from", "to", "weight"}


@dataclass(frozen=True)
class Condition:
    """How strongly one figure of evidence speaks: not at all at `start`, wholly from `full` on."""

    metric: str
    zero_at: float
    full_at: float
    """Below `start` where small values speak for the cause."""
    weight: float = 1.0
    """Of a need its share in the mean, of an alternative or a denial the most that it can do; to 1."""

    def degree(self, value: float) -> float:
        """0 to 1, on a straight line between the ends."""
        share = (value - self.zero_at) / (self.full_at - self.zero_at)
        return share if 0 < share < 1 else float(share >= 1)


@dataclass(frozen=True)
class Pattern:
    """One way in which a cause shows."""

    requires: tuple[Condition, ...] = ()
    """All must speak; a figure among them that is unknown leaves the sign unjudged."""
    alternatives: tuple[Condition, ...] = ()
    """`any` in the file: one of them must speak, the strongest counts."""
    contradicts: tuple[Condition, ...] = ()
    """What speaks against it."""

    @property
    def conditions(self) -> tuple[Condition, ...]:
        """All of them."""
        return (*self.requires, *self.alternatives, *self.contradicts)


@dataclass(frozen=True)
class Rule:
    """A cause, and what evidence speaks for it."""

    cause: Cause
    patterns: tuple[Pattern, ...] = ()
    """The one that fits best counts."""
    explains: tuple[str, ...] = ()
    """Causes whose evidence it accounts for: it is the more specific of the two, and stands before them."""
    workloads: tuple[str, ...] = WORKLOADS
    """Those that it can limit."""

    @property
    def has_patterns(self) -> bool:
        """False of a cause that no single trial shows: it is found by comparing trials (`between/`)."""
        return bool(self.patterns)


@lru_cache
def load_rules() -> Mapping[str, Rule]:
    """Every rule by the name of its cause, in the order of the files; raises BenchError naming file and cause
    where one is wrong."""
    return parse_rules({f"{family}.toml": _read_rule_file(family) for family in FAMILIES}, EVIDENCE_METRICS)


def get_cause(name: str) -> Cause:
    """The cause of that name; KeyError where there is none."""
    return load_rules()[name].cause


def parse_rules(texts: Mapping[str, str], metrics: Collection[str] | None = None) -> Mapping[str, Rule]:
    """The rules in these texts, by file name; the name without its end is the family.

    `figures` are the names that conditions may use; None: any. Raises BenchError.
    """
    read: dict[str, Rule] = {}
    for file, text in texts.items():
        for rule in _parse_file(file, text, metrics):
            if rule.cause.name in read:
                raise _rule_error(file, rule.cause.name, "is described twice", "keep one of the two")
            read[rule.cause.name] = rule
    _check_explains(read)
    return read


def _read_rule_file(family: str) -> str:
    return files(__package__).joinpath("causes", f"{family}.toml").read_text(encoding="utf-8")


def _parse_file(file: str, text: str, metrics: Collection[str] | None) -> Iterator[Rule]:
    try:
        tables = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise BenchError(f"the rules cannot be read: {error}", where=file, fix="mend the TOML") from error
    family = file.removesuffix(".toml")
    for name, table in tables.items():
        if not isinstance(table, dict):
            raise _rule_error(file, name, "is not a table", f"write [{name}] and its keys below")
        if unknown := sorted(table.keys() - _KEYS):
            raise _rule_error(file, name, f"has unknown keys: {', '.join(unknown)}", f"keys: {_join_names(_KEYS)}")
        yield _parse_rule(file, family, name, table, metrics)


def _parse_rule(
    file: str, family: str, name: str, table: Mapping[str, Any], metrics: Collection[str] | None
) -> Rule:
    for key in _TEXT_KEYS:
        if not isinstance(table.get(key), str) or not table[key].strip():
            raise _rule_error(file, name, f"lacks {key}", f'write {key} = "…"')
    workloads = tuple(table.get("workloads", WORKLOADS))
    if wrong := [workload for workload in workloads if workload not in WORKLOADS]:
        raise _rule_error(file, name, f"names no workload: {', '.join(wrong)}", f"workloads: {_join_names(WORKLOADS)}")
    cause = Cause(
        name=name,
        family=family,
        description=table["says"],
        advice=table["change"],
        setting=_parse_setting(file, name, table.get("setting", {})),
        source=table["source"],
        is_fault=table.get("is_fault", True),
    )
    # Most causes show in one way, whose conditions then stand among the cause's own keys.
    own = {key: table[key] for key in _PATTERN_KEYS if key in table}
    signs = (*([own] if own else []), *table.get("signs", ()))
    return Rule(
        cause=cause,
        patterns=tuple(_parse_pattern(file, name, each, metrics) for each in signs),
        explains=tuple(table.get("explains", ())),
        workloads=workloads,
    )


def _parse_pattern(file: str, cause: str, table: Mapping[str, Any], metrics: Collection[str] | None) -> Pattern:
    if not table.keys() <= set(_PATTERN_KEYS) or not table.keys() & {"needs", "any"}:
        fix = "write needs or any, and denies if need be"
        raise _rule_error(file, cause, "has a sign that nothing speaks for, or with other keys", fix)
    needs, alternatives, denies = (
        tuple(_parse_condition(file, cause, key, each, metrics) for each in table.get(key, ())) for key in _PATTERN_KEYS
    )
    return Pattern(needs, alternatives, denies)


def _parse_setting(file: str, cause: str, table: Mapping[str, Any]) -> dict[str, Level]:
    """Levels as a study has them; TWICE as it stands."""
    if wrong := [factor for factor in table if factor not in FACTORS]:
        fix = f"factors: {_join_names(FACTORS)}"
        raise _rule_error(file, cause, f"sets what is no factor: {', '.join(wrong)}", fix)
    try:
        return {name: raw if raw == TWICE else parse_level(name, raw) for name, raw in table.items()}
    except BenchError as error:
        raise _rule_error(file, cause, f"has a setting that no study can have: {error.what}", error.fix) from error


def _parse_condition(
    file: str, cause: str, key: str, table: Mapping[str, Any], metrics: Collection[str] | None
) -> Condition:
    missing = sorted({"figure", "from", "to"} - table.keys())
    if missing or table.keys() - _CONDITION_KEYS:
        form = '{ figure = "…", from = 0, to = 1 } and, if need be, weight'
        raise _rule_error(file, cause, f"has a condition under {key} that is not of the form", f"write {form}")
    name, weight = table["figure"], float(table.get("weight", 1.0))
    if metrics is not None and name not in metrics:
        fix = "take a name of estimate.evidence.FIGURES"
        raise _rule_error(file, cause, f"asks {key} for {name}, which is no figure", fix)
    if table["from"] == table["to"]:
        raise _rule_error(file, cause, f"has no ramp for {name}: from = to", "leave a way between the two")
    if not 0 < weight <= 1:
        raise _rule_error(file, cause, f"has a weight of {weight:g} for {name}", "take one above 0, to 1")
    return Condition(name, float(table["from"]), float(table["to"]), weight)


def _check_explains(read: Mapping[str, Rule]) -> None:
    for name, rule in read.items():
        if unknown := [other for other in rule.explains if other not in read]:
            file = f"{rule.cause.family}.toml"
            raise _rule_error(file, name, f"explains no cause: {', '.join(unknown)}", f"causes: {_join_names(read)}")
    try:
        TopologicalSorter({name: rule.explains for name, rule in read.items()}).prepare()
    except CycleError as error:
        circle = " explains ".join(error.args[1])
        fix = "of two causes only the more specific one explains the other"
        raise BenchError(f"causes explain each other: {circle}", where="explain/causes", fix=fix) from error


def _join_names(names: Collection[str]) -> str:
    return ", ".join(sorted(names))


def _rule_error(file: str, cause: str, what: str, fix: str | None) -> BenchError:
    return BenchError(f"{cause} {what}", where=f"explain/causes/{file}", fix=fix)
