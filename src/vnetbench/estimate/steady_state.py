"""The steady part of a trial: the samples after its warm-up, by who took which part in it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from vnetbench.estimate.time_series import Steady, intervals, lengths_s, load_end_s
from vnetbench.estimate.datagrams import Intervals
from vnetbench.results.records import HOST, OBSERVE, Sample, TrialRecord


@dataclass(frozen=True)
class SteadyPart:
    """One trial from its cut to the end of its load."""

    trial: TrialRecord
    cut: int
    """So many intervals are left out at its beginning."""
    load: Intervals
    """The samples of each endpoint under load, with those of the warm-up."""
    sides: Steady
    """The endpoints that keep samples."""
    host: Sequence[Sample]
    """Of the observer on the bench's own machine."""
    between: Steady
    """Of those on guests that forward."""
    seconds: float

    @property
    def senders(self) -> Steady:
        """The endpoints that send, or ask; one that does both is among the receivers too."""
        return [(side, samples) for side, samples in self.sides if side.role in ("source", "both")]

    @property
    def receivers(self) -> Steady:
        """The endpoints that receive, or answer."""
        return [(side, samples) for side, samples in self.sides if side.role in ("sink", "both")]


def steady_part(trial: TrialRecord, cut: int) -> SteadyPart:
    """What comes after the first `cut` intervals; raises ValueError for a trial without samples."""
    load = intervals(trial)
    lengths = lengths_s(load)
    from_s = trial.idle_s + sum(lengths[:cut])
    # Observers' samples begin a moment apart from the endpoints': each counts where its middle lies.
    observers = [
        (s, [x for x in s.samples if from_s < x.t_s - x.interval_s / 2 and x.t_s <= load_end_s(trial, x)])
        for s in trial.sides
        if s.role == OBSERVE
    ]
    return SteadyPart(
        trial,
        cut,
        load,
        [
            (s, [x for interval in load[s.endpoint][cut:] for x in interval])
            for s in trial.sides
            if s.endpoint in load
        ],
        next((samples for s, samples in observers if s.endpoint == HOST), []),
        [(s, samples) for s, samples in observers if s.endpoint != HOST],
        sum(lengths[cut:]),
    )
