"""Quantities: parsing with units, exact formats, and formats for people with significant digits."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vnetbench.quantity import (
    QuantityError,
    choose_scale,
    format_bit_rate,
    format_bytes,
    format_count,
    format_duration,
    format_exact_bit_rate,
    format_exact_bytes,
    format_exact_duration,
    format_exact_frame_rate,
    format_exact_share,
    format_interval,
    format_share,
    format_value,
    parse_bit_rate,
    parse_bytes,
    parse_duration,
    parse_frame_rate,
    parse_share,
)

pytestmark = pytest.mark.pure


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("10 s", 10.0),
        ("10s", 10.0),
        (" 50 ms ", 0.05),
        ("2 min 30 s", 150.0),
        ("1 h 1 min", 3660.0),
        ("1.5 h", 5400.0),
        ("5 us", 5e-6),
        ("5 µs", 5e-6),
        ("5 μs", 5e-6),
        ("1e3 ms", 1.0),
        ("0 s", 0.0),
    ],
)
def test_a_duration_parses_to_seconds(text: str, seconds: float) -> None:
    assert parse_duration(text) == seconds


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("64 B", 64),
        ("64 KiB", 65536),
        ("64 kB", 64000),
        ("64 KB", 64000),
        ("1.5 MiB", 1572864),
        ("1 GB", 10**9),
    ],
)
def test_a_size_parses_to_bytes(text: str, size: int) -> None:
    assert parse_bytes(text) == size


@pytest.mark.parametrize(
    ("text", "rate"), [("10 Gbit/s", 10**10), ("2.5 Gbps", 25 * 10**8), ("100 Mbit/s", 10**8), ("8 bit/s", 8)]
)
def test_a_rate_parses_to_bits_per_second(text: str, rate: int) -> None:
    assert parse_bit_rate(text) == rate


@pytest.mark.parametrize(
    ("text", "rate"), [("14.88 Mframe/s", 14.88e6), ("10 kframes/s", 1e4), ("500 frame/s", 500.0)]
)
def test_a_frame_rate_parses_to_frames_per_second(text: str, rate: float) -> None:
    assert parse_frame_rate(text) == rate


def test_a_percentage_parses_to_a_ratio() -> None:
    assert parse_share("3 %") == 0.03
    assert parse_share("5%") == 0.05


@pytest.mark.parametrize(
    ("parse", "text", "what", "fix"),
    [
        (parse_duration, "10", "the unit is missing", '"10 s"'),
        (parse_duration, "10 sec", '"sec" is not a unit of a duration', 'did you mean "s"?'),
        (parse_duration, "10 S", '"S" is not a unit of a duration', 'did you mean "s"?'),
        (parse_duration, "30 s 2 min", "units must go from large to small", "larger unit first"),
        (parse_duration, "-5 s", "is negative", "zero or more"),
        (parse_duration, "1e40 s", "is too large", ""),
        (parse_duration, "", "is not a duration", "write a number and its unit"),
        (parse_duration, "1 s" * 40, "characters are too many", ""),
        (parse_bytes, "1.5 B", "is not a whole number of bytes", ""),
        (parse_bytes, "64 Kib", '"Kib" is not a unit of a size', 'did you mean "KiB"?'),
        (parse_bytes, "64 k", '"k" is not a unit of a size', 'did you mean "KiB"?'),
        (parse_bytes, "1 KiB 5 B", "is not a size", ""),
        (parse_bit_rate, "10 Gbit", '"Gbit" is not a unit of a rate', 'did you mean "Gbit/s"?'),
        (parse_bit_rate, "1 GB", '"GB" is not a unit of a rate', ""),
        (parse_frame_rate, "1 Mpps", '"Mpps" is not a unit of a frame rate', 'did you mean "Mframe/s"?'),
        (parse_share, "3 percent", '"percent" is not a unit of a share', 'did you mean "%"?'),
        (parse_share, "\x1b[2J", "is not a share", ""),
    ],
)
def test_an_invalid_quantity_is_reported_with_its_units(
    parse: Callable[[str], float], text: str, what: str, fix: str
) -> None:
    with pytest.raises(QuantityError) as caught:
        parse(text)
    assert what in caught.value.what
    assert fix in str(caught.value.fix)
    assert str(caught.value).replace("\n", "").isprintable()


@given(st.integers(0, 2**60))
def test_an_exactly_formatted_size_parses_to_itself(size: int) -> None:
    assert parse_bytes(format_exact_bytes(size)) == size


@given(st.integers(0, 10**15))
def test_an_exactly_formatted_rate_parses_to_itself(rate: int) -> None:
    assert parse_bit_rate(format_exact_bit_rate(rate)) == rate


@given(st.floats(1e-3, 1e12))
def test_an_exactly_formatted_frame_rate_parses_to_itself(rate: float) -> None:
    assert parse_frame_rate(format_exact_frame_rate(rate)) == rate


@given(st.floats(1e-9, 1e9))
def test_an_exactly_formatted_duration_parses_to_itself(seconds: float) -> None:
    assert parse_duration(format_exact_duration(seconds)) == seconds


@given(st.floats(1e-9, 100.0))
def test_an_exactly_formatted_share_parses_to_itself(share: float) -> None:
    assert parse_share(format_exact_share(share)) == share


@given(st.text(max_size=80))
def test_any_text_parses_or_raises_an_error_with_a_fix(text: str) -> None:
    for parse in (parse_duration, parse_bytes, parse_bit_rate, parse_frame_rate, parse_share):
        try:
            assert parse(text) >= 0
        except QuantityError as error:
            assert error.fix


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (format_exact_bytes(65536), "64 KiB"),
        (format_exact_bytes(64000), "64 kB"),
        (format_exact_bytes(9000), "9000 B"),
        (format_exact_bytes(0), "0 B"),
        (format_exact_bit_rate(2.5e9), "2.5 Gbit/s"),
        (format_exact_bit_rate(0), "0 Gbit/s"),
        (format_exact_frame_rate(14.88e6), "14.88 Mframe/s"),
        (format_exact_duration(0.05), "50 ms"),
        (format_exact_duration(150), "150 s"),
        (format_exact_duration(120), "2 min"),
        (format_exact_share(0.03), "3 %"),
        (format_exact_share(0.025), "2.5 %"),
    ],
)
def test_an_exact_format_is_the_shortest_one(text: str, expected: str) -> None:
    assert text == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (format_bit_rate(27.3e9), "27.3 Gbit/s"),
        (format_bit_rate(999.96e6), "1.00 Gbit/s"),
        (format_value(1_488_095.0, "frame/s"), "1.49 Mframe/s"),
        (format_value(640.0, "frame/s"), "640 frame/s"),
        (format_bytes(1448), "1448 B"),
        (format_bytes(25_300), "25.3 kB"),
        (format_duration(41e-6), "41.0 µs"),
        (format_duration(150), "2 min 30 s"),
        (format_duration(3 * 3600 + 300), "3 h 5 min"),
        (format_share(0.9687), "96.9 %"),
        (format_count(57600), "57,600"),
        (format_value(float("nan"), "bit/s"), "–"),
    ],
)
def test_a_value_for_people_has_three_digits(text: str, expected: str) -> None:
    assert text == expected


@pytest.mark.parametrize(
    ("value", "low", "high", "expected"),
    [
        (27.31e9, 26.9e9, 27.6e9, "27.3 [26.9, 27.6] Gbit/s"),
        (27.31e9, 22e9, 32e9, "27 [22, 32] Gbit/s"),
        (27.31e9, 27.30e9, 27.33e9, "27.310 [27.300, 27.330] Gbit/s"),
        (27.31e9, None, None, "27.3 Gbit/s"),
        (0.0, 0.0, 0.0, "0 [0, 0] bit/s"),
    ],
)
def test_an_interval_decides_the_number_of_digits(
    value: float, low: float | None, high: float | None, expected: str
) -> None:
    assert format_interval(value, low, high, "bit/s").text == expected


def test_plus_minus_is_the_wider_half_of_the_interval() -> None:
    assert format_interval(27.3e9, 26.9e9, 27.5e9, "bit/s").plus_minus == "± 0.4"


def test_a_given_scale_sets_the_unit() -> None:
    scale = choose_scale("bit/s", 27e9)
    assert format_interval(0.5e9, None, None, "bit/s", scale=scale).text == "0.500 Gbit/s"
