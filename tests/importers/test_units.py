"""Printed numbers, and what may have been rounded to them."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vnetbench.importers.units import BITS, BYTES, parse_count, parse_with_unit, parse_rounded

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
def test_a_number_may_have_been_half_a_unit_of_its_last_digit_away(
    text: str, value: float, half: float
) -> None:
    figure = parse_rounded(text)

    assert figure.value == pytest.approx(value)
    assert figure.low == pytest.approx(value - half)
    assert figure.high == pytest.approx(value + half)


def test_bits_are_counted_in_thousands_and_bytes_in_1024() -> None:
    assert parse_with_unit("13.9", "Gbits", BITS).value == pytest.approx(13.9e9)
    assert parse_with_unit("1.5", "GBytes", BYTES).value == 1.5 * 2**30


def test_a_count_was_not_rounded() -> None:
    assert parse_count("17").low == parse_count("17").high == 17


@pytest.mark.parametrize("text", ["", "-", ".", "1e999", "nan", "inf", "12 34", "0x10", "1" * 65, "1e99999"])
def test_what_is_no_finite_number_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="number"):
        parse_rounded(text, 1e300)


@given(st.floats(1e-3, 1e12), st.integers(0, 4))
def test_the_number_that_was_printed_lies_in_the_range(number: float, digits: int) -> None:
    figure = parse_rounded(f"{number:.{digits}f}")

    slack = 1e-12 * number
    assert figure.low - slack <= number <= figure.high + slack
    assert math.isfinite(figure.value)
