"""Parse the numbers of ethr: rates with a suffix, and durations with a unit."""

from __future__ import annotations

import re
from functools import lru_cache

from vnetbench.importers.arithmetic import scale_value
from vnetbench.importers.runs import RoundedValue
from vnetbench.importers.units import SECONDS_BY_UNIT, parse_rounded, parse_with_unit

DURATION_PARTS = re.compile(r"(?P<number>[\d.]+)(?P<unit>ns|us|ms|s)")
_MULTIPLIER_BY_SUFFIX = {"": 1.0, "K": 1e3, "M": 1e6, "G": 1e9, "T": 1e12}
AMOUNT_PATTERN = re.compile(r"(?P<number>[\d.]+)(?P<suffix>[KMGT]?)")
_MAX_CACHED_AMOUNTS = 2**14
_HALF_OMITTED_DIGIT = 0.05
"""Half of the last digit of a number whose `.0` was left out."""


@lru_cache(_MAX_CACHED_AMOUNTS)
def parse_amount(text: str) -> RoundedValue:
    """Return the value of `12.3G`, `12G` (12.0) or `875`."""
    amount = AMOUNT_PATTERN.fullmatch(text)
    if amount is None:
        raise ValueError(f"not an amount: {text[:20]!r}")
    factor = _MULTIPLIER_BY_SUFFIX[amount["suffix"]]
    if "." in amount["number"]:
        return parse_rounded(amount["number"], factor)
    value = float(amount["number"])
    half_digit = _HALF_OMITTED_DIGIT if amount["suffix"] else 0.0
    return scale_value(RoundedValue(value, value - half_digit, value + half_digit), factor)


def parse_duration_us(text: str) -> RoundedValue:
    """Return a duration such as `63.120us` in µs."""
    duration = DURATION_PARTS.fullmatch(text)
    if duration is None:
        raise ValueError(f"not a duration: {text[:20]!r}")
    return parse_with_unit(duration["number"], duration["unit"], SECONDS_BY_UNIT, 1e6)
