"""Read the pings in a Flent file: round-trip times of ICMP echoes and UDP packets."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from vnetbench.importers.runs import ReportedValue
from vnetbench.importers.tools.flent.json_values import as_number, as_object, as_text

_PERCENTILES = {"p50": 0.5, "p90": 0.9, "p99": 0.99, "p99_9": 0.999}
_US_PER_MS = 1000.0
"""Flent stores milliseconds."""
_HALF_RATE_DIGIT = 0.005
"""Half of the last decimal of netperf's transaction rate. Flent stores its inverse."""
_PERIODS = (
    (re.compile(r"fping\S*\s.*-p (\d+)"), 1e-3),  # fping -D -p 200 -c 30 -t 12000 host
    (re.compile(r"\s-i ([\d.]+)s?\b"), 1.0),  # ping -n -D -i 0.20 -w 70 host; irtt client … -d 6s -i 0.2s
)


@dataclass(frozen=True)
class Probe:
    """One series of pings."""

    name: str
    protocol: str
    """`ICMP` or `UDP`."""
    rate: str | None
    """How often Flent sent pings, `5 /s`. `none`: each follows the reply to the one before. None: unknown."""
    times: tuple[tuple[float, ReportedValue], ...]
    """Time of sending (Unix time, s) and round trip (µs) of single pings. Empty if only means are known."""
    mean_us: float | None
    """Mean of netperf's UDP_RR, which has no single values."""

    def metrics(self) -> dict[str, ReportedValue]:
        """Return the metrics of all pings."""
        if self.times:
            return _compute_distribution("latency", [time for _, time in self.times])
        if not self.mean_us:
            return {}
        rate = 1e6 / self.mean_us
        low, high = max(rate / 2, rate - _HALF_RATE_DIGIT), rate + _HALF_RATE_DIGIT
        return {
            "latency_mean_us": ReportedValue(self.mean_us, 1e6 / high, 1e6 / low),
            "transactions_per_s": ReportedValue(rate, low, high),
        }


def parse_probe(name: str, meta: Mapping[str, Any], points: Sequence[Any]) -> Probe | None:
    """Return the series of this name as pings; None if it has none."""
    if not name.startswith("Ping (ms)") or name.endswith("avg"):
        return None
    protocol = "UDP" if "UDP" in name else "ICMP"
    single: list[tuple[float, float]] = []
    for point in map(as_object, points):
        at, time = (as_number(point.get(key), least=0) for key in ("t", "val"))
        if at is not None and time is not None and "dur" not in point:
            single.append((at, time))
    mean = as_number(meta.get("MEAN_VALUE"), least=0)
    if single:
        metrics = _restore_rounding([time for _, time in single])
        times = tuple((at, value) for (at, _), value in zip(single, metrics, strict=True))
        return Probe(name, protocol, _probe_rate(meta), times, None)
    if not mean or not any("dur" in as_object(point) for point in points):
        return None
    return Probe(name, protocol, "none", (), mean * _US_PER_MS)


def latency_metrics(probes: Sequence[Probe], begin: float, end: float) -> dict[str, ReportedValue]:
    """Return the latencies under the load, those before it, and the increase.

    Args:
        probes: All series of pings.
        begin: Start of the load (Unix time).
        end: End of the load (Unix time).
    """
    all_times = [time for probe in probes for time in probe.times]
    loaded = _compute_distribution("latency", [time for at, time in all_times if begin <= at <= end])
    idle = _compute_distribution("latency_idle", [time for at, time in all_times if at < begin])
    added = {
        name.replace("latency_", "latency_increase_"): _subtract(value, before)
        for name, value in loaded.items()
        if (before := idle.get(name.replace("latency_", "latency_idle_")))
    }
    return {**loaded, **idle, **added}


def _compute_distribution(prefix: str, times: Sequence[ReportedValue]) -> dict[str, ReportedValue]:
    """Return the mean, and the percentiles that the number of pings supports: the 99th needs a hundred."""
    if not times:
        return {}
    count = len(times)
    mean = ReportedValue(
        *(math.fsum(each) / count for each in zip(*((t.value, t.low, t.high) for t in times), strict=True))
    )
    ascending = sorted(times, key=lambda time: time.value)
    metrics = {f"{prefix}_mean_us": mean}
    for name, fraction in _PERCENTILES.items():
        if count * (1 - fraction) >= 1 - 1e-9:
            metrics[f"{prefix}_{name}_us"] = ascending[math.ceil(fraction * count) - 1]
    return metrics


def _subtract(a: ReportedValue, b: ReportedValue) -> ReportedValue:
    return ReportedValue(a.value - b.value, a.low - b.high, a.high - b.low)


def _restore_rounding(times: Sequence[float]) -> list[ReportedValue]:
    """Return times (ms) in µs with their rounding.

    A JSON number lacks the trailing zeros of the printed one. So the last digit comes from all times of the
    same magnitude: ping and fping print three significant digits.
    """
    decimals: dict[int, int] = {}
    for time in times:
        power = _magnitude(time)
        decimals[power] = max(decimals.get(power, 0), _decimals(time))
    halves = {power: 0.5 * 10.0**-digits for power, digits in decimals.items()}
    return [
        ReportedValue(
            time * _US_PER_MS,
            max(0.0, time - halves[_magnitude(time)]) * _US_PER_MS,
            (time + halves[_magnitude(time)]) * _US_PER_MS,
        )
        for time in times
    ]


def _magnitude(time: float) -> int:
    return math.floor(math.log10(time)) if time > 0 else 0


def _decimals(time: float) -> int:
    text = f"{time:.9f}".rstrip("0")
    return len(text) - text.index(".") - 1


def _probe_rate(meta: Mapping[str, Any]) -> str | None:
    command = as_text(meta.get("COMMAND"))
    for period, unit in _PERIODS:
        match = period.search(command)
        seconds = as_number(match[1], least=0) if match else None
        if seconds:
            return f"{1 / (seconds * unit):.6g} /s"
    return None
