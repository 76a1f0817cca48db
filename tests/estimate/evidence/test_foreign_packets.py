"""Packets that a kernel processes and that are not the load's."""

from __future__ import annotations

import pytest

from tests.estimate.evidence.fixtures import (
    trial_evidence,
    uniform_trial,
    with_counters,
    with_cpus,
    with_observation,
    with_totals,
)
from tests.estimate.evidence.test_links import port
from tests.estimate.evidence.test_path_interfaces import VLAN_OVER_BOND
from tests.estimate.evidence.test_path_state import state
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


def test_a_vlan_over_a_bond_processes_each_packet_of_the_load_three_times() -> None:
    """The receiver is a host of its own: its CPUs are in its samples."""
    trial = with_counters(uniform_trial(), "b1", rx_packets=PER_SAMPLE, softnet_processed=3 * PER_SAMPLE)
    trial = with_cpus(trial, "b1", {"softirq_s": 0.03, "idle_s": 0.02})
    listed = with_totals(trial, "b1", path_state=state(interfaces=list(VLAN_OVER_BOND)))
    testbed = {"lab": "hosts", "endpoints": [{"name": "b1", "interface": "bond0.7"}]}
    assert trial_evidence(listed, testbed=testbed)["foreign_packets_percent"] == pytest.approx(0)
    assert trial_evidence(listed, testbed=testbed)["foreign_packet_work_percent"] == pytest.approx(0)
    # An older agent lists no interfaces.
    assert trial_evidence(trial, testbed=testbed)["foreign_packets_percent"] == pytest.approx(100 * 2 / 3)


def trial_on_many_cpus(*cpus: dict[str, float]) -> TrialRecord:
    """Return a trial whose receiver is a host with these CPUs, each sample of 50 ms."""
    trial = with_counters(
        uniform_trial(),
        "b1",
        rx_packets=PER_SAMPLE,
        softnet_processed=sum(cpu.get("softnet_processed", 0.0) for cpu in cpus),
    )
    return with_cpus(trial, "b1", *cpus)


LOAD_CPU = {"system_s": 0.03, "softirq_s": 0.02, "softnet_processed": PER_SAMPLE}
OTHER_CPU = {"softirq_s": 0.05, "softnet_processed": 9 * PER_SAMPLE}
IDLE_CPU = {"idle_s": 0.05}


def test_packets_of_others_on_cpus_that_do_not_work_for_the_load_cost_it_nothing() -> None:
    evidence = trial_evidence(trial_on_many_cpus(LOAD_CPU, OTHER_CPU, *[IDLE_CPU] * 14))
    assert evidence["foreign_packets_percent"] == pytest.approx(90)
    assert evidence["foreign_packet_work_percent"] == pytest.approx(0)


def test_packets_of_others_on_the_cpu_of_the_load_cost_it_the_same_on_any_number_of_cpus() -> None:
    shared = {"system_s": 0.01, "softirq_s": 0.04, "softnet_processed": 10 * PER_SAMPLE}
    for idle_cpus in (0, 15):
        evidence = trial_evidence(trial_on_many_cpus(shared, *[IDLE_CPU] * idle_cpus))
        # 80 % of this CPU is packet processing, and nine of ten packets are foreign.
        assert evidence["foreign_packet_work_percent"] == pytest.approx(72)


def test_a_cpu_that_only_processes_the_packets_of_the_load_also_works_for_it() -> None:
    threads = {"user_s": 0.05}
    packets = {"softirq_s": 0.05, "softnet_processed": 4 * PER_SAMPLE}
    evidence = trial_evidence(trial_on_many_cpus(threads, packets, *[IDLE_CPU] * 6))
    assert evidence["foreign_packet_work_percent"] == pytest.approx(75)
