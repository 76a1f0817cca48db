"""Latency under load: separation of the phases, and the increase of each trial."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tests import fixtures
from tests.estimate.test_effects import grid
from vnetbench.estimate.effects import estimate_effects
from vnetbench.estimate.latency import count_histogram_values, merge_histograms
from vnetbench.estimate.summarize import estimate_metrics, summarize
from vnetbench.estimate.time_series import find_warmups, metric_time_series, trimmed_idle_samples
from vnetbench.estimate.trial_metrics import trial_metrics
from vnetbench.results.records import TrialRecord
from vnetbench.study.model import Precision, Timing

CAMPAIGNS, TRIALS = 150, 9
STUDY = """\
title = "Made up"
workload = "mixed"
[factors]
streams = [1, 4]
[precision]
metric = "latency_increase_p50_us"
"""


def counted_idle(trial: TrialRecord) -> int:
    return count_histogram_values(
        merge_histograms(x.histograms["latency"] for x in trimmed_idle_samples(trial) if x.histograms)
    )


def test_idle_phase_and_load_have_separate_metrics() -> None:
    values = trial_metrics(fixtures.make_mixed_trial(idle_us=100, increase_us=4000), 0)
    assert values["latency_idle_p50_us"] == pytest.approx(100, rel=0.02)
    assert values["latency_p50_us"] == pytest.approx(4100, rel=0.02)
    for kind in ("mean_us", "p50_us", "p90_us"):
        increase = values[f"latency_{kind}"] - values[f"latency_idle_{kind}"]
        assert values[f"latency_increase_{kind}"] == pytest.approx(increase)
    assert values["latency_ratio_p50"] == pytest.approx(41, rel=0.03)


def test_goodput_covers_transfers_under_load_only() -> None:
    values = trial_metrics(fixtures.make_mixed_trial(), 0)
    assert values["goodput_bps"] == pytest.approx(1e9)
    assert values["transactions_per_s"] == pytest.approx(1000)
    assert values["rtt_us"] == 40
    assert "cycles_per_transaction" not in values and "packets_per_transaction" not in values


def test_other_workloads_have_no_idle_phase() -> None:
    trial = fixtures.make_trial()
    assert not [name for name in trial_metrics(trial, 0) if "idle" in name or "increase" in name]
    assert metric_time_series(trial).idle_values == ()


def test_idle_samples_exclude_the_first_tenth_and_the_last_interval() -> None:
    trial = fixtures.make_mixed_trial(requests=50)
    assert counted_idle(trial) == 8 * 50
    slow = ((10**9, 1),)
    source, sink = trial.endpoints
    samples = [replace(x, histograms={"latency": slow}) if x.seq in (0, 9) else x for x in source.samples]
    disturbed = replace(trial, endpoints=(replace(source, samples=tuple(samples)), sink))
    quiet = trial_metrics(trial, 0)["latency_idle_p99_us"]
    assert trial_metrics(disturbed, 0)["latency_idle_p99_us"] == quiet


def test_a_sample_across_the_start_of_the_load_is_in_neither_phase() -> None:
    trial = fixtures.make_mixed_trial()
    source, sink = trial.endpoints
    late = replace(source.samples[10], interval_s=0.1)
    samples = (*source.samples[:9], late, *source.samples[11:])
    merged_trial = replace(trial, endpoints=(replace(source, samples=samples), sink))
    assert len(metric_time_series(merged_trial, "latency_p50_us").values) == 19
    assert counted_idle(merged_trial) == 8 * 50
    assert trial_metrics(merged_trial, 0)["goodput_bps"] == pytest.approx(1e9)


def test_the_time_series_of_an_increase_matches_the_metric() -> None:
    trial = fixtures.make_mixed_trial(filling=5)
    found = metric_time_series(trial, "latency_increase_p50_us")
    assert len(found.idle_values) == 10 and len(found.values) == 20
    assert max(map(abs, found.idle_values)) < 0.1 * found.values[-1]
    assert set(metric_time_series(trial, "goodput_bps").idle_values) == {0}
    assert found.steady_value(7) == pytest.approx(trial_metrics(trial, 7)["latency_increase_p50_us"])


def test_the_warm_up_of_a_filling_queue_is_cut_from_the_load_only() -> None:
    trials = [fixtures.make_mixed_trial(block=block, filling=5) for block in range(6)]
    found = find_warmups([metric_time_series(trial, "latency_p50_us") for trial in trials], Timing())
    assert all(4 <= warmup.samples <= 12 for warmup in found)
    for trial, warmup in zip(trials, found, strict=True):
        assert trial_metrics(trial, warmup.samples)["latency_increase_p50_us"] == pytest.approx(
            4000, rel=0.03
        )
        assert counted_idle(trial) == 8 * 50


def test_intervals_of_the_increase_cover_the_truth_despite_a_varying_idle_latency() -> None:
    random = np.random.default_rng(7)
    covered, widths = 0, []
    for campaign in range(CAMPAIGNS):
        values = []
        for block in range(TRIALS):
            idle, increase = 400 * math.exp(random.normal(0, 0.3)), random.normal(300, 10)
            trial = fixtures.make_mixed_trial(
                0, block, idle_us=idle, increase_us=increase, requests=20, seed=campaign
            )
            values.append(trial_metrics(trial, 0))
        found = estimate_metrics(values, Precision(min_trials=TRIALS, max_trials=TRIALS))
        estimate, loaded = found["latency_increase_p50_us"], found["latency_p50_us"]
        assert estimate.low is not None and estimate.high is not None
        assert loaded.low is not None and loaded.high is not None
        covered += estimate.low <= 300 <= estimate.high
        widths.append((estimate.high - estimate.low) / (loaded.high - loaded.low))
    assert covered >= 0.93 * CAMPAIGNS
    # The increase is relative to the trial's own idle latency, so its variation cancels out.
    assert np.median(widths) < 0.25


def test_a_load_without_effect_shows_no_increase_beyond_chance() -> None:
    values = [
        trial_metrics(fixtures.make_mixed_trial(0, block, increase_us=0.0, requests=20), 0)
        for block in range(9)
    ]
    increase = estimate_metrics(values, Precision())["latency_increase_p50_us"]
    assert increase.low is not None and increase.high is not None
    assert increase.low <= 0 <= increase.high


def test_negative_increases_have_no_ratio_and_no_effects() -> None:
    values = {
        (streams, mtu): dict.fromkeys(range(6), -5.0 if (streams, mtu) == (1, 1500) else 10.0)
        for streams in (1, 4, 16)
        for mtu in (1500, 9000)
    }
    found = {effect.level: effect for effect in estimate_effects(grid(values)) if effect.factor == "streams"}
    assert (found[4].pair_count, found[4].excluded_pair_count) == (1, 1)


def test_a_campaign_reports_its_latency_increase_with_an_interval(tmp_path: Path) -> None:
    file, _ = fixtures.create_results_file(tmp_path / "r.vnb", fixtures.make_study(STUDY))
    for block in range(6):
        file.add_trial(fixtures.make_mixed_trial(0, block, filling=3), 1.0)
        file.add_trial(fixtures.make_mixed_trial(1, block, filling=3, increase_us=9000), 1.0)
    summary = summarize(file)
    file.close("finished")
    for treatment, truth in zip(summary.treatments, (4000, 9000), strict=True):
        increase = treatment.metrics["latency_increase_p50_us"]
        assert increase.low is not None and increase.high is not None
        assert increase.value == pytest.approx(truth, rel=0.02)
        assert count_histogram_values(treatment.idle_latency_histogram) == 6 * 8 * 50
        assert count_histogram_values(treatment.latency_histogram) < 6 * 20 * 50
    (effect,) = estimate_effects(summary, summary.deciding_metric)
    assert effect.ratio.value == pytest.approx(9000 / 4000, rel=0.03)
