"""Declarations of runs: a cause, the method that produces it, its strengths and its testbeds."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from bench.corpus.disturbance import Disturbance
from bench.corpus.effect_checks import EffectCheck
from vnetbench.study.model import Level
from vnetbench.study.workloads import TCP_STREAM

LOW, MIDDLE, HIGH, OTHER = "low", "middle", "high", "other"
STRENGTH_NAMES = (LOW, MIDDLE, HIGH, OTHER)

Levels = Mapping[str, Level]


@dataclass(frozen=True)
class CauseStrength:
    """One strength of a cause: levels of the study, and disturbances that the study does not contain.

    The description is part of the labels of stored runs.
    """

    description: str
    levels: Levels = field(default_factory=dict)
    disturbances: tuple[Disturbance, ...] = ()


@dataclass(frozen=True)
class RunTiming:
    """Number and duration of a run's trials."""

    trial_count: int = 3
    duration_s: float = 1.2
    interval_s: float = 0.1


@dataclass(frozen=True)
class Scenario:
    """A cause, produced in several strengths on several testbeds."""

    causes: tuple[str, ...]
    """One cause, or two simultaneous ones."""
    method: str
    """The method that produces the cause. Names and labels of stored runs depend on this text."""
    strengths: tuple[CauseStrength, ...]
    """One strength for each of STRENGTH_NAMES."""
    topologies: tuple[str, ...]
    effect_check: EffectCheck
    """Checks in the counters that the cause has an effect, compared with the same load without the cause."""
    workload: str = TCP_STREAM
    levels: Levels = field(default_factory=dict)
    """Levels of the load, with and without the cause."""
    control_levels: Levels = field(default_factory=dict)
    """Levels that replace the strength's levels in the load without the cause."""
    preparation: tuple[Disturbance, ...] = ()
    """Disturbances that prepare the testbed, with and without the cause."""
    accepted_causes: tuple[str, ...] = ()
    """Other cause names that are correct too."""
    has_fault: bool = True
    """Whether the run has a fault, and not only a limit that every machine has."""
    timing: RunTiming = RunTiming()
    repeat_count: int = 1


def make_strengths(
    amounts: Sequence[object],
    description: str,
    levels: Callable[..., Levels] = lambda amount: {},
    disturbance: Callable[..., Disturbance] | None = None,
) -> tuple[CauseStrength, ...]:
    """Return a strength for each amount.

    Args:
        amounts: The amounts, in the order of STRENGTH_NAMES.
        description: Format of the descriptions, with `{}` for the amount.
        levels: Returns the levels of an amount.
        disturbance: Returns the disturbance of an amount.
    """
    return tuple(
        CauseStrength(
            description.format(amount), levels(amount), (disturbance(amount),) if disturbance else ()
        )
        for amount in amounts
    )
