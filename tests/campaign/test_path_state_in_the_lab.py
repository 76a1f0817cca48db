"""What other programs put in the way of a real trial reaches the results file and becomes evidence."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from tests import fixtures
from tests.estimate.evidence.fixtures import trial_data, trial_evidence
from vnetbench.agents.launch import start_observer
from vnetbench.campaign.trial import TrialLoad, measure_trial
from vnetbench.lab.netns.testbed import NetnsTestbed, create_testbed
from vnetbench.lab.netns.topology import NetnsShape
from vnetbench.results.file import ResultsFile
from vnetbench.results.records import HOST, TrialRecord
from vnetbench.study.factors.registry import complete_levels
from vnetbench.study.model import TestbedSpec

pytestmark = [pytest.mark.lab, pytest.mark.alone]

SHAPED_BPS = 200_000_000
INTERVAL_S = 0.05


@pytest.fixture(scope="module")
def testbed() -> Iterator[NetnsTestbed]:
    testbed = create_testbed("t-path-state", NetnsShape(), "a test")
    yield testbed
    testbed.close()


@contextmanager
def busy_program(cpu: int) -> Iterator[int]:
    """Run a program that uses one CPU as much as it can, and yield its process id."""
    code = f"import os; os.sched_setaffinity(0, [{cpu}])\nwhile True: pass"
    with subprocess.Popen([sys.executable, "-c", code]) as process:
        try:
            yield process.pid
        finally:
            process.kill()


def run_in(namespace: str, command: str) -> None:
    subprocess.run(["ip", "netns", "exec", namespace, *command.split()], check=True)


def measure(testbed: NetnsTestbed, folder: Path) -> TrialRecord:
    """Run a trial, store it and return it as it is read back."""
    testbed.set_knobs_and_prove_paths(complete_levels({}), TestbedSpec())
    observer = start_observer("a test")
    try:
        measurement = measure_trial(testbed, observer, TrialLoad(complete_levels({}), 0.5, INTERVAL_S))
    finally:
        observer.close()
    trial = replace(
        fixtures.make_trial(),
        endpoints=measurement.endpoints,
        effective=measurement.effective,
        duration_s=0.5,
    )
    path = folder / "r.vnb"
    file, _ = fixtures.create_results_file(path)
    file.add_trial(trial, 1.0)
    file.close()
    (read,) = ResultsFile.open_to_read(path).trials()
    return read


def test_a_path_without_anything_in_the_way_has_none_of_it(testbed: NetnsTestbed, tmp_path: Path) -> None:
    trial = measure(testbed, tmp_path)
    evidence = trial_evidence(trial)
    for metric in ("netfilter_rules", "foreign_packet_sockets", "tc_filters", "foreign_xdp_programs"):
        assert evidence[metric] == 0, metric
    assert evidence["policer_drops_per_s"] == 0
    assert evidence["carrier_changes"] == 0
    assert "shaper_rate_share_percent" not in evidence


def test_what_is_put_in_the_way_becomes_evidence(testbed: NetnsTestbed, tmp_path: Path) -> None:
    switch, a1 = testbed.topology.switch_namespace, testbed.topology.endpoints[0].namespace
    port = testbed.topology.ports_by_pair[0][-1].interface
    shaper = f"tc qdisc add dev {port} root handle 7: tbf rate {SHAPED_BPS} burst 64k latency 20ms"
    run_in(switch, shaper)
    run_in(a1, "tc qdisc add dev eth0 clsact")
    run_in(a1, "tc filter add dev eth0 egress u32 match u32 0 0 flowid 1:1")
    try:
        with busy_program(min(os.sched_getaffinity(0))) as pid:
            trial = measure(testbed, tmp_path)
    finally:
        run_in(switch, f"tc qdisc del dev {port} root")
        run_in(a1, "tc qdisc del dev eth0 clsact")
    host = next(each for each in trial.endpoints if each.name == HOST)
    processes = host.totals["processes"]
    assert isinstance(processes, list)
    assert pid in [process["pid"] for process in processes], processes
    evidence = trial_evidence(trial)
    assert evidence["tc_filters"] == 1
    # On a busy machine the load may not fill the shaper. Headers and retransmissions add to its goodput.
    goodput_percent = 100 * trial_data(trial).metrics["goodput_bps"] / SHAPED_BPS
    assert goodput_percent < evidence["shaper_rate_share_percent"] < goodput_percent + 30
    assert evidence["busiest_program_percent"] > 0
