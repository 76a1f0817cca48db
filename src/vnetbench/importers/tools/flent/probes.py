"""The pings of a Flent file: round-trip times of ICMP echoes and UDP packets, before and under the load."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from vnetbench.importers.runs import Figure
from vnetbench.importers.tools.flent.json_values import mapped, number, told

_SHARES = {"p50": 0.5, "p90": 0.9, "p99": 0.99, "p99_9": 0.999}
_US = 1000.0
"""Flent tells milliseconds."""
_HALF_RATE = 0.005
"""Half of the last decimal of netperf's transaction rate, of which Flent keeps the inverse."""
_PERIODS = (
    (re.compile(r"fping\S*\s.*-p (\d+)"), 1e-3),  # fping -D -p 200 -c 30 -t 12000 host
    (re.compile(r"\s-i ([\d.]+)s?\b"), 1.0),  # ping -n -D -i 0.20 -w 70 host; irtt client … -d 6s -i 0.2s
)


@dataclass(frozen=True)
class Probe:
    """One series of pings."""

    name: str
    kind: str
    """`ICMP` or `UDP`."""
    rate: str | None
    """How often they were sent, `5 /s`; `none`: each follows the answer before; None: it is not told."""
    times: tuple[tuple[float, Figure], ...]
    """When (Unix time, s) and how long (µs): of single probes. Empty where only means of many are told."""
    mean_us: float | None
    """Of netperf's UDP_RR, which tells no single ones."""

    def figures(self) -> dict[str, Figure]:
        """Of all of them, by the names of our metrics."""
        if self.times:
            return _distribution("latency", [time for _, time in self.times])
        if not self.mean_us:
            return {}
        rate = 1e6 / self.mean_us
        low, high = max(rate / 2, rate - _HALF_RATE), rate + _HALF_RATE
        return {
            "latency_mean_us": Figure(self.mean_us, 1e6 / high, 1e6 / low),
            "transactions_per_s": Figure(rate, low, high),
        }


def probe_of(name: str, meta: Mapping[str, Any], points: Sequence[Any]) -> Probe | None:
    """The series of that name as pings; None where it is none, or has no values."""
    if not name.startswith("Ping (ms)") or name.endswith("avg"):
        return None
    kind = "UDP" if "UDP" in name else "ICMP"
    single: list[tuple[float, float]] = []
    for point in map(mapped, points):
        at, time = (number(point.get(key), least=0) for key in ("t", "val"))
        if at is not None and time is not None and "dur" not in point:
            single.append((at, time))
    mean = number(meta.get("MEAN_VALUE"), least=0)
    if single:
        figures = _as_printed([time for _, time in single])
        times = tuple((at, figure) for (at, _), figure in zip(single, figures, strict=True))
        return Probe(name, kind, _rate(meta), times, None)
    if not mean or not any("dur" in mapped(point) for point in points):
        return None
    return Probe(name, kind, "none", (), mean * _US)


def latencies(probes: Sequence[Probe], begin: float, end: float) -> dict[str, Figure]:
    """Of all single probes those under the load (Unix times), those before it, and what the load added."""
    every = [time for probe in probes for time in probe.times]
    loaded = _distribution("latency", [time for at, time in every if begin <= at <= end])
    idle = _distribution("latency_idle", [time for at, time in every if at < begin])
    added = {
        name.replace("latency_", "latency_increase_"): _difference(figure, before)
        for name, figure in loaded.items()
        if (before := idle.get(name.replace("latency_", "latency_idle_")))
    }
    return {**loaded, **idle, **added}


def _distribution(of: str, times: Sequence[Figure]) -> dict[str, Figure]:
    """The mean, and the percentiles that so many probes can tell: of the 99 % point a hundred."""
    if not times:
        return {}
    count = len(times)
    mean = Figure(
        *(math.fsum(each) / count for each in zip(*((t.value, t.low, t.high) for t in times), strict=True))
    )
    ascending = sorted(times, key=lambda time: time.value)
    found = {f"{of}_mean_us": mean}
    for name, share in _SHARES.items():
        if count * (1 - share) >= 1 - 1e-9:
            found[f"{of}_{name}_us"] = ascending[math.ceil(share * count) - 1]
    return found


def _difference(a: Figure, b: Figure) -> Figure:
    return Figure(a.value - b.value, a.low - b.high, a.high - b.low)


def _as_printed(times: Sequence[float]) -> list[Figure]:
    """The times (ms) in µs, with what was rounded to them.

    A JSON number has lost the zeros at the end of what was printed, so the last digit is told by all times of
    the same power of ten: ping and fping print three significant ones.
    """
    decimals: dict[int, int] = {}
    for time in times:
        power = _power(time)
        decimals[power] = max(decimals.get(power, 0), _decimals(time))
    halves = {power: 0.5 * 10.0**-digits for power, digits in decimals.items()}
    return [
        Figure(time * _US, max(0.0, time - halves[_power(time)]) * _US, (time + halves[_power(time)]) * _US)
        for time in times
    ]


def _power(time: float) -> int:
    return math.floor(math.log10(time)) if time > 0 else 0


def _decimals(time: float) -> int:
    text = f"{time:.9f}".rstrip("0")
    return len(text) - text.index(".") - 1


def _rate(meta: Mapping[str, Any]) -> str | None:
    command = told(meta.get("COMMAND"))
    for period, unit in _PERIODS:
        found = period.search(command)
        seconds = number(found[1], least=0) if found else None
        if seconds:
            return f"{1 / (seconds * unit):.6g} /s"
    return None
