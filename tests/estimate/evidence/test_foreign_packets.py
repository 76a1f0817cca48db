"""Packets that a kernel processes and that are not the load's."""

from __future__ import annotations

import pytest

from tests.estimate.evidence.fixtures import (
    trial_evidence,
    uniform_trial,
    with_counters,
    with_cpus,
    with_observation,
)
from tests.estimate.evidence.test_links import port
from vnetbench.results.records import HOST, TrialRecord

PER_SAMPLE = 1000
"""Packets of the load in each sample, from a1 through a port of the switch to b1."""


def trial_with_packets(processed: float, softirq_share: float = 0.4) -> TrialRecord:
    """Return a trial whose kernel processes so many packets in each sample of 50 ms."""
    trial = with_counters(uniform_trial(), "a1", rx_packets=0)
    trial = with_counters(trial, "b1", rx_packets=PER_SAMPLE)
    trial = with_counters(trial, HOST, softnet_processed=processed)
    trial = with_cpus(
        trial,
        HOST,
        {"softirq_s": 0.05 * softirq_share, "idle_s": 0.05 * (1 - softirq_share)},
        {"idle_s": 0.05},
    )
    return with_observation(trial, a1={**port(), "rx_packets": PER_SAMPLE}, b1=port())


def test_a_packet_is_processed_once_at_each_interface_that_receives_it() -> None:
    evidence = trial_evidence(trial_with_packets(2 * PER_SAMPLE))
    assert evidence["foreign_packets_percent"] == pytest.approx(0)
    assert evidence["foreign_packet_work_percent"] == pytest.approx(0)


def test_packets_that_no_interface_on_the_path_received_are_foreign() -> None:
    evidence = trial_evidence(trial_with_packets(8 * PER_SAMPLE))
    assert evidence["foreign_packets_percent"] == pytest.approx(75)
    # One of two CPUs spends 40 % of its time in interrupts: 20 % of both, and 75 % of that is foreign.
    assert evidence["foreign_packet_work_percent"] == pytest.approx(15)


def test_without_the_ports_of_the_switch_nothing_is_foreign() -> None:
    trial = trial_with_packets(8 * PER_SAMPLE)
    assert "foreign_packets_percent" not in trial_evidence(with_observation(trial))


def test_an_interface_without_a_counter_makes_no_packet_foreign() -> None:
    uncounted = {name: count for name, count in port().items() if name != "rx_packets"}
    trial = with_observation(trial_with_packets(8 * PER_SAMPLE), a1=uncounted, b1=port())
    assert "foreign_packets_percent" not in trial_evidence(trial)


def test_an_interface_that_receives_more_than_was_processed_has_no_negative_share() -> None:
    assert trial_evidence(trial_with_packets(PER_SAMPLE))["foreign_packets_percent"] == 0
