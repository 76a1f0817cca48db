"""Parse printed numbers with the range that rounds to them."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vnetbench.importers.units import (
    BITS_BY_UNIT,
    BYTES_BY_UNIT,
    parse_exact_count,
    parse_rounded,
    parse_with_unit,
)

pytestmark = pytest.mark.pure


@pytest.mark.parametrize(
    ("text", "value", "half"),
    [
        ("13.9", 13.9, 0.05),
        ("13,9", 13.9, 0.05),
        ("17", 17, 0.5),
        ("1.39e+10", 1.39e10, 0.005e10),
        ("1.234,5", 1234.5, 0.05),
        ("1,234,567", 1234567, 0.5),
        (".5", 0.5, 0.05),
        ("-0.50", -0.5, 0.005),
        ("0.00", 0, 0.005),
    ],
)
def test_the_range_of_a_number_is_half_a_unit_of_its_last_digit(text: str, value: float, half: float) -> None:
    reported = parse_rounded(text)

    assert reported.value == pytest.approx(value)
    assert reported.low == pytest.approx(value - half)
    assert reported.high == pytest.approx(value + half)


def test_bit_units_are_powers_of_1000_and_byte_units_powers_of_1024() -> None:
    assert parse_with_unit("13.9", "Gbits", BITS_BY_UNIT).value == pytest.approx(13.9e9)
    assert parse_with_unit("1.5", "GBytes", BYTES_BY_UNIT).value == 1.5 * 2**30


def test_a_count_is_exact() -> None:
    assert parse_exact_count("17").low == parse_exact_count("17").high == 17


@pytest.mark.parametrize("text", ["", "-", ".", "1e999", "nan", "inf", "12 34", "0x10", "1" * 65, "1e99999"])
def test_text_that_is_not_a_finite_number_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="number"):
        parse_rounded(text, 1e300)


@given(st.floats(1e-3, 1e12), st.integers(0, 4))
def test_a_printed_number_lies_in_its_range(number: float, digits: int) -> None:
    reported = parse_rounded(f"{number:.{digits}f}")

    slack = 1e-12 * number
    assert reported.low - slack <= number <= reported.high + slack
    assert math.isfinite(reported.value)
