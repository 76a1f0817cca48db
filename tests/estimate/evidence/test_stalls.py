"""Stalls of requests and connections, and queues by direction, from known counters."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.estimate.evidence.fixtures import trial_evidence, uniform_trial, with_counters, with_observation
from tests.estimate.evidence.test_links import port
from vnetbench.results.records import Histogram, TrialRecord

FAST, STALLED, SYN_STALLED = 50_000, 205_000_000, 1_010_000_000


def with_histograms(**histograms: Histogram) -> TrialRecord:
    trial = uniform_trial()
    endpoints = tuple(
        replace(each, samples=tuple(replace(x, histograms=histograms) for x in each.samples))
        if each.role == "source"
        else each
        for each in trial.endpoints
    )
    return replace(trial, endpoints=endpoints)


def test_a_request_that_waits_for_a_retransmission_is_a_stall() -> None:
    evidence = trial_evidence(with_histograms(latency=((FAST, 4100), (STALLED, 1))))
    assert evidence["request_stall_percent"] == pytest.approx(50)
    assert "connect_stall_percent" not in evidence


def test_a_long_path_does_not_stall() -> None:
    evidence = trial_evidence(with_histograms(latency=((250_000_000, 90), (300_000_000, 10))))
    assert evidence["request_stall_percent"] == 0


def test_stalls_are_divided_into_those_of_connections_and_of_data() -> None:
    latency = ((FAST, 1000), (STALLED, 1), (SYN_STALLED, 3))
    evidence = trial_evidence(with_histograms(latency=latency, connect_time=((FAST, 1001), (SYN_STALLED, 3))))
    assert evidence["connect_share_of_stalls_percent"] == 75
    assert evidence["connect_stall_percent"] == pytest.approx(98.4, abs=0.1)


def test_a_queue_of_acknowledgements_is_distinguished_from_one_of_data() -> None:
    quiet = with_counters(with_counters(uniform_trial(), "a1", rx_bytes=0), "b1", tx_bytes=0)
    acks = port(tx_bytes=1000, rx_bytes=1_000_000, backlog_bytes=500, drops=0, overlimits=3)
    data = port(tx_bytes=1_000_000, rx_bytes=1000, backlog_bytes=0, drops=0, overlimits=3)
    evidence = trial_evidence(with_observation(quiet, to_a=acks, to_b=data))
    assert (evidence["ack_queue_busy_percent"], evidence["data_queue_busy_percent"]) == (100, 0)


def test_a_load_in_both_directions_has_no_queue_of_acknowledgements() -> None:
    both = port(tx_bytes=1_000_000, rx_bytes=1_000_000, backlog_bytes=500, drops=0, overlimits=3)
    assert "ack_queue_busy_percent" not in trial_evidence(with_observation(uniform_trial(), up0=both))
