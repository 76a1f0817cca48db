"""An instrument without a network: trials of known goodput, and faults where a test asks for them."""

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
    """Goodput of 10 Gbit/s a stream, `noise` from trial to trial; `before` may raise, or stop the campaign.

    A treatment's n-th trial comes out the same in every campaign whose sessions share `measured`.
    """

    noise: float = 0.01
    before: Fault = lambda number, factors: None
    asked: list[dict[str, Level]] = field(default_factory=list)
    measured: Counter[tuple[int, int]] = field(default_factory=Counter)
    silent: int = 0
    """So many trials come without a sample."""
    closed: bool = False

    def measure(self, load: TrialLoad, should_abandon: Callable[[], bool]) -> CompletedTrial:
        self.asked.append(dict(load.factors))
        self.before(len(self.asked) - 1, load.factors)
        streams, mtu = int(load.factors["streams"]), int(load.factors["mtu"])
        random = np.random.default_rng([self.measured[streams, mtu], streams, mtu])
        self.measured[streams, mtu] += 1
        level = 1e10 * streams * (1 + self.noise * random.standard_normal())
        count = round(load.duration_s / load.interval_s)
        rates = list(level * (1 + 0.01 * random.standard_normal(count)))
        trial = replace(fixtures.make_trial(rates=rates), duration_s=load.duration_s)
        if len(self.asked) <= self.silent:
            trial = replace(trial, endpoints=tuple(replace(side, samples=()) for side in trial.endpoints))
        return CompletedTrial(TrialMeasurement(trial.endpoints, {"mtu": mtu}, ()), "bridge pairs=1", 0.01)

    def take_new_facts(self) -> NewFacts:
        return NewFacts()

    def close(self) -> None:
        self.closed = True
