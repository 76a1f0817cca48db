"""Evidence of the path's state, from known states of the path."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tests.estimate.evidence.fixtures import (
    trial_evidence,
    uniform_trial,
    with_cpus,
    with_observation,
    with_totals,
)
from tests.estimate.evidence.test_links import port, watched
from vnetbench.estimate.evidence.other_programs import programs_interval_s
from vnetbench.estimate.evidence.path_state import PATH_STATE_EVIDENCE_METRICS, PROGRAM_EVIDENCE_METRICS
from vnetbench.results.records import HOST, TrialRecord

CPUS = ({"idle_s": 0.05}, {"idle_s": 0.05})
"""Two idle CPUs in each sample of 50 ms."""


def state(**changes: object) -> dict[str, Any]:
    """Return the state of a network namespace; nothing stands in the way unless it is in `changes`."""
    counts = dict.fromkeys(
        ("netfilter_rules", "conntrack_entries", "packet_sockets", "tc_filters", "xdp_programs"), 0
    )
    return {**counts, "bridge_netfilter": False, "policer_drops": 0, "qdiscs": [], **changes}


def with_programs(*processes: dict[str, object], **totals: object) -> TrialRecord:
    """Return a trial of 1 s on two CPUs of the host, with these other programs."""
    trial = with_cpus(uniform_trial(), HOST, *CPUS)
    return with_totals(trial, HOST, processes=list(processes), **totals)


def test_metrics_without_their_counters_are_absent() -> None:
    evidence = trial_evidence(uniform_trial())
    names = {metric.name for metric in (*PATH_STATE_EVIDENCE_METRICS, *PROGRAM_EVIDENCE_METRICS)}
    assert names & set(evidence) == set()


def test_an_unknown_count_is_absent_and_a_known_zero_is_not() -> None:
    evidence = trial_evidence(with_totals(uniform_trial(), "a1", path_state=state(netfilter_rules=None)))
    assert "netfilter_rules" not in evidence
    assert evidence["conntrack_entries"] == 0
    assert evidence["policer_drops_per_s"] == 0


def test_counts_are_those_of_the_namespace_with_the_most() -> None:
    trial = with_totals(uniform_trial(), "a1", path_state=state(netfilter_rules=3, packet_sockets=1))
    trial = with_totals(trial, "b1", path_state=state(netfilter_rules=9, tc_filters=2, xdp_programs=1))
    evidence = trial_evidence(trial)
    assert evidence["netfilter_rules"] == 9
    assert evidence["foreign_packet_sockets"] == 1
    assert evidence["tc_filters"] == 2
    assert evidence["foreign_xdp_programs"] == 1


@pytest.mark.parametrize(("sockets", "foreign"), [(3, 0), (4, 1), (2, 0)])
def test_packet_sockets_of_the_virtual_switch_are_no_captures(sockets: int, foreign: int) -> None:
    trial = with_observation(
        with_totals(uniform_trial(), HOST, path_state=state(packet_sockets=sockets)), a1=port()
    )
    ports = [watched(name, "port", name, 1) for name in ("a1", "b1")]
    switch = {"open_vswitch": "3.1.0", "observed_interfaces": ports}
    assert trial_evidence(trial, testbed=switch)["foreign_packet_sockets"] == foreign
    assert trial_evidence(trial, testbed={"observed_interfaces": ports})["foreign_packet_sockets"] == sockets


def test_the_switch_counts_but_not_a_machine_that_packets_do_not_cross() -> None:
    trial = with_totals(uniform_trial(), "a1", path_state=state())
    trial = with_totals(trial, HOST, path_state=state(netfilter_rules=50))
    assert trial_evidence(trial)["netfilter_rules"] == 0
    counts = dict.fromkeys(
        ("rx_packets", "tx_packets", "rx_bytes", "tx_bytes", "rx_dropped", "tx_dropped"), 0
    )
    assert trial_evidence(with_observation(trial, sw0=counts))["netfilter_rules"] == 50


def test_drops_of_policers_are_added_up_per_second() -> None:
    trial = with_totals(uniform_trial(), "a1", path_state=state(policer_drops=20))
    trial = with_totals(trial, "b1", path_state=state(policer_drops=5))
    assert trial_evidence(trial)["policer_drops_per_s"] == pytest.approx(25 / trial.duration_s)


def test_a_failing_link_is_that_of_the_worst_interface() -> None:
    counts = {
        "rx_packets": 0,
        "tx_packets": 0,
        "rx_bytes": 0,
        "tx_bytes": 0,
        "rx_dropped": 0,
        "tx_dropped": 0,
    }
    trial = with_observation(uniform_trial(), sw0=counts)
    interfaces = [{"name": "sw0", "carrier_changes": 4}, {"name": "a1"}]
    trial = with_totals(trial, HOST, interfaces=interfaces)
    trial = with_totals(trial, "a1", counters={"carrier_changes": 2})
    assert trial_evidence(trial)["carrier_changes"] == 4


def test_the_busiest_program_counts_in_cpus_on_a_machine_of_any_size() -> None:
    capture = {"name": "tcpdump", "pid": 7, "cpu_s": 2.0, "cpus": "0-31", "threads": 1}
    build = {"name": "build", "pid": 8, "cpu_s": 3.0, "cpus": "0-1", "threads": 4}

    def busiest_percent(*programs: dict[str, object]) -> float:
        return trial_evidence(with_programs(*programs, processes_interval_s=2.0))["busiest_program_percent"]

    assert busiest_percent(capture) == pytest.approx(100)
    assert busiest_percent(capture, build) == pytest.approx(150)
    assert busiest_percent({**capture, "cpu_s": 2.01}) == 100


def test_without_its_interval_a_list_of_programs_covers_the_idle_phase_too() -> None:
    capture = {"name": "tcpdump", "pid": 7, "cpu_s": 0.5, "cpus": "0", "threads": 1}
    trial = replace(with_programs(capture), idle_s=0.5, duration_s=0.5)
    (host,) = (each for each in trial.endpoints if each.name == HOST)
    assert programs_interval_s(trial, host) == 1
    assert trial_evidence(trial)["busiest_program_percent"] == pytest.approx(50)


def test_threads_of_the_kernel_are_no_programs() -> None:
    worker = {"name": "vhost-7", "pid": 7, "cpu_s": 0.8, "cpus": "1", "threads": 1, "kernel": True}
    assert trial_evidence(with_programs(worker))["busiest_program_percent"] == 0
