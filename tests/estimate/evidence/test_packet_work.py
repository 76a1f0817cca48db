"""Evidence of work per packet from known counters."""

from __future__ import annotations

import pytest

from tests.estimate.evidence.fixtures import (
    trial_evidence,
    uniform_trial,
    with_counters,
    with_observation,
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
