"""Evidence of packets from known counters."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.estimate.evidence.fixtures import (
    change_endpoint,
    trial_evidence,
    uniform_trial,
    with_counters,
    with_cpus,
    with_observation,
    with_stream_details,
    with_totals,
)
from vnetbench.results.records import EndpointRecord


def test_segments_per_packet_show_segmentation_and_aggregation() -> None:
    trial = with_counters(
        with_stream_details(uniform_trial(), "a1", busy_s=0.05, segments_out=450),
        "a1",
        tx_packets=10,
        tx_bytes=651_600,
    )
    evidence = trial_evidence(with_counters(trial, "b1", rx_packets=450, rx_bytes=681_300))
    assert evidence["segments_per_packet"] == 45
    assert evidence["segment_bytes_sent"] == 65160
    assert evidence["segments_per_packet_received"] == 1
    assert evidence["segment_bytes_received"] == 1514
    assert evidence["packets_per_s"] == pytest.approx(9000)


def test_settings_are_read_back_from_the_relevant_endpoints() -> None:
    evidence = trial_evidence(
        uniform_trial(
            mtu={"a1": 9000, "b1": 1500}, vswitch_mtu=1500, mss=1448, queues={"a1": 1, "b1": 4},
            tso=True, gso=False, gro={"a1": False, "b1": True}, tx_checksum=True, rx_checksum=False,
        )
    )  # fmt: skip
    assert {name: evidence[name] for name in ("tso_off", "gso_off", "gro_off", "checksum_off")} == {
        "tso_off": 0, "gso_off": 1, "gro_off": 0, "checksum_off": 1
    }  # fmt: skip
    assert "lro_off" not in evidence
    assert evidence["mtu_bytes"] == evidence["switch_mtu_bytes"] == 1500
    assert evidence["receive_queues"] == 4


def test_packets_on_one_cpu_are_a_share_of_the_receiving_kernels_packets() -> None:
    cpus = [{"idle_s": 0.05, "softnet_processed": count} for count in (900.0, 60.0, 40.0, 0.0)]
    evidence = trial_evidence(with_cpus(uniform_trial(), "host", *cpus))
    assert evidence["busiest_receive_cpu_percent"] == pytest.approx(90)
    assert evidence["receive_cpus"] == 2
    own = with_cpus(
        with_cpus(uniform_trial(), "host", *cpus),
        "b1",
        {"softnet_processed": 50.0},
        {"softnet_processed": 50.0},
    )
    assert trial_evidence(with_cpus(own, "a1", {"idle_s": 0.05}))[
        "busiest_receive_cpu_percent"
    ] == pytest.approx(50)
    alone = with_cpus(uniform_trial(), "host", {"idle_s": 0.05, "softnet_processed": 900.0})
    assert "busiest_receive_cpu_percent" not in trial_evidence(alone)


@pytest.mark.parametrize(
    "names",
    [
        ("rx_queue_0_packets", "rx_queue_1_packets"),
        ("rx_queue_0_xdp_packets", "rx_queue_1_xdp_packets"),
        ("rx0_packets", "rx1_packets"),
        ("Rx Queue#0 ucast pkts rx", "Rx Queue#1 ucast pkts rx"),
        ("rx-0.packets", "rx-1.packets"),
        ("queue_0_rx_cnt", "queue_1_rx_cnt"),
    ],
)
def test_the_share_of_one_queue_uses_the_drivers_counter_names(names: tuple[str, str]) -> None:
    other = {
        "rx_packets": 5000,
        "Rx Queue#0 LRO pkts rx": 900,
        "tx_queue_0_packets": 700,
        "rx_queue_0_kicks": 9,
    }
    counts = dict(zip(names, (950, 50), strict=True))
    evidence = trial_evidence(with_totals(uniform_trial(), "b1", adapter={**counts, **other}))
    assert evidence["busiest_queue_percent"] == pytest.approx(95)
    assert evidence["receive_queues"] == 2
    assert "busiest_queue_percent" not in trial_evidence(with_totals(uniform_trial(), "b1", adapter=other))


def test_kernel_queue_counters_replace_driver_counters() -> None:
    adapter = {"rx_queue_0_packets": 90, "rx_queue_0_xdp_packets": 90, "rx_queue_1_packets": 10}
    evidence = trial_evidence(with_totals(uniform_trial(), "b1", adapter=adapter))
    assert (evidence["busiest_queue_percent"], evidence["receive_queues"]) == (90, 2)
    queues = [
        {"direction": "rx", "queue": number, "packets": count} for number, count in enumerate((60, 40, 0))
    ]
    all_queues = [*queues, {"direction": "tx", "queue": 0, "packets": 500}]
    evidence = trial_evidence(with_totals(uniform_trial(), "b1", adapter=adapter, queues=all_queues))
    assert (evidence["busiest_queue_percent"], evidence["receive_queues"]) == (60, 3)


def test_drops_are_reported_by_location() -> None:
    trial = with_counters(uniform_trial(), "host", softnet_dropped=3, softnet_squeezed=1)
    trial = with_counters(trial, "b1", rx_dropped=2, udp_receive_buffer_errors=4, udp_checksum_errors=1)
    port = {"rx_packets": 0, "tx_packets": 0, "rx_dropped": 1, "tx_dropped": 4}
    evidence = trial_evidence(with_observation(trial, sw=port))
    assert evidence["softnet_dropped_per_s"] == pytest.approx(60)
    assert evidence["softnet_squeezed_per_s"] == pytest.approx(20)
    assert evidence["interface_drops_per_s"] == pytest.approx(40)
    assert evidence["receive_buffer_errors_per_s"] == pytest.approx(80)
    assert evidence["checksum_errors_per_s"] == pytest.approx(20)
    assert evidence["switch_drops_per_s"] == pytest.approx(100)


def test_observations_after_the_load_do_not_count() -> None:
    def drained(side: EndpointRecord) -> EndpointRecord:
        last = side.samples[-1]
        late = replace(last, seq=20, end_s=1.05, counters={**last.counters, "softnet_dropped": 500})
        return replace(side, samples=(*side.samples, late))

    trial = change_endpoint(with_counters(uniform_trial(), "host", softnet_dropped=1), "host", drained)
    assert trial_evidence(trial)["softnet_dropped_per_s"] == pytest.approx(20)


def test_a_stream_with_waiting_data_and_no_acknowledgement_is_stalled() -> None:
    acked = [0] * 5 + [1000] * 15
    waiting = with_stream_details(
        uniform_trial(), "a1", busy_s=0.05, bytes_acked=acked, unacked=10, backoff=[0] * 18 + [3, 2]
    )
    assert trial_evidence(waiting)["stalled_percent"] == pytest.approx(25)
    assert trial_evidence(waiting)["max_backoff"] == 3
    idle = with_stream_details(
        uniform_trial(), "a1", busy_s=0.0, bytes_acked=acked, unacked=0, notsent_bytes=0
    )
    assert trial_evidence(idle)["stalled_percent"] == 0


def test_mtu_errors_are_summed_over_their_counters() -> None:
    trial = with_counters(uniform_trial(), "a1", ip_fragments_failed=1, tcp_mtu_probes_failed=2)
    assert trial_evidence(with_counters(trial, "b1", icmp_in_unreachable=1))[
        "mtu_errors_per_s"
    ] == pytest.approx(80)
