"""Audit rules: loading and validation of `rules/*.toml`."""

from __future__ import annotations

import string
import tomllib
from collections.abc import Mapping
from functools import lru_cache
from importlib.resources import files
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from vnetbench.audit.conditions import Condition
from vnetbench.audit.facts import FACTS
from vnetbench.errors import BenchError

RULE_FILES = (
    "linux_interfaces",
    "linux_machines",
    "linux_teams",
    "virtual_machines",
    "kvm",
    "vsphere_hosts",
    "windows",
)
"""Files in `rules/`, in listing order."""
SEVERITIES = ("error", "warning", "note")
"""`error`: it does not work or loses packets. `warning`: it costs performance. `note`: it can matter."""
ANY_PLATFORM = "any"
"""Key of a fix that holds for each platform without one of its own."""

Platform = Literal["linux", "windows", "vmx", "vsphere", "libvirt", "proxmox"]
_Text = Annotated[str, Field(min_length=1, max_length=600)]


class Proof(BaseModel):
    """A shipped study whose factor shows the effect of the setting."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    study: str
    """Name of a file in studies/, without its suffix."""
    levels: Mapping[str, str] = {}
    """Factor and levels for `--set`."""

    @property
    def command(self) -> str:
        """The command that measures the effect."""
        overrides = "".join(f" --set {name}={levels}" for name, levels in self.levels.items())
        return f"vnetbench run studies/{self.study}.toml{overrides}"


class Rule(BaseModel):
    """A setting, judged."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    id: str = Field(pattern=r"^[a-z][a-z0-9_]+$")
    problem: _Text
    """What is wrong, as a clause."""
    object: str
    """Kind of object that the rule judges."""
    platforms: Annotated[tuple[Platform, ...], Field(min_length=1)]
    severity: Literal["error", "warning", "note"]
    applies_if: tuple[Condition, ...] = ()
    """Conditions under which the setting matters at all."""
    finds_if: Annotated[tuple[Condition, ...], Field(min_length=1)]
    """Conditions of the finding. All must hold."""
    found: _Text
    """Value found; `{fact}` stands for a fact's value, `{name}` for the object's name."""
    expected: _Text
    why: _Text
    threshold_reason: _Text | None = None
    """Why the rule's limit has this value, where no source states it."""
    fix: Mapping[str, _Text]
    """By platform; `any` holds for the rest."""
    source: _Text
    proof: Proof | None = None
    cause: str | None = None
    """Cause that `vnetbench explain` names where the setting matters."""

    @model_validator(mode="after")
    def check_facts(self) -> Rule:
        """Refuse kinds, facts and platforms that do not exist."""
        if self.object not in FACTS:
            raise ValueError(f"no object is a {self.object}; use one of {', '.join(FACTS)}")
        facts = FACTS[self.object]
        for condition in (*self.applies_if, *self.finds_if):
            condition.check(facts)
        for text in (self.found, self.expected, *self.fix.values()):
            for name in placeholders(text):
                if name != "name" and name not in facts:
                    raise ValueError(f"{{{name}}} is no fact of a {self.object}")
        if unknown := [each for each in self.fix if each not in (*self.platforms, ANY_PLATFORM)]:
            raise ValueError(f"the rule has no platform {unknown[0]}")
        if missing := [
            each for each in self.platforms if each not in self.fix and ANY_PLATFORM not in self.fix
        ]:
            raise ValueError(f"no fix for {', '.join(missing)}")
        return self

    @property
    def facts_read(self) -> tuple[str, ...]:
        """Facts that the rule needs, without duplicates."""
        conditions = (*self.applies_if, *self.finds_if)
        return tuple(dict.fromkeys(name for each in conditions for name in each.facts_read))

    def fix_for(self, platform: str) -> str:
        """Return the fix for a platform."""
        return self.fix.get(platform) or self.fix[ANY_PLATFORM]


def placeholders(text: str) -> list[str]:
    """Return the names in braces of a text; raises ValueError if a brace is single."""
    return [name for _, name, _, _ in string.Formatter().parse(text) if name is not None]


@lru_cache
def load_rules() -> Mapping[str, Rule]:
    """Return all rules by id, in listing order.

    Raises:
        BenchError: a rule is invalid. The error names the file and the rule.
    """
    return parse_rules({f"{name}.toml": _read_rule_file(name) for name in RULE_FILES})


def rules_of_file(name: str) -> list[Rule]:
    """Return the rules of one of `RULE_FILES`, in its order."""
    return list(parse_rules({f"{name}.toml": _read_rule_file(name)}).values())


def _read_rule_file(name: str) -> str:
    return files("vnetbench.audit").joinpath("rules", f"{name}.toml").read_text(encoding="utf-8")


def parse_rules(texts: Mapping[str, str]) -> Mapping[str, Rule]:
    """Parse rule files.

    Args:
        texts: file name to TOML text.

    Raises:
        BenchError: a rule is invalid.
    """
    rules: dict[str, Rule] = {}
    for file, text in texts.items():
        try:
            tables = tomllib.loads(text)
        except tomllib.TOMLDecodeError as error:
            raise BenchError(str(error), where=file, fix="correct the TOML") from error
        for rule_id, table in tables.items():
            if rule_id in rules:
                raise BenchError("the rule is defined twice", where=f"{file} [{rule_id}]", fix="remove one")
            rules[rule_id] = _parse_rule(rule_id, table, file)
    return rules


def _parse_rule(rule_id: str, table: Any, file: str) -> Rule:
    try:
        return Rule.model_validate({"id": rule_id, **table})
    except (ValidationError, TypeError) as error:
        problems = error.errors() if isinstance(error, ValidationError) else []
        place = ".".join(map(str, problems[0]["loc"])) if problems else ""
        what = problems[0]["msg"] if problems else "this is no table"
        raise BenchError(
            what,
            where=f"{file} [{rule_id}] {place}".rstrip(),
            fix="see docs/how-to/extend/add-an-audit-rule.md",
        ) from error


def select_rules(rules: Mapping[str, Rule], disabled: tuple[str, ...]) -> list[Rule]:
    """Return the rules that are not disabled.

    Raises:
        BenchError: an id names no rule.
    """
    for rule_id in disabled:
        if rule_id not in rules:
            raise BenchError(
                f"there is no rule {rule_id}",
                where="--disable",
                fix="list the rules with vnetbench audit --rules",
            )
    return [rule for rule in rules.values() if rule.id not in disabled]
