"""Tests of requests and connections in the lab, with small campaigns from study to summary."""

from __future__ import annotations

import json
from math import inf
from pathlib import Path

import pytest

from tests import fixtures
from vnetbench.campaign.instrument import LabInstrument
from vnetbench.campaign.run import CampaignSession
from vnetbench.campaign.signal_handler import SignalHandler
from vnetbench.estimate.latency import count_histogram_values
from vnetbench.estimate.summarize import summarize
from vnetbench.estimate.summary import CampaignSummary
from vnetbench.lab.netns.testbed import NetnsLab
from vnetbench.report.charts.campaign_charts import main_charts
from vnetbench.report.export.campaign_json import campaign_json
from vnetbench.report.page.html import render_page

pytestmark = pytest.mark.lab

SHORT = """
[timing]
duration = "300 ms"
[precision]
min_trials = 2
max_trials = 2
"""


def run_campaign(path: Path, workload: str, factors: str) -> CampaignSummary:
    study = fixtures.make_study(f'title = "Requests"\nworkload = "{workload}"\n[factors]\n{factors}\n{SHORT}')
    file, plan = fixtures.create_results_file(path / "r.vnb", study)
    with SignalHandler() as signal_handler:
        instrument = LabInstrument(NetnsLab(study.testbed, "t-requests"), study.testbed)
        campaign = CampaignSession(file, study, plan, instrument, lambda sentence, index: None, lambda: None)
        assert campaign.run(signal_handler) == "finished"
    try:
        return summarize(file)
    finally:
        file.close("finished")


def test_closed_loops_are_measured_with_every_waiting_mode_and_direction(tmp_path: Path) -> None:
    summary = run_campaign(
        tmp_path,
        "tcp_rr",
        'waiting = ["block", "spin"]\ndirection = ["forward", "both"]\n'
        'connections = 3\nrequest_size = "100 B"',
    )
    for treatment in summary.treatments:
        assert (treatment.stop_reason, treatment.trial_count) == ("trial limit", 2), treatment.failures
        assert treatment.effective["no_delay"] is True
        assert count_histogram_values(treatment.latency_histogram) > 0
        assert treatment.metrics["latency_p50_us"].value > 0
        for values in (point.values for point in treatment.points):
            # A trial with few replies, as on a busy machine, lacks the high percentile or both.
            assert values.get("latency_p99_us", inf) >= values.get("latency_p50_us", 0.0)
        assert treatment.metrics["transactions_per_s"].value > 0
        assert "goodput_bps" not in treatment.metrics
    assert [chart.name for chart in main_charts(summary)] == ["transactions_per_s", "latency-percentiles"]
    assert json.loads(campaign_json(summary))["deciding_metric"] == "transactions_per_s"
    assert "Median transaction rate is highest with" in render_page([summary])


def test_an_open_loop_sends_requests_at_its_rate(tmp_path: Path) -> None:
    summary = run_campaign(tmp_path, "tcp_rr", 'rate = "500 /s"\nconnections = 2')
    (treatment,) = summary.treatments
    assert treatment.trial_count == 2, treatment.failures
    assert "outstanding_at_end" in treatment.metrics
    assert summary.deciding_metric == "latency_p99_us"


def test_connections_are_opened_and_timed(tmp_path: Path) -> None:
    summary = run_campaign(tmp_path, "tcp_crr", "connections = [1, 2]")
    assert len(summary.treatments) == 2
    for treatment in summary.treatments:
        assert treatment.trial_count == 2, treatment.failures
        assert treatment.metrics["connections_per_s"].value > 0
        assert treatment.metrics["latency_p50_us"].value > treatment.metrics["connect_p50_us"].value > 0
