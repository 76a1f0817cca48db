"""How runs are declared: a cause, how it is put there, in which strengths and on which testbeds."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from bench.corpus.proof import Bites
from bench.corpus.scene import Disturb
from vnetbench.study.model import Level
from vnetbench.study.workloads import TCP_STREAM

LOW, MIDDLE, HIGH, OTHER = "low", "middle", "high", "other"
STRENGTHS = (LOW, MIDDLE, HIGH, OTHER)

Levels = Mapping[str, Level]


@dataclass(frozen=True)
class Dose:
    """One strength of a cause: what is asked of the bench for it, and what is done behind its back."""

    says: str
    levels: Levels = field(default_factory=dict)
    disturb: tuple[Disturb, ...] = ()


@dataclass(frozen=True)
class Pace:
    """How long and how often a run is measured."""

    trials: int = 3
    duration_s: float = 1.2
    interval_s: float = 0.1


@dataclass(frozen=True)
class Recipe:
    """A cause, put there in several strengths on each of some testbeds."""

    causes: tuple[str, ...]
    """One, or two that are there at once."""
    way: str
    """How it is put there, in a word or two: a cause may have several recipes."""
    doses: tuple[Dose, ...]
    """Of each of STRENGTHS."""
    topologies: tuple[str, ...]
    bites: Bites
    """Whether the cause is there, by what was counted, beside the same load without it."""
    workload: str = TCP_STREAM
    levels: Levels = field(default_factory=dict)
    """Of the load, with the cause and without it."""
    control: Levels = field(default_factory=dict)
    """What of a dose's levels is otherwise without the cause."""
    ground: tuple[Disturb, ...] = ()
    """What the testbed is made like before, with the cause and without it."""
    accepted: tuple[str, ...] = ()
    """Other names that are as right, where a cause has two."""
    is_wrong: bool = True
    """False where a run has no other limit than every machine has."""
    pace: Pace = Pace()
    repeats: int = 1


def doses(
    amounts: Sequence[object],
    says: str,
    levels: Callable[..., Levels] = lambda amount: {},
    disturb: Callable[..., Disturb] | None = None,
) -> tuple[Dose, ...]:
    """A dose for each amount: `says` with the amount in it, its levels and its disturbance."""
    return tuple(
        Dose(says.format(amount), levels(amount), (disturb(amount),) if disturb else ()) for amount in amounts
    )
