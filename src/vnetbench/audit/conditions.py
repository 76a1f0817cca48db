"""Conditions of audit rules: one fact, compared with a value or with another fact."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, StrictBool, StrictFloat, StrictInt, StrictStr

from vnetbench.audit.facts import FactSpec, FactValue

_Value = StrictBool | StrictInt | StrictFloat | StrictStr

_COMPARISONS: Mapping[str, Callable[[Any, Any], bool]] = {
    "is_": lambda value, other: value == other,
    "is_not": lambda value, other: value != other,
    "one_of": lambda value, other: value in other,
    "none_of": lambda value, other: value not in other,
    "above": lambda value, other: value > other,
    "below": lambda value, other: value < other,
    "equals_fact": lambda value, other: value == other,
    "differs_from_fact": lambda value, other: value != other,
    "above_fact": lambda value, other: value > other,
    "below_fact": lambda value, other: value < other,
}
_OF_FACTS = ("equals_fact", "differs_from_fact", "above_fact", "below_fact")
_OF_NUMBERS = ("above", "below", "above_fact", "below_fact")


class Condition(BaseModel):
    """A comparison of one fact; exactly one comparison is set."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    fact: str
    is_: _Value | None = Field(default=None, alias="is")
    is_not: _Value | None = None
    one_of: tuple[_Value, ...] | None = None
    none_of: tuple[_Value, ...] | None = None
    above: StrictInt | StrictFloat | None = None
    below: StrictInt | StrictFloat | None = None
    equals_fact: str | None = None
    differs_from_fact: str | None = None
    above_fact: str | None = None
    below_fact: str | None = None

    @property
    def comparison(self) -> str:
        """Name of the comparison that is set."""
        return next(name for name in _COMPARISONS if getattr(self, name) is not None)

    @property
    def facts_read(self) -> tuple[str, ...]:
        """Facts that the condition needs."""
        return (self.fact, getattr(self, self.comparison)) if self.comparison in _OF_FACTS else (self.fact,)

    def check(self, facts: Mapping[str, FactSpec]) -> None:
        """Raise ValueError unless the comparison fits the facts of the object."""
        names = [name for name in _COMPARISONS if getattr(self, name) is not None]
        if len(names) != 1:
            raise ValueError(f"the condition of {self.fact} needs one comparison, not {len(names)}")
        for fact in self.facts_read:
            if fact not in facts:
                raise ValueError(f"{fact} is no fact of this object (audit/facts.py)")
        fact_type, other = facts[self.fact].type, getattr(self, names[0])
        if names[0] in _OF_NUMBERS and fact_type not in (int, float):
            raise ValueError(f"{self.fact} is no number")
        if names[0] in _OF_FACTS:
            types = {fact_type, facts[other].type}
            if len(types) > 1 and types != {int, float}:
                raise ValueError(f"{self.fact} and {other} have different types")
        elif names[0] not in _OF_NUMBERS:
            for value in other if isinstance(other, tuple) else (other,):
                if type(value) is not fact_type:
                    raise ValueError(f"{self.fact} is a {fact_type.__name__}, unlike {value!r}")

    def holds(self, values: Mapping[str, FactValue]) -> bool:
        """Return whether the condition holds; `values` has all facts that it reads."""
        name = self.comparison
        other = getattr(self, name)
        return _COMPARISONS[name](values[self.fact], values[other] if name in _OF_FACTS else other)
