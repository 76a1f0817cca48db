"""Effects and the best treatment: coverage of the intervals and rate of false discoveries."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import numpy as np
import pytest

from tests.simulation_size import SimulationSize, quick_and_long
from vnetbench.estimate.effects import estimate_effects, find_best_treatment
from vnetbench.estimate.interim_analyses import interim_analysis_trial_counts
from vnetbench.estimate.model import Estimate
from vnetbench.estimate.stopping_rule import decide_stopping
from vnetbench.estimate.summary import CampaignSummary, TreatmentSummary, TrialPoint
from vnetbench.study.model import FactorLevels, Level, Precision, Timing

CAMPAIGNS = 500
PRECISION = Precision(half_width=0.05)
STREAMS = FactorLevels("streams", (1, 4, 16))
MTU = FactorLevels("mtu", (1500, 9000))

Logs = np.ndarray
Noise = Callable[[np.random.Generator, int], Logs]

NOISES: Mapping[str, Noise] = {
    "normal": lambda random, n: random.normal(0, 0.04, n),
    "heavy tails": lambda random, n: 0.03 * random.standard_t(2, n),
    "outliers": lambda random, n: (
        random.normal(0, 0.04, n) - np.where(random.random(n) < 0.08, random.uniform(0.3, 0.7, n), 0)
    ),
    "two modes": lambda random, n: random.normal(0, 0.04, n) - np.where(random.random(n) < 0.3, 0.36, 0),
}


def treatment(
    index: int, factors: Mapping[str, Level], values: Mapping[int, float], metric: str = "goodput_bps"
) -> TreatmentSummary:
    """Return a treatment from its value in each block."""
    points = [
        TrialPoint(trial, block, 0.0, 1.0, 0.0, True, {metric: value})
        for trial, (block, value) in enumerate(values.items())
    ]
    measured = {}
    if values:
        median = float(np.median(list(values.values())))
        measured = {metric: Estimate(median, None, None, PRECISION.confidence, len(values))}
    return TreatmentSummary(index, factors, {}, "precision", measured, tuple(points))


def campaign(treatments: Sequence[TreatmentSummary], *factors: FactorLevels) -> CampaignSummary:
    return CampaignSummary(
        "a.vnb", "", "", "tcp_stream", "", (), 0, "finished", "", 0.0, PRECISION, Timing(), factors,
        tuple(treatments),
    )  # fmt: skip


def simulated(
    random: np.random.Generator,
    noise: Noise,
    mtu_effect: float = 1.0,
    stream_effects: Sequence[float] = (1, 1, 1),
) -> CampaignSummary:
    """Three levels of streams, the noisier the more, two of MTU; stopped by the rule.

    Blocks differ by 10 %, and by 8 % more for jumbo frames.
    """
    block = random.normal(0, 0.1, 30)
    harder = random.normal(0, 0.08, 30)
    treatments = []
    for index, ((position, streams), mtu) in enumerate(
        itertools.product(enumerate(STREAMS.levels), MTU.levels)
    ):
        own = noise(random, 30) + random.normal(0, 0.03 * position, 30)
        jumbo = np.where(mtu == 9000, math.log(mtu_effect) + harder, 0)
        values = np.exp(math.log(stream_effects[position]) + jumbo + block + own)
        trials = next(
            n
            for n in interim_analysis_trial_counts(PRECISION)
            if decide_stopping(values[:n].tolist(), PRECISION).should_stop
        )
        factors = {"streams": streams, "mtu": mtu}
        treatments.append(treatment(index, factors, dict(enumerate(values[:trials].tolist()))))
    return campaign(treatments, STREAMS, MTU)


@quick_and_long(CAMPAIGNS)
@pytest.mark.parametrize("noise", NOISES)
def test_effect_intervals_cover_the_truth_despite_block_effects_and_early_stopping(
    noise: str, size: SimulationSize
) -> None:
    truth = {("streams", 4): 1.5, ("streams", 16): 2.0, ("mtu", 9000): 1.2}
    covered = dict.fromkeys(truth, 0)
    for seed in range(size.campaigns):
        summary = simulated(np.random.default_rng(seed), NOISES[noise], 1.2, (1, 1.5, 2.0))
        for effect in estimate_effects(summary):
            true = truth[effect.factor, int(effect.level)]
            low, high = effect.ratio.low, effect.ratio.high
            assert low is not None and high is not None
            covered[effect.factor, int(effect.level)] += low <= true <= high

    size.check_at_least(0.93, min(covered.values()))


@quick_and_long(CAMPAIGNS)
@pytest.mark.parametrize("noise", NOISES)
def test_without_effects_at_most_5_percent_of_campaigns_report_one(noise: str, size: SimulationSize) -> None:
    called = 0
    for seed in range(size.campaigns):
        effects = estimate_effects(simulated(np.random.default_rng([1, seed]), NOISES[noise]))
        assert all(effect.ratio.is_p_value_adjusted for effect in effects)
        called += any(effect.ratio.p_value is not None and effect.ratio.p_value <= 0.05 for effect in effects)

    size.check_at_most(0.06, called)


def test_an_existing_effect_is_detected() -> None:
    significant_count = 0
    for seed in range(200):
        mtu = estimate_effects(simulated(np.random.default_rng([2, seed]), NOISES["normal"], mtu_effect=1.2))[
            -1
        ]
        significant_count += mtu.ratio.p_value is not None and mtu.ratio.p_value <= 0.05

    assert significant_count >= 0.95 * 200


@quick_and_long(CAMPAIGNS)
@pytest.mark.parametrize("noise", NOISES)
def test_a_treatment_equal_to_the_best_is_rarely_called_different(noise: str, size: SimulationSize) -> None:
    different_count = 0
    for seed in range(size.campaigns):
        best = find_best_treatment(simulated(np.random.default_rng([3, seed]), NOISES[noise]))
        assert best is not None
        # All six are equal; treatment 2 is one of them.
        different_count += 2 not in (best.index, *best.tied_with)

    size.check_at_most(0.05, different_count)


def test_a_clearly_better_treatment_differs_from_all_others() -> None:
    clear_count = 0
    for seed in range(200):
        best = find_best_treatment(
            simulated(np.random.default_rng([4, seed]), NOISES["normal"], 1.5, (1, 1.5, 3))
        )
        assert best is not None
        clear_count += best.index == 5 and best.tied_with == ()

    assert clear_count >= 0.95 * 200


def even(value: float, blocks: int = 6) -> dict[int, float]:
    """Return trials that vary a little, in the same way in each treatment."""
    return {block: value * (1 + 0.001 * (-1) ** block) for block in range(blocks)}


def grid(values: Mapping[tuple[int, int], Mapping[int, float]]) -> CampaignSummary:
    """Return a campaign from values by block of each (streams, mtu)."""
    treatments = [
        treatment(index, {"streams": streams, "mtu": mtu}, by_block)
        for index, ((streams, mtu), by_block) in enumerate(values.items())
    ]
    return campaign(treatments, FactorLevels("streams", (1, 4)), MTU)


def test_an_effect_is_the_geometric_mean_of_matched_pairs_with_their_range() -> None:
    summary = grid({(1, 1500): even(10), (1, 9000): even(20), (4, 1500): even(10), (4, 9000): even(80)})
    streams, mtu = estimate_effects(summary)

    assert (mtu.factor, mtu.base_level, mtu.level, mtu.pair_count, mtu.excluded_pair_count) == (
        "mtu",
        1500,
        9000,
        2,
        0,
    )
    assert mtu.ratio.value == pytest.approx(4.0)
    assert (mtu.min_pair_ratio, mtu.max_pair_ratio) == pytest.approx((2.0, 8.0))
    assert streams.ratio.value == pytest.approx(2.0)


def test_block_effects_on_both_treatments_cancel_out() -> None:
    slow = {block: 0.5 if block % 2 else 1.0 for block in range(6)}
    base = {block: 10 * slow[block] for block in slow}
    summary = grid({(1, 1500): base, (1, 9000): {block: 1.1 * value for block, value in base.items()}})
    (mtu,) = estimate_effects(summary)

    assert (mtu.ratio.low, mtu.ratio.high) == pytest.approx((1.1, 1.1))


def test_five_blocks_give_a_ratio_without_an_interval() -> None:
    (mtu,) = estimate_effects(grid({(1, 1500): even(10, 5), (1, 9000): even(20, 5)}))

    assert mtu.ratio.value == pytest.approx(2.0)
    assert (mtu.ratio.low, mtu.ratio.high, mtu.ratio.p_value, mtu.ratio.is_p_value_adjusted) == (
        None,
        None,
        None,
        False,
    )


def test_only_shared_blocks_count() -> None:
    base, jumbo = even(10, 9), {block + 4: 20.0 for block in range(9)}
    (mtu,) = estimate_effects(grid({(1, 1500): base, (1, 9000): jumbo}))

    assert mtu.ratio.low is None


def test_pairs_with_a_zero_or_missing_treatment_are_excluded_and_counted() -> None:
    alive = {(1, 1500): even(10), (1, 9000): even(20), (4, 1500): even(10)}
    _, refused = estimate_effects(grid({**alive, (4, 9000): {}}))
    _, dead = estimate_effects(grid({**alive, (4, 9000): dict.fromkeys(range(6), 0.0)}))

    for mtu in (refused, dead):
        assert (mtu.pair_count, mtu.excluded_pair_count) == (1, 1)
        assert mtu.ratio.value == pytest.approx(2.0)


def test_pairs_with_too_few_blocks_are_excluded_if_others_have_enough() -> None:
    values = {(1, 1500): even(10), (1, 9000): even(20), (4, 1500): even(10), (4, 9000): even(80, 3)}
    _, mtu = estimate_effects(grid(values))

    assert (mtu.pair_count, mtu.excluded_pair_count) == (1, 1)
    assert mtu.ratio.low == pytest.approx(2.0, rel=0.01)


def test_one_zero_trial_of_six_does_not_hide_an_effect() -> None:
    (mtu,) = estimate_effects(grid({(1, 1500): even(10), (1, 9000): {**even(20), 3: 0.0}}))

    assert mtu.ratio.value == pytest.approx(2.0, rel=0.01)
    assert mtu.ratio.low is not None and mtu.ratio.low > 1.9


def test_identical_trials_have_no_effect() -> None:
    alike = dict.fromkeys(range(6), 10.0)
    (mtu,) = estimate_effects(grid({(1, 1500): alike, (1, 9000): alike}))

    assert (mtu.ratio.value, mtu.ratio.low, mtu.ratio.high, mtu.ratio.p_value) == (1.0, 1.0, 1.0, 1.0)


def test_a_campaign_with_one_treatment_has_no_effects() -> None:
    summary = grid({(1, 1500): even(10)})
    best = find_best_treatment(summary)

    assert estimate_effects(summary) == ()
    assert best is not None and (best.index, best.tied_with) == (0, ())


def test_a_campaign_without_measurements_has_no_best_treatment() -> None:
    assert find_best_treatment(grid({(1, 1500): {}})) is None


def test_with_too_few_blocks_no_treatment_differs_from_the_best() -> None:
    best = find_best_treatment(grid({(1, 1500): even(10, 3), (1, 9000): even(30, 3), (4, 1500): even(20, 3)}))

    assert best is not None
    assert (best.index, best.tied_with) == (1, (2, 0))


def test_a_zero_treatment_differs_from_the_best() -> None:
    best = find_best_treatment(grid({(1, 1500): even(10), (1, 9000): dict.fromkeys(range(6), 0.0)}))

    assert best is not None
    assert (best.index, best.tied_with) == (0, ())
    assert best.ratios[1].value == 0


def test_the_lowest_value_is_best_if_lower_is_better() -> None:
    summary = grid({(1, 1500): even(10), (1, 9000): even(20)})
    treatments = tuple(
        treatment(
            each.index,
            each.factors,
            {p.block: p.values["goodput_bps"] for p in each.points},
            "cycles_per_byte",
        )
        for each in summary.treatments
    )
    best = find_best_treatment(replace(summary, treatments=treatments), "cycles_per_byte")

    assert best is not None and best.index == 0
