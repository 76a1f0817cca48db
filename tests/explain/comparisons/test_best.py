"""The best treatment and those within the margin, with error rates."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import pytest

from tests.explain.comparisons.simulated import campaign, simulated, treatment
from vnetbench.estimate.median import estimate_median
from vnetbench.explain.comparisons.best import best_treatment_findings, compare_with_best
from vnetbench.study.model import FactorLevels, Level

pytestmark = pytest.mark.pure

CAMPAIGNS = 300
STREAMS: Mapping[str, tuple[Level, ...]] = {"streams": (1, 2, 4)}


def truth(levels: Mapping[str, Level]) -> float:
    """Four streams are the best, two are 5 % worse, one is half."""
    return {1: 5e9, 2: 9.5e9, 4: 10e9}[int(levels["streams"])]


def equal(levels: Mapping[str, Level]) -> float:
    return 10e9 if levels["streams"] != 1 else 5e9


def test_a_treatment_worse_by_the_margin_is_accepted_in_at_most_3_of_100_campaigns() -> None:
    wrong = 0
    for seed in range(CAMPAIGNS):
        result = compare_with_best(simulated(np.random.default_rng(seed), STREAMS, truth, half_width=0.05))
        assert result is not None
        wrong += result.best.index == 2 and 1 in result.treatments_within_margin

    assert wrong <= 0.03 * CAMPAIGNS


def test_an_equal_treatment_is_accepted_with_precise_trials_and_inconclusive_otherwise() -> None:
    precise, unsure = 0, 0
    for seed in range(CAMPAIGNS):
        near = compare_with_best(simulated(np.random.default_rng([1, seed]), STREAMS, equal, noise=0.01))
        wide = compare_with_best(simulated(np.random.default_rng([2, seed]), STREAMS, equal, noise=0.2))
        assert near is not None and wide is not None
        precise += len(near.treatments_within_margin) == 1 and near.worse_treatments == (0,)
        unsure += len(wide.inconclusive_treatments) == 1 and wide.treatments_within_margin == ()

    assert precise >= 0.95 * CAMPAIGNS
    assert unsure >= 0.9 * CAMPAIGNS


def test_the_finding_names_the_best_and_those_within_the_margin() -> None:
    (finding,) = best_treatment_findings(
        simulated(np.random.default_rng(3), STREAMS, equal, noise=0.003, of_blocks=0.003)
    )

    assert finding.kind == "best"
    assert finding.text.startswith("2 treatments may have the best goodput (95 % confidence), best median")
    assert " is within 3 % of the best; 1 treatment is worse, ×0.5 at worst." in finding.text
    assert finding.details["may_be_best"] in ([1, 2], [2, 1])
    assert set(finding.treatment_indices) == {1, 2}
    assert finding.chart is not None
    assert {row["series"] for row in finding.chart.rows} == {"not worse", "worse"}


def test_the_lowest_value_of_a_lower_is_better_metric_is_best() -> None:
    def slower(levels: Mapping[str, Level]) -> float:
        return {1: 10.0, 2: 10.1, 4: 20.0}[int(levels["streams"])]

    summary = simulated(np.random.default_rng(5), STREAMS, slower, noise=0.001)
    treatments = []
    for each in summary.treatments:
        values = [point.values["goodput_bps"] for point in each.points]
        points = [replace(p, values={"latency_p50_us": v}) for p, v in zip(each.points, values, strict=True)]
        metrics = {"latency_p50_us": estimate_median(values, 0.95)}
        treatments.append(replace(each, points=tuple(points), metrics=metrics))
    result = compare_with_best(
        replace(summary, treatments=tuple(treatments), deciding_metric="latency_p50_us")
    )

    assert result is not None
    assert (result.best.index, result.treatments_within_margin, result.worse_treatments) == (0, (1,), (2,))


@pytest.mark.parametrize(
    ("costs", "expected"),
    [
        (
            {4: 8.0, 2: 6.0},
            "Of these treatments, 2 streams has the lowest cycles per byte, 0.75 times that of the best "
            "treatment.",
        ),
        ({4: 6.0, 2: 8.0}, "The best treatment also has the lowest cycles per byte of these treatments."),
        ({4: 0.0, 2: 0.0}, "The best treatment also has the lowest cycles per byte of these treatments."),
    ],
)
def test_the_cheapest_treatment_is_named_even_with_a_cost_of_0(
    costs: dict[int, float], expected: str
) -> None:
    def slightly(levels: Mapping[str, Level]) -> float:
        return {1: 5e9, 2: 9.999e9, 4: 10e9}[int(levels["streams"])]

    summary = simulated(np.random.default_rng(3), STREAMS, slightly, noise=0.0, of_blocks=0.0)
    treatments = []
    for each in summary.treatments:
        cost = estimate_median([costs.get(int(each.factors["streams"]), 9.0)] * 9, 0.95)
        treatments.append(replace(each, metrics={**each.metrics, "cycles_per_byte": cost}))
    (finding,) = best_treatment_findings(replace(summary, treatments=tuple(treatments)))

    assert expected in finding.text


def test_one_treatment_or_too_few_trials_give_no_finding() -> None:
    alone = campaign([FactorLevels("streams", (1,))], [treatment(0, {"streams": 1}, [1e9] * 6)])

    assert compare_with_best(alone) is None and best_treatment_findings(alone) == ()
    assert best_treatment_findings(simulated(np.random.default_rng(4), STREAMS, truth, blocks=3)) == ()


def test_an_infinite_ratio_becomes_none() -> None:
    # The best treatment has no traffic in the only common block.
    best = [0, *(9e9 + 1e7 * block for block in range(8))]
    others = [[1e9], best, [5e9 + 1e7 * block for block in range(9)]]
    treatments = [treatment(place, {"streams": 2**place}, values) for place, values in enumerate(others)]
    (result,) = best_treatment_findings(campaign([FactorLevels("streams", (1, 2, 4))], treatments))
    ratios = result.details["ratios"]

    assert result.details["best"] == 1
    assert isinstance(ratios, dict) and ratios["0"] == {"ratio": None, "low": None, "high": None}
    assert result.chart is not None and len(result.chart.rows) == 1
