"""The series on simulated treatments whose goodput is the smallest of several resources."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import pytest

from vnetbench.estimate.paired_ratios import combine_paired_ratios, estimate_paired_ratio
from vnetbench.explain.interventions.elasticity import LIMITS, intervention_verdict
from vnetbench.explain.interventions.planner import (
    BASE_TREATMENT_INDEX,
    InterventionSeries,
    PlannedIntervention,
    analysis_block_counts,
    confidence_of_one_analysis,
)

pytestmark = pytest.mark.pure

BUDGET_S, TRIAL_S = 58.0, 0.8
NAMES = ("sender_cpu_time", "receiver_cpu_time", "link_rate", "streams", "message_size")
RATIOS = (0.75, 0.75, 1.2, 2.0, 0.5)
RATIO_BY_RESOURCE = dict(zip(NAMES, RATIOS, strict=True))
SEEDS = range(40)


def make_series(time_shares: Mapping[str, float]) -> InterventionSeries:
    planned = [
        PlannedIntervention(number, name, RATIO_BY_RESOURCE[name], share)
        for number, (name, share) in enumerate(
            sorted(time_shares.items(), key=lambda each: -each[1]), BASE_TREATMENT_INDEX + 1
        )
    ]
    return InterventionSeries(tuple(planned), "goodput_bps", confidence_of_one_analysis(0.95))


@dataclass
class SimulatedSeries:
    """A treatment whose goodput is the smallest of its resources, each with a slack above the limit."""

    series: InterventionSeries
    limiting: str
    seed: int
    noise: float
    slack: float = 3.0
    values: dict[int, dict[int, float]] = field(default_factory=dict)
    spent_s: float = 0.0

    def run(self) -> None:
        random = np.random.default_rng(self.seed)
        changes = {each.treatment_index: each for each in self.series.interventions}
        block = 0
        while chosen := self.series.choose_treatments(block, self.values, range(len(changes) + 1)):
            drift = 1 + 0.1 * np.sin(block)
            for index in chosen:
                if self.spent_s + TRIAL_S > BUDGET_S:
                    return
                amounts = {**dict.fromkeys(NAMES, self.slack), self.limiting: 1.0}
                if index != BASE_TREATMENT_INDEX:
                    amounts[changes[index].resource] *= changes[index].resource_ratio or 1.0
                goodput = min(amounts.values()) * drift * np.exp(self.noise * random.standard_normal())
                self.values.setdefault(index, {})[block] = 1e9 * goodput
                self.spent_s += TRIAL_S
            block += 1

    def named_resources(self) -> list[str]:
        named = []
        for each in self.series.interventions:
            pair = estimate_paired_ratio(
                self.values[BASE_TREATMENT_INDEX], self.values.get(each.treatment_index) or {-1: 1.0}
            )
            if pair is None:
                continue
            ratio = combine_paired_ratios([pair], self.series.confidence)
            if intervention_verdict(ratio, "goodput_bps", each.resource_ratio) == LIMITS:
                named.append(each.resource)
        return named


EQUAL_SHARES = dict.fromkeys(NAMES, 0.5)


@pytest.mark.parametrize("noise", [0.01, 0.05])
@pytest.mark.parametrize("limiting", NAMES)
def test_the_series_names_the_resource_that_limits_within_its_time(limiting: str, noise: float) -> None:
    right = wrong = 0
    for seed in SEEDS:
        simulated = SimulatedSeries(make_series(EQUAL_SHARES), limiting, seed, noise)
        simulated.run()
        assert simulated.spent_s <= BUDGET_S
        named = simulated.named_resources()
        right += named == [limiting]
        wrong += any(each != limiting for each in named)
    # A change of the link rate by a fifth needs more trials than fit, if the noise is a quarter of it.
    assert right >= 0.75 * len(SEEDS), f"{right} of {len(SEEDS)} series named {limiting}"
    assert wrong <= 0.05 * len(SEEDS)


def test_the_series_ends_early_if_the_answer_is_clear() -> None:
    shares = {"sender_cpu_time": 0.9, "message_size": 0.6, "streams": 0.3, "link_rate": 0.1}
    quick = SimulatedSeries(make_series(shares), "sender_cpu_time", 1, noise=0.01)
    quick.run()
    assert quick.named_resources() == ["sender_cpu_time"]
    first_analysis, _ = analysis_block_counts(quick.series.confidence)
    assert quick.spent_s == pytest.approx(first_analysis * 5 * TRIAL_S)


def test_nothing_is_named_if_no_tested_resource_limits() -> None:
    named = []
    for seed in SEEDS:
        simulated = SimulatedSeries(make_series(EQUAL_SHARES), "a resource that is not tested", seed, 0.03)
        simulated.run()
        named += simulated.named_resources()
    assert len(named) <= 0.05 * len(SEEDS)


def test_less_of_a_resource_without_effect_makes_more_of_it_superfluous() -> None:
    planned = (
        PlannedIntervention(1, "link_rate", 0.9, 0.5),
        PlannedIntervention(2, "link_rate", 1.2, 0.5),
    )
    series = InterventionSeries(planned, "goodput_bps", 0.975)
    flat = {index: {block: 1e9 + block for block in range(7)} for index in (0, 1)}
    assert series.choose_treatments(7, flat, (0, 1, 2)) == ()
    limited = {0: flat[0], 1: {block: 0.9 * value for block, value in flat[1].items()}}
    assert series.choose_treatments(7, limited, (0, 1, 2)) == (0, 2)


@pytest.mark.parametrize(("confidence", "first"), [(0.8, 5), (0.9, 6), (0.95, 7), (0.99, 9), (0.999, 12)])
def test_an_intervention_is_decided_as_soon_as_its_interval_exists(confidence: float, first: int) -> None:
    planned = (PlannedIntervention(1, "link_rate", 0.9, 0.5),)
    series = InterventionSeries(planned, "goodput_bps", confidence_of_one_analysis(confidence))

    def flat(block_count: int) -> dict[int, dict[int, float]]:
        return {index: {block: 1e9 + block for block in range(block_count)} for index in (0, 1)}

    assert series.choose_treatments(first - 1, flat(first - 1), (0, 1)) == (0, 1)
    assert series.choose_treatments(first, flat(first), (0, 1)) == ()


def test_a_study_of_95_percent_has_analyses_after_7_and_11_blocks() -> None:
    assert analysis_block_counts(confidence_of_one_analysis(0.95)) == (7, 11)


def test_an_advice_is_tried_even_if_the_answer_is_clear() -> None:
    planned = (
        PlannedIntervention(1, "sender_cpu_time", 0.75, 0.9),
        PlannedIntervention(2, "streams", 2.0, 0.1),
        PlannedIntervention(3, "mtu", 6.0, 0.1, is_advice=True),
    )
    series = InterventionSeries(planned, "goodput_bps", 0.975)
    base = {block: 1e9 + block for block in range(7)}
    values = {0: base, 1: {block: 0.75 * value for block, value in base.items()}, 2: base}
    assert not series.is_answer_clear(values)
    assert series.choose_treatments(7, values, range(4)) == (0, 3)
    assert series.is_answer_clear({**values, 3: base})


def test_a_refused_treatment_is_left_out_and_the_unchanged_one_is_needed() -> None:
    series = make_series(EQUAL_SHARES)
    assert series.choose_treatments(0, {}, (0, 2, 3)) == (0, 2, 3)
    assert series.choose_treatments(0, {}, (1, 2, 3)) == ()


def test_a_series_is_restored_from_the_facts_of_its_file() -> None:
    series = make_series(EQUAL_SHARES)
    assert InterventionSeries.from_facts(series.to_facts()) == series
