"""Guesses of a throughput from the forwarding rates of overloaded steps."""

from __future__ import annotations

import math

import pytest

from tests.search.search_parameters import PARAMETERS, ScriptedDevice
from vnetbench.search.forwarding_rates import OverloadedStep, guess_throughputs
from vnetbench.search.methods import run_search

LIMIT_FPS = 1e6


def overloaded(load_fps: float, forwarding_rate_fps: float) -> OverloadedStep:
    return OverloadedStep(math.log(load_fps / forwarding_rate_fps), math.log(forwarding_rate_fps))


def test_each_duration_has_the_guess_of_its_own_rates() -> None:
    short = [overloaded(1.5e7, 2.0e6), overloaded(4e6, 2.0e6)]
    full = [overloaded(2.2e6, 1.1e6)]

    guesses = guess_throughputs(0.0, [short, full])

    assert [math.exp(guess.log_load) for guess in guesses if guess] == pytest.approx([2.0e6, 1.1e6])


def test_a_duration_without_loss_has_no_guess() -> None:
    assert guess_throughputs(0.0, [[overloaded(1.5e7, 1e6)], []])[1] is None


def test_a_guess_is_sharper_if_steps_of_another_duration_show_a_constant_rate() -> None:
    full = [overloaded(2e6, 1e6)]

    (_, alone), (_, with_short) = (
        guess_throughputs(0.0, [short, full])
        for short in ([], [overloaded(1.5e7, 2.0e6), overloaded(4e6, 2.0e6)])
    )

    assert alone and with_short and with_short.scale < alone.scale / 5


def test_a_first_full_step_is_as_uncertain_as_the_rates_of_short_steps_differ() -> None:
    short = [overloaded(1.05e6 + 1e4 * number, rate) for number, rate in enumerate((1e6, 0.97e6, 1.03e6))]

    guess = guess_throughputs(0.0, [short, [overloaded(1.02e6, 1e6)]])[1]

    assert guess and guess.scale > 0.03


def test_a_goal_above_zero_moves_the_guess_to_the_load_that_loses_this_share() -> None:
    guess = guess_throughputs(0.005, [[overloaded(2e6, 1e6)]])[0]

    assert guess and math.exp(guess.log_load) == pytest.approx(1e6 / 0.995)


def test_a_buffer_takes_little_more_time_than_a_sharp_limit() -> None:
    def lost(load_fps: float, duration_s: float, _: int) -> float:
        return max(0.0, (load_fps - LIMIT_FPS) * duration_s - 0.3 * LIMIT_FPS)

    steps = run_search("vnetbench", ScriptedDevice(lost), PARAMETERS, seed=1).steps

    assert sum(step.duration_s + PARAMETERS.settle_s for step in steps) < 20
