"""Datagram metrics: shares of the whole trial, rates of its steady part, and bounds of zero counts."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.estimate.test_latency import summary_of
from vnetbench.estimate.datagrams import zero_count_upper_bound_percent
from vnetbench.estimate.time_series import metric_time_series, steady_latency_histogram
from vnetbench.estimate.trial_metrics import trial_metrics
from vnetbench.report.text.notes import table_values_legend
from vnetbench.results.records import EndpointRecord, Sample, StreamSample, TrialRecord
from vnetbench.wording.estimate_text import choose_metric_scale, format_estimate_lines

STUDY = """\
title = "Made up"
workload = "udp_stream"
[factors]
datagram_size = ["64 B", "1472 B"]
"""

INTERVAL_S = 0.05


def flow(role: str, counts: dict[str, int], jitter_us: float = 2.0) -> StreamSample:
    more = {"jitter_us": jitter_us} if role == "sink" else {}
    return StreamSample(0, role, 64 * counts["datagrams"], None, None, None, {**counts, **more})


def datagrams(
    samples: list[dict[str, int]], last: dict[str, int] | None = None, deviation_us: float | None = None
) -> TrialRecord:
    """Return a trial of one flow with the sink's counts in each sample, and after the samples (`last`)."""
    names = ("datagrams", "lost", "duplicates", "reordered", "foreign_datagrams", "socket_drops")
    full = [{name: counts.get(name, 0) for name in names} for counts in (*samples, last or {})]
    total = {name: sum(counts[name] for counts in full) for name in names}
    sent = [{"datagrams": c["datagrams"] - c["duplicates"] + c["lost"]} for c in full]
    pacing = {} if deviation_us is None else {"pacing": {"gap_deviation_us": deviation_us}}
    return TrialRecord(
        treatment=0, block=0, testbed_shape="bridge pairs=1", since_campaign_start_s=1.0,
        duration_s=INTERVAL_S * len(samples), setup_s=0.1, effective={},
        endpoints=(
            _side("a1", "source", sent[:-1], {"datagrams": sum(s["datagrams"] for s in sent)}, pacing),
            _side("b1", "sink", full[:-1], total, {}),
        ),
    )  # fmt: skip


def _side(
    endpoint: str,
    role: str,
    each: list[dict[str, int]],
    total: dict[str, int],
    instrument: Mapping[str, object],
) -> EndpointRecord:
    samples = tuple(
        Sample(
            i, INTERVAL_S * (i + 1), INTERVAL_S, 0, 64 * counts["datagrams"] * (role == "sink"), {},
            streams=(flow(role, counts),),
            histograms={"delay": ((5_000, counts["datagrams"]),)} if role == "sink" else {},
        )
        for i, counts in enumerate(each)
    )  # fmt: skip
    stream = {"id": 0, "role": role, **total}
    return EndpointRecord(endpoint, role, {"streams": [stream], "instrument": instrument}, samples)


def test_rates_exclude_the_warm_up_and_duplicates() -> None:
    trial = datagrams([{"datagrams": 10}] * 5 + [{"datagrams": 105, "duplicates": 5, "lost": 10}] * 15)
    found = trial_metrics(trial, 5)
    assert found["datagrams_received_per_s"] == pytest.approx(100 / INTERVAL_S)
    assert found["datagrams_sent_per_s"] == pytest.approx(110 / INTERVAL_S)
    assert metric_time_series(trial, "datagrams_received_per_s").steady_value(5) == pytest.approx(
        100 / INTERVAL_S
    )
    assert found["duplicate_percent"] == pytest.approx(5)
    assert found["goodput_bps"] == pytest.approx(8 * 64 * 105 / INTERVAL_S)


def test_losses_after_the_last_sample_count() -> None:
    found = trial_metrics(datagrams([{"datagrams": 100}] * 10, {"datagrams": 0, "lost": 1000}), 0)
    assert found["loss_percent"] == pytest.approx(50)
    assert found["datagrams"] == 2000


def test_losses_in_the_warm_up_do_not_count() -> None:
    some = [{"datagrams": 50, "lost": 50, "socket_drops": 20}] * 2 + [{"datagrams": 100, "reordered": 1}] * 8
    found = trial_metrics(datagrams(some), 2)
    assert found["loss_percent"] == found["socket_drop_percent"] == 0
    assert found["reordered_percent"] == pytest.approx(1)
    assert trial_metrics(datagrams(some), 0)["socket_drop_percent"] == pytest.approx(4)


def test_datagrams_that_arrive_after_the_warm_up_cause_no_negative_loss() -> None:
    late = [{"datagrams": 90, "lost": 10}, {"datagrams": 110, "lost": -10}, *[{"datagrams": 100}] * 8]
    assert trial_metrics(datagrams(late), 1)["loss_percent"] == 0


def test_a_path_that_delivers_nothing_has_100_percent_loss() -> None:
    found = trial_metrics(datagrams([{"datagrams": 0}] * 10, {"datagrams": 0, "lost": 500}), 0)
    assert found["loss_percent"] == 100
    assert found["datagrams_received_per_s"] == 0
    assert "reordered_percent" not in found and "delay_p50_us" not in found


def test_delay_percentiles_and_pacing_error_are_reported() -> None:
    trial = datagrams([{"datagrams": 100}] * 10, deviation_us=0.7)
    found = trial_metrics(trial, 0)
    assert (found["delay_p50_us"], found["delay_p99_us"], found["jitter_us"]) == (5.0, 5.0, 2.0)
    assert found["gap_deviation_us"] == 0.7
    assert metric_time_series(trial, "delay_p99_us").steady_value(0) == 5.0
    assert steady_latency_histogram(trial, 5) == ((5_000, 500),)


def test_datagram_loads_have_no_tcp_metrics() -> None:
    found = trial_metrics(datagrams([{"datagrams": 100}] * 10), 0)
    assert not {"rtt_us", "retransmits_per_s", "segments_per_s"} & found.keys()


def test_zero_loss_is_reported_with_an_upper_bound(tmp_path: Path) -> None:
    lossless = datagrams([{"datagrams": 100}] * 10)
    lossy = datagrams([{"datagrams": 99, "lost": 1}] * 10)
    summary = summary_of(tmp_path / "r.vnb", STUDY, [lossless, lossy] * 6)
    none, some = (treatment.metrics["loss_percent"] for treatment in summary.treatments)
    assert (none.value, none.low) == (0, 0)
    assert none.high == pytest.approx(100 * 3 / 6000, rel=0.01)
    assert (some.value, some.low, some.high) == (1, 1, 1)
    (line,) = format_estimate_lines(
        none, "loss_percent", choose_metric_scale(summary.treatments, "loss_percent")
    )
    assert line == "0.000 ± 0.050"
    assert "the share was 0 in all trials" in table_values_legend(summary)


def test_the_upper_bound_of_a_zero_count_has_the_stated_confidence() -> None:
    for datagrams_sent in (10, 1000, 10**7):
        share = zero_count_upper_bound_percent(datagrams_sent, 0.95) / 100
        # With a share of this size, the chance of no event is 5 %.
        assert math.exp(datagrams_sent * math.log1p(-share)) == pytest.approx(0.05)
