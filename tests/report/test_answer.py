"""The answer in words: it says what the trials show, names what they don't, and never more."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tests.explain.comparisons.simulated import campaign as simulated_campaign
from tests.explain.comparisons.simulated import treatment as simulated_treatment
from tests.report.campaigns import GBIT, campaign, treatment
from vnetbench.estimate.summary import CampaignSummary
from vnetbench.report.text.answer import answer_question
from vnetbench.study.model import FactorLevels
from vnetbench.wording.factor_text import capitalize_sentence


def two_by_two(gain: dict[int, float], trials: int = 9, spread: float = 0.01) -> CampaignSummary:
    """Streams 1 and 4 × MTU 1500 and 9000; `gain` is what 9000 multiplies goodput by, for each."""
    rng = np.random.default_rng(7)
    treatments = [
        treatment(
            rng,
            index,
            {"streams": streams, "mtu": mtu},
            20 * GBIT * streams**0.5 * (gain[streams] if mtu == 9000 else 1.0),
            trials=trials,
            spread=spread,
        )
        for index, (streams, mtu) in enumerate((s, m) for s in gain for m in (1500, 9000))
    ]
    factors = [FactorLevels("streams", tuple(gain)), FactorLevels("mtu", (1500, 9000))]
    return campaign("Jumbo", "Do jumbo frames help?", factors, treatments)


def test_the_best_treatment_is_named_with_its_interval(jumbo: CampaignSummary) -> None:
    first = answer_question(jumbo).best[0]
    assert first.startswith("Goodput is highest with 8 streams, forward, MTU 9000: ")
    assert "[" in first and first.endswith("] Gbit/s.")


def test_treatments_that_cannot_be_told_from_the_best_are_named() -> None:
    best = answer_question(two_by_two({1: 1.0, 4: 1.0})).best
    assert any(text.startswith("The best can't be told from 4 streams, MTU") for text in best)
    assert not any("1 stream" in text for text in best[:2])


def test_a_factor_that_matters_only_at_some_levels_of_another_is_said_to() -> None:
    effects = answer_question(two_by_two({1: 1.4, 4: 1.0, 16: 1.0})).effects
    where = next(text for text in effects if "by streams" in text)
    higher, rest = where.split("; no difference shown with ")
    assert "higher with 1 stream 1." in higher
    assert "4 streams" in rest and "16 streams" in rest


def test_a_factor_that_does_nothing_is_not_said_to_do_something() -> None:
    mtu = next(text for text in answer_question(two_by_two({1: 1.0, 4: 1.0})).effects if text.startswith("MTU"))
    assert "makes no difference that is shown" in mtu


def test_trials_too_few_for_an_interval_have_their_least_and_most_told() -> None:
    rng = np.random.default_rng(1)
    made = treatment(rng, 0, {"streams": 1}, 20 * GBIT, trials=2)

    def said(*ends: float) -> str:
        points = tuple(
            replace(point, values={**point.values, "goodput_bps": value})
            for point, value in zip(made.points, ends, strict=True)
        )
        factors = [FactorLevels("streams", (1,))]
        return answer_question(campaign("One", "How fast?", factors, [replace(made, points=points)])).best[0]

    assert said(0.28 * GBIT, 36.4 * GBIT).endswith("(no interval: 2 trials, 280 Mbit/s to 36.4 Gbit/s).")
    assert said(30 * GBIT, 36.4 * GBIT).endswith("(no interval: 2 trials, 30.0 to 36.4 Gbit/s).")
    assert said(30 * GBIT, 30 * GBIT).endswith("(no interval: 2 trials).")


def test_trials_without_the_metric_are_not_called_unmeasured() -> None:
    rng = np.random.default_rng(1)
    made = treatment(rng, 0, {"streams": 1}, 20 * GBIT, trials=3)
    factors = [FactorLevels("streams", (1,))]
    without = campaign("One", "How fast?", factors, [replace(made, metrics={})])
    assert answer_question(without).best == ("Goodput is known of no trial, so there is no answer.",)
    empty = campaign("One", "How fast?", factors, [replace(made, metrics={}, points=())])
    assert answer_question(empty).best == ("No treatment was measured, so there is no answer.",)


def test_without_enough_trials_nothing_is_called_sure() -> None:
    said = answer_question(two_by_two({1: 1.4, 4: 1.4}, trials=3))
    assert any(text.startswith("Too few trials in common") for text in said.best)
    assert not any("beyond chance" in text for text in said.sentences)
    assert any(text.startswith("Too few trials for an interval") for text in said.doubts)
    assert any("no interval: too few trials" in text for text in said.effects)
    assert said.best[0].startswith("The highest median of goodput, of too few trials, is with")
    assert not any("no difference" in text or "multiplies" in text for text in said.effects)


def test_what_was_refused_failed_or_has_two_modes_is_said(jumbo: CampaignSummary) -> None:
    doubts = " ".join(answer_question(jumbo).doubts)
    assert "Nothing is known of 2 streams, reverse, MTU 9000: refused." in doubts
    assert "Nothing is known of 16 streams, reverse, MTU 1500: failed." in doubts
    assert "Two modes with 8 streams, reverse, MTU 9000" in doubts


def test_nothing_measured_is_no_answer(empty: CampaignSummary) -> None:
    said = answer_question(empty)
    assert said.best == ("No treatment was measured, so there is no answer.",)
    assert said.effects == ()
    assert said.question == "Stopped at once"


def test_one_treatment_alone_is_compared_with_nothing(single: CampaignSummary) -> None:
    said = answer_question(single)
    assert len(said.best) == 1 and said.effects == ()
    assert said.best[0].startswith("Goodput is ") and "treatment" not in said.best[0]


def test_what_a_load_costs_the_requests_beside_it_is_said_from_the_least_to_the_most(
    mixed: CampaignSummary,
) -> None:
    grows = [each for each in answer_question(mixed).sentences if each.startswith("Under load")]
    assert len(grows) == 2
    assert "grows least with queue 4 ms, bbr: by 1.999" in grows[0]
    assert "grows most with queue 64 ms, cubic: by 5" in grows[1]
    assert all("ms, from 10" in each and " µs to " in each for each in grows)


def test_where_less_is_better_the_lowest_is_the_best(requests: CampaignSummary) -> None:
    found = answer_question(requests)
    assert found.best[0].startswith("Latency (99 %) is lowest with ")
    assert "waiting: spin" in found.best[0]
    assert any(sentence.startswith("A transaction costs the host least with") for sentence in found.best)
    assert any("multiplies latency (99 %) by 0.1" in sentence for sentence in found.effects)
    assert "goodput" not in " ".join(found.sentences).lower()


def test_two_modes_are_what_a_single_treatment_falls_into() -> None:
    values = np.random.default_rng(1).normal(0, 0.01, 24) + np.where(np.arange(24) % 3 == 0, 0.0, 0.7)
    only = simulated_treatment(0, {"streams": 1}, (10e9 * np.exp(values)).tolist(), [{}] * 24)
    best = answer_question(simulated_campaign([FactorLevels("streams", (1,))], [only])).best
    assert best[0].startswith("Goodput falls into two modes: ")


@pytest.mark.parametrize(
    ("sentence", "told"),
    [
        ("one-way delay is 72 µs.", "One-way delay is 72 µs."),
        ("virtio-net: the CPU is full.", "virtio-net: the CPU is full."),
        ("vCPUs matter.", "vCPUs matter."),
    ],
)
def test_a_sentence_begins_with_a_capital_unless_with_a_name(sentence: str, told: str) -> None:
    assert capitalize_sentence(sentence) == told
