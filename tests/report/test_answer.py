"""The answer in sentences: it states what the trials show, names what is missing, and claims no more."""

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


def jumbo_by_streams(mtu_gain: dict[int, float], trials: int = 9, spread: float = 0.01) -> CampaignSummary:
    """Return streams × MTU 1500 and 9000; `mtu_gain` maps streams to the ratio of MTU 9000 to 1500."""
    rng = np.random.default_rng(7)
    treatments = [
        treatment(
            rng,
            index,
            {"streams": streams, "mtu": mtu},
            20 * GBIT * streams**0.5 * (mtu_gain[streams] if mtu == 9000 else 1.0),
            trials=trials,
            spread=spread,
        )
        for index, (streams, mtu) in enumerate((s, m) for s in mtu_gain for m in (1500, 9000))
    ]
    factors = [FactorLevels("streams", tuple(mtu_gain)), FactorLevels("mtu", (1500, 9000))]
    return campaign("Jumbo", "Do jumbo frames help?", factors, treatments)


def test_the_headline_is_the_effect_of_the_two_level_factor_with_its_interval() -> None:
    answer = answer_question(jumbo_by_streams({1: 1.4, 4: 1.4, 16: 1.4}))
    (headline,) = answer.headline_effect_sentences
    assert headline.startswith("Goodput is 1.4")
    assert "times as high with MTU 9000 as with MTU 1500 (95 % interval 1." in headline
    assert "The ratio is the mean of 3 pairs of treatments, which range from ×1." in headline
    assert answer.sentences[0] == headline and headline not in answer.other_effect_sentences


def test_the_headline_reports_no_significant_difference_with_ratio_and_interval() -> None:
    (headline,) = answer_question(jumbo_by_streams({1: 1.0, 4: 1.0, 16: 1.0})).headline_effect_sentences
    expected = "No significant difference in goodput between MTU 9000 and MTU 1500 (×1.00"
    assert headline.startswith(expected) and ", 95 % interval 0.99" in headline


def test_the_best_treatment_is_named_with_its_interval(jumbo: CampaignSummary) -> None:
    first = answer_question(jumbo).best_treatment_sentences[0]
    assert first.startswith("Goodput is highest with 8 streams, forward, MTU 9000: ")
    assert first.endswith("] Gbit/s; 2 other treatments may be as good.")


def test_treatments_without_a_significant_difference_from_the_best_are_named() -> None:
    best = answer_question(jumbo_by_streams({1: 1.0, 4: 1.0})).best_treatment_sentences
    assert any(text.startswith("These treatments may be the best as well: 4 streams, MTU") for text in best)
    assert not any("1 stream" in text for text in best[:2])


def test_an_effect_that_depends_on_another_factor_is_given_for_each_of_its_levels() -> None:
    effects = answer_question(jumbo_by_streams({1: 1.4, 4: 1.0, 16: 1.0})).other_effect_sentences
    by_streams = next(text for text in effects if "by streams" in text)
    higher, not_significant = by_streams.split("; no significant difference with ")
    assert "higher with 1 stream ×1." in higher
    assert "4 streams" in not_significant and "16 streams" in not_significant


def test_too_few_trials_for_an_interval_are_reported_with_their_range() -> None:
    rng = np.random.default_rng(1)
    two_trials = treatment(rng, 0, {"streams": 1}, 20 * GBIT, trials=2)

    def best_sentence(*goodputs_bps: float) -> str:
        points = tuple(
            replace(point, values={**point.values, "goodput_bps": value})
            for point, value in zip(two_trials.points, goodputs_bps, strict=True)
        )
        factors, treatments = [FactorLevels("streams", (1,))], [replace(two_trials, points=points)]
        return answer_question(campaign("One", "How fast?", factors, treatments)).best_treatment_sentences[0]

    assert best_sentence(0.28 * GBIT, 36.4 * GBIT).endswith(
        "(no interval: 2 trials, 280 Mbit/s to 36.4 Gbit/s)."
    )
    assert best_sentence(30 * GBIT, 36.4 * GBIT).endswith("(no interval: 2 trials, 30.0 to 36.4 Gbit/s).")
    assert best_sentence(30 * GBIT, 30 * GBIT).endswith("(no interval: 2 trials).")


def test_trials_that_lack_the_metric_still_count_as_measured() -> None:
    rng = np.random.default_rng(1)
    measured = treatment(rng, 0, {"streams": 1}, 20 * GBIT, trials=3)
    factors = [FactorLevels("streams", (1,))]
    without_metric = campaign("One", "How fast?", factors, [replace(measured, metrics={})])
    assert answer_question(without_metric).best_treatment_sentences == (
        "No trial measured goodput, so there is no answer.",
    )
    without_trials = campaign("One", "How fast?", factors, [replace(measured, metrics={}, points=())])
    assert answer_question(without_trials).best_treatment_sentences == (
        "No treatment was measured, so there is no answer.",
    )


def test_too_few_trials_support_no_claim() -> None:
    answer = answer_question(jumbo_by_streams({1: 1.4, 4: 1.4}, trials=3))
    assert any(
        text.startswith("These treatments have too few trials in common with the best: ")
        for text in answer.best_treatment_sentences
    )
    assert not any(
        "significant" in text
        for text in (
            *answer.headline_effect_sentences,
            *answer.best_treatment_sentences,
            *answer.other_effect_sentences,
        )
    )
    assert any("too few trials for an interval" in text for text in answer.caveat_sentences)
    assert "(no interval, because there are too few trials)" in answer.headline_effect_sentences[0]
    assert answer.best_treatment_sentences[0].startswith("Median goodput is highest with")
    assert not any("no significant difference" in text for text in answer.other_effect_sentences)


def test_the_caveats_count_the_treatments_that_missed_the_requested_precision(jumbo: CampaignSummary) -> None:
    caveats = answer_question(jumbo).caveat_sentences
    assert "15 of 20 treatments reached the requested precision of ± 3 %." in caveats
    assert "2 treatments stopped at the time limit before reaching ± 3 %." in caveats
    assert "1 treatment stopped at the maximum number of trials before reaching ± 3 %." in caveats


def test_the_caveats_name_refused_failed_and_bimodal_treatments(jumbo: CampaignSummary) -> None:
    caveats = " ".join(answer_question(jumbo).caveat_sentences)
    assert "Not measured (refused): 2 streams, reverse, MTU 9000." in caveats
    assert "Not measured (failed): 16 streams, reverse, MTU 1500." in caveats
    assert "The trials of 8 streams, reverse, MTU 9000 fall into two modes: " in caveats


def test_a_campaign_without_trials_has_no_answer(empty: CampaignSummary) -> None:
    answer = answer_question(empty)
    assert answer.best_treatment_sentences == ("No treatment was measured, so there is no answer.",)
    assert answer.headline_effect_sentences == answer.other_effect_sentences == ()
    assert answer.question == "Stopped at once"


def test_a_single_treatment_is_not_compared(single: CampaignSummary) -> None:
    answer = answer_question(single)
    assert (
        len(answer.best_treatment_sentences) == 1
        and answer.headline_effect_sentences == answer.other_effect_sentences == ()
    )
    assert (
        answer.best_treatment_sentences[0].startswith("Goodput is ")
        and "treatment" not in answer.best_treatment_sentences[0]
    )


def test_latency_under_load_is_given_for_the_least_and_the_most_affected_treatment(
    mixed: CampaignSummary,
) -> None:
    sentences = [text for text in answer_question(mixed).sentences if text.startswith("Under load")]
    assert len(sentences) == 2
    assert "rises least with queue 4 ms, bbr: by 1.999" in sentences[0]
    assert "rises most with queue 64 ms, cubic: by 5" in sentences[1]
    assert all("ms, from 10" in text and " µs to " in text for text in sentences)


def test_the_lowest_value_is_the_best_for_a_metric_that_should_be_low(requests: CampaignSummary) -> None:
    answer = answer_question(requests)
    assert answer.best_treatment_sentences[0].startswith("Latency (99 %) is lowest with ")
    assert "waiting: spin" in answer.best_treatment_sentences[0]
    assert any(
        text.startswith("The host spends the fewest cycles per transaction with ")
        for text in answer.best_treatment_sentences
    )
    assert answer.headline_effect_sentences[0].startswith("Latency (99 %) is 0.1")
    assert "goodput" not in " ".join(answer.sentences).lower()


def test_a_single_bimodal_treatment_is_reported_as_two_modes() -> None:
    logs = np.random.default_rng(1).normal(0, 0.01, 24) + np.where(np.arange(24) % 3 == 0, 0.0, 0.7)
    bimodal = simulated_treatment(0, {"streams": 1}, (10e9 * np.exp(logs)).tolist(), [{}] * 24)
    best = answer_question(
        simulated_campaign([FactorLevels("streams", (1,))], [bimodal])
    ).best_treatment_sentences
    assert best[0].startswith("Goodput falls into two modes: ")


@pytest.mark.parametrize(
    ("sentence", "capitalized"),
    [
        ("one-way delay is 72 µs.", "One-way delay is 72 µs."),
        ("virtio-net: the CPU is full.", "virtio-net: the CPU is full."),
        ("vCPUs matter.", "vCPUs matter."),
    ],
)
def test_a_sentence_starts_with_a_capital_unless_it_starts_with_a_name(
    sentence: str, capitalized: str
) -> None:
    assert capitalize_sentence(sentence) == capitalized
