"""Read the pings in a Flent file: round-trip times of ICMP echoes and UDP packets."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from vnetbench.importers.runs import RoundedValue
from vnetbench.importers.tools.flent.json_values import (
    object_or_empty,
    parse_finite_number_or_none,
    scalar_text_or_empty,
)

_FRACTION_BY_PERCENTILE_NAME = {"p50": 0.5, "p90": 0.9, "p99": 0.99, "p99_9": 0.999}
_US_PER_MS = 1000.0
"""Flent stores milliseconds."""
_HALF_DIGIT_OF_TRANSACTION_RATE = 0.005
"""Half of the last decimal of netperf's transaction rate. Flent stores its inverse."""
_PING_PERIOD_PATTERNS = (
    (re.compile(r"fping\S*\s.*-p (\d+)"), 1e-3),  # fping -D -p 200 -c 30 -t 12000 host
    (re.compile(r"\s-i ([\d.]+)s?\b"), 1.0),  # ping -n -D -i 0.20 -w 70 host; irtt client … -d 6s -i 0.2s
)


@dataclass(frozen=True)
class PingSeries:
    """One series of pings."""

    series_name: str
    protocol: str
    """`ICMP` or `UDP`."""
    ping_rate_level: str | None
    """How often Flent sent pings, `5 /s`. `none`: each follows the reply to the one before. None: unknown."""
    round_trip_us_by_send_unix_time: tuple[tuple[float, RoundedValue], ...]
    """Time of sending (Unix time, s) and round trip (µs) of single pings. Empty if only means are known."""
    mean_round_trip_us: float | None
    """Mean of netperf's UDP_RR, which has no single values."""

    def metrics(self) -> dict[str, RoundedValue]:
        """Return the metrics of all pings."""
        if self.round_trip_us_by_send_unix_time:
            return _compute_latency_distribution(
                "latency", [time for _, time in self.round_trip_us_by_send_unix_time]
            )
        if not self.mean_round_trip_us:
            return {}
        rate = 1e6 / self.mean_round_trip_us
        low, high = (
            max(rate / 2, rate - _HALF_DIGIT_OF_TRANSACTION_RATE),
            rate + _HALF_DIGIT_OF_TRANSACTION_RATE,
        )
        return {
            "latency_mean_us": RoundedValue(self.mean_round_trip_us, 1e6 / high, 1e6 / low),
            "transactions_per_s": RoundedValue(rate, low, high),
        }


def parse_ping_series(series_name: str, meta: Mapping[str, Any], points: Sequence[Any]) -> PingSeries | None:
    """Return the series of this name as pings; None if it has none."""
    if not series_name.startswith("Ping (ms)") or series_name.endswith("avg"):
        return None
    protocol = "UDP" if "UDP" in series_name else "ICMP"
    single: list[tuple[float, float]] = []
    for point in map(object_or_empty, points):
        at, time = (parse_finite_number_or_none(point.get(key), minimum=0) for key in ("t", "val"))
        if at is not None and time is not None and "dur" not in point:
            single.append((at, time))
    mean = parse_finite_number_or_none(meta.get("MEAN_VALUE"), minimum=0)
    if single:
        metrics = _restore_rounding_in_us([time for _, time in single])
        times = tuple((at, value) for (at, _), value in zip(single, metrics, strict=True))
        return PingSeries(series_name, protocol, _find_ping_rate_level(meta), times, None)
    if not mean or not any("dur" in object_or_empty(point) for point in points):
        return None
    return PingSeries(series_name, protocol, "none", (), mean * _US_PER_MS)


def latency_metrics(
    ping_series: Sequence[PingSeries], load_begin_unix_s: float, load_end_unix_s: float
) -> dict[str, RoundedValue]:
    """Return the latencies under the load, those before it, and the increase.

    Args:
        ping_series: All series of pings.
        load_begin_unix_s: Start of the load (Unix time).
        load_end_unix_s: End of the load (Unix time).
    """
    all_times = [time for probe in ping_series for time in probe.round_trip_us_by_send_unix_time]
    loaded = _compute_latency_distribution(
        "latency", [time for at, time in all_times if load_begin_unix_s <= at <= load_end_unix_s]
    )
    idle = _compute_latency_distribution(
        "latency_idle", [time for at, time in all_times if at < load_begin_unix_s]
    )
    added = {
        name.replace("latency_", "latency_increase_"): _subtract_values(value, before)
        for name, value in loaded.items()
        if (before := idle.get(name.replace("latency_", "latency_idle_")))
    }
    return {**loaded, **idle, **added}


def _compute_latency_distribution(
    prefix: str, round_trips_us: Sequence[RoundedValue]
) -> dict[str, RoundedValue]:
    """Return the mean, and the percentiles that the number of pings supports: the 99th needs a hundred."""
    if not round_trips_us:
        return {}
    count = len(round_trips_us)
    mean = RoundedValue(
        *(
            math.fsum(each) / count
            for each in zip(*((t.value, t.low, t.high) for t in round_trips_us), strict=True)
        )
    )
    ascending = sorted(round_trips_us, key=lambda time: time.value)
    metrics = {f"{prefix}_mean_us": mean}
    for name, fraction in _FRACTION_BY_PERCENTILE_NAME.items():
        if count * (1 - fraction) >= 1 - 1e-9:
            metrics[f"{prefix}_{name}_us"] = ascending[math.ceil(fraction * count) - 1]
    return metrics


def _subtract_values(a: RoundedValue, b: RoundedValue) -> RoundedValue:
    return RoundedValue(a.value - b.value, a.low - b.high, a.high - b.low)


def _restore_rounding_in_us(round_trips_ms: Sequence[float]) -> list[RoundedValue]:
    """Return times (ms) in µs with their rounding.

    A JSON number lacks the trailing zeros of the printed one. So the last digit comes from all times of the
    same magnitude: ping and fping print three significant digits.
    """
    decimals: dict[int, int] = {}
    for time in round_trips_ms:
        power = _decimal_magnitude(time)
        decimals[power] = max(decimals.get(power, 0), _count_decimals(time))
    halves = {power: 0.5 * 10.0**-digits for power, digits in decimals.items()}
    return [
        RoundedValue(
            time * _US_PER_MS,
            max(0.0, time - halves[_decimal_magnitude(time)]) * _US_PER_MS,
            (time + halves[_decimal_magnitude(time)]) * _US_PER_MS,
        )
        for time in round_trips_ms
    ]


def _decimal_magnitude(round_trip_ms: float) -> int:
    return math.floor(math.log10(round_trip_ms)) if round_trip_ms > 0 else 0


def _count_decimals(round_trip_ms: float) -> int:
    text = f"{round_trip_ms:.9f}".rstrip("0")
    return len(text) - text.index(".") - 1


def _find_ping_rate_level(meta: Mapping[str, Any]) -> str | None:
    command = scalar_text_or_empty(meta.get("COMMAND"))
    for period, unit in _PING_PERIOD_PATTERNS:
        match = period.search(command)
        seconds = parse_finite_number_or_none(match[1], minimum=0) if match else None
        if seconds:
            return f"{1 / (seconds * unit):.6g} /s"
    return None
