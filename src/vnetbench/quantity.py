"""Quantities with units: parse them, format them exactly for study files, and format them for people."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from decimal import Decimal
from typing import NamedTuple

from vnetbench.errors import BenchError
from vnetbench.printable import make_printable

MAX_QUANTITY_CHARACTERS = 64
"""Maximum length of a quantity; it bounds the work for a malicious file."""

_NUMBER_PATTERN = r"[0-9]+(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?"
_TERM_PATTERN = re.compile(rf"\s*(?P<number>[+-]?{_NUMBER_PATTERN})\s*(?P<unit>[^\s0-9+.,-][^\s0-9+,-]*)?\s*")

_TIME_UNITS = {
    "µs": Decimal("1e-6"), "ms": Decimal("1e-3"), "s": Decimal(1), "min": Decimal(60), "h": Decimal(3600),
}  # fmt: skip
_SIZE_UNITS = {
    "B": Decimal(1), "kB": Decimal(10**3), "KiB": Decimal(2**10), "MB": Decimal(10**6),
    "MiB": Decimal(2**20), "GB": Decimal(10**9), "GiB": Decimal(2**30),
}  # fmt: skip
_BIT_RATE_UNITS = {
    "bit/s": Decimal(1),
    "kbit/s": Decimal(10**3),
    "Mbit/s": Decimal(10**6),
    "Gbit/s": Decimal(10**9),
}
_FREQUENCY_UNITS = {"/s": Decimal(1), "k/s": Decimal(10**3), "M/s": Decimal(10**6)}
_FRAME_RATE_UNITS = {"frame/s": Decimal(1), "kframe/s": Decimal(10**3), "Mframe/s": Decimal(10**6)}
_SHARE_UNITS = {"%": Decimal("0.01")}

# U+03BC (Greek mu) and U+00B5 (micro sign) look the same, and "us" needs neither.
_UNIT_ALIASES = {
    "us": "µs", "μs": "µs", "KB": "kB",
    "bps": "bit/s", "kbps": "kbit/s", "Mbps": "Mbit/s", "Gbps": "Gbit/s",
    "frames/s": "frame/s", "kframes/s": "kframe/s", "Mframes/s": "Mframe/s",
}  # fmt: skip
_MISSPELLED_UNITS = {
    "sec": "s", "secs": "s", "second": "s", "seconds": "s", "m": "min", "minute": "min",
    "minutes": "min", "hr": "h", "hour": "h", "hours": "h", "msec": "ms", "usec": "µs", "k": "KiB",
    "bytes": "B", "byte": "B", "g": "Gbit/s", "gb/s": "Gbit/s", "mb/s": "Mbit/s", "kb/s": "kbit/s",
    "gbit": "Gbit/s", "mbit": "Mbit/s", "kbit": "kbit/s", "fps": "frame/s", "pps": "frame/s",
    "kpps": "kframe/s", "mpps": "Mframe/s", "percent": "%", "pct": "%",
}  # fmt: skip


class QuantityError(BenchError):
    """A text that is not a valid quantity; `fix` names the expected units."""


@dataclass(frozen=True)
class _QuantityType:
    noun: str
    units: dict[str, Decimal]
    example: str
    largest: Decimal

    def unit_hint(self) -> str:
        return f'write a number and its unit, such as "{self.example}" (units: {", ".join(self.units)})'

    def make_error(self, what: str) -> QuantityError:
        return QuantityError(what, fix=self.unit_hint())


_DURATION = _QuantityType("duration", _TIME_UNITS, "10 s", Decimal(10**9))
_SIZE = _QuantityType("size", _SIZE_UNITS, "64 KiB", Decimal(2**60))
_BIT_RATE = _QuantityType("rate", _BIT_RATE_UNITS, "10 Gbit/s", Decimal(10**15))
_FREQUENCY = _QuantityType("frequency", _FREQUENCY_UNITS, "10 k/s", Decimal(10**12))
_FRAME_RATE = _QuantityType("frame rate", _FRAME_RATE_UNITS, "100 kframe/s", Decimal(10**12))
_SHARE = _QuantityType("share", _SHARE_UNITS, "3 %", Decimal(10**4))


def parse_duration(text: str) -> float:
    """Return the seconds of a duration such as "50 ms", "10 s" or "2 min 30 s"; raises QuantityError."""
    return float(_parse_quantity(text, _DURATION, allow_sum=True))


def parse_bytes(text: str) -> int:
    """Return the whole bytes of a size such as "64 KiB" (1024) or "64 kB" (1000); raises QuantityError."""
    return _require_whole_number(_parse_quantity(text, _SIZE), text, "bytes", _SIZE)


def parse_bit_rate(text: str) -> int:
    """Return the whole bit/s of a rate such as "10 Gbit/s" or "10 Gbps"; raises QuantityError."""
    return _require_whole_number(_parse_quantity(text, _BIT_RATE), text, "bits/s", _BIT_RATE)


def parse_count_per_s(text: str) -> float:
    """Return the number per second, 10000.0 for "10000 /s" or "10 k/s"; raises QuantityError."""
    return float(_parse_quantity(text, _FREQUENCY))


def parse_frame_rate(text: str) -> float:
    """Return the frames per second, 100000.0 for "100 kframe/s"; raises QuantityError."""
    return float(_parse_quantity(text, _FRAME_RATE))


def parse_share(text: str) -> float:
    """Return the ratio of a percentage, 0.03 for "3 %"; raises QuantityError."""
    return float(_parse_quantity(text, _SHARE))


def _require_whole_number(value: Decimal, text: str, unit: str, quantity_type: _QuantityType) -> int:
    if value != value.to_integral_value():
        raise quantity_type.make_error(f'"{text.strip()}" is not a whole number of {unit}')
    return int(value)


def _parse_quantity(text: str, quantity_type: _QuantityType, *, allow_sum: bool = False) -> Decimal:
    if len(text) > MAX_QUANTITY_CHARACTERS:
        raise quantity_type.make_error(f"{len(text)} characters are too many for a {quantity_type.noun}")
    stripped = text.strip()
    total, position, previous = Decimal(0), 0, None
    while position < len(text) or position == 0:
        match = _TERM_PATTERN.match(text, position)
        if match is None or (position > 0 and not allow_sum):
            raise quantity_type.make_error(f"{_quote_printable(stripped)} is not a {quantity_type.noun}")
        unit = _find_unit(match["unit"], match["number"], quantity_type)
        if previous is not None and quantity_type.units[unit] >= previous:
            raise QuantityError(
                f"{_quote_printable(stripped)} is not a {quantity_type.noun}: "
                "its units must go from large to small",
                fix='write the larger unit first, such as "2 min 30 s"',
            )
        previous = quantity_type.units[unit]
        total += _parse_number(match["number"], stripped, quantity_type) * previous
        position = match.end()
    if total > quantity_type.largest:
        raise quantity_type.make_error(
            f"{_quote_printable(stripped)} is too large for a {quantity_type.noun}"
        )
    return total


def _parse_number(text: str, whole: str, quantity_type: _QuantityType) -> Decimal:
    if text.startswith("-"):
        raise QuantityError(
            f"{_quote_printable(whole)} is negative", fix=f"write a {quantity_type.noun} of zero or more"
        )
    number = Decimal(text)
    # Larger exponents are beyond every unit, and Decimal cannot compute with all of them.
    if number and abs(number.adjusted()) > 30:
        what = "large" if number.adjusted() > 0 else "small"
        raise quantity_type.make_error(f"{_quote_printable(whole)} is too {what} for a {quantity_type.noun}")
    return number


def _find_unit(unit: str | None, number: str, quantity_type: _QuantityType) -> str:
    if unit is None:
        number = number if len(number) < 16 else "1"
        choices = ", ".join(f'"{number} {name}"' for name in quantity_type.units)
        raise QuantityError("the unit is missing", fix=f"write one of {choices}")
    name = _UNIT_ALIASES.get(unit, unit)
    if name in quantity_type.units:
        return name
    nearest = {known.lower(): known for known in quantity_type.units}.get(
        name.lower()
    ) or _MISSPELLED_UNITS.get(name.lower())
    hint = f'did you mean "{nearest}"? ' if nearest in quantity_type.units else ""
    raise QuantityError(
        f"{_quote_printable(unit)} is not a unit of a {quantity_type.noun}",
        fix=f"{hint}use one of these units: {', '.join(quantity_type.units)}",
    )


def _quote_printable(text: str) -> str:
    return f'"{make_printable(text)}"'


# Exact formats: parsing them gives the same value.


def format_exact_bytes(size: int) -> str:
    """Return a size in bytes exactly: 65536 is "64 KiB", 64000 is "64 kB", 1500 is "1500 B"."""
    for name in ("GiB", "MiB", "KiB"):
        if size and size % int(_SIZE_UNITS[name]) == 0:
            return f"{size // int(_SIZE_UNITS[name])} {name}"
    for name in ("GB", "MB", "kB"):
        # Smaller sizes stay in bytes, because an MTU of 9000 is known by that number.
        if size >= 10_000 and size % int(_SIZE_UNITS[name]) == 0:
            return f"{size // int(_SIZE_UNITS[name])} {name}"
    return f"{size} B"


def format_exact_bit_rate(rate_bps: float) -> str:
    """Return a rate in bit/s exactly: 2.5e9 is "2.5 Gbit/s"."""
    return _format_exact(Decimal(str(rate_bps)), ("Gbit/s", "Mbit/s", "kbit/s", "bit/s"), _BIT_RATE_UNITS)


def format_exact_duration(seconds: float) -> str:
    """Return a duration in seconds exactly: 0.05 is "50 ms", 150 is "150 s", 120 is "2 min"."""
    value = Decimal(str(seconds))
    for name in ("h", "min"):
        if value and value % _TIME_UNITS[name] == 0:
            return f"{_format_decimal(value / _TIME_UNITS[name])} {name}"
    return _format_exact(value, ("s", "ms", "µs"), _TIME_UNITS)


def format_exact_frequency(per_s: float) -> str:
    """Return a frequency exactly: 10000 is "10 k/s", 2.5 is "2.5 /s"."""
    return _format_exact(Decimal(str(per_s)), ("M/s", "k/s", "/s"), _FREQUENCY_UNITS)


def format_exact_frame_rate(rate_fps: float) -> str:
    """Return a frame rate exactly: 100000 is "100 kframe/s"."""
    return _format_exact(Decimal(str(rate_fps)), ("Mframe/s", "kframe/s", "frame/s"), _FRAME_RATE_UNITS)


def format_exact_share(share: float) -> str:
    """Return a ratio as an exact percentage: 0.03 is "3 %"."""
    return f"{_format_decimal(Decimal(str(share)) * 100)} %"


def _format_exact(value: Decimal, names: tuple[str, ...], units: dict[str, Decimal]) -> str:
    name = next((name for name in names if value >= units[name]), names[-1] if value else names[0])
    return f"{_format_decimal(value / units[name])} {name}"


def _format_decimal(number: Decimal) -> str:
    text = f"{number:f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


# Formats for people: only significant digits.


@dataclass(frozen=True)
class Scale:
    """A unit for display: a stored number divided by `divisor` is in `unit`."""

    divisor: float
    unit: str


class _DisplayScale(NamedTuple):
    scale: Scale
    min_number: float
    """The smallest number for which the scale applies."""


@dataclass(frozen=True)
class IntervalText:
    """A value and its interval as texts with the same decimals and unit."""

    value: str
    interval: str
    """ "[26.9, 27.6]"; empty without an interval."""
    plus_minus: str
    """ "± 0.4", the wider of the two sides; empty without an interval."""
    unit: str

    @property
    def text(self) -> str:
        """Value, interval and unit together: "27.3 [26.9, 27.6] Gbit/s"."""
        return " ".join(part for part in (self.value, self.interval, self.unit) if part)


CPU_SUM_UNIT = "% of one CPU, sum"  # Displayed as a number of CPUs: a share is at most 100 %.
_DISPLAY_SCALES_BY_UNIT = {
    unit: tuple(_DisplayScale(Scale(divisor, shown), minimum) for divisor, shown, minimum in scales)
    for unit, scales in {
        "bit/s": ((1, "bit/s", 0), (1e3, "kbit/s", 1e3), (1e6, "Mbit/s", 1e6), (1e9, "Gbit/s", 1e9)),
        # An MTU or a segment size is known by its four digits: 1448 B, not 1.45 kB.
        "B": ((1, "B", 0), (1e3, "kB", 1e4), (1e6, "MB", 1e6), (1e9, "GB", 1e9)),
        "s": ((1e-6, "µs", 0), (1e-3, "ms", 1e-3), (1, "s", 1)),
        "µs": ((1, "µs", 0), (1e3, "ms", 1e3), (1e6, "s", 1e6)),
        "1/s": ((1, "/s", 0), (1e3, "k/s", 1e3), (1e6, "M/s", 1e6)),
        "frame/s": ((1, "frame/s", 0), (1e3, "kframe/s", 1e3), (1e6, "Mframe/s", 1e6)),
        CPU_SUM_UNIT: ((100, "CPUs", 0),),
        "1": ((1, "", 0), (1e3, "k", 1e4), (1e6, "M", 1e6)),
    }.items()
}
_NO_NUMBER_TEXT = "–"


def choose_scale(unit: str, largest: float) -> Scale:
    """Return the best scale for numbers of `unit` up to `largest`; units without prefixes stay as they are.

    Use one scale for a whole column or axis: pass it to `format_interval`.
    """
    scales = _DISPLAY_SCALES_BY_UNIT.get(unit)
    if scales is None or not math.isfinite(largest):
        return Scale(1, unit if unit != "1" else "")
    # Without this factor, 999.6 Mbit/s would be rounded to "1000 Mbit/s".
    fitting = [each.scale for each in scales if abs(largest) >= each.min_number * 0.9995]
    return fitting[-1] if fitting else scales[0].scale


def format_interval(
    value: float, low: float | None, high: float | None, unit: str, *, scale: Scale | None = None
) -> IntervalText:
    """Format a value and its interval with the digits that the interval justifies.

    The last decimal is that of the first significant digit of the interval's half-width, or of the second if
    the first is 1 or 2. Without an interval, the value has three digits. A value that is not finite becomes a
    dash.

    Args:
        value: The value in `unit`.
        low: Lower end of the interval in `unit`, or None.
        high: Upper end of the interval in `unit`, or None.
        unit: A unit of `estimate.metrics`.
        scale: Scale of the column; None: the best one for this value.
    """
    scale = scale or choose_scale(unit, value)
    if not math.isfinite(value):
        return IntervalText(_NO_NUMBER_TEXT, "", "", "")
    if low is None or high is None or not (math.isfinite(low) and math.isfinite(high)):
        return IntervalText(_format_three_significant_digits(value / scale.divisor), "", "", scale.unit)
    value, low, high = value / scale.divisor, low / scale.divisor, high / scale.divisor
    decimals = (
        _decimals_for_half_width((high - low) / 2)
        if high > low
        else _decimals_for_three_significant_digits(value)
    )
    # No trial justifies more than six digits, even with a very narrow interval.
    decimals = max(0, min(decimals, _decimals_for_three_significant_digits(value) + 3))
    wider_side = max(high - value, value - low)
    return IntervalText(
        value=_format_fixed(value, decimals),
        interval=f"[{_format_fixed(low, decimals)}, {_format_fixed(high, decimals)}]",
        plus_minus=f"± {_format_fixed(wider_side, decimals)}",
        unit=scale.unit,
    )


def format_value(value: float, unit: str) -> str:
    """Return a number with three digits and its unit: (27.3e9, "bit/s") is "27.3 Gbit/s"."""
    return format_interval(value, None, None, unit).text


def format_bit_rate(rate_bps: float) -> str:
    """Return a rate in bit/s for people: "27.3 Gbit/s"."""
    return format_value(rate_bps, "bit/s")


def format_bytes(size: float) -> str:
    """Return a size in bytes for people, with powers of 1000: "1448 B", "25.3 kB"."""
    return format_value(size, "B")


def format_duration(seconds: float) -> str:
    """Return a duration for people: "41.0 µs", "50.0 ms", "1.50 s", "2 min 30 s", "3 h 5 min"."""
    if not math.isfinite(seconds) or seconds < 99.5:
        return format_value(seconds, "s")
    whole = round(seconds)
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s" if whole % 60 else f"{whole // 60} min"
    minutes = round(seconds / 60)
    return f"{minutes // 60} h {minutes % 60} min" if minutes % 60 else f"{minutes // 60} h"


def format_share(share: float) -> str:
    """Return a ratio as a percentage with three digits: 0.03 is "3.00 %", 0.9687 is "96.9 %"."""
    return f"{_format_three_significant_digits(share * 100)} %" if math.isfinite(share) else _NO_NUMBER_TEXT


def format_count(count: int) -> str:
    """Return a count with separated thousands: "57,600"."""
    return f"{count:,}"


def format_count_with_noun(count: int, noun: str) -> str:
    """Return a count with its noun: `1 trial`, `4 trials`."""
    return f"{count} {noun}{'' if count == 1 else 's'}"


def _format_three_significant_digits(value: float) -> str:
    return _format_fixed(value, max(0, _decimals_for_three_significant_digits(value)))


def _format_fixed(value: float, decimals: int) -> str:
    text = f"{value:.{decimals}f}"
    return text.removeprefix("-") if float(text) == 0 else text


def _decimals_for_half_width(half_width: float) -> int:
    exponent = math.floor(math.log10(half_width))
    digits = 2 if half_width / 10.0**exponent < 2.95 else 1
    return max(0, digits - 1 - exponent)


def _decimals_for_three_significant_digits(value: float) -> int:
    if value == 0:
        return 0
    exponent = math.floor(math.log10(abs(value)))
    if round(abs(value) / 10.0**exponent, 2) >= 10:
        exponent += 1
    return 2 - exponent
