"""Why `value_types.py` parses quantities itself: what pydantic's own types accept and refuse."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from pydantic import ByteSize, TypeAdapter, ValidationError

from vnetbench.errors import BenchError
from vnetbench.study.factors import value_types

DURATIONS, SIZES, INTEGERS = (
    value_types.durations(0.1, 100),
    value_types.sizes(1, 10**6),
    value_types.integers(1, 16),
)


@pytest.mark.parametrize(
    ("library_type", "value_type", "raw", "library_value"),
    [
        (timedelta, DURATIONS, 10, timedelta(seconds=10)),
        (timedelta, DURATIONS, "P1M", timedelta(days=30)),
        (ByteSize, SIZES, 64, 64),
        (ByteSize, SIZES, "64 Kb", 64_000),
        (int, INTEGERS, True, 1),
        (int, INTEGERS, 5.0, 5),
    ],
)
def test_pydantic_guesses_a_unit_or_a_type(
    library_type: type[Any], value_type: value_types.ValueType, raw: object, library_value: object
) -> None:
    assert TypeAdapter(library_type).validate_python(raw) == library_value
    with pytest.raises(BenchError):
        value_type.parse(raw)


def test_pydantic_refuses_a_duration_with_its_unit() -> None:
    with pytest.raises(ValidationError):
        TypeAdapter(timedelta).validate_python("10 s")
    assert DURATIONS.parse("10 s") == 10.0
