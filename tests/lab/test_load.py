"""Tests of latency under load in the lab, where a full queue delays the replies."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.lab.test_requests import run_campaign
from vnetbench.report.page.html import render_page

pytestmark = pytest.mark.lab

UPLINK = "[testbed]\nuplink = true\n"


def test_a_queue_filled_by_transfers_adds_to_the_latency_of_requests(tmp_path: Path) -> None:
    summary = run_campaign(
        tmp_path,
        "mixed",
        'link_rate = "100 Mbit/s"\nlink_queue = ["100 ms"]\ndirection = ["forward", "reverse"]\n' + UPLINK,
    )
    assert summary.deciding_metric == "latency_p99_us" and len(summary.treatments) == 2
    for treatment in summary.treatments:
        assert (treatment.stop_reason, treatment.trial_count) == ("trial limit", 2), treatment.failures
        assert treatment.effective["link_queue"] == 1_250_000
        assert treatment.metrics["latency_increase_p50_us"].value > 0
        # The link limits the goodput, apart from the burst that its bucket allows.
        assert 0 < treatment.metrics["goodput_bps"].value < 1.2e8
        assert treatment.latency_histogram and treatment.idle_latency_histogram
    assert "Under load, median latency rises" in render_page([summary])


def test_bidirectional_transfers_and_all_request_options_are_measured(tmp_path: Path) -> None:
    summary = run_campaign(
        tmp_path,
        "mixed",
        'rate = ["none", "500 /s"]\nwaiting = ["block", "spin"]\n'
        'direction = "both"\nconnections = 2\nstreams = 2\n',
    )
    assert len(summary.treatments) == 4
    for treatment in summary.treatments:
        assert (treatment.stop_reason, treatment.trial_count) == ("trial limit", 2), treatment.failures
        assert treatment.effective["no_delay"] == [False, True]
        assert {"latency_p50_us", "latency_idle_p50_us", "goodput_bps"} <= treatment.metrics.keys()


def test_a_missing_discipline_stops_only_its_treatment(tmp_path: Path) -> None:
    summary = run_campaign(
        tmp_path, "mixed", 'link_rate = "100 Mbit/s"\nlink_queue = ["20 ms", "codel"]\n' + UPLINK
    )
    fifo, codel = summary.treatments
    assert fifo.trial_count == 2, fifo.failures
    if codel.trial_count:
        assert codel.effective["link_queue"] == "codel"
    else:
        assert codel.stop_reason == "refused"
        assert "this kernel has no queueing discipline codel" in codel.failures[0]
        assert "modprobe sch_codel" in codel.failures[0]
