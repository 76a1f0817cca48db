"""Simulations: intervals have their stated coverage, and adaptive trials save time."""

from __future__ import annotations

import statistics

import pytest

from tests.estimate.simulated_trials import NOISE_MODELS, run_adaptive_campaigns, run_long_campaigns
from tests.simulation_size import SimulationSize, quick_and_long
from vnetbench.study.model import Precision

CAMPAIGNS = 2000
INDEPENDENT_TRIALS = [name for name in NOISE_MODELS if name != "dependent"]


@quick_and_long(CAMPAIGNS)
@pytest.mark.parametrize("kind", INDEPENDENT_TRIALS)
def test_95_percent_intervals_cover_the_truth_in_at_least_93_percent_of_campaigns(
    kind: str, size: SimulationSize
) -> None:
    # Wide enough for campaigns to stop anywhere from 6 trials on, which tests the interim analyses too.
    wide = 0.2 if kind == "bimodal" else 0.08
    outcomes = run_adaptive_campaigns(NOISE_MODELS[kind], size.campaigns, Precision(half_width=wide))

    size.check_at_least(0.93, sum(outcome.covers_truth for outcome in outcomes))
    assert len({outcome.trial_count for outcome in outcomes}) >= 3


@quick_and_long(CAMPAIGNS)
def test_adaptive_trials_reach_a_narrower_interval_in_a_fifth_of_the_time_of_three_long_trials(
    size: SimulationSize,
) -> None:
    long = run_long_campaigns(NOISE_MODELS["default"], size.campaigns, 0.95)
    usual = statistics.fmean(outcome.half_width for outcome in long)

    adaptive = run_adaptive_campaigns(NOISE_MODELS["default"], size.campaigns, Precision(half_width=usual))

    assert statistics.fmean(o.total_s for o in adaptive) <= statistics.fmean(o.total_s for o in long) / 5
    assert statistics.fmean(o.half_width for o in adaptive) <= usual
    size.check_at_least(0.99, sum(o.half_width <= usual for o in adaptive))
    size.check_at_least(0.93, sum(o.covers_truth for o in adaptive))
