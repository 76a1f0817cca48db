"""The cost of a campaign's statistics per trial does not grow with the trials before it."""

from __future__ import annotations

import statistics

import numpy as np
import pytest

from tests import fixtures
from vnetbench.campaign import progress as progress_module
from vnetbench.campaign.progress import MAX_TRIALS_UPDATING_ESTIMATE_AT_ONCE, CampaignProgress
from vnetbench.campaign.running_median import RunningMedian
from vnetbench.estimate import warmup
from vnetbench.estimate.interim_analyses import interim_analysis_trial_counts
from vnetbench.estimate.median import estimate_median
from vnetbench.estimate.time_series import TimeSeries, find_warmups
from vnetbench.study.plan import make_plan

STUDY = fixtures.make_study(fixtures.STUDY_TEXT.replace("max_trials = 20", "max_trials = 2000"))


def make_series(count: int) -> list[TimeSeries]:
    """Return time series, some of which rise at first."""
    random = np.random.default_rng(0)
    rates = 1e10 * (1 + 0.02 * random.standard_normal((count, 20)))
    rates[::3, :4] *= 0.5
    return [TimeSeries(tuple(each), (0.05,) * 20) for each in rates.tolist()]


def add_trials(progress: CampaignProgress, series: list[TimeSeries]) -> None:
    for block, each in enumerate(series):
        progress.add_finished_trial(0, block, each, 0.1)


def values_from_all_trials(series: list[TimeSeries]) -> list[float]:
    warmups = find_warmups(series, STUDY.timing)
    return [each.steady_value(warmup.samples) for each, warmup in zip(series, warmups, strict=True)]


@pytest.mark.parametrize("count", [1, 2, 7, 40, 150, 401])
def test_the_values_are_those_of_an_analysis_of_all_trials(count: int) -> None:
    progress, series = CampaignProgress(STUDY, make_plan(STUDY, 1)), make_series(count)
    add_trials(progress, series)
    expected = values_from_all_trials(series)
    assert progress.deciding_values(0) == expected
    assert progress.values_by_block(0) == dict(enumerate(expected))
    analyses = interim_analysis_trial_counts(STUDY.precision)
    estimate = estimate_median(expected, STUDY.precision.confidence, analyses, with_outliers=False)
    assert progress.treatments[0].estimate == estimate


def test_few_trials_update_the_estimate_each() -> None:
    progress = CampaignProgress(STUDY, make_plan(STUDY, 1))
    for block, each in enumerate(make_series(MAX_TRIALS_UPDATING_ESTIMATE_AT_ONCE)):
        progress.add_finished_trial(0, block, each, 0.1)
        assert len(progress.treatments[0].deciding_values) == block + 1


def test_each_trial_is_searched_for_its_own_warm_up_once(monkeypatch: pytest.MonkeyPatch) -> None:
    searched = []

    def count_search(samples: tuple[float, ...]) -> object:
        searched.append(samples)
        return warmup.find_warmup(samples)

    monkeypatch.setattr(progress_module, "find_warmup", count_search)
    monkeypatch.setattr("vnetbench.estimate.time_series.find_warmup", count_search)
    series = make_series(300)
    add_trials(CampaignProgress(STUDY, make_plan(STUDY, 1)), series)
    assert searched == [each.values for each in series]


def test_the_number_of_updates_grows_with_the_logarithm_of_the_trials(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    updated_counts: list[int] = []

    def count_update(values: list[float], *args: object, **options: object) -> None:
        updated_counts.append(len(values))

    monkeypatch.setattr(progress_module, "estimate_median", count_update)
    add_trials(CampaignProgress(STUDY, make_plan(STUDY, 1)), make_series(1500))
    late = [count for count in updated_counts if count > MAX_TRIALS_UPDATING_ESTIMATE_AT_ONCE]
    # Each update has 2 % more trials: 1.02 ** 137 = 15.
    assert late[-1] > 1400 and len(late) < 150


def test_the_running_median_is_the_median() -> None:
    random, running = np.random.default_rng(1), RunningMedian()
    assert running.value_or(7.0) == 7.0
    values = []
    for value in random.normal(size=99).tolist():
        values.append(value)
        running.add(value)
        assert running.value_or(0.0) == statistics.median(values)
