"""The steady part of a trial: its samples after the warm-up, by the role of the endpoint."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from vnetbench.estimate.datagrams import IntervalSamplesByEndpoint
from vnetbench.estimate.time_series import (
    SteadySamples,
    ends_before_drain,
    interval_lengths_s,
    load_samples_by_endpoint_and_interval,
)
from vnetbench.results.records import HOST, OBSERVE, Sample, TrialRecord


@dataclass(frozen=True)
class SteadyPart:
    """One trial from the end of its warm-up to the end of its load."""

    trial: TrialRecord
    warmup_samples: int
    """Number of intervals at the start that are warm-up."""
    load_intervals_with_warmup: IntervalSamplesByEndpoint
    """Each endpoint's samples under load, warm-up included."""
    endpoints: SteadySamples
    """The endpoints that keep samples."""
    host_samples: Sequence[Sample]
    """Samples of the observer on the bench's own machine."""
    forwarding_guest_observers: SteadySamples
    """Observers on guests that forward."""
    duration_s: float

    @property
    def senders(self) -> SteadySamples:
        """The endpoints that send data or requests. A bidirectional endpoint is also a receiver."""
        return [each for each in self.endpoints if each[0].role in ("source", "both")]

    @property
    def receivers(self) -> SteadySamples:
        """The endpoints that receive data or answer requests."""
        return [each for each in self.endpoints if each[0].role in ("sink", "both")]


def select_steady_part(trial: TrialRecord, warmup_samples: int) -> SteadyPart:
    """Return the trial without its first `warmup_samples` intervals.

    Raises:
        ValueError: The trial has no samples.
    """
    load = load_samples_by_endpoint_and_interval(trial)
    lengths_s = interval_lengths_s(load)
    start_s = trial.idle_s + sum(lengths_s[:warmup_samples])
    # Observers' samples are not aligned with the endpoints': the middle of a sample decides.
    observers = [
        (
            endpoint,
            [
                x
                for x in endpoint.samples
                if start_s < x.end_s - x.interval_s / 2 and ends_before_drain(trial, x)
            ],
        )
        for endpoint in trial.endpoints
        if endpoint.role == OBSERVE
    ]
    return SteadyPart(
        trial,
        warmup_samples,
        load,
        [
            (endpoint, [x for interval in load[endpoint.name][warmup_samples:] for x in interval])
            for endpoint in trial.endpoints
            if endpoint.name in load
        ],
        next((samples for endpoint, samples in observers if endpoint.name == HOST), []),
        [(endpoint, samples) for endpoint, samples in observers if endpoint.name != HOST],
        sum(lengths_s[warmup_samples:]),
    )
