"""Value types of a study that list several values in one level."""

from __future__ import annotations

from dataclasses import replace

from vnetbench.errors import BenchError
from vnetbench.study.factors.value_types import Json, ValueType, percentages
from vnetbench.study.model import Level
from vnetbench.study.problems import WrongValue


def lists_of(item: ValueType, max_items: int, expected: str) -> ValueType:
    """Make the type of lists of another type, as a text with commas or a list.

    Args:
        item: Type of each item, whose values contain no commas.
        max_items: Maximum number of items.
        expected: What the list contains, as in `ValueType.expected_form`.
    """

    def parse(raw: object) -> Level:
        items = raw if isinstance(raw, list) else raw.split(",") if isinstance(raw, str) else [raw]
        if not 1 <= len(items) <= max_items:
            raise WrongValue(f"expected 1 to {max_items} values, found {len(items)}", fix=f"write {expected}")
        try:
            return ", ".join(item.format(item.parse(each)) for each in items)
        except BenchError as error:
            raise WrongValue(error.what, fix=f"write {expected}") from error

    as_list: Json = {"type": "array", "items": {"type": "string", "pattern": rf"^\s*({item.pattern})\s*$"}}
    as_list |= {"minItems": 1, "maxItems": max_items}
    pattern = rf"({item.pattern})(\s*,\s*({item.pattern}))*"
    return ValueType(expected, parse, str, pattern, (as_list,), has_commas=True)


def loss_goals(max_goals: int) -> ValueType:
    """Make the type of ascending accepted loss ratios, as a text or a list; canonical is "0 %, 0.5 %"."""
    share = percentages(0, 0.5)
    expected = f'up to {max_goals} ascending shares from "0 %" to "50 %", such as ["0 %", "0.5 %"]'
    listed = lists_of(share, max_goals, expected)

    def parse(raw: object) -> Level:
        text = listed.parse(raw)
        goals = [float(share.parse(each)) for each in str(text).split(",")]
        if goals != sorted(set(goals)):
            raise WrongValue("the goals are not in ascending order", fix=f"write {expected}")
        return text

    return replace(listed, parse=parse)
