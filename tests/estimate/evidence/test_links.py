"""Evidence of links and the path from known counters."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests import fixtures
from tests.estimate.evidence.fixtures import (
    trial_data,
    trial_evidence,
    uniform_trial,
    with_counters,
    with_observation,
    with_stream_details,
)
from vnetbench.estimate.evidence import collect_evidence
from vnetbench.results.records import TrialRecord

SIZE = 50_000_000
"""Bytes in each sample of the uniform trial."""


def port(rx_bytes: int = 0, tx_bytes: int = 0, **qdisc: float) -> dict[str, object]:
    """Return the counters of a switch interface in one sample of 50 ms."""
    counts = {"rx_packets": 0, "tx_packets": 0, "rx_dropped": 0, "tx_dropped": 0}
    queue = {"qdisc": {"kind": "tbf", **qdisc}} if qdisc else {}
    return {**counts, "rx_bytes": rx_bytes, "tx_bytes": tx_bytes, **queue}


def one_way() -> TrialRecord:
    """Return the uniform trial with interface counters of the forward direction only."""
    return with_counters(with_counters(uniform_trial(), "a1", rx_bytes=0), "b1", tx_bytes=0)


def watched(name: str, role: str, leads_to: str, *pairs: int) -> dict[str, object]:
    return {"name": name, "role": role, "leads_to": leads_to, "pairs": list(pairs)}


def test_a_queue_before_a_link_is_reported_in_bytes_and_time() -> None:
    queued = port(tx_bytes=1_000_000, backlog_bytes=200_000, overlimits=5, drops=1)
    evidence = trial_evidence(
        with_observation(
            uniform_trial(), up0=queued, b1=port(tx_bytes=1_000_000, backlog_bytes=10, overlimits=1)
        )
    )
    assert evidence["backlog_bytes"] == 200_000
    assert evidence["backlog_delay_us"] == pytest.approx(10_000)
    assert evidence["overlimits_per_s"] == pytest.approx(120)
    assert evidence["qdisc_drops_per_s"] == pytest.approx(20)


def test_the_queue_of_an_endpoint_counts_too() -> None:
    trial = with_counters(
        uniform_trial(), "a1", qdisc_backlog_bytes=[0] * 9 + [5000] * 11, qdisc_overlimits=2, qdisc_drops=0
    )
    evidence = trial_evidence(trial)
    assert evidence["backlog_bytes"] == 5000
    assert evidence["overlimits_per_s"] == pytest.approx(40)


def test_queue_counters_cover_the_time_since_their_previous_reading() -> None:
    trial = uniform_trial()
    (side,) = (side for side in trial.endpoints if side.name == "a1")
    held_back = {"qdisc_overlimits": 12.0, "qdisc_drops": 3.0, "qdisc_backlog_bytes": 5000.0}
    samples = (
        replace(x, counters={**x.counters, **(held_back if place % 5 == 4 else {})})
        for place, x in enumerate(side.samples)
    )
    short = replace(side, samples=tuple(samples))
    evidence = trial_evidence(
        replace(trial, endpoints=tuple(short if x is side else x for x in trial.endpoints))
    )
    assert evidence["overlimits_per_s"] == pytest.approx(12 / (5 * 0.05))
    assert evidence["qdisc_drops_per_s"] == pytest.approx(3 / (5 * 0.05))
    assert evidence["backlog_bytes"] == 5000


def test_a_new_queueing_discipline_adds_no_earlier_overlimits() -> None:
    wrapped = [10.0] * 19 + [4e9]
    assert trial_evidence(with_counters(uniform_trial(), "a1", qdisc_overlimits=wrapped))[
        "overlimits_per_s"
    ] == pytest.approx(200)


def test_uplinks_are_compared_in_the_direction_of_the_load() -> None:
    team = with_observation(
        uniform_trial(),
        up0=port(tx_bytes=900),
        up2=port(tx_bytes=100),
        up1=port(tx_bytes=40),
        up3=port(tx_bytes=40),
    )
    roles = [watched(f"up{n}", "uplink", "sw1" if n % 2 == 0 else "sw0", 1) for n in range(4)]
    evidence = trial_evidence(team, testbed={"observed_interfaces": roles})
    assert evidence["uplink_count"] == 2
    assert evidence["busiest_uplink_percent"] == pytest.approx(90)
    assert "uplink_count" not in trial_evidence(team)


def test_foreign_traffic_is_what_the_test_cannot_have_sent() -> None:
    alone = with_observation(one_way(), up0=port(rx_bytes=SIZE + 100_000))
    assert trial_evidence(alone)["foreign_traffic_percent"] == 0
    beside = with_observation(one_way(), up0=port(rx_bytes=2 * SIZE, tx_bytes=2 * SIZE))
    assert trial_evidence(beside)["foreign_traffic_percent"] == pytest.approx(67.2, abs=0.1)


def test_what_an_iperf3_server_sends_is_not_foreign_traffic() -> None:
    received = with_stream_details(uniform_trial(), "b1", segments_in=SIZE / 1448, mss_bytes=1448)
    received = with_counters(received, "b1", rx_bytes=int(1.05 * SIZE), tx_bytes=0)
    server = replace(
        received,
        endpoints=tuple(
            replace(each, samples=(), totals={"protocol": "iperf3"}) if each.name == "a1" else each
            for each in received.endpoints
        ),
    )
    assert trial_evidence(server)["foreign_traffic_percent"] == 0
    beside = with_counters(server, "b1", rx_bytes=3 * SIZE)
    assert trial_evidence(beside)["foreign_traffic_percent"] > 50


def test_data_queued_at_the_sender_is_not_foreign_traffic() -> None:
    late = with_stream_details(one_way(), "a1", bytes_acked=2 * SIZE, unacked=0)
    drained = with_counters(late, "a1", tx_bytes=2 * SIZE)
    assert trial_evidence(drained)["foreign_traffic_percent"] == 0


def test_only_pairs_that_cross_an_interface_explain_its_traffic() -> None:
    idle = (
        fixtures.endpoint_record("a2", "source", [0] * 20),
        fixtures.endpoint_record("b2", "sink", [0] * 20),
    )
    two = with_observation(one_way(), b1=port(tx_bytes=SIZE), b2=port(tx_bytes=SIZE))
    two = replace(two, endpoints=(*two.endpoints, *idle))
    testbed = {
        "endpoints": [{"name": f"{side}{pair}", "pair": pair} for side in "ab" for pair in (1, 2)],
        "observed_interfaces": [watched(f"b{pair}", "port", f"b{pair}", pair) for pair in (1, 2)],
    }
    assert trial_evidence(two, testbed=testbed)["foreign_traffic_percent"] == pytest.approx(95)
    assert trial_evidence(two)["foreign_traffic_percent"] == 0


def test_loss_without_a_drop_counter_is_path_loss() -> None:
    lossy = with_stream_details(uniform_trial(mss=1448), "a1", busy_s=0.05, segments_out=1000, retransmits=20)
    lossy = with_counters(lossy, "a1", tx_packets=1000)
    assert trial_evidence(lossy)["path_loss_percent"] == pytest.approx(2)
    known = with_observation(lossy, up0=port(tx_bytes=10, drops=15, backlog_bytes=0))
    assert trial_evidence(known)["path_loss_percent"] == pytest.approx(0.5)
    again = with_stream_details(lossy, "a1", dsack_dups=12)
    assert trial_evidence(again)["path_loss_percent"] == pytest.approx(0.8)
    assert trial_evidence(again)["spurious_retransmit_percent"] == pytest.approx(60)


def test_datagrams_dropped_by_a_socket_or_queue_are_not_path_loss() -> None:
    lossy_metrics = {"loss_percent": 5.0, "datagrams_sent_per_s": 1000.0}
    free, queued = (
        trial_data(uniform_trial()),
        trial_data(with_counters(uniform_trial(), "a1", qdisc_drops=0.5)),
    )
    losses = [
        collect_evidence(replace(data, metrics=metrics))["path_loss_percent"]
        for data, metrics in (
            (free, lossy_metrics), (free, {**lossy_metrics, "socket_drop_percent": 2.0}),
            (queued, lossy_metrics),
            (queued, {**lossy_metrics, "loss_percent": 0.5}),
        )
    ]  # fmt: skip
    assert losses == pytest.approx([5, 3, 4, 0])


def test_a_dropped_large_packet_counts_as_all_its_segments() -> None:
    large = with_stream_details(uniform_trial(mss=1448), "a1", busy_s=0.05, segments_out=1000, retransmits=45)
    large = with_counters(large, "a1", tx_packets=25, qdisc_drops=1)
    assert trial_evidence(large)["path_loss_percent"] == 0


def test_reordering_is_reported_by_both_endpoints() -> None:
    trial = with_stream_details(uniform_trial(), "b1", busy_s=0.0, rcv_ooopack=30, segments_in=1000)
    evidence = trial_evidence(with_stream_details(trial, "a1", busy_s=0.05, reord_seen=1))
    assert evidence["reordered_percent"] == pytest.approx(3)
    assert evidence["reordering_events_per_s"] == pytest.approx(20)


def test_link_variation_covers_all_traffic() -> None:
    sizes = [4 * SIZE, 6 * SIZE] * 10
    evidence = trial_evidence(with_counters(uniform_trial(), "b1", rx_bytes=sizes, tx_bytes=0))
    assert evidence["link_variation"] == pytest.approx(0.205, abs=0.001)
