"""Compare the delivered load of a treatment with its offered load."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from statistics import median

from vnetbench.estimate.summary import TreatmentSummary
from vnetbench.study.factors.stream_counts import count_known_streams_per_direction
from vnetbench.study.model import Level
from vnetbench.study.workloads import WORKLOADS, Workload

MIN_DELIVERED_SHARE_OF_OFFERED = 0.98
"""Share of the offered load from which all of it counts as delivered.

The margin covers the ends of a trial and short disturbances.
"""
MAX_DELIVERED_LOSS_PERCENT = 0.5
"""Largest loss of frames or datagrams, which the bench counts, at which the load counts as delivered.

This is the loosest goal in use: the partial drop rate of FD.io CSIT. The delivered share alone would hide
twice as much loss.
"""


@dataclass(frozen=True)
class LoadDelivery:
    """Offered and delivered load of a paced treatment, per second."""

    offered_per_s: float
    delivered_per_s: float
    delivered_metric: str
    workload_name: str
    lost_percent: float = 0.0
    """Lost frames or datagrams. For other loads the lost units are missing from `delivered_per_s`."""

    @property
    def unit_noun(self) -> str:
        """The counted unit: `transactions`, `datagrams` or `frames`."""
        nouns = {each.achieved_rate_metric: each.counted_unit_noun for each in WORKLOADS.values()}
        return f"{nouns[self.delivered_metric]}s"

    @property
    def is_all_load_delivered(self) -> bool:
        """Whether the network delivered the whole offered load."""
        is_rate_reached = self.delivered_per_s >= MIN_DELIVERED_SHARE_OF_OFFERED * self.offered_per_s
        return is_rate_reached and self.lost_percent <= MAX_DELIVERED_LOSS_PERCENT


def measure_load_delivery(
    treatment: TreatmentSummary, factors: Mapping[str, Level], workload_name: str
) -> LoadDelivery | None:
    """Return offered and delivered load, median over the trials.

    It is None for an unpaced load, and if logs do not say how many streams there were.

    Args:
        treatment: a treatment with trials.
        factors: the treatment's levels, including defaults.
        workload_name: the campaign's workload.
    """
    workload = WORKLOADS[workload_name]
    rate = _requested_rate_per_stream(workload, factors)
    delivered = treatment.values_of_trials_with_metric(workload.achieved_rate_metric)
    pairs = factors.get("pairs", factors.get("guests", 1))
    per_direction = count_known_streams_per_direction(factors)
    if rate is None or not delivered or per_direction is None or isinstance(pairs, str):
        return None
    # A load of frames applies to each direction, whatever its number of flows.
    streams = sum(count > 0 for count in per_direction) if workload.carries_frames else sum(per_direction)
    lost = [
        point.values.get("frame_loss_percent", point.values.get("loss_percent", 0.0))
        for point in treatment.points
    ]
    return LoadDelivery(
        rate * streams * pairs,
        median(delivered),
        workload.achieved_rate_metric,
        workload.name,
        median(lost),
    )


def _requested_rate_per_stream(workload: Workload, factors: Mapping[str, Level]) -> float | None:
    """Return the offered load of one stream, in units per second; None if the network limits it.

    It is also None if a log reports bits per second but no size.
    """
    if "bit_rate" in workload.offered_load_factors:
        bits, size = (_numeric_rate(factors.get(name)) for name in ("bit_rate", workload.size_factor))
        if bits is not None:
            return bits / 8 / size if size else None
    rates = (_numeric_rate(factors.get(name)) for name in workload.offered_load_factors if name != "bit_rate")
    return next((rate for rate in rates if rate is not None), None)


def _numeric_rate(level: Level | None) -> float | None:
    """Return a rate as a number; None for words such as `max`, which leave the rate to the network."""
    return float(level) if isinstance(level, int | float) else None
