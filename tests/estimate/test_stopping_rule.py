"""The stopping rule repeats a treatment until its interval is narrow enough."""

from __future__ import annotations

import pytest

from vnetbench.estimate.interim_analyses import interim_analysis_trial_counts
from vnetbench.estimate.median import median_interval
from vnetbench.estimate.stopping_rule import StoppingDecision, decide_stopping
from vnetbench.study.model import Precision

ON = StoppingDecision(False)


def test_precise_trials_stop_at_the_first_analysis() -> None:
    values = [100.0, 100.5, 99.5, 100.2, 99.8, 100.1]

    assert decide_stopping(values[:5], Precision()) == ON
    assert decide_stopping(values, Precision()) == StoppingDecision(True, "precision")


def test_nothing_is_decided_between_analyses() -> None:
    assert decide_stopping([100.0] * 7, Precision()) == ON
    assert decide_stopping([100.0] * 9, Precision()) == StoppingDecision(True, "precision")


def test_noisy_trials_continue_to_the_maximum_and_report_it() -> None:
    values = [50.0, 150.0] * 15

    assert decide_stopping(values[:20], Precision()) == ON
    assert decide_stopping(values, Precision()) == StoppingDecision(True, "trial limit")


def test_too_few_trials_for_an_interval_stop_at_the_maximum() -> None:
    assert decide_stopping([1.0] * 3, Precision(min_trials=2, max_trials=3)) == StoppingDecision(
        True, "trial limit"
    )


def test_a_zero_result_stops_at_the_first_analysis() -> None:
    assert decide_stopping([0.0] * 6, Precision()) == StoppingDecision(True, "precision")


@pytest.mark.parametrize("half_width", [0.02, 0.05, 0.1])
def test_the_stopping_rule_uses_the_reported_interval(half_width: float) -> None:
    precision = Precision(half_width=half_width)
    values = [100.0, 104.0, 97.0, 101.0, 99.0, 108.0, 95.0, 100.0, 103.0]
    low, high = median_interval(values, 0.95, interim_analysis_trial_counts(precision)) or (0.0, 0.0)

    assert decide_stopping(values, precision).should_stop == ((high - low) / 2 <= half_width * 100.0)
