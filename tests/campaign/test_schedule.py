"""How long trials should be and how many are to come: what the progress bar promises."""

from __future__ import annotations

import pytest

from vnetbench.campaign.schedule import (
    choose_trial_duration,
    estimate_remaining_trials,
    has_enough_time,
    with_time_limit,
)
from vnetbench.estimate.interim_analyses import interim_analyses
from vnetbench.estimate.median import estimate_median
from vnetbench.estimate.trial_length import SHORTEST_TRIAL_S
from vnetbench.study.model import Precision, SearchSpec

PRECISION = Precision(half_width=0.05, fewest_trials=6, most_trials=30)


def test_searches_share_the_time_that_the_campaign_has_unless_the_study_gives_them_their_own() -> None:
    precision = Precision(time_limit_s=3600, fewest_trials=6)

    def limit_s(search: SearchSpec, precision: Precision, treatments: int) -> float | None:
        return with_time_limit(search, precision, treatments).time_limit_s

    chosen = limit_s(SearchSpec(), precision, 10)
    assert chosen is not None and 10 * 6 * chosen == pytest.approx(0.45 * 3600)
    assert limit_s(SearchSpec(), precision, 1000) == 5.0, "what is shorter finds nothing"
    assert limit_s(SearchSpec(), Precision(), 1000) == 600.0
    assert limit_s(SearchSpec(time_limit_s=33.0), precision, 1000) == 33.0


def test_before_a_spread_is_known_the_first_look_is_expected() -> None:
    assert estimate_remaining_trials([], None, PRECISION) == interim_analyses(PRECISION)[0]
    assert estimate_remaining_trials([1.0], None, PRECISION) == interim_analyses(PRECISION)[0] - 1


def test_noisy_trials_promise_more_of_them_even_before_there_is_an_interval() -> None:
    assert estimate_remaining_trials([10.0, 10.1, 9.9], None, PRECISION) == interim_analyses(PRECISION)[0] - 3
    assert estimate_remaining_trials([10.0, 14.0, 6.0], None, PRECISION) == 30 - 3


def test_the_interval_says_at_which_look_it_will_be_narrow_enough() -> None:
    values = [9.0, 9.4, 9.8, 10.2, 10.6, 11.0]
    goodput = estimate_median(values, 0.95, interim_analyses(PRECISION))
    assert goodput.half_width == pytest.approx(0.1, rel=0.05)
    # Half as wide wants four times as many: 24 of them, and the look at or after that.
    assert estimate_remaining_trials(values, goodput, PRECISION) + 6 == min(
        n for n in interim_analyses(PRECISION) if n >= 24
    )


def test_after_the_last_look_nothing_is_left() -> None:
    assert estimate_remaining_trials([1.0, 2.0] * 15, None, PRECISION) == 0


def test_dead_paths_need_no_division_by_zero() -> None:
    assert estimate_remaining_trials([0.0] * 4, None, PRECISION) == interim_analyses(PRECISION)[0] - 4


def test_differences_about_zero_promise_all_trials_and_their_sign_does_not_matter() -> None:
    assert estimate_remaining_trials([-10.0, 0.0, 10.0], None, PRECISION) == 30 - 3
    assert estimate_remaining_trials([-10.0, -14.0, -6.0], None, PRECISION) == 30 - 3


def test_a_trial_is_shortened_so_that_the_time_limit_gives_everyone_the_fewest_trials() -> None:
    with_time_limit = Precision(time_limit_s=60, fewest_trials=6)
    chosen = choose_trial_duration([], 0.1, with_time_limit, 15)
    assert chosen < SHORTEST_TRIAL_S
    assert 15 * 6 * (chosen + 0.1) <= 60
    assert choose_trial_duration([], 0.1, Precision(), 15) == SHORTEST_TRIAL_S


def test_a_time_limit_that_is_too_short_is_known_beforehand() -> None:
    assert has_enough_time(Precision(time_limit_s=60), 10, None)
    assert not has_enough_time(Precision(time_limit_s=60), 200, None)
    assert not has_enough_time(Precision(time_limit_s=60), 10, 5.0)
    assert has_enough_time(Precision(), 10_000, 10.0)
