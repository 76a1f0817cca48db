"""Disturbances have an effect on a real testbed and undo themselves."""

from __future__ import annotations

import random
import re
import subprocess
import time
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest

from bench.corpus import multipath_testbed
from bench.corpus.disturbance import Disturbance, DisturbanceTarget
from bench.corpus.disturbances.busy_processes import SPUN_CPU_S, busy_processes
from bench.corpus.disturbances.competing_load import COMPETING_BYTES, competing_load
from bench.corpus.disturbances.congestion_window import limited_congestion_window
from bench.corpus.disturbances.cpu_quota import THROTTLED_S, vm_cpu_quota
from bench.corpus.disturbances.gso_size import limited_gso_size
from bench.corpus.disturbances.knobs import endpoint_knobs, port_knobs, uplink_knobs
from bench.corpus.disturbances.mtu_black_hole import mtu_black_hole
from bench.corpus.disturbances.shaped_links import shaped_links
from bench.corpus.disturbances.sysctls import endpoint_sysctls, machine_sysctls, switch_sysctls
from bench.corpus.disturbances.transmit_queues import single_transmit_queue
from bench.corpus.disturbances.varying_disturbances import in_random_trials, slowing_link
from tests.machine import FIRST_CPU
from vnetbench.lab.netns.testbed import NetnsTestbed, create_testbed
from vnetbench.lab.netns.topology import NetnsShape
from vnetbench.lab.registry import testbed_pids
from vnetbench.study.factors.registry import complete_levels
from vnetbench.study.model import TestbedSpec

pytestmark = pytest.mark.lab

BACKLOG = "net/core/netdev_max_backlog"
STATE_COMMANDS = (
    "ip -d link", "ip route", "ip rule", "ip tcp_metrics", "tc qdisc", "sysctl net.ipv4",
    "ethtool -k {interface}", "grep . /sys/class/net/{interface}/queues/tx-*/xps_cpus",
)  # fmt: skip
VOLATILE_STATE = re.compile(r" state [A-Z]+|\b(gc|hello)_timer\b.*")
"""State that changes without a disturbance: timers, and the operational state of a new link."""
CUT = {"tso": False, "gso": False}

DISTURBANCES: dict[str, Disturbance] = {
    "busy processes": busy_processes(2, frozenset({FIRST_CPU})),
    "a quota": vm_cpu_quota("a1", 0.05),
    "send memory": endpoint_sysctls("a", {"net/ipv4/tcp_wmem": "4096 8192 8192"}),
    "a setting of the switch": switch_sysctls({multipath_testbed.HASH_POLICY: multipath_testbed.BY_PORTS}),
    "a setting of the machine": machine_sysctls({BACKLOG: "900"}),
    "offloads of ends": endpoint_knobs("ab", CUT),
    "offloads of ports": port_knobs(CUT),
    "offloads of the uplink": uplink_knobs(CUT),
    "receive processing": endpoint_knobs("b", {"rps_cpus": "0"}),
    "a shaped port": shaped_links(1e9),
    "a link that gets slower": slowing_link(1e9, 5e8, 0.2),
    "a black hole": mtu_black_hole(800),
    "a black hole for a part of the trial": mtu_black_hole(800, 0.01, 0.05),
    "one transmit queue": single_transmit_queue(),
    "a small window": limited_congestion_window(20),
    "frames of few packets": limited_gso_size(5),
    "competing load": competing_load({}),
    "competing load in the same VMs": competing_load({}, in_same_vms=True),
    "random trials": in_random_trials(1.0, shaped_links(1e9)),
}


@pytest.fixture(scope="module")
def testbed() -> Iterator[NetnsTestbed]:
    created = create_testbed("disturbed", NetnsShape("bridge", uplink=True), "a test")
    yield created
    created.close()


def make_target(testbed: NetnsTestbed, trial_index: int = 1) -> DisturbanceTarget:
    return DisturbanceTarget(testbed, trial_index, random.Random(0), defaultdict(float))


def read_state(testbed: NetnsTestbed) -> list[str]:
    """Return the state of the testbed from outside, without counters and timers."""
    namespaces = [(end.namespace, end.interface) for end in testbed.endpoints]
    namespaces.append((testbed.topology.switch_namespace, "up0"))
    lines = [Path("/proc/sys", BACKLOG).read_text()]
    lines += subprocess.run(["ip", "netns"], capture_output=True, text=True).stdout.splitlines()
    for namespace, interface in namespaces:
        script = "; ".join(STATE_COMMANDS).format(interface=interface)
        command = ["ip", "netns", "exec", namespace, "sh", "-c", script]
        completed = subprocess.run(command, capture_output=True, text=True)
        assert "not found" not in completed.stderr, completed.stderr
        lines += completed.stdout.splitlines()
    return [VOLATILE_STATE.sub("", line) for line in lines]


@pytest.mark.usefixtures("real_root")
@pytest.mark.parametrize("disturbance", DISTURBANCES.values(), ids=DISTURBANCES)
def test_a_disturbance_is_undone_even_after_an_error(testbed: NetnsTestbed, disturbance: Disturbance) -> None:
    if (
        disturbance is DISTURBANCES["offloads of ports"]
        or disturbance is DISTURBANCES["offloads of the uplink"]
    ):
        make_target(testbed).switch_agent()  # the agent lives as long as the testbed
    before, processes = read_state(testbed), len(testbed_pids(testbed.topology.testbed_name))
    with pytest.raises(ZeroDivisionError), disturbance(make_target(testbed)):
        raise ZeroDivisionError
    assert read_state(testbed) == before
    assert len(testbed_pids(testbed.topology.testbed_name)) == processes


@pytest.mark.usefixtures("real_root")
def test_disturbances_change_the_testbed_and_measure_their_effect(testbed: NetnsTestbed) -> None:
    target = make_target(testbed)
    before = read_state(testbed)
    for name in (
        "send memory",
        "a shaped port",
        "a black hole",
        "offloads of ends",
        "a small window",
        "frames of few packets",
    ):
        with DISTURBANCES[name](target):
            assert read_state(testbed) != before, name
    for seconds in (0.3, 3.0, 30.0):
        with DISTURBANCES["busy processes"](target), DISTURBANCES["competing load"](target):
            time.sleep(seconds)
        # On a busy machine the processes take longer to start.
        if target.measurements[SPUN_CPU_S] > 0 and target.measurements[COMPETING_BYTES] > 1e6:
            break
    assert target.measurements[SPUN_CPU_S] > 0
    assert target.measurements[COMPETING_BYTES] > 1e6
    assert THROTTLED_S not in target.measurements


@pytest.mark.usefixtures("real_root")
def test_a_multipath_testbed_carries_packets_over_both_uplinks() -> None:
    testbed = multipath_testbed.MultipathLab(TestbedSpec(), "a test").create_testbed(
        "team", NetnsShape("router")
    )
    try:
        effective = testbed.set_knobs_and_prove_paths(
            complete_levels({"vswitch": "router", "link_rate": 10**9}), TestbedSpec()
        )
        assert effective["path_mtu_proved"] == 1500
        assert effective["link_rate"] == 10**9
        interfaces = testbed.describe()["observed_interfaces"]
        assert isinstance(interfaces, list)
        assert sum(each["role"] == "uplink" for each in interfaces) == 2 * multipath_testbed.UPLINK_PAIRS
    finally:
        testbed.close()
