"""What other programs put in the way of a real trial reaches the results file and becomes evidence."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests import fixtures
from tests.estimate.evidence.fixtures import trial_data, trial_evidence
from vnetbench.agents.launch import start_observer
from vnetbench.campaign.trial import TrialLoad, measure_trial
from vnetbench.estimate.evidence.packet_work import work_location_by_metric
from vnetbench.lab import netlink
from vnetbench.lab.netns.testbed import NetnsTestbed, create_testbed
from vnetbench.lab.netns.topology import NetnsShape
from vnetbench.results.file import ResultsFile
from vnetbench.results.records import HOST, TrialRecord, mapping_or_empty
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


RULE_COUNT = 300
ETH_P_ALL = 3


def nft(namespace: str, *lines: str) -> None:
    """Set the rules of a namespace, in a table named `t`."""
    script = "add table inet t\nflush table inet t\n" + "\n".join(lines) + "\n"
    command = ["ip", "netns", "exec", namespace, "nft", "-f", "-"]
    subprocess.run(command, input=script, text=True, check=True)


def open_capture(interface: str) -> socket.socket:
    """Return a packet socket that gets all packets of an interface."""
    capture = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ETH_P_ALL))
    capture.bind((interface, ETH_P_ALL))
    return capture


def path_state_of(trial: TrialRecord, name: str) -> Mapping[str, Any]:
    return mapping_or_empty(next(e for e in trial.endpoints if e.name == name).totals["path_state"])


@pytest.mark.skipif(shutil.which("nft") is None, reason="nft is missing")
def test_only_rules_that_packets_pass_count_as_work(testbed: NetnsTestbed, tmp_path: Path) -> None:
    """As on a host of containers: many rules for forwarded packets, and chains that few packets enter."""
    a1 = testbed.topology.endpoints[0].namespace
    rules = [f"add rule inet t {{}} ip daddr 192.0.2.{number % 250} counter" for number in range(RULE_COUNT)]

    def fill(chain: str) -> list[str]:
        return [rule.format(chain) for rule in rules]

    chains = (
        "add chain inet t forward { type filter hook forward priority 0 ; }",
        "add chain inet t services",
        "add chain inet t output { type filter hook output priority 0 ; }",
    )
    try:
        elsewhere = "add rule inet t output ip daddr 192.0.2.1 counter jump services"
        nft(a1, *chains, *fill("forward"), *fill("services"), elsewhere)
        (tmp_path / "aside").mkdir()
        aside = measure(testbed, tmp_path / "aside")
        nft(a1, "delete chain inet t output", *chains, *fill("output"))
        (tmp_path / "passed").mkdir()
        passed = measure(testbed, tmp_path / "passed")
    finally:
        run_in(a1, "nft delete table inet t")
    assert path_state_of(aside, "a1")["netfilter_rules"] == 2 * RULE_COUNT + 1
    # Each sent packet passes the one rule at the hook, and none of the others.
    assert 0 < path_state_of(aside, "a1")["netfilter_rules_per_packet"] <= 1
    evidence = trial_data(passed)
    sent, received = (
        sum(sample.counters[name] for _, samples in evidence.steady_part.senders for sample in samples)
        for name in ("tx_packets", "rx_packets")
    )
    assert path_state_of(passed, "a1")["netfilter_rules_per_packet"] == pytest.approx(
        RULE_COUNT * sent / (sent + received), rel=0.1
    )
    assert trial_evidence(passed)["filter_work_percent"] > 20 * trial_evidence(aside)["filter_work_percent"]
    assert work_location_by_metric(trial_data(passed))["filter_work_percent"] == "a1"


def test_the_interfaces_show_what_packets_pass(testbed: NetnsTestbed, tmp_path: Path) -> None:
    a1 = testbed.topology.endpoints[0].namespace
    capture = netlink.run_in_namespace(a1, lambda: open_capture("eth0"))
    run_in(a1, "tc qdisc add dev eth0 clsact")
    run_in(a1, "tc filter add dev eth0 egress u32 match u32 0 0 flowid 1:1")
    try:
        state = path_state_of(measure(testbed, tmp_path), "a1")
    finally:
        capture.close()
        run_in(a1, "tc qdisc del dev eth0 clsact")
    interfaces = {each["name"]: each for each in state["interfaces"]}
    eth0 = interfaces["eth0"]
    assert (eth0["kind"], eth0["master"], eth0["packet_sockets"]) == ("veth", None, 1)
    assert eth0["tx_packets"] > 0 < eth0["rx_packets"]
    (clsact,) = (each for each in state["qdiscs"] if each["kind"] == "clsact")
    assert clsact["filters"] == 1
