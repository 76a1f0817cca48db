"""The steady part of a trial: the samples after its warm-up, by who took which part in it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from vnetbench.estimate.time_series import SteadySamples, split_load_samples, interval_lengths_s, load_end_s
from vnetbench.estimate.datagrams import IntervalSamples
from vnetbench.results.records import HOST, OBSERVE, Sample, TrialRecord


@dataclass(frozen=True)
class SteadyPart:
    """One trial from its cut to the end of its load."""

    trial: TrialRecord
    warmup_samples: int
    """So many intervals are left out at its beginning."""
    load_intervals: IntervalSamples
    """The samples of each endpoint under load, with those of the warm-up."""
    endpoints: SteadySamples
    """The endpoints that keep samples."""
    host_samples: Sequence[Sample]
    """Of the observer on the bench's own machine."""
    forwarders: SteadySamples
    """Of those on guests that forward."""
    duration_s: float

    @property
    def senders(self) -> SteadySamples:
        """The endpoints that send, or ask; one that does both is among the receivers too."""
        return [(side, samples) for side, samples in self.endpoints if side.role in ("source", "both")]

    @property
    def receivers(self) -> SteadySamples:
        """The endpoints that receive, or answer."""
        return [(side, samples) for side, samples in self.endpoints if side.role in ("sink", "both")]


def select_steady_part(trial: TrialRecord, warmup_samples: int) -> SteadyPart:
    """What comes after the first `cut` intervals; raises ValueError for a trial without samples."""
    load = split_load_samples(trial)
    lengths = interval_lengths_s(load)
    from_s = trial.idle_s + sum(lengths[:warmup_samples])
    # Observers' samples begin a moment apart from the endpoints': each counts where its middle lies.
    observers = [
        (s, [x for x in s.samples if from_s < x.t_s - x.interval_s / 2 and x.t_s <= load_end_s(trial, x)])
        for s in trial.endpoints
        if s.role == OBSERVE
    ]
    return SteadyPart(
        trial,
        warmup_samples,
        load,
        [
            (s, [x for interval in load[s.name][warmup_samples:] for x in interval])
            for s in trial.endpoints
            if s.name in load
        ],
        next((samples for s, samples in observers if s.name == HOST), []),
        [(s, samples) for s, samples in observers if s.name != HOST],
        sum(lengths[warmup_samples:]),
    )
