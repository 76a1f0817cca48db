"""The schedule of a campaign: durations of trials and searches, and the number of remaining trials."""

from __future__ import annotations

import pytest

from vnetbench.campaign.schedule import (
    choose_load_duration_s,
    estimate_remaining_trials,
    has_time_for_min_trials,
    limit_search_time,
)
from vnetbench.estimate.interim_analyses import interim_analysis_trial_counts
from vnetbench.estimate.median import estimate_median
from vnetbench.estimate.trial_length import MIN_TRIAL_LENGTH_S
from vnetbench.study.model import Precision, SearchSpec

PRECISION = Precision(half_width=0.05, min_trials=6, max_trials=30)


def test_searches_share_the_time_limit_unless_the_study_sets_one_for_them() -> None:
    precision = Precision(campaign_time_limit_s=3600, min_trials=6)

    def search_limit_s(search: SearchSpec, precision: Precision, treatments: int) -> float | None:
        return limit_search_time(search, precision, treatments).time_limit_s

    chosen = search_limit_s(SearchSpec(), precision, 10)
    assert chosen is not None and 10 * 6 * chosen == pytest.approx(0.45 * 3600)
    assert search_limit_s(SearchSpec(), precision, 1000) == 5.0, "a shorter search has no result"
    assert search_limit_s(SearchSpec(), Precision(), 1000) == 600.0
    assert search_limit_s(SearchSpec(time_limit_s=33.0), precision, 1000) == 33.0


def test_without_a_known_spread_the_first_interim_analysis_is_expected_to_suffice() -> None:
    assert estimate_remaining_trials([], None, PRECISION) == interim_analysis_trial_counts(PRECISION)[0]
    assert (
        estimate_remaining_trials([1.0], None, PRECISION) == interim_analysis_trial_counts(PRECISION)[0] - 1
    )


def test_noisy_trials_increase_the_estimate_before_there_is_an_interval() -> None:
    assert (
        estimate_remaining_trials([10.0, 10.1, 9.9], None, PRECISION)
        == interim_analysis_trial_counts(PRECISION)[0] - 3
    )
    assert estimate_remaining_trials([10.0, 14.0, 6.0], None, PRECISION) == 30 - 3


def test_the_width_of_the_interval_determines_the_last_interim_analysis() -> None:
    values = [9.0, 9.4, 9.8, 10.2, 10.6, 11.0]
    goodput = estimate_median(values, 0.95, interim_analysis_trial_counts(PRECISION))
    assert goodput.relative_half_width == pytest.approx(0.1, rel=0.05)
    # Half the width needs four times the trials (24), so the next interim analysis from there on.
    assert estimate_remaining_trials(values, goodput, PRECISION) + 6 == min(
        n for n in interim_analysis_trial_counts(PRECISION) if n >= 24
    )


def test_no_trials_remain_after_the_last_interim_analysis() -> None:
    assert estimate_remaining_trials([1.0, 2.0] * 15, None, PRECISION) == 0


def test_trials_without_goodput_cause_no_division_by_zero() -> None:
    assert (
        estimate_remaining_trials([0.0] * 4, None, PRECISION)
        == interim_analysis_trial_counts(PRECISION)[0] - 4
    )


def test_values_around_zero_or_below_expect_the_maximum_number_of_trials() -> None:
    assert estimate_remaining_trials([-10.0, 0.0, 10.0], None, PRECISION) == 30 - 3
    assert estimate_remaining_trials([-10.0, -14.0, -6.0], None, PRECISION) == 30 - 3


def test_trials_are_shortened_to_fit_the_minimum_number_into_the_time_limit() -> None:
    precision = Precision(campaign_time_limit_s=60, min_trials=6)
    chosen = choose_load_duration_s([], 0.1, precision, 15)
    assert chosen < MIN_TRIAL_LENGTH_S
    assert 15 * 6 * (chosen + 0.1) <= 60
    assert choose_load_duration_s([], 0.1, Precision(), 15) == MIN_TRIAL_LENGTH_S


def test_a_time_limit_that_is_too_short_is_detected_before_the_campaign() -> None:
    assert has_time_for_min_trials(Precision(campaign_time_limit_s=60), 10, None)
    assert not has_time_for_min_trials(Precision(campaign_time_limit_s=60), 200, None)
    assert not has_time_for_min_trials(Precision(campaign_time_limit_s=60), 10, 5.0)
    assert has_time_for_min_trials(Precision(), 10_000, 10.0)
