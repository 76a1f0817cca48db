"""Evidence of work per packet from known counters."""

from __future__ import annotations

import pytest

from tests.estimate.evidence.fixtures import (
    trial_evidence,
    uniform_trial,
    with_counters,
    with_observation,
    with_stream_details,
    with_totals,
)
from tests.estimate.evidence.test_links import port
from tests.estimate.evidence.test_path_state import state
from tests.estimate.evidence.test_time_accounting import busy_cpu, trial_with_threads


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
