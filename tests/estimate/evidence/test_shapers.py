"""Evidence of shapers and queues that no sample reads, from known states of the path."""

from __future__ import annotations

from typing import Any

import pytest

from tests.estimate.evidence.fixtures import (
    trial_data,
    trial_evidence,
    uniform_trial,
    with_counters,
    with_observation,
    with_stream_details,
    with_totals,
)
from tests.estimate.evidence.test_links import port
from tests.estimate.evidence.test_path_interfaces import VLAN_OVER_BOND, interface
from tests.estimate.evidence.test_path_state import state
from vnetbench.estimate.evidence.queue_directions import queue_location_by_metric
from vnetbench.estimate.evidence.time_accounting.network_time import split_network_time
from vnetbench.results.records import HOST, TrialRecord

TESTBED = {"endpoints": [{"name": "a1", "interface": "eth0"}, {"name": "b1", "interface": "eth0"}]}
GIGABIT = 1_000_000_000


def qdisc(sent_bytes: int, rate_bps: int | None, **changes: object) -> dict[str, object]:
    return {
        "interface": "ifb0", "kind": "tbf", "parent": "root", "drops": 0, "overlimits": 0,
        "sent_bytes": sent_bytes, "rate_bps": rate_bps, **changes,
    }  # fmt: skip


def with_qdiscs(*qdiscs: dict[str, object], endpoint: str = "b1") -> TrialRecord:
    return with_totals(uniform_trial(), endpoint, path_state=state(qdiscs=list(qdiscs)))


def evidence_of(*qdiscs: dict[str, object]) -> dict[str, Any]:
    return trial_evidence(with_qdiscs(*qdiscs), testbed=TESTBED)


def test_a_path_without_shapers_has_no_use_of_them() -> None:
    evidence = evidence_of()
    assert "shaper_rate_share_percent" not in evidence
    assert evidence["unsampled_queue_drops_per_s"] == 0


def test_the_share_is_that_of_the_most_used_shaper() -> None:
    evidence = evidence_of(
        qdisc(10_000_000, GIGABIT), qdisc(90_000_000, 800_000_000, overlimits=40), qdisc(10**9, None)
    )
    assert evidence["shaper_rate_share_percent"] == pytest.approx(90)
    assert evidence["shaper_delays_per_s"] == 40


def test_a_burst_does_not_raise_the_share_above_the_rate_and_a_removed_shaper_has_none() -> None:
    assert evidence_of(qdisc(10**9, GIGABIT))["shaper_rate_share_percent"] == 100
    assert "shaper_rate_share_percent" not in evidence_of(qdisc(0, GIGABIT, is_gone=True))


def test_delays_are_counted_for_each_packet_if_the_agent_counts_packets() -> None:
    shaper = qdisc(90_000_000, GIGABIT, overlimits=300)
    assert "shaper_delays_per_packet" not in evidence_of(shaper)
    counted = {**shaper, "sent_packets": 200}
    assert evidence_of(counted)["shaper_delays_per_packet"] == 1.5
    large = with_counters(with_qdiscs({**counted, "sent_packets": 200 * 45}), "a1", tx_packets=20)
    large = with_stream_details(large, "a1", busy_s=0.05, segments_out=900)
    assert trial_evidence(large, testbed=TESTBED)["shaper_delays_per_packet"] == pytest.approx(1.5)


def test_drops_of_a_queue_without_samples_are_no_loss_at_an_unknown_point() -> None:
    """The load sends packets of one segment, so each drop is one segment."""
    lossy = with_stream_details(with_qdiscs(), "a1", busy_s=0.05, retransmits=5, segments_out=1000)
    assert trial_evidence(lossy, testbed=TESTBED)["path_loss_percent"] == pytest.approx(0.5)
    counted = with_totals(lossy, "b1", path_state=state(qdiscs=[qdisc(1, None, drops=100)]))
    assert trial_evidence(counted, testbed=TESTBED)["path_loss_percent"] == 0


def test_drops_of_the_whole_trial_explain_only_their_share_of_the_loss_after_the_warm_up() -> None:
    lossy = with_stream_details(with_qdiscs(), "a1", busy_s=0.05, retransmits=5, segments_out=1000)
    dropped = with_totals(lossy, "b1", path_state=state(qdiscs=[qdisc(1, None, drops=50)]))
    # 50 of 10,000 segments in the second half of the trial, of which the queue dropped 25.
    evidence = trial_evidence(dropped, warmup_samples=10, testbed=TESTBED)
    assert evidence["path_loss_percent"] == pytest.approx(0.25)


def test_drops_that_samples_also_count_are_not_counted_twice() -> None:
    own = qdisc(1, GIGABIT, interface="eth0", drops=7)
    assert evidence_of(own)["unsampled_queue_drops_per_s"] == 0
    below_root = qdisc(1, GIGABIT, parent="1:2", drops=7)
    assert evidence_of(below_root)["unsampled_queue_drops_per_s"] == 0
    host = with_totals(
        with_observation(uniform_trial(), sw0=port(tx_bytes=1, rx_bytes=1)),
        HOST,
        path_state=state(qdiscs=[qdisc(1, None, drops=3), qdisc(1, None, drops=9, interface="sw0")]),
    )
    assert trial_evidence(host, testbed=TESTBED)["unsampled_queue_drops_per_s"] == 3


def test_the_shaper_is_named_with_its_interface_and_its_namespace() -> None:
    locations = queue_location_by_metric(trial_data(with_qdiscs(qdisc(90_000_000, GIGABIT)), testbed=TESTBED))
    assert locations["shaper_rate_share_percent"] == "interface ifb0 of b1, tbf"
    assert queue_location_by_metric(trial_data(uniform_trial(), testbed=TESTBED)) == {}


def test_time_goes_to_the_queue_of_a_full_link_that_no_sample_reads() -> None:
    full = with_qdiscs(qdisc(100_000_000, GIGABIT, overlimits=50))
    assert split_network_time(trial_data(full, testbed=TESTBED))["link_queue"] == pytest.approx(0.8)
    idle = with_qdiscs(qdisc(100_000_000, GIGABIT))
    assert split_network_time(trial_data(idle, testbed=TESTBED))["link_queue"] == 0


def test_a_shaper_that_delays_few_packets_takes_little_time() -> None:
    smoothing = with_qdiscs(qdisc(100_000_000, GIGABIT, overlimits=50, sent_packets=70_000))
    assert 0 < split_network_time(trial_data(smoothing, testbed=TESTBED))["link_queue"] < 0.03
    # Packets of 64 KiB, each delayed once: the kernel counts some 45 segments for each.
    full = with_qdiscs(qdisc(100_000_000, GIGABIT, overlimits=1600, sent_packets=70_000))
    assert split_network_time(trial_data(full, testbed=TESTBED))["link_queue"] == pytest.approx(0.8)


def test_a_sampled_queue_decides_by_its_samples() -> None:
    """Its readings show that it is empty, whatever the share of its rate."""
    busy = with_qdiscs(qdisc(100_000_000, GIGABIT, overlimits=50, interface="eth0"))
    sampled = with_counters(busy, "b1", qdisc_overlimits=1, qdisc_backlog_bytes=0, qdisc_drops=0)
    assert split_network_time(trial_data(sampled, testbed=TESTBED))["link_queue"] == 0


HOSTS = {
    "lab": "hosts",
    "endpoints": [{"name": "a1", "interface": "eth0"}, {"name": "b1", "interface": "bond0.7"}],
}


def host_evidence(*qdiscs: dict[str, object]) -> dict[str, Any]:
    path_state = state(qdiscs=list(qdiscs), interfaces=[*VLAN_OVER_BOND, interface("ifb0", "ifb")])
    return trial_evidence(with_totals(uniform_trial(), "b1", path_state=path_state), testbed=HOSTS)


def test_shapers_of_interfaces_that_the_load_does_not_pass_do_not_count() -> None:
    other = qdisc(120_000_000, GIGABIT, interface="eth9", drops=50)
    own = qdisc(60_000_000, GIGABIT, interface="eth1", drops=3)
    assert "shaper_rate_share_percent" not in host_evidence(other)
    evidence = host_evidence(other, own, qdisc(120_000_000, GIGABIT, interface="ifb0"))
    assert evidence["shaper_rate_share_percent"] == pytest.approx(48)
    assert evidence["shaper_drops_per_s"] == 3
    assert host_evidence(other)["unsampled_queue_drops_per_s"] == 0


def test_all_shapers_count_if_the_machine_does_not_show_its_interfaces() -> None:
    other = qdisc(120_000_000, GIGABIT, interface="eth9")
    trial = with_totals(uniform_trial(), "b1", path_state=state(qdiscs=[other]))
    assert trial_evidence(trial, testbed=HOSTS)["shaper_rate_share_percent"] == pytest.approx(96)


def delays_per_packet(tx_packets: int, segment_bytes: int = 1448, **effective: object) -> float:
    """Return the delays per packet of a shaper that delayed 200 of some packets with 9,000 segments.

    Args:
        tx_packets: Packets of each of 20 samples that the sender's adapter counted; TCP sent 450 segments.
        segment_bytes: Mean payload of a segment.
        effective: Settings of the sender.
    """
    shaper = qdisc(90_000_000, GIGABIT, overlimits=200, sent_packets=9000)
    trial = with_totals(uniform_trial(**effective), "b1", path_state=state(qdiscs=[shaper]))
    trial = with_counters(trial, "a1", tx_packets=tx_packets)
    details = {"segments_out": 450, "mss_bytes": 1448, "bytes": 450 * segment_bytes}
    trial = with_stream_details(trial, "a1", busy_s=0.05, **details)
    return trial_evidence(trial, testbed=TESTBED)["shaper_delays_per_packet"]


def test_an_adapter_that_counts_wire_packets_does_not_make_delays_look_rare() -> None:
    # Packets of 45 segments, each delayed once. Both counters describe the same traffic.
    assert delays_per_packet(tx_packets=10) == pytest.approx(1)
    assert delays_per_packet(tx_packets=450) == pytest.approx(200 / 9000 * 65536 / 1448)


def test_without_large_packets_each_segment_is_a_packet() -> None:
    assert delays_per_packet(tx_packets=450, gso=False) == pytest.approx(200 / 9000)
    assert delays_per_packet(tx_packets=450, segment_bytes=100) == pytest.approx(200 / 9000)
