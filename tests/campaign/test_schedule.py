"""How long trials should be and how many are to come: what the progress bar promises."""

from __future__ import annotations

import pytest

from vnetbench.campaign.schedule import enough_time, limited, trial_duration, trials_left
from vnetbench.estimate.interim_analyses import looks
from vnetbench.estimate.trial_length import SHORTEST_S
from vnetbench.estimate.median import estimate
from vnetbench.study.model import Precision, SearchAsked

PRECISION = Precision(half_width=0.05, fewest_trials=6, most_trials=30)


def test_searches_share_the_time_that_the_campaign_has_unless_the_study_gives_them_their_own() -> None:
    precision = Precision(time_limit_s=3600, fewest_trials=6)

    def limit_s(search: SearchAsked, precision: Precision, treatments: int) -> float | None:
        return limited(search, precision, treatments).time_limit_s

    chosen = limit_s(SearchAsked(), precision, 10)
    assert chosen is not None and 10 * 6 * chosen == pytest.approx(0.45 * 3600)
    assert limit_s(SearchAsked(), precision, 1000) == 5.0, "what is shorter finds nothing"
    assert limit_s(SearchAsked(), Precision(), 1000) == 600.0
    assert limit_s(SearchAsked(time_limit_s=33.0), precision, 1000) == 33.0


def test_before_a_spread_is_known_the_first_look_is_expected() -> None:
    assert trials_left([], None, PRECISION) == looks(PRECISION)[0]
    assert trials_left([1.0], None, PRECISION) == looks(PRECISION)[0] - 1


def test_noisy_trials_promise_more_of_them_even_before_there_is_an_interval() -> None:
    assert trials_left([10.0, 10.1, 9.9], None, PRECISION) == looks(PRECISION)[0] - 3
    assert trials_left([10.0, 14.0, 6.0], None, PRECISION) == 30 - 3


def test_the_interval_says_at_which_look_it_will_be_narrow_enough() -> None:
    values = [9.0, 9.4, 9.8, 10.2, 10.6, 11.0]
    goodput = estimate(values, 0.95, looks(PRECISION))
    assert goodput.half_width == pytest.approx(0.1, rel=0.05)
    # Half as wide wants four times as many: 24 of them, and the look at or after that.
    assert trials_left(values, goodput, PRECISION) + 6 == min(n for n in looks(PRECISION) if n >= 24)


def test_after_the_last_look_nothing_is_left() -> None:
    assert trials_left([1.0, 2.0] * 15, None, PRECISION) == 0


def test_dead_paths_need_no_division_by_zero() -> None:
    assert trials_left([0.0] * 4, None, PRECISION) == looks(PRECISION)[0] - 4


def test_differences_about_zero_promise_all_trials_and_their_sign_does_not_matter() -> None:
    assert trials_left([-10.0, 0.0, 10.0], None, PRECISION) == 30 - 3
    assert trials_left([-10.0, -14.0, -6.0], None, PRECISION) == 30 - 3


def test_a_trial_is_shortened_so_that_the_time_limit_gives_everyone_the_fewest_trials() -> None:
    limited = Precision(time_limit_s=60, fewest_trials=6)
    chosen = trial_duration([], 0.1, limited, 15)
    assert chosen < SHORTEST_S
    assert 15 * 6 * (chosen + 0.1) <= 60
    assert trial_duration([], 0.1, Precision(), 15) == SHORTEST_S


def test_a_time_limit_that_is_too_short_is_known_beforehand() -> None:
    assert enough_time(Precision(time_limit_s=60), 10, None)
    assert not enough_time(Precision(time_limit_s=60), 200, None)
    assert not enough_time(Precision(time_limit_s=60), 10, 5.0)
    assert enough_time(Precision(), 10_000, 10.0)
