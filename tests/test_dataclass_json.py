"""Dataclasses as JSON and back: nothing is lost, and values of another type are refused."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import pytest

from vnetbench.dataclass_json import UnexpectedValue, from_json_value, to_json_value

pytestmark = pytest.mark.pure


@dataclass(frozen=True)
class Inner:
    name: str
    weight: float | None


@dataclass(frozen=True)
class Outer:
    numbers: tuple[float, ...] = ()
    pairs: tuple[tuple[int, int], ...] = ()
    inner: Inner | None = None
    by_index: Mapping[int, Inner] = field(default_factory=dict)
    by_name: Mapping[str, tuple[float, ...]] = field(default_factory=dict)
    level: str | int | float = 0
    kind: Literal["a", "b"] = "a"
    anything: Mapping[str, Any] = field(default_factory=dict)
    nested: Mapping[str, Mapping[str, object]] = field(default_factory=dict)


@pytest.mark.parametrize(
    "value",
    [
        Outer(),
        Outer(numbers=(1, 2.5, float("inf"), 1e-300), pairs=((1, 2), (3, 4))),
        Outer(inner=Inner("x", None), by_index={3: Inner("y", 0.1), -1: Inner("z", 2)}),
        Outer(by_name={"a": (1.0,), "b": ()}, level="1500", kind="b"),
        Outer(level=7),
        Outer(level=0.1),
        Outer(anything={"a": (1, [2, (3,)]), "b": {1: "x", (2, 3): None}, "c": {"d": {}}}),
        Outer(nested={"a": {"b": (1,), "c": [1]}}),
    ],
)
def test_a_dataclass_is_read_back_as_it_was(value: Outer) -> None:
    stored = json.loads(json.dumps(to_json_value(value)))
    assert from_json_value(Outer, stored) == value
    assert repr(from_json_value(Outer, stored)) == repr(value)


@pytest.mark.parametrize(
    ("name", "stored"),
    [
        ("numbers", [1, 2]),
        ("numbers", {"__tuple__": [1, "2"]}),
        ("numbers", {"__tuple__": 5}),
        ("numbers", {"__tuple__": [True]}),
        ("pairs", {"__tuple__": [{"__tuple__": [1]}]}),
        ("inner", {"name": "x"}),
        ("inner", {"name": "x", "weight": "heavy"}),
        ("inner", {"name": 5, "weight": None}),
        ("by_index", {"a": {"name": "x", "weight": 1}}),
        ("by_index", {"__items__": [["a", {"name": "x", "weight": 1}]]}),
        ("by_index", {"__items__": 5}),
        ("by_name", []),
        ("level", None),
        ("level", [1]),
        ("kind", "c"),
        ("kind", []),
        ("anything", 5),
    ],
)
def test_a_value_of_another_type_is_refused(name: str, stored: object) -> None:
    value = {**to_json_value(Outer()), name: stored}
    with pytest.raises(UnexpectedValue):
        from_json_value(Outer, value)


@pytest.mark.parametrize("stored", [None, 5, [], {}, {"numbers": []}])
def test_another_object_is_refused(stored: object) -> None:
    with pytest.raises(UnexpectedValue):
        from_json_value(Outer, stored)


def test_a_value_without_a_form_in_json_is_refused() -> None:
    with pytest.raises(UnexpectedValue):
        to_json_value(Outer(anything={"a": {1, 2}}))
