"""Whether a treatment carried the load that was asked for: then nothing limited it but the asking."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from statistics import median

from vnetbench.estimate.summary import TreatmentSummary
from vnetbench.study.factors.directions import streams_each_way
from vnetbench.study.model import Level
from vnetbench.study.workloads import DATAGRAMS, FRAMES, REQUESTS

CARRIED_SHARE = 0.98
"""Of what was asked: who gets so much gets all, but for the ends of the trial and a moment's trouble."""
MOST_LOST_PERCENT = 0.5
"""Of frames, which are counted one by one: the loosest goal in use, FD.io CSIT's partial drop rate, bears so
much. The rate alone would hide twice as much, and with it a line that loses."""


@dataclass(frozen=True)
class Carried:
    """What was asked of a treatment with a set load, and what came; per second."""

    asked: float
    got: float
    metric: str
    lost_percent: float = 0.0
    """Of frames; of other loads what is lost is missing from what came."""

    @property
    def what(self) -> str:
        """What is counted: `transactions`, `datagrams` or `frames`."""
        return next(noun for metric, _, noun in _ASKED.values() if metric == self.metric)

    @property
    def is_whole(self) -> bool:
        """Whether the load was carried."""
        return self.got >= CARRIED_SHARE * self.asked and self.lost_percent <= MOST_LOST_PERCENT


def carried(treatment: TreatmentSummary, factors: Mapping[str, Level], workload: str) -> Carried | None:
    """Asked and carried load of a treatment, median over its trials; None where it went as fast as it could.

    `factors` are the treatment's with its defaults.
    """
    if workload not in _ASKED:
        return None
    metric, each_stream, _ = _ASKED[workload]
    rate = each_stream(factors)
    got = treatment.values_of(metric)
    if rate is None or not got:
        return None
    pairs = int(factors.get("pairs", factors.get("guests", 1)))
    ways = streams_each_way(factors)
    streams = sum(way > 0 for way in ways) if workload == FRAMES else sum(ways)
    lost = [point.values.get("frame_loss_percent", 0.0) for point in treatment.points]
    return Carried(rate * streams * pairs, median(got), metric, median(lost))


def _requests(factors: Mapping[str, Level]) -> float | None:
    return _number(factors.get("rate"))


def _datagrams(factors: Mapping[str, Level]) -> float | None:
    """None where a log tells the bits and not how large a datagram is."""
    bits, size = (_number(factors.get(name)) for name in ("bit_rate", "datagram_size"))
    if bits is not None:
        return bits / 8 / size if size else None
    return _number(factors.get("rate"))


def _frames(factors: Mapping[str, Level]) -> float | None:
    return _number(factors.get("frame_load"))


def _number(level: Level | None) -> float | None:
    """A rate; None for the words that leave it to the network."""
    return float(level) if isinstance(level, int | float) else None


_ASKED: Mapping[str, tuple[str, Callable[[Mapping[str, Level]], float | None], str]] = {
    REQUESTS: ("transactions_per_s", _requests, "transactions"),
    DATAGRAMS: ("datagrams_received_per_s", _datagrams, "datagrams"),
    FRAMES: ("forwarding_rate_fps", _frames, "frames"),
}
"""Workload to the metric of what was carried, what its levels ask of one stream, per second, and of what."""
