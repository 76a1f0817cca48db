"""Evidence of work per packet from known counters."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.estimate.evidence.fixtures import (
    change_endpoint,
    trial_data,
    trial_evidence,
    uniform_trial,
    with_counters,
    with_cpus,
    with_observation,
    with_stream_details,
    with_totals,
)
from tests.estimate.evidence.test_links import port
from tests.estimate.evidence.test_path_interfaces import VLAN_OVER_BOND, interface
from tests.estimate.evidence.test_path_state import state
from tests.estimate.evidence.test_shapers import TESTBED
from tests.estimate.evidence.test_time_accounting import busy_cpu, trial_with_threads
from vnetbench.estimate.evidence.packet_work import work_location_by_metric
from vnetbench.estimate.evidence.path_state import path_state_location_by_metric
from vnetbench.results.records import HOST, EndpointRecord, TrialRecord


def test_packets_that_a_port_splits_are_counted_by_their_size() -> None:
    trial = with_counters(uniform_trial(), "a1", tx_bytes=640_000, tx_packets=10, rx_bytes=0, rx_packets=0)
    small = {**port(tx_bytes=640_000), "tx_packets": 400}
    whole = {**port(tx_bytes=640_000), "tx_packets": 10}
    assert trial_evidence(with_observation(trial, b1=small))["split_at_port_ratio"] == pytest.approx(40)
    assert trial_evidence(with_observation(trial, b1=whole))["split_at_port_ratio"] == pytest.approx(1)


def test_work_in_filters_grows_with_the_rules() -> None:
    trial = trial_with_threads((1.0, 0.0), (0.5, 0.0), busy_cpu(1.0), busy_cpu(0.5))
    trial = with_counters(trial, "a1", tx_packets=1000, rx_packets=0)
    trial = with_counters(trial, "b1", tx_packets=0, rx_packets=500)

    def filter_work_percent(rules: int) -> float:
        state_with_rules = state(netfilter_rules=rules)
        return trial_evidence(with_totals(trial, "a1", path_state=state_with_rules))["filter_work_percent"]

    assert filter_work_percent(0) == 0
    # 20,000 packets per second, 10 ns per rule: 0.2 of the 1.5 CPUs that the load uses.
    assert filter_work_percent(1000) == pytest.approx(100 * 0.2 / 1.5)
    assert filter_work_percent(100_000) == 100


def test_a_filter_of_traffic_control_costs_as_much_as_three_firewall_rules() -> None:
    trial = trial_with_threads((1.0, 0.0), (0.5, 0.0), busy_cpu(1.0), busy_cpu(0.5))
    trial = with_counters(with_counters(trial, "a1", tx_packets=1000), "b1", rx_packets=500)
    work = [
        trial_evidence(with_totals(trial, "a1", path_state=state(**counts)))["filter_work_percent"]
        for counts in ({"netfilter_rules": 300}, {"tc_filters": 100})
    ]
    assert work[0] == pytest.approx(work[1])
    assert work[0] > 0


@pytest.mark.parametrize(("mss_bytes", "percent"), [(1448, 100), (720, 50), (88, 100 * 88 / 1440)])
def test_segments_are_compared_with_what_the_mtu_permits(mss_bytes: int, percent: float) -> None:
    trial = with_stream_details(uniform_trial(mtu=1500), "a1", mss_bytes=mss_bytes, busy_s=0.05)
    assert trial_evidence(trial)["segment_share_of_mtu_percent"] == pytest.approx(percent)


def test_segments_that_a_small_receive_window_halves_are_not_small_for_the_mtu() -> None:
    trial = with_stream_details(uniform_trial(mtu=1500), "a1", mss_bytes=768, snd_wnd_bytes=1536, busy_s=0.05)
    assert trial_evidence(trial)["segment_share_of_mtu_percent"] == pytest.approx(100)


def working_trial() -> TrialRecord:
    """Return a trial that uses 1.5 CPUs, with 20,000 packets per second at a1 and 10,000 at b1."""
    trial = trial_with_threads((1.0, 0.0), (0.5, 0.0), busy_cpu(1.0), busy_cpu(0.5))
    trial = with_counters(trial, "a1", tx_packets=1000, rx_packets=0)
    return with_counters(trial, "b1", tx_packets=0, rx_packets=500)


def filter_work_percent(**states: dict[str, object]) -> float:
    trial = working_trial()
    for endpoint, path_state in states.items():
        trial = with_totals(trial, endpoint, path_state=path_state)
    return trial_evidence(trial)["filter_work_percent"]


def test_rules_that_no_packet_passes_are_no_work() -> None:
    """A host of containers has many rules in chains that the load's packets never enter."""
    assert filter_work_percent(a1=state(netfilter_rules=2000, netfilter_rules_per_packet=0.0)) == 0
    work = filter_work_percent(a1=state(netfilter_rules=2000, netfilter_rules_per_packet=50.0))
    assert work == pytest.approx(filter_work_percent(a1=state(netfilter_rules=50)))


def test_the_work_is_that_of_one_hop_with_the_packets_of_that_hop() -> None:
    few, many = (state(netfilter_rules_per_packet=count, netfilter_rules=count) for count in (100.0, 150.0))
    # b1 has more rules, but a1 has more work: it carries twice as many packets.
    assert filter_work_percent(a1=few, b1=many) == pytest.approx(100 * 20_000 * 100 * 10e-9 / 1.5)
    trial = with_totals(with_totals(working_trial(), "a1", path_state=few), "b1", path_state=many)
    assert work_location_by_metric(trial_data(trial)) == {"filter_work_percent": "a1"}
    assert path_state_location_by_metric(trial_data(trial)) == {"netfilter_rules": "b1"}
    assert work_location_by_metric(trial_data(working_trial())) == {}


def test_filters_cost_only_what_crosses_their_queueing_discipline() -> None:
    def work(sent_packets: int, filters: int = 100) -> float:
        qdisc = {"interface": "eth0", "kind": "clsact", "sent_packets": sent_packets, "filters": filters}
        return filter_work_percent(a1=state(qdiscs=[qdisc], tc_filters=filters, interfaces=[]))

    assert work(0) == 0
    assert work(5000) == pytest.approx(100 * 5000 * 100 * 30e-9 / 1.5)
    # It counts segments, but each packet passes a filter once: 20,000 packets in this second.
    assert work(900_000) == pytest.approx(work(20_000))


def test_captures_on_interfaces_that_the_load_does_not_pass_do_not_count() -> None:
    listed = [{**each, "packet_sockets": int(each["name"] == "eth9")} for each in VLAN_OVER_BOND]
    trial = with_totals(uniform_trial(), "b1", path_state=state(packet_sockets=3, interfaces=listed))
    testbed = {"lab": "hosts", "endpoints": [{"name": "b1", "interface": "bond0.7"}]}
    assert trial_evidence(trial, testbed=testbed)["foreign_packet_sockets"] == 2
    assert trial_evidence(trial)["foreign_packet_sockets"] == 3


def test_interrupt_time_per_packet_is_that_of_the_kernel_with_the_most() -> None:
    trial = with_cpus(
        uniform_trial(), HOST, {"softirq_s": 0.01, "idle_s": 0.04}, {"irq_s": 0.01, "idle_s": 0.04}
    )
    trial = with_counters(trial, HOST, softnet_processed=10_000)
    assert trial_evidence(trial)["interrupt_us_per_packet"] == pytest.approx(2)
    assert work_location_by_metric(trial_data(trial))["interrupt_us_per_packet"] == HOST
    assert "interrupt_us_per_packet" not in trial_evidence(uniform_trial())


def trial_with_large_packets(
    packets: int = 14_317,
    *,
    kind: str = "veth",
    cwnd: int = 1000,
    pacing_bps: float = 40e9,
    **details: object,
) -> TrialRecord:
    """Return a trial in which TCP sent 142,000 segments of 1448 bytes in each sample.

    Args:
        packets: What the sender's interface counted meanwhile.
        kind: Kind of the sender's interface.
        cwnd: Congestion window, in segments.
        pacing_bps: Pacing rate of the stream.
        details: Other details of the stream.
    """
    trial = with_counters(uniform_trial(tso=True), "a1", tx_packets=packets, tx_bytes=0)
    tcp = {"segments_out": 142_000, "mss_bytes": 1448, "snd_wnd_bytes": 20e6, "cwnd": cwnd}
    trial = with_stream_details(trial, "a1", busy_s=0.05, pacing_rate_bps=pacing_bps, **tcp, **details)
    listed = [interface("eth0", kind)]
    return with_totals(trial, "a1", calls_sent=1000, path_state=state(interfaces=listed))


def packet_share_percent(trial: TrialRecord) -> float | None:
    return trial_evidence(trial, testbed=TESTBED).get("packet_share_of_permitted_percent")


@pytest.mark.parametrize(
    ("packets", "cwnd", "pacing_bps", "percent"),
    [
        # Recorded with gso_max_segs of 10 at the sender's interface, and without a limit.
        (14_317, 1000, 40e9, 22.1),
        (3340, 1000, 40e9, 94.5),
        # A congestion window of 15 segments permits packets of five.
        (28_600, 15, 40e9, 99.2),
        # 50 Mbit/s over 20 ms: 1 ms of the pacing rate (60 Mbit/s) permits packets of five segments.
        (28_600, 86, 60e6, 99.3),
        # At any rate two segments can be one packet.
        (71_000, 86, 1e6, 100),
    ],
)
def test_the_size_of_large_packets_is_compared_with_what_is_permitted(
    packets: int, cwnd: int, pacing_bps: float, percent: float
) -> None:
    trial = trial_with_large_packets(packets, cwnd=cwnd, pacing_bps=pacing_bps)
    assert packet_share_percent(trial) == pytest.approx(percent, abs=0.6)


def test_an_adapter_that_counts_packets_after_tso_does_not_show_their_size() -> None:
    assert packet_share_percent(trial_with_large_packets(142_000, kind="veth")) == pytest.approx(2.2, abs=0.1)
    assert packet_share_percent(trial_with_large_packets(142_000, kind="")) is None


def test_packets_of_transfers_in_both_directions_contain_acknowledgements() -> None:
    trial = trial_with_large_packets()
    both = change_endpoint(trial, "a1", _with_sink_stream)
    assert packet_share_percent(trial) is not None
    assert packet_share_percent(both) is None


def _with_sink_stream(endpoint: EndpointRecord) -> EndpointRecord:
    samples = [
        replace(sample, streams=(*sample.streams, replace(sample.streams[0], stream_id=7, role="sink")))
        for sample in endpoint.samples
    ]
    return replace(endpoint, samples=tuple(samples))
