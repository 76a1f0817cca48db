"""How quantities are written: durations, sizes, rates of several kinds and shares, read and shown."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from decimal import Decimal

from vnetbench.errors import BenchError
from vnetbench.printable import make_printable

MAX_TEXT = 64
"""A quantity longer than this is no quantity; it bounds the work that a hostile file can ask for."""

_NUMBER = r"[0-9]+(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?"
_TERM = re.compile(rf"\s*(?P<number>[+-]?{_NUMBER})\s*(?P<unit>[^\s0-9+.,-][^\s0-9+,-]*)?\s*")

_TIME_UNITS = {
    "µs": Decimal("1e-6"),
    "ms": Decimal("1e-3"),
    "s": Decimal(1),
    "min": Decimal(60),
    "h": Decimal(3600),
}
_SIZE_UNITS = {
    "B": Decimal(1),
    "kB": Decimal(10**3),
    "KiB": Decimal(2**10),
    "MB": Decimal(10**6),
    "MiB": Decimal(2**20),
    "GB": Decimal(10**9),
    "GiB": Decimal(2**30),
}
_RATE_UNITS = {
    "bit/s": Decimal(1),
    "kbit/s": Decimal(10**3),
    "Mbit/s": Decimal(10**6),
    "Gbit/s": Decimal(10**9),
}
_FREQUENCY_UNITS = {"/s": Decimal(1), "k/s": Decimal(10**3), "M/s": Decimal(10**6)}
_FRAME_RATE_UNITS = {"frame/s": Decimal(1), "kframe/s": Decimal(10**3), "Mframe/s": Decimal(10**6)}
_SHARE_UNITS = {"%": Decimal("0.01")}

# U+03BC (Greek mu) and U+00B5 (micro sign) look alike, and keyboards without either write "us".
_UNIT_ALIASES = {
    "us": "µs",
    "μs": "µs",
    "KB": "kB",
    "bps": "bit/s",
    "kbps": "kbit/s",
    "Mbps": "Mbit/s",
    "Gbps": "Gbit/s",
    "frames/s": "frame/s",
    "kframes/s": "kframe/s",
    "Mframes/s": "Mframe/s",
}
_MISSPELLED_UNITS = {
    "sec": "s",
    "secs": "s",
    "second": "s",
    "seconds": "s",
    "m": "min",
    "minute": "min",
    "minutes": "min",
    "hr": "h",
    "hour": "h",
    "hours": "h",
    "msec": "ms",
    "usec": "µs",
    "k": "KiB",
    "bytes": "B",
    "byte": "B",
    "g": "Gbit/s",
    "gb/s": "Gbit/s",
    "mb/s": "Mbit/s",
    "kb/s": "kbit/s",
    "gbit": "Gbit/s",
    "mbit": "Mbit/s",
    "kbit": "kbit/s",
    "fps": "frame/s",
    "pps": "frame/s",
    "kpps": "kframe/s",
    "mpps": "Mframe/s",
    "percent": "%",
    "pct": "%",
}


class QuantityError(BenchError):
    """A text that is no quantity of the wanted kind; `fix` names the units expected."""


@dataclass(frozen=True)
class _QuantityType:
    noun: str
    units: dict[str, Decimal]
    example: str
    largest: Decimal

    def unit_hint(self) -> str:
        return f'write a number and its unit, such as "{self.example}" (units: {", ".join(self.units)})'


_DURATION = _QuantityType("duration", _TIME_UNITS, "10 s", Decimal(10**9))
_SIZE = _QuantityType("size", _SIZE_UNITS, "64 KiB", Decimal(2**60))
_RATE = _QuantityType("rate", _RATE_UNITS, "10 Gbit/s", Decimal(10**15))
_FREQUENCY = _QuantityType("frequency", _FREQUENCY_UNITS, "10 k/s", Decimal(10**12))
_FRAME_RATE = _QuantityType("frame rate", _FRAME_RATE_UNITS, "100 kframe/s", Decimal(10**12))
_SHARE = _QuantityType("share", _SHARE_UNITS, "3 %", Decimal(10**4))


def parse_duration(text: str) -> float:
    """Seconds of a duration such as "50 ms", "10 s" or "2 min 30 s"; raises QuantityError."""
    return float(_parse(text, _DURATION, sums=True))


def parse_bytes(text: str) -> int:
    """Whole bytes of a size such as "64 KiB" (1024) or "64 kB" (1000); raises QuantityError."""
    return _require_whole(_parse(text, _SIZE), text, "bytes", _SIZE)


def parse_rate(text: str) -> int:
    """Whole bits/s of a rate such as "10 Gbit/s" or "10 Gbps" (powers of 1000); raises QuantityError."""
    return _require_whole(_parse(text, _RATE), text, "bits/s", _RATE)


def parse_frequency(text: str) -> float:
    """How often a second: 10000.0 for "10000 /s" or "10 k/s"; raises QuantityError."""
    return float(_parse(text, _FREQUENCY))


def parse_frame_rate(text: str) -> float:
    """Frames a second: 100000.0 for "100 kframe/s"; raises QuantityError."""
    return float(_parse(text, _FRAME_RATE))


def parse_share(text: str) -> float:
    """The share that a percentage such as "3 %" names, 1.0 for "100 %"; raises QuantityError."""
    return float(_parse(text, _SHARE))


def _require_whole(value: Decimal, text: str, of: str, kind: _QuantityType) -> int:
    if value != value.to_integral_value():
        raise QuantityError(f'"{text.strip()}" is not a whole number of {of}', fix=kind.unit_hint())
    return int(value)


def _parse(text: str, kind: _QuantityType, *, sums: bool = False) -> Decimal:
    if len(text) > MAX_TEXT:
        raise QuantityError(f"{len(text)} characters are too many for a {kind.noun}", fix=kind.unit_hint())
    stripped = text.strip()
    total, at, previous = Decimal(0), 0, None
    while at < len(text) or at == 0:
        match = _TERM.match(text, at)
        if match is None or (at > 0 and not sums):
            raise QuantityError(f"{_quote(stripped)} is not a {kind.noun}", fix=kind.unit_hint())
        unit = _find_unit(match["unit"], match["number"], kind)
        if previous is not None and kind.units[unit] >= previous:
            raise QuantityError(
                f"{_quote(stripped)} is not a {kind.noun}: its units must go from large to small",
                fix='write the larger unit first, such as "2 min 30 s"',
            )
        previous = kind.units[unit]
        total += _parse_number(match["number"], stripped, kind) * previous
        at = match.end()
    if total > kind.largest:
        raise QuantityError(f"{_quote(stripped)} is too large for a {kind.noun}", fix=kind.unit_hint())
    return total


def _parse_number(text: str, whole: str, kind: _QuantityType) -> Decimal:
    if text.startswith("-"):
        raise QuantityError(f"{_quote(whole)} is negative", fix=f"a {kind.noun} is zero or more")
    number = Decimal(text)
    # Far beyond every unit's largest and smallest: an exponent that Decimal itself would stumble over.
    if number and abs(number.adjusted()) > 30:
        what = "large" if number.adjusted() > 0 else "small"
        raise QuantityError(f"{_quote(whole)} is too {what} for a {kind.noun}", fix=kind.unit_hint())
    return number


def _find_unit(unit: str | None, number: str, kind: _QuantityType) -> str:
    if unit is None:
        number = number if len(number) < 16 else "1"
        choices = ", ".join(f'"{number} {name}"' for name in kind.units)
        raise QuantityError("the unit is missing", fix=f"say which is meant: {choices}")
    name = _UNIT_ALIASES.get(unit, unit)
    if name in kind.units:
        return name
    near = {known.lower(): known for known in kind.units}.get(name.lower()) or _MISSPELLED_UNITS.get(
        name.lower()
    )
    hint = f'did you mean "{near}"? ' if near in kind.units else ""
    raise QuantityError(
        f"{_quote(unit)} is not a unit of a {kind.noun}", fix=f"{hint}units: {', '.join(kind.units)}"
    )


def _quote(text: str) -> str:
    return f'"{make_printable(text)}"'


# Exact spellings: what is read back is what was written.


def format_exact_bytes(size: int) -> str:
    """An exact spelling of a size in bytes: 65536 is "64 KiB", 64000 is "64 kB", 1500 is "1500 B"."""
    for name in ("GiB", "MiB", "KiB"):
        if size and size % int(_SIZE_UNITS[name]) == 0:
            return f"{size // int(_SIZE_UNITS[name])} {name}"
    for name in ("GB", "MB", "kB"):
        # From 10 kB on: an MTU of 9000 is known by that figure and no other.
        if size >= 10_000 and size % int(_SIZE_UNITS[name]) == 0:
            return f"{size // int(_SIZE_UNITS[name])} {name}"
    return f"{size} B"


def format_exact_rate(rate_bps: float) -> str:
    """An exact spelling of a rate in bits/s: 2.5e9 is "2.5 Gbit/s"."""
    return _format_exact(Decimal(str(rate_bps)), ("Gbit/s", "Mbit/s", "kbit/s", "bit/s"), _RATE_UNITS)


def format_exact_duration(seconds: float) -> str:
    """An exact spelling of a duration in seconds: 0.05 is "50 ms", 150 is "150 s", 120 is "2 min"."""
    value = Decimal(str(seconds))
    for name in ("h", "min"):
        if value and value % _TIME_UNITS[name] == 0:
            return f"{_format_decimal(value / _TIME_UNITS[name])} {name}"
    return _format_exact(value, ("s", "ms", "µs"), _TIME_UNITS)


def format_exact_frequency(per_s: float) -> str:
    """An exact spelling of a frequency: 10000 is "10 k/s", 2.5 is "2.5 /s"."""
    return _format_exact(Decimal(str(per_s)), ("M/s", "k/s", "/s"), _FREQUENCY_UNITS)


def format_exact_frame_rate(rate_fps: float) -> str:
    """An exact spelling of a frame rate: 100000 is "100 kframe/s"."""
    return _format_exact(Decimal(str(rate_fps)), ("Mframe/s", "kframe/s", "frame/s"), _FRAME_RATE_UNITS)


def format_exact_share(share: float) -> str:
    """A share as a percentage without loss: 0.03 is "3 %"."""
    return f"{_format_decimal(Decimal(str(share)) * 100)} %"


def _format_exact(value: Decimal, names: tuple[str, ...], units: dict[str, Decimal]) -> str:
    name = next((name for name in names if value >= units[name]), names[-1] if value else names[0])
    return f"{_format_decimal(value / units[name])} {name}"


def _format_decimal(number: Decimal) -> str:
    text = f"{number:f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


# Figures for people: as many digits as they can use.


@dataclass(frozen=True)
class Scale:
    """A unit to show numbers in: a stored number divided by `divisor` is in `unit`."""

    divisor: float
    unit: str


@dataclass(frozen=True)
class IntervalText:
    """A value and its interval as texts, all with the same digits and in the same unit."""

    value: str
    interval: str
    """ "[26.9, 27.6]"; empty without an interval."""
    plus_minus: str
    """ "± 0.4", the wider of the two sides; empty without an interval."""
    unit: str

    @property
    def text(self) -> str:
        """The whole in one piece: "27.3 [26.9, 27.6] Gbit/s"."""
        return " ".join(part for part in (self.value, self.interval, self.unit) if part)


# A number is shown in the last of its unit's steps whose third entry it reaches.
_UNIT_SCALES: dict[str, tuple[tuple[float, str, float], ...]] = {
    "bit/s": ((1, "bit/s", 0), (1e3, "kbit/s", 1e3), (1e6, "Mbit/s", 1e6), (1e9, "Gbit/s", 1e9)),
    # An MTU or a segment is known by its four digits: 1448 B, not 1.45 kB.
    "B": ((1, "B", 0), (1e3, "kB", 1e4), (1e6, "MB", 1e6), (1e9, "GB", 1e9)),
    "s": ((1e-6, "µs", 0), (1e-3, "ms", 1e-3), (1, "s", 1)),
    "µs": ((1, "µs", 0), (1e3, "ms", 1e3), (1e6, "s", 1e6)),
    "1/s": ((1, "/s", 0), (1e3, "k/s", 1e3), (1e6, "M/s", 1e6)),
    "frame/s": ((1, "frame/s", 0), (1e3, "kframe/s", 1e3), (1e6, "Mframe/s", 1e6)),
    "1": ((1, "", 0), (1e3, "k", 1e4), (1e6, "M", 1e6)),
}
_NO_NUMBER = "–"


def choose_scale(unit: str, largest: float) -> Scale:
    """The scale in which numbers of `unit` up to `largest` read best; a unit without prefixes is kept.

    One scale for a column or an axis: pass it to `format_interval`.
    """
    steps = _UNIT_SCALES.get(unit)
    if steps is None or not math.isfinite(largest):
        return Scale(1, unit if unit != "1" else "")
    divisor, shown = steps[0][:2]
    for step, name, from_ in steps:
        # 999.6 Mbit/s would otherwise be rounded to "1000 Mbit/s".
        if abs(largest) >= from_ * 0.9995:
            divisor, shown = step, name
    return Scale(divisor, shown)


def format_interval(
    value: float, low: float | None, high: float | None, unit: str, *, scale: Scale | None = None
) -> IntervalText:
    """Texts of a value and its interval with the digits that the interval justifies.

    `value`, `low` and `high` are in `unit` (as in `estimate.metrics`). The last digit shown is the first
    digit of the interval's half-width, or its second where the first is 1 or 2. Without an interval: three
    digits. A value that is no number is shown as a dash.
    """
    scale = scale or choose_scale(unit, value)
    if not math.isfinite(value):
        return IntervalText(_NO_NUMBER, "", "", "")
    if low is None or high is None or not (math.isfinite(low) and math.isfinite(high)):
        return IntervalText(_format_three_digits(value / scale.divisor), "", "", scale.unit)
    value, low, high = value / scale.divisor, low / scale.divisor, high / scale.divisor
    decimals = _interval_decimals((high - low) / 2) if high > low else _three_digit_decimals(value)
    # Six digits are more than any trial justifies, whatever a narrow interval says.
    decimals = max(0, min(decimals, _three_digit_decimals(value) + 3))
    side = max(high - value, value - low)
    return IntervalText(
        value=_format_fixed(value, decimals),
        interval=f"[{_format_fixed(low, decimals)}, {_format_fixed(high, decimals)}]",
        plus_minus=f"± {_format_fixed(side, decimals)}",
        unit=scale.unit,
    )


def format_value(value: float, unit: str) -> str:
    """A number of `unit` with three digits, its prefix and its unit: (27.3e9, "bit/s") is "27.3 Gbit/s"."""
    return format_interval(value, None, None, unit).text


def format_rate(rate_bps: float) -> str:
    """A rate in bits/s for people: "27.3 Gbit/s"."""
    return format_value(rate_bps, "bit/s")


def format_bytes(size: float) -> str:
    """A measured size in bytes for people, powers of 1000: "1448 B", "25.3 kB"."""
    return format_value(size, "B")


def format_duration(seconds: float) -> str:
    """A duration in seconds for people: "41.0 µs", "50.0 ms", "1.50 s", "2 min 30 s", "3 h 5 min"."""
    if not math.isfinite(seconds) or seconds < 99.5:
        return format_value(seconds, "s")
    whole = round(seconds)
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s" if whole % 60 else f"{whole // 60} min"
    minutes = round(seconds / 60)
    return f"{minutes // 60} h {minutes % 60} min" if minutes % 60 else f"{minutes // 60} h"


def format_share(share: float) -> str:
    """A share of 1 as a percentage with three digits: "3.00 %"; 0.9687 is "96.9 %"."""
    return f"{_format_three_digits(share * 100)} %" if math.isfinite(share) else _NO_NUMBER


def format_count(count: int) -> str:
    """A count in full, its thousands apart: "57,600"."""
    return f"{count:,}"


def _format_three_digits(value: float) -> str:
    return _format_fixed(value, max(0, _three_digit_decimals(value)))


def _format_fixed(value: float, decimals: int) -> str:
    text = f"{value:.{decimals}f}"
    return text.removeprefix("-") if float(text) == 0 else text


def _interval_decimals(half_width: float) -> int:
    exponent = math.floor(math.log10(half_width))
    digits = 2 if half_width / 10.0**exponent < 2.95 else 1
    return max(0, digits - 1 - exponent)


def _three_digit_decimals(value: float) -> int:
    if value == 0:
        return 0
    exponent = math.floor(math.log10(abs(value)))
    if round(abs(value) / 10.0**exponent, 2) >= 10:
        exponent += 1
    return 2 - exponent
