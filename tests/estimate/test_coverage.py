"""The proof by simulation: intervals cover what they say, and short trials save time."""

from __future__ import annotations

import statistics

import pytest

from tests.estimate.simulated_trials import KINDS, many, many_long
from vnetbench.study.model import Precision

CAMPAIGNS = 2000
INDEPENDENT_TRIALS = [name for name in KINDS if name != "dependent"]


@pytest.mark.parametrize("kind", INDEPENDENT_TRIALS)
def test_a_95_percent_interval_covers_the_truth_in_at_least_93_of_100_campaigns(kind: str) -> None:
    # As wide as lets campaigns stop anywhere from 6 trials on: looking repeatedly is put to the test too.
    wide = 0.2 if kind == "bimodal" else 0.08
    outcomes = many(KINDS[kind], CAMPAIGNS, Precision(half_width=wide))

    assert sum(outcome.covered for outcome in outcomes) >= 0.93 * CAMPAIGNS
    assert len({outcome.trials for outcome in outcomes}) >= 3


def test_the_adaptive_rule_takes_a_fifth_of_the_time_of_three_long_trials_for_a_narrower_interval() -> None:
    long = many_long(KINDS["default"], CAMPAIGNS, 0.95)
    usual = statistics.fmean(outcome.half_width for outcome in long)

    adaptive = many(KINDS["default"], CAMPAIGNS, Precision(half_width=usual))

    assert statistics.fmean(o.seconds for o in adaptive) <= statistics.fmean(o.seconds for o in long) / 5
    assert statistics.fmean(o.half_width for o in adaptive) <= usual
    assert sum(o.half_width <= usual for o in adaptive) >= 0.99 * CAMPAIGNS
    assert sum(o.covered for o in adaptive) >= 0.93 * CAMPAIGNS
