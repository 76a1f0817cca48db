"""Latencies from histograms: percentiles, steady part and metrics of request loads."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests import fixtures
from vnetbench.estimate.latency import (
    QUANTILE_BY_PERCENTILE_NAME,
    count_histogram_values,
    histogram_quantile_us_if_resolved,
    latency_tail_curve,
    merge_histograms,
)
from vnetbench.estimate.summarize import summarize
from vnetbench.estimate.summary import CampaignSummary
from vnetbench.estimate.time_series import find_warmups, metric_time_series, steady_latency_histogram
from vnetbench.estimate.trial_metrics import trial_metrics
from vnetbench.results.records import EndpointRecord, Histogram, Sample, TrialRecord
from vnetbench.study.model import Timing

HISTOGRAMS = st.dictionaries(st.integers(1, 10**9), st.integers(1, 50), max_size=30).map(
    lambda counts: tuple(sorted(counts.items()))
)
OPEN_LOOP = """\
title = "Made up"
workload = "tcp_rr"
[factors]
rate = ["1 k/s", "2 k/s"]
"""


def asking(histograms: list[Histogram], *, paced: bool = False, kind: str = "latency") -> TrialRecord:
    """Return a trial with these histograms in samples of 50 ms, with `connect` histograms if requested."""
    trial = fixtures.make_trial(rates=[1e6] * len(histograms))
    source, *others = trial.endpoints
    totals = {**source.totals, "outstanding_at_end": 3, "instrument": {"pacing": {}} if paced else {}}
    kinds = {"latency", kind}
    samples = tuple(
        replace(sample, histograms=dict.fromkeys(kinds, histogram))
        for sample, histogram in zip(source.samples, histograms, strict=True)
    )
    return replace(trial, endpoints=(EndpointRecord("a1", "source", totals, samples), *others))


def summary_of(path: Path, text: str, trials: list[TrialRecord]) -> CampaignSummary:
    file, _ = fixtures.create_results_file(path, fixtures.make_study(text))
    for number, trial in enumerate(trials):
        file.add_trial(replace(trial, treatment=number % 2, block=number // 2), 1.0)
    try:
        return summarize(file)
    finally:
        file.close("finished")


@given(HISTOGRAMS, st.sampled_from(sorted(QUANTILE_BY_PERCENTILE_NAME.values())))
def test_a_percentile_is_the_value_at_its_rank(histogram: Histogram, share: float) -> None:
    values = [value for value, count in histogram for _ in range(count)]
    beyond = len(values) * (1 - share)
    if not values or (share > 0.5 and beyond < 1 - 1e-6):
        assert histogram_quantile_us_if_resolved(histogram, share) is None
    else:
        rank = math.ceil(len(values) * share - 1e-6)
        assert histogram_quantile_us_if_resolved(histogram, share) == values[max(rank, 1) - 1] / 1e3


@given(st.lists(HISTOGRAMS, max_size=5))
def test_merged_histograms_keep_all_counts_and_the_order(parts: list[Histogram]) -> None:
    whole = merge_histograms(parts)
    assert count_histogram_values(whole) == sum(map(count_histogram_values, parts))
    assert list(whole) == sorted(dict(whole).items())


@given(HISTOGRAMS)
def test_the_tail_curve_rises_and_ends_at_a_single_value(histogram: Histogram) -> None:
    points = latency_tail_curve(histogram)
    assert list(points) == sorted(points, key=lambda point: (-point[0], point[1]))
    assert all(share * count_histogram_values(histogram) >= 1 - 1e-6 for share, _ in points)


def test_a_percentile_without_a_value_beyond_it_is_absent() -> None:
    found = trial_metrics(asking([((10_000, 50),)] * 20), 0)
    assert found["latency_p99_9_us"] == 10.0
    assert "latency_p99_99_us" not in found and "latency_p99_999_us" not in found


def test_rate_and_percentiles_exclude_the_warm_up() -> None:
    cold: Histogram = ((900_000, 5),)
    warm: Histogram = ((10_000, 99), (20_000, 1))
    trial = asking([cold] * 6 + [warm] * 14)
    found = trial_metrics(trial, 6)
    assert found["transactions_per_s"] == pytest.approx(100 / 0.05)
    assert found["latency_mean_us"] == pytest.approx(10.1)
    assert (found["latency_p50_us"], found["latency_p99_us"], found["latency_p99_9_us"]) == (10.0, 10.0, 20.0)
    assert steady_latency_histogram(trial, 6) == ((10_000, 99 * 14), (20_000, 14))
    rates = metric_time_series(trial, "transactions_per_s")
    assert all(w.samples >= 6 for w in find_warmups([rates] * 6, Timing()))
    assert rates.steady_value(6) == pytest.approx(found["transactions_per_s"])


def test_the_time_series_of_a_percentile_matches_the_metric_and_bridges_empty_samples() -> None:
    some: Histogram = ((10_000, 995), (30_000, 5))
    trial = asking([some, (), ((40_000, 3),), *[some] * 17])
    of_p99 = metric_time_series(trial, "latency_p99_us")
    assert of_p99.values[:4] == (10.0, 10.0, 40.0, 10.0)
    for cut in (0, 3):
        assert of_p99.steady_value(cut) == trial_metrics(trial, cut)["latency_p99_us"]


def test_too_few_answers_for_the_deciding_percentile_give_a_warning_instead_of_zero(
    tmp_path: Path,
) -> None:
    few: Histogram = ((10_000, 2), (30_000, 1))
    assert metric_time_series(asking([few] * 20), "latency_p99_us").steady_value(0) == 30.0
    found = summary_of(tmp_path / "r.vnb", OPEN_LOOP, [asking([few] * 20)] * 12)
    assert any("12 of 12 trials have no value of Latency, 99 %" in each for each in found.warnings)


def test_request_loads_have_counters_per_transaction_and_no_goodput() -> None:
    found = trial_metrics(asking([((10_000, 100),)] * 20), 0)
    size = int(1e6 * 0.05 / 8)
    assert found["cycles_per_transaction"] == pytest.approx(0.5 * size / 100)
    assert found["interrupts_per_transaction"] == pytest.approx(1.0)
    assert found["context_switches_per_transaction"] == pytest.approx(2 * 11 / 100)
    assert "goodput_bps" not in found and "cycles_per_byte" not in found
    assert "outstanding_at_end" not in found


def test_an_open_loop_reports_requests_outstanding_at_its_end() -> None:
    assert trial_metrics(asking([((10_000, 100),)] * 20, paced=True), 0)["outstanding_at_end"] == 3


def test_connections_have_a_rate_and_connection_times() -> None:
    found = trial_metrics(asking([((10_000, 100),)] * 20, kind="connect_time"), 0)
    assert found["connections_per_s"] == pytest.approx(2000)
    assert (found["connect_p50_us"], found["connect_p99_us"]) == (10.0, 10.0)
    assert "rtt_us" not in found and "transactions_per_s" not in found


def test_reported_percentiles_come_from_the_stored_histograms(tmp_path: Path) -> None:
    fast, slow = (asking([((ns, 100), (2 * ns, 5))] * 20, paced=True) for ns in (10_000, 20_000))
    summary = summary_of(tmp_path / "r.vnb", OPEN_LOOP, [fast, slow] * 6)
    assert summary.deciding_metric == "latency_p99_us"
    assert [t.metrics["latency_p99_us"].value for t in summary.treatments] == [20.0, 40.0]
    assert summary.treatments[0].latency_histogram == ((10_000, 100 * 20 * 6), (20_000, 5 * 20 * 6))
    assert summary.treatments[0].points[0].time_series == (20.0,) * 20


def test_a_sample_without_histograms_has_no_requests() -> None:
    assert Sample(0, 0.1, 0.1, 0, 0, {}).histograms == {}
    assert steady_latency_histogram(fixtures.make_trial(), 0) == ()
