"""Numbers as logs print them: what may have been rounded to them, and the units of the tools."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from decimal import Decimal

from vnetbench.importers.runs import Figure

BITS: Mapping[str, float] = {"bits": 1, "Kbits": 1e3, "Mbits": 1e6, "Gbits": 1e9, "Tbits": 1e12}
"""iperf, iperf3 (units.c) and those that print like them: bits are counted in powers of 1000."""
BYTES: Mapping[str, float] = {
    "Bytes": 1,
    "KBytes": 2**10,
    "MBytes": 2**20,
    "GBytes": 2**30,
    "TBytes": 2**40,
}
"""The same tools: bytes are counted in powers of 1024."""
SECONDS: Mapping[str, float] = {
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

NUMBER = r"[-+]?(?:\d[\d.,]*|\.\d+)(?:[eE][-+]?\d+)?"
"""A regular expression of a number in a log: `13.9`, `13,9`, `.5`, `1.39e+10`."""

_PLAIN = re.compile(r"-?\d{1,15}(?:\.(\d{1,12}))?", re.ASCII)
"""`13.9`: what nearly all numbers in logs are like, and what is read the fastest."""
_PARTS = tuple(2 * 10**decimals for decimals in range(13))
"""How many halves of the last of so many decimals make one."""
_LONGEST = 64
_SEPARATOR = re.compile("[.,]")
_FORM = re.compile(r"(?P<sign>[-+]?)(?P<digits>[\d.,]+)(?P<exponent>[eE][-+]?\d{1,3})?")


def rounded(text: str, scale: float = 1.0) -> Figure:
    """The figure of a printed number, times `scale`: half a unit of its last printed digit either side.

    A decimal comma is read too: of several separators the last one is the decimal one, unless it stands
    more than once. Raises ValueError where it is no finite number.
    """
    if plain := _PLAIN.fullmatch(text.strip()):
        halves, parts = 2 * int(plain[0].replace(".", "")), _PARTS[len(plain[1] or "")]
        return _scaled(float(plain[0]), (halves - 1) / parts, (halves + 1) / parts, scale)
    number = _decimal(text)
    digits, exponent = number.as_tuple().digits, number.as_tuple().exponent
    if not isinstance(exponent, int) or not digits:
        raise ValueError(f"no number: {text[:_LONGEST]!r}")
    unit = Decimal(1).scaleb(exponent)
    return _scaled(float(number), float(number - unit / 2), float(number + unit / 2), scale)


def counted(text: str, scale: float = 1.0) -> Figure:
    """The figure of a count, which nothing rounded, times `scale`. Raises ValueError for no number."""
    return Figure.exact(rounded(text, scale).value)


def in_unit(text: str, unit: str, units: Mapping[str, float], scale: float = 1.0) -> Figure:
    """`rounded` of a number in one of these units: `in_unit("13.9", "Gbits", BITS)`.

    Raises ValueError for another unit, and for no number.
    """
    if unit not in units:
        raise ValueError(f"no unit of these: {unit[:_LONGEST]!r}")
    return rounded(text, units[unit] * scale)


def _scaled(value: float, low: float, high: float, scale: float) -> Figure:
    ends = (low * scale, high * scale)
    if not all(map(math.isfinite, ends)):
        raise ValueError(f"no finite number: {value}")
    return Figure(value * scale, min(ends), max(ends))


def _decimal(text: str) -> Decimal:
    text = text.strip()
    form = _FORM.fullmatch(text) if len(text) <= _LONGEST else None
    if form is None:
        raise ValueError(f"no number: {text[:_LONGEST]!r}")
    digits = form["digits"]
    last = max(digits, key=lambda c: digits.rfind(c) if c in ".," else -1)
    if last in ".," and digits.count(last) == 1:
        whole, _, part = digits.rpartition(last)
        digits = f"{_SEPARATOR.sub('', whole)}.{part}"
    else:
        digits = _SEPARATOR.sub("", digits)
    if not digits.strip("."):
        raise ValueError(f"no number: {text!r}")
    return Decimal(f"{form['sign']}{digits}{form['exponent'] or ''}")
