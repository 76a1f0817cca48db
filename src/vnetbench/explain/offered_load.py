"""Compare the delivered load of a treatment with its offered load."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from statistics import median

from vnetbench.estimate.summary import TreatmentSummary
from vnetbench.study.factors.directions import streams_per_direction
from vnetbench.study.model import Level
from vnetbench.study.workloads import FRAMES, TCP_RR, UDP_STREAM

DELIVERED_SHARE = 0.98
"""Share of the offered load from which all of it counts as delivered.

The margin covers the ends of a trial and short disturbances.
"""
MAX_LOSS_PERCENT = 0.5
"""Largest loss of frames, which the bench counts one by one, at which the load counts as delivered.

This is the loosest goal in use: the partial drop rate of FD.io CSIT. The delivered share alone would hide
twice as much loss.
"""


@dataclass(frozen=True)
class LoadDelivery:
    """Offered and delivered load of a paced treatment, per second."""

    offered_per_s: float
    delivered_per_s: float
    metric: str
    lost_percent: float = 0.0
    """Lost frames. For other loads the lost units are missing from `delivered_per_s`."""

    @property
    def unit_noun(self) -> str:
        """The counted unit: `transactions`, `datagrams` or `frames`."""
        return next(noun for metric, _, noun in _LOAD_METRICS.values() if metric == self.metric)

    @property
    def is_complete(self) -> bool:
        """Whether the network delivered the whole offered load."""
        is_rate_reached = self.delivered_per_s >= DELIVERED_SHARE * self.offered_per_s
        return is_rate_reached and self.lost_percent <= MAX_LOSS_PERCENT


def measure_delivery(
    treatment: TreatmentSummary, factors: Mapping[str, Level], workload: str
) -> LoadDelivery | None:
    """Return offered and delivered load, median over the trials; None for an unpaced load.

    Args:
        treatment: a treatment with trials.
        factors: the treatment's levels, including defaults.
        workload: the campaign's workload.
    """
    if workload not in _LOAD_METRICS:
        return None
    metric, stream_rate, _ = _LOAD_METRICS[workload]
    rate = stream_rate(factors)
    delivered = treatment.trial_values(metric)
    if rate is None or not delivered:
        return None
    pairs = int(factors.get("pairs", factors.get("guests", 1)))
    per_direction = streams_per_direction(factors)
    streams = sum(count > 0 for count in per_direction) if workload == FRAMES else sum(per_direction)
    lost = [point.values.get("frame_loss_percent", 0.0) for point in treatment.points]
    return LoadDelivery(rate * streams * pairs, median(delivered), metric, median(lost))


def _request_rate(factors: Mapping[str, Level]) -> float | None:
    return _numeric_rate(factors.get("rate"))


def _datagram_rate(factors: Mapping[str, Level]) -> float | None:
    """Return datagrams per second; None if a log reports bits but no datagram size."""
    bits, size = (_numeric_rate(factors.get(name)) for name in ("bit_rate", "datagram_size"))
    if bits is not None:
        return bits / 8 / size if size else None
    return _numeric_rate(factors.get("rate"))


def _frame_rate(factors: Mapping[str, Level]) -> float | None:
    return _numeric_rate(factors.get("frame_load"))


def _numeric_rate(level: Level | None) -> float | None:
    """Return a rate as a number; None for words such as `max`, which leave the rate to the network."""
    return float(level) if isinstance(level, int | float) else None


_LOAD_METRICS: Mapping[str, tuple[str, Callable[[Mapping[str, Level]], float | None], str]] = {
    TCP_RR: ("transactions_per_s", _request_rate, "transactions"),
    UDP_STREAM: ("datagrams_received_per_s", _datagram_rate, "datagrams"),
    FRAMES: ("forwarding_rate_fps", _frame_rate, "frames"),
}
"""Workload to the metric of the delivered load, the offered rate of one stream, and the counted unit."""
