"""Effects, interactions and variance shares of factors, with error rates."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import pytest

from tests.explain.comparisons.simulated import campaign, simulated, treatment
from vnetbench.explain.comparisons.cell_means import estimate_cell_means
from vnetbench.explain.comparisons.factors import analyze_factors, factor_findings
from vnetbench.explain.comparisons.variance_shares import estimate_variance_shares
from vnetbench.study.model import ONE_AT_A_TIME, FactorLevels, Level

pytestmark = pytest.mark.pure

CAMPAIGNS = 150
MATRIX: Mapping[str, tuple[Level, ...]] = {
    "streams": (1, 2, 4),
    "mtu": (1500, 9000),
    "direction": ("forward", "reverse"),
}


STREAMS = float(np.var([0.6 * math.log(n) for n in (1, 2, 4)]))
MTU = float(np.var([0.0, math.log(1.25)]))
"""Variance of the logarithms of `additive` by factor."""


def flat(levels: Mapping[str, Level]) -> float:
    return 1e10


def additive(levels: Mapping[str, Level]) -> float:
    return 1e10 * math.pow(float(levels["streams"]), 0.6) * (1.25 if levels["mtu"] == 9000 else 1.0)


def interacting(levels: Mapping[str, Level]) -> float:
    """Return goodput where jumbo frames gain more with more streams: 1.0, 1.15, 1.32 times."""
    more = math.pow(1.15, math.log2(float(levels["streams"]))) if levels["mtu"] == 9000 else 1.0
    return additive(levels) * more


def test_without_effects_at_most_6_of_100_campaigns_have_a_false_alarm() -> None:
    called = 0
    for seed in range(CAMPAIGNS):
        result = analyze_factors(simulated(np.random.default_rng(seed), MATRIX, flat))
        ratios = [*(e.ratio for e in result.effects), *(i.ratio for i in result.interactions)]
        assert all(ratio.is_p_value_adjusted for ratio in ratios)
        called += any(ratio.p_value is not None and ratio.p_value <= 0.05 for ratio in ratios)

    assert called <= 0.06 * CAMPAIGNS


def test_an_interaction_is_estimated_with_its_size() -> None:
    seen, covered = 0, 0
    for seed in range(CAMPAIGNS):
        result = analyze_factors(
            simulated(np.random.default_rng([1, seed]), MATRIX, interacting)
        ).interactions
        most = next(i for i in result if i.factors == ("streams", "mtu") and i.levels == (4, 9000))
        assert most.ratio.p_value is not None and most.ratio.low is not None and most.ratio.high is not None
        seen += most.ratio.p_value <= 0.05
        covered += most.ratio.low <= 1.15**2 <= most.ratio.high

    assert seen >= 0.95 * CAMPAIGNS
    assert covered >= 0.93 * CAMPAIGNS


def test_at_most_5_of_100_reported_effects_are_false() -> None:
    false = 0.0
    for seed in range(CAMPAIGNS):
        result = analyze_factors(simulated(np.random.default_rng([2, seed]), MATRIX, additive))
        right = [e.ratio for e in result.effects if e.factor != "direction"]
        wrong = [e.ratio for e in result.effects if e.factor == "direction"]
        wrong += [interaction.ratio for interaction in result.interactions]
        called = [[r for r in side if r.p_value is not None and r.p_value <= 0.05] for side in (right, wrong)]
        assert len(called[0]) == len(right)
        false += len(called[1]) / (len(called[0]) + len(called[1]))

    assert false <= 0.05 * CAMPAIGNS


def test_share_intervals_cover_the_truth_and_shares_add_up() -> None:
    covered = dict.fromkeys(("streams", "mtu", "direction"), 0)
    for seed in range(CAMPAIGNS):
        summary = simulated(np.random.default_rng([3, seed]), MATRIX, additive)
        result = estimate_variance_shares(estimate_cell_means(summary, "goodput_bps"), list(MATRIX), 0.95)
        assert result is not None
        assert sum(share.value for share in result.terms.values()) <= 1.02
        for name, truth in (("streams", STREAMS), ("mtu", MTU), ("direction", 0.0)):
            share = result.terms[name,]
            covered[name] += share.low - 1e-9 <= truth / (STREAMS + MTU) <= share.high + 1e-9

    assert min(covered.values()) >= 0.9 * CAMPAIGNS


def test_a_factor_without_effect_gets_no_share_in_a_matrix_with_gaps() -> None:
    def is_refused(levels: Mapping[str, Level]) -> bool:
        return levels["streams"] == 4 and levels["direction"] == "reverse"

    summary = simulated(np.random.default_rng(4), MATRIX, additive, without=is_refused)
    result = estimate_variance_shares(estimate_cell_means(summary, "goodput_bps"), list(MATRIX), 0.95)
    assert result is not None
    assert result.terms["streams",].value == pytest.approx(STREAMS / (STREAMS + MTU), abs=0.15)
    assert result.terms["mtu",].value == pytest.approx(MTU / (STREAMS + MTU), abs=0.05)
    assert result.terms["direction",].value < 0.01


def test_the_finding_orders_factors_by_share_and_lists_caveats() -> None:
    def is_refused(levels: Mapping[str, Level]) -> bool:
        return levels["streams"] == 4 and levels["mtu"] == 9000

    summary = simulated(np.random.default_rng(5), MATRIX, additive, without=is_refused)
    (finding,) = factor_findings(summary)

    assert finding.kind == "factors"
    assert finding.text.startswith("The most important factor is streams")
    assert finding.text.index("Another factor with an effect is MTU") < finding.text.index(
        "There is no significant effect of direction"
    )
    assert "An effect excludes up to" in finding.text
    assert finding.chart is not None and finding.chart.chart_type == "effects"
    assert finding.chart.rows[0]["x"] == "4 streams / 1 stream"


def test_one_at_a_time_studies_have_effects_without_interactions() -> None:
    random = np.random.default_rng(6)
    base: dict[str, Level] = {"streams": 1, "mtu": 1500}
    changes: list[dict[str, Level]] = [{}, {"streams": 4}, {"mtu": 9000}]
    treatments = [
        treatment(
            index, {**base, **change}, (1e10 * (1 + index) * np.exp(random.normal(0, 0.02, 9))).tolist()
        )
        for index, change in enumerate(changes)
    ]
    factors = [FactorLevels("streams", (1, 4)), FactorLevels("mtu", (1500, 9000))]
    summary = campaign(factors, treatments, combine=ONE_AT_A_TIME)
    (finding,) = factor_findings(summary)

    assert analyze_factors(summary).interactions == ()
    assert "The study changes one factor at a time" in finding.text


def test_too_few_blocks_give_no_finding() -> None:
    assert factor_findings(simulated(np.random.default_rng(7), MATRIX, additive, blocks=3)) == ()
    empty = simulated(np.random.default_rng(7), MATRIX, additive, without=lambda levels: True)
    assert factor_findings(empty) == ()


def test_metrics_of_zero_or_less_are_accepted() -> None:
    summary = simulated(np.random.default_rng(8), MATRIX, additive)
    dead = treatment(0, summary.treatments[0].factors, [0.0] * 9)
    (finding,) = factor_findings(replace(summary, treatments=(dead, *summary.treatments[1:])))

    assert "An effect excludes up to 1 pair of treatments" in finding.text
    assert finding.chart is not None and finding.chart.rows
    assert all(0 < float(row["y"]) < math.inf for row in finding.chart.rows)
