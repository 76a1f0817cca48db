"""Endpoints that run on one kernel although each reports its CPUs, such as two containers of one machine."""

from __future__ import annotations

from typing import Any

import pytest

from tests.estimate.evidence.fixtures import (
    trial_data,
    trial_evidence,
    uniform_trial,
    with_counters,
    with_cpus,
)
from tests.estimate.evidence.fixtures import with_totals as add_totals
from vnetbench.campaign.environment_facts import add_kernel_ids
from vnetbench.estimate.evidence.time_accounting.cpu_use import measure_cpu_use
from vnetbench.results.records import TrialRecord

pytestmark = pytest.mark.pure

PER_SAMPLE = 1000
AGENT = {"name": "vnetbench-agent", "pid": 7, "cpu_s": 0.5, "cpus": "0-1", "threads": 3}
OTHER = {"name": "backup", "pid": 9, "cpu_s": 0.1, "cpus": "0-1", "threads": 1}


def hosts_trial() -> TrialRecord:
    """Return a trial whose endpoints each use half a CPU of the same two, and list the agent of the other."""
    trial = uniform_trial()
    for name in ("a1", "b1"):
        trial = with_counters(
            trial, name, rx_packets=PER_SAMPLE, softnet_processed=6 * PER_SAMPLE, load_threads=1,
            threads_cpu_s=0.025, threads_waited_s=0.0, process_cpu_user_s=0.0, process_cpu_system_s=0.025,
        )  # fmt: skip
        trial = with_cpus(trial, name, *[{"system_s": 0.02, "softirq_s": 0.01, "idle_s": 0.02}] * 2)
        trial = add_totals(trial, name, processes=[AGENT], processes_interval_s=1.0)
    return trial


def testbed(*kernels: str) -> dict[str, Any]:
    """Return the description of two hosts with these kernels."""
    ends = [{"name": name, "interface": "eth0"} for name in ("a1", "b1")]
    facts = {end["name"]: {"kernel_id": kernel} for end, kernel in zip(ends, kernels, strict=True)}
    return add_kernel_ids({"lab": "hosts", "endpoints": ends}, facts)


def test_packets_of_the_other_endpoint_on_the_same_kernel_are_not_foreign() -> None:
    assert trial_evidence(hosts_trial(), testbed=testbed("x", "y"))["foreign_packets_percent"] > 50
    shared = trial_evidence(hosts_trial(), testbed=testbed("x", "x"))
    assert "foreign_packets_percent" not in shared
    assert "foreign_packet_work_percent" not in shared


def test_the_agent_of_the_other_endpoint_on_the_same_kernel_is_no_other_program() -> None:
    data = trial_data(hosts_trial(), testbed=testbed("x", "x"))
    for kernel in data.kernels:
        use = measure_cpu_use(data.steady_part, kernel, (0, 1))
        assert use is not None
        assert use.load == pytest.approx(0.5)
        assert use.programs == 0
    apart = trial_data(hosts_trial(), testbed=testbed("x", "y"))
    use = measure_cpu_use(apart.steady_part, apart.kernels[0], (0, 1))
    assert use is not None and use.programs > 0


def test_another_program_on_a_shared_kernel_is_still_found() -> None:
    trial = hosts_trial()
    for name in ("a1", "b1"):
        trial = add_totals(trial, name, processes=[AGENT, OTHER])
    evidence = trial_evidence(trial, testbed=testbed("x", "x"))
    assert evidence["busiest_program_percent"] == pytest.approx(10)


def test_an_endpoint_without_a_known_kernel_has_one_of_its_own() -> None:
    description: dict[str, object] = {"endpoints": [{"name": "a1"}, {"name": "b1"}]}
    facts: dict[str, dict[str, Any]] = {"a1": {"kernel_id": None}, "b1": {}}
    assert add_kernel_ids(description, facts) == description
    assert add_kernel_ids({"name": "frames"}, facts) == {"name": "frames"}
