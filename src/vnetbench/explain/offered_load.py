"""Whether a treatment carried the load that was asked for: then nothing limited it but the asking."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from statistics import median

from vnetbench.estimate.summary import TreatmentSummary
from vnetbench.study.factors.directions import streams_per_direction
from vnetbench.study.model import Level
from vnetbench.study.workloads import UDP_STREAM, FRAMES, TCP_RR

DELIVERED_SHARE = 0.98
"""Of what was asked: who gets so much gets all, but for the ends of the trial and a moment's trouble."""
MAX_LOSS_PERCENT = 0.5
"""Of frames, which are counted one by one: the loosest goal in use, FD.io CSIT's partial drop rate, bears so
much. The rate alone would hide twice as much, and with it a line that loses."""


@dataclass(frozen=True)
class LoadDelivery:
    """What was asked of a treatment with a set load, and what came; per second."""

    offered_per_s: float
    delivered_per_s: float
    metric: str
    lost_percent: float = 0.0
    """Of frames; of other loads what is lost is missing from what came."""

    @property
    def unit_noun(self) -> str:
        """What is counted: `transactions`, `datagrams` or `frames`."""
        return next(noun for metric, _, noun in _LOAD_METRICS.values() if metric == self.metric)

    @property
    def is_complete(self) -> bool:
        """Whether the load was carried."""
        return self.delivered_per_s >= DELIVERED_SHARE * self.offered_per_s and self.lost_percent <= MAX_LOSS_PERCENT


def measure_delivery(treatment: TreatmentSummary, factors: Mapping[str, Level], workload: str) -> LoadDelivery | None:
    """Asked and carried load of a treatment, median over its trials; None where it went as fast as it could.

    `factors` are the treatment's with its defaults.
    """
    if workload not in _LOAD_METRICS:
        return None
    metric, each_stream, _ = _LOAD_METRICS[workload]
    rate = each_stream(factors)
    got = treatment.trial_values(metric)
    if rate is None or not got:
        return None
    pairs = int(factors.get("pairs", factors.get("guests", 1)))
    ways = streams_per_direction(factors)
    streams = sum(way > 0 for way in ways) if workload == FRAMES else sum(ways)
    lost = [point.values.get("frame_loss_percent", 0.0) for point in treatment.points]
    return LoadDelivery(rate * streams * pairs, median(got), metric, median(lost))


def _request_rate(factors: Mapping[str, Level]) -> float | None:
    return _numeric_rate(factors.get("rate"))


def _datagram_rate(factors: Mapping[str, Level]) -> float | None:
    """None where a log tells the bits and not how large a datagram is."""
    bits, size = (_numeric_rate(factors.get(name)) for name in ("bit_rate", "datagram_size"))
    if bits is not None:
        return bits / 8 / size if size else None
    return _numeric_rate(factors.get("rate"))


def _frame_rate(factors: Mapping[str, Level]) -> float | None:
    return _numeric_rate(factors.get("frame_load"))


def _numeric_rate(level: Level | None) -> float | None:
    """A rate; None for the words that leave it to the network."""
    return float(level) if isinstance(level, int | float) else None


_LOAD_METRICS: Mapping[str, tuple[str, Callable[[Mapping[str, Level]], float | None], str]] = {
    TCP_RR: ("transactions_per_s", _request_rate, "transactions"),
    UDP_STREAM: ("datagrams_received_per_s", _datagram_rate, "datagrams"),
    FRAMES: ("forwarding_rate_fps", _frame_rate, "frames"),
}
"""Workload to the metric of what was carried, what its levels ask of one stream, per second, and of what."""
