"""Parse numbers as logs print them, with the range that rounds to them, in the units of the tools."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from decimal import Decimal
from functools import lru_cache

from vnetbench.importers.runs import RoundedValue

BITS_BY_UNIT: Mapping[str, float] = {"bits": 1, "Kbits": 1e3, "Mbits": 1e6, "Gbits": 1e9, "Tbits": 1e12}
"""Units of iperf, iperf3 (units.c) and similar tools: bits are counted in powers of 1000."""
BYTES_BY_UNIT: Mapping[str, float] = {
    "Bytes": 1,
    "KBytes": 2**10,
    "MBytes": 2**20,
    "GBytes": 2**30,
    "TBytes": 2**40,
}
"""Units of the same tools: bytes are counted in powers of 1024."""
BPS_BY_ABBREVIATED_UNIT: Mapping[str, float] = {
    "bps": 1.0,
    "Kbps": 1e3,
    "Mbps": 1e6,
    "Gbps": 1e9,
    "Tbps": 1e12,
}
"""Units of rates in bit/s, of tools that abbreviate them so."""
SECONDS_BY_UNIT: Mapping[str, float] = {
    "s": 1,
    "sec": 1,
    "ms": 1e-3,
    "msec": 1e-3,
    "us": 1e-6,
    "usec": 1e-6,
    "µs": 1e-6,
    "ns": 1e-9,
    "nsec": 1e-9,
}

NUMBER_PATTERN = r"[-+]?(?:\d[\d.,]*|\.\d+)(?:[eE][-+]?\d+)?"
"""A regular expression for a number in a log: `13.9`, `13,9`, `.5`, `1.39e+10`."""
DECIMAL_PATTERN = r"\d+(?:\.\d+)?"
"""A regular expression for a number of a tool that never prints a sign, a comma or an exponent."""

_PLAIN_NUMBER_PATTERN = re.compile(r"-?\d{1,15}(?:\.(\d{1,12}))?", re.ASCII)
"""`13.9`. Nearly all numbers in logs have this form, which is the fastest to parse."""
_HALF_LAST_DIGITS_PER_ONE = tuple(2 * 10**decimals for decimals in range(13))
"""Halves of the last digit that add up to 1, by the number of decimals."""
_MAX_NUMBER_CHARACTERS = 64
_MAX_CACHED_NUMBERS = 2**14
"""Numbers that are kept parsed: the times of intervals and many rates occur again and again."""
_SEPARATOR_PATTERN = re.compile("[.,]")
_NUMBER_PARTS_PATTERN = re.compile(r"(?P<sign>[-+]?)(?P<digits>[\d.,]+)(?P<exponent>[eE][-+]?\d{1,3})?")


@lru_cache(_MAX_CACHED_NUMBERS)
def parse_rounded(text: str, scale: float = 1.0) -> RoundedValue:
    """Return a printed number times `scale`.

    Its range is half a unit of the last printed digit to either side.

    A decimal comma is accepted. Of several separators the last one is the decimal one, unless it occurs
    twice.

    Raises:
        ValueError: The text is not a finite number.
    """
    if plain := _PLAIN_NUMBER_PATTERN.fullmatch(text.strip()):
        half_units, per_one = (
            2 * int(plain[0].replace(".", "")),
            _HALF_LAST_DIGITS_PER_ONE[len(plain[1] or "")],
        )
        return _scale_range(float(plain[0]), (half_units - 1) / per_one, (half_units + 1) / per_one, scale)
    number = _parse_decimal(text)
    digits, exponent = number.as_tuple().digits, number.as_tuple().exponent
    if not isinstance(exponent, int) or not digits:
        raise ValueError(f"not a number: {text[:_MAX_NUMBER_CHARACTERS]!r}")
    unit = Decimal(1).scaleb(exponent)
    return _scale_range(float(number), float(number - unit / 2), float(number + unit / 2), scale)


def parse_exact_count(text: str, scale: float = 1.0) -> RoundedValue:
    """Return a printed count times `scale`. It was not rounded. Raises ValueError if it is not a number."""
    return RoundedValue.exact(parse_rounded(text, scale).value)


def parse_with_unit(text: str, unit: str, units: Mapping[str, float], scale: float = 1.0) -> RoundedValue:
    """Return a printed number in one of these units: `parse_with_unit("13.9", "Gbits", BITS_BY_UNIT)`.

    Raises:
        ValueError: The unit is another one, or the text is not a number.
    """
    if unit not in units:
        raise ValueError(f"unknown unit: {unit[:_MAX_NUMBER_CHARACTERS]!r}")
    return parse_rounded(text, units[unit] * scale)


def _scale_range(value: float, low: float, high: float, scale: float) -> RoundedValue:
    bounds = (low * scale, high * scale)
    if not all(map(math.isfinite, bounds)):
        raise ValueError(f"{value} is not a finite number")
    return RoundedValue(value * scale, min(bounds), max(bounds))


def _parse_decimal(text: str) -> Decimal:
    text = text.strip()
    parts = _NUMBER_PARTS_PATTERN.fullmatch(text) if len(text) <= _MAX_NUMBER_CHARACTERS else None
    if parts is None:
        raise ValueError(f"not a number: {text[:_MAX_NUMBER_CHARACTERS]!r}")
    digits = parts["digits"]
    last = max(digits, key=lambda c: digits.rfind(c) if c in ".," else -1)
    if last in ".," and digits.count(last) == 1:
        whole, _, fraction = digits.rpartition(last)
        digits = f"{_SEPARATOR_PATTERN.sub('', whole)}.{fraction}"
    else:
        digits = _SEPARATOR_PATTERN.sub("", digits)
    if not digits.strip("."):
        raise ValueError(f"not a number: {text!r}")
    return Decimal(f"{parts['sign']}{digits}{parts['exponent'] or ''}")
