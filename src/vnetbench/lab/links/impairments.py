"""Link impairments of a treatment, and the check that a round trip shows the delay."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from vnetbench.lab.errors import TreatmentRefused
from vnetbench.quantity import format_exact_duration
from vnetbench.study.factors.testbed_factors import (
    LINK_DELAY,
    LINK_IMPAIRMENT_FACTORS,
    LINK_JITTER,
    LINK_LOSS,
    LINK_REORDERING,
    NO_IMPAIRMENT,
)
from vnetbench.study.model import Level

MIN_EFFECTIVE_DELAY_SHARE = 0.95
"""Minimum share of twice the delay: a packet with a shorter round trip did not cross the line."""
MAX_DELAY_SHARE, MAX_EXTRA_RTT_S = 1.25, 0.003
"""Maximum share and surplus, for the path's own latency and for threads that wait for a CPU."""


@dataclass(frozen=True)
class Impairments:
    """What a link does to each packet in each direction."""

    delay_s: float = 0.0
    max_jitter_s: float = 0.0
    loss_ratio: float = 0.0
    reordering_ratio: float = 0.0

    @property
    def is_delay_only(self) -> bool:
        """Whether there is a delay and no other impairment."""
        return self == Impairments(self.delay_s) != Impairments()

    def as_levels(self) -> dict[str, Level]:
        """Return the impairments as levels of their factors."""
        return {
            LINK_DELAY.name: self.delay_s or NO_IMPAIRMENT,
            LINK_JITTER.name: self.max_jitter_s or NO_IMPAIRMENT,
            LINK_LOSS.name: self.loss_ratio,
            LINK_REORDERING.name: self.reordering_ratio,
        }


def requested_impairments(factors: Mapping[str, Level]) -> Impairments:
    """Return the impairments that a treatment requests."""
    delay, jitter, loss, reordering = (factor.read_level(factors) for factor in LINK_IMPAIRMENT_FACTORS)
    return Impairments(
        0.0 if delay == NO_IMPAIRMENT else float(delay),
        0.0 if jitter == NO_IMPAIRMENT else float(jitter),
        float(loss),
        float(reordering),
    )


def is_delay_in_effect(round_trips_us: Sequence[float | None], one_way_delay_s: float) -> bool:
    """Return whether every idle round trip takes at least twice the delay of one way, and not much more."""
    least, most = (
        2 * one_way_delay_s * MIN_EFFECTIVE_DELAY_SHARE,
        2 * one_way_delay_s * MAX_DELAY_SHARE + MAX_EXTRA_RTT_S,
    )
    return all(us is not None and least <= us / 1e6 <= most for us in round_trips_us)


def check_round_trips_match_delay(round_trips_us: Sequence[float | None], delay_s: float, where: str) -> None:
    """Raise TreatmentRefused if a round trip takes less than twice the delay, or much more."""
    if delay_s and not is_delay_in_effect(round_trips_us, delay_s):
        found = ", ".join("none" if us is None else f"{us / 1e3:.3g} ms" for us in round_trips_us)
        raise TreatmentRefused(
            f"link_delay = {format_exact_duration(delay_s)}: an idle round trip takes {found}, "
            f"but should take {2e3 * delay_s:.3g} ms",
            where=where,
            fix="free this machine's CPUs, on which the delay line depends, or look for a path that bypasses "
            "the link",
        )
