"""A simulated instrument without a network: trials of known goodput, with failures on demand."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from tests import fixtures
from vnetbench.campaign.instrument import CompletedTrial, NewFacts
from vnetbench.campaign.trial import TrialLoad, TrialMeasurement
from vnetbench.study.model import Level

Fault = Callable[[int, Mapping[str, Level]], None]


@dataclass
class SimulatedInstrument:
    """Measures 10 Gbit/s per stream with relative `noise` between trials.

    A treatment's n-th trial has the same result in every campaign whose sessions share `trial_counts`.
    """

    noise: float = 0.01
    before: Fault = lambda number, factors: None
    """Called before each trial with its number and levels; may raise, or interrupt the campaign."""
    requested_levels: list[dict[str, Level]] = field(default_factory=list)
    trial_counts: Counter[tuple[int, int]] = field(default_factory=Counter)
    trials_without_samples: int = 0
    """Number of trials, from the first one, that have no sample."""
    closed: bool = False

    def measure(self, load: TrialLoad, should_abandon: Callable[[], bool]) -> CompletedTrial:
        self.requested_levels.append(dict(load.factors))
        self.before(len(self.requested_levels) - 1, load.factors)
        streams, mtu = int(load.factors["streams"]), int(load.factors["mtu"])
        random = np.random.default_rng([self.trial_counts[streams, mtu], streams, mtu])
        self.trial_counts[streams, mtu] += 1
        level = 1e10 * streams * (1 + self.noise * random.standard_normal())
        count = round(load.duration_s / load.interval_s)
        rates = list(level * (1 + 0.01 * random.standard_normal(count)))
        trial = replace(fixtures.make_trial(rates=rates), duration_s=load.duration_s)
        if len(self.requested_levels) <= self.trials_without_samples:
            trial = replace(trial, endpoints=tuple(replace(each, samples=()) for each in trial.endpoints))
        return CompletedTrial(TrialMeasurement(trial.endpoints, {"mtu": mtu}, ()), "bridge pairs=1", 0.01)

    def take_new_facts(self) -> NewFacts:
        return NewFacts()

    def close(self) -> None:
        self.closed = True
