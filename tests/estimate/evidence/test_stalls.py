"""Stalls of requests and connections, and queues by direction, from known counters."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.estimate.evidence.fixtures import (
    trial_evidence,
    uniform_trial,
    with_counters,
    with_observation,
    with_totals,
)
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


def test_stalls_before_the_steady_part_count() -> None:
    """One stall can fill the rest of a short trial, and the requests before it look like a warm-up."""
    stalling = with_histograms(latency=((FAST, 4100), (STALLED, 1)))
    source = stalling.endpoints[0]
    quiet = (replace(x, histograms={}) for x in source.samples[5:])
    changed = replace(source, samples=(*source.samples[:5], *quiet))
    trial = replace(stalling, endpoints=(changed, *stalling.endpoints[1:]))
    assert source.role == "source"
    assert trial_evidence(trial, warmup_samples=15)["request_stall_percent"] == pytest.approx(50)


def test_retransmissions_of_both_endpoints_belong_to_the_stalls() -> None:
    trial = with_histograms(latency=((FAST, 4100), (STALLED, 2)))
    for name, retransmits in (("a1", 2), ("b1", 1)):
        trial = with_counters(trial, name, tcp_segments_retransmitted=retransmits)
    assert trial_evidence(trial)["retransmits_per_stall"] == 1.5
    calm = with_counters(with_histograms(latency=((FAST, 4100),)), "a1", tcp_segments_retransmitted=2)
    assert "retransmits_per_stall" not in trial_evidence(calm)


def test_retransmitted_connection_requests_are_a_share_of_all() -> None:
    trial = with_counters(uniform_trial(), "a1", tcp_connections_opened=30, tcp_syn_retransmits=10)
    assert trial_evidence(trial, warmup_samples=10)["syn_retransmits_percent"] == pytest.approx(25)
    idle = with_counters(uniform_trial(), "a1", tcp_connections_opened=0, tcp_syn_retransmits=0)
    assert "syn_retransmits_percent" not in trial_evidence(idle)


def test_a_connection_that_completes_after_the_load_is_only_in_the_totals() -> None:
    """Samples end with the load; a connection request that was lost near its end is answered later."""
    trial = with_histograms(latency=((FAST, 1000),), connect_time=((FAST, 1000),))
    buckets = {"buckets": [[FAST, 20_000], [SYN_STALLED, 4]]}
    counters = {"tcp_connections_opened": 20_004, "tcp_syn_retransmits": 4, "tcp_segments_retransmitted": 4}
    trial = with_totals(trial, "a1", latency=buckets, connect_time=buckets, counters=counters)
    evidence = trial_evidence(trial)
    assert evidence["connect_stall_percent"] == pytest.approx(80, abs=1)
    assert evidence["retransmits_per_stall"] == 1
    assert evidence["syn_retransmits_percent"] == pytest.approx(0.02, rel=0.01)


def test_retransmitted_connection_requests_are_a_share_of_all_retransmissions() -> None:
    counters = {"tcp_syn_retransmits": 1, "tcp_segments_retransmitted": 4}
    trial = with_counters(uniform_trial(), "a1", **counters)
    assert trial_evidence(trial)["syn_share_of_retransmits_percent"] == pytest.approx(25)
    lossless = with_counters(uniform_trial(), "a1", tcp_syn_retransmits=0, tcp_segments_retransmitted=0)
    assert "syn_share_of_retransmits_percent" not in trial_evidence(lossless)
