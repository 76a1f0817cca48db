"""What a treatment impairs its link by, as values, and how a round trip shows that it does."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from vnetbench.lab.errors import TreatmentRefused
from vnetbench.quantity import spell_duration
from vnetbench.study.factors.testbed_factors import NOT_IMPAIRED
from vnetbench.study.model import Level

LEAST_SHARE = 0.95
"""Of the delay both ways: a round trip in less did not cross it."""
MOST_SHARE, MORE_S = 1.25, 0.003
"""A round trip takes the path's own time too, and that of threads which a busy machine has wait."""


@dataclass(frozen=True)
class Impairments:
    """What a link does to each packet, one way; the same both ways. Shares are of 1."""

    delay_s: float = 0.0
    jitter_s: float = 0.0
    loss: float = 0.0
    reordering: float = 0.0

    @property
    def is_delay_alone(self) -> bool:
        """Whether it is a delay, and nothing else."""
        return self == Impairments(self.delay_s) != Impairments()

    def as_levels(self) -> dict[str, Level]:
        """By the factors that ask for them."""
        return {
            "link_delay": self.delay_s or NOT_IMPAIRED,
            "link_jitter": self.jitter_s or NOT_IMPAIRED,
            "link_loss": self.loss,
            "link_reordering": self.reordering,
        }


def asked_of(factors: Mapping[str, Level]) -> Impairments:
    """What a treatment asks for."""
    delay, jitter = (factors.get(name, NOT_IMPAIRED) for name in ("link_delay", "link_jitter"))
    loss, reordering = (float(factors.get(name, 0)) for name in ("link_loss", "link_reordering"))
    return Impairments(
        0.0 if delay == NOT_IMPAIRED else float(delay),
        0.0 if jitter == NOT_IMPAIRED else float(jitter),
        loss,
        reordering,
    )


def is_proved(round_trips_us: Sequence[float | None], delay_s: float) -> bool:
    """Whether the path of each pair takes the delay both ways, and not much more."""
    least, most = 2 * delay_s * LEAST_SHARE, 2 * delay_s * MOST_SHARE + MORE_S
    return all(us is not None and least <= us / 1e6 <= most for us in round_trips_us)


def check_round_trips(round_trips_us: Sequence[float | None], delay_s: float, where: str) -> None:
    """Raise TreatmentRefused where a round trip takes less than the delay both ways, or much more."""
    if delay_s and not is_proved(round_trips_us, delay_s):
        found = ", ".join("none" if us is None else f"{us / 1e3:.3g} ms" for us in round_trips_us)
        raise TreatmentRefused(
            f"link_delay = {spell_duration(delay_s)}: an idle round trip takes {found}, "
            f"and should take {2e3 * delay_s:.3g} ms",
            where=where,
            fix="see what else keeps this machine's CPUs, which must wake the line in time, or what goes "
            "round the link",
        )
