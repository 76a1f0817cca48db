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


def test_packets_that_a_port_splits_are_counted_by_their_size() -> None:
    trial = with_counters(uniform_trial(), "a1", tx_bytes=640_000, tx_packets=10, rx_bytes=0, rx_packets=0)
    small = {**port(tx_bytes=640_000), "tx_packets": 400}
    whole = {**port(tx_bytes=640_000), "tx_packets": 10}
    assert trial_evidence(with_observation(trial, b1=small))["split_at_port_ratio"] == pytest.approx(40)
    assert trial_evidence(with_observation(trial, b1=whole))["split_at_port_ratio"] == pytest.approx(1)


def test_without_rules_no_work_goes_into_filters() -> None:
    trial = with_counters(uniform_trial(), "a1", tx_packets=1000, rx_packets=0)
    evidence = trial_evidence(with_totals(trial, "a1", path_state=state()))
    assert evidence.get("filter_work_percent", 0.0) == 0
    many = trial_evidence(with_totals(trial, "a1", path_state=state(netfilter_rules=100_000)))
    if "load_cpus" in many:
        assert many["filter_work_percent"] == 100
