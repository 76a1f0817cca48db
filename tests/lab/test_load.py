"""Latency under load in the lab: a full queue before a shaped uplink is what answers wait for."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.lab.test_requests import measured
from vnetbench.report.page.html import render_page

pytestmark = pytest.mark.lab

UPLINK = "[testbed]\nuplink = true\n"


def test_a_queue_that_transfers_fill_is_in_the_latency_of_the_requests_beside_them(tmp_path: Path) -> None:
    summary = measured(
        tmp_path,
        "mixed",
        'link_rate = "100 Mbit/s"\nlink_queue = ["100 ms"]\ndirection = ["forward", "reverse"]\n' + UPLINK,
    )
    assert summary.deciding_metric == "latency_p99_us" and len(summary.treatments) == 2
    for treatment in summary.treatments:
        assert (treatment.stopped_by, treatment.trial_count) == ("most trials", 2), treatment.failures
        assert treatment.effective["link_queue"] == 1_250_000
        assert treatment.metrics["latency_increase_p50_us"].value > 0
        # No more arrives than the link carries, but for what its bucket lets through at once.
        assert 0 < treatment.metrics["goodput_bps"].value < 1.2e8
        assert treatment.latency_histogram and treatment.idle_latency_histogram
    assert "Under load the median latency grows" in render_page([summary])


def test_transfers_both_ways_and_every_way_of_asking_are_measured(tmp_path: Path) -> None:
    summary = measured(
        tmp_path,
        "mixed",
        'rate = ["none", "500 /s"]\nwaiting = ["block", "spin"]\n'
        'direction = "both"\nconnections = 2\nstreams = 2\n',
    )
    assert len(summary.treatments) == 4
    for treatment in summary.treatments:
        assert (treatment.stopped_by, treatment.trial_count) == ("most trials", 2), treatment.failures
        assert treatment.effective["no_delay"] == [False, True]
        assert {"latency_p50_us", "latency_idle_p50_us", "goodput_bps"} <= treatment.metrics.keys()


def test_a_discipline_that_the_kernel_lacks_stops_its_treatment_alone(tmp_path: Path) -> None:
    summary = measured(
        tmp_path, "mixed", 'link_rate = "100 Mbit/s"\nlink_queue = ["20 ms", "codel"]\n' + UPLINK
    )
    fifo, codel = summary.treatments
    assert fifo.trial_count == 2, fifo.failures
    if codel.trial_count:
        assert codel.effective["link_queue"] == "codel"
    else:
        assert codel.stopped_by == "refused"
        assert "this kernel has no queueing discipline codel" in codel.failures[0]
        assert "modprobe sch_codel" in codel.failures[0]
