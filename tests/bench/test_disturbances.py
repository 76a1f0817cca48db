"""What makes something wrong on a living testbed does that, and leaves the testbed as it was."""

from __future__ import annotations

import random
import re
import subprocess
import time
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest

from bench.corpus import team
from bench.corpus.disturb.black_hole import black_hole
from bench.corpus.disturb.knobs import at_ends, at_ports, at_uplink
from bench.corpus.disturb.quota import THROTTLED, quota
from bench.corpus.disturb.rivals import CARRIED, rivals
from bench.corpus.disturb.routes import congestion_window
from bench.corpus.disturb.settings import machine_settings, settings, switch_settings
from bench.corpus.disturb.shaped import shaped
from bench.corpus.disturb.spinning import SPUN, spinning
from bench.corpus.disturb.super_frames import super_frames
from bench.corpus.disturb.transmit_queues import one_transmit_queue
from bench.corpus.disturb.varying import in_some_trials, shaped_ever_less
from bench.corpus.scene import Disturb, Scene
from vnetbench.lab.netns.testbed import NetnsTestbed, create_testbed
from vnetbench.lab.netns.topology import NetnsShape
from vnetbench.lab.registry import testbed_processes
from vnetbench.study.factors.registry import complete_levels
from vnetbench.study.model import TestbedSpec

pytestmark = pytest.mark.lab

BACKLOG = "net/core/netdev_max_backlog"
SHOWN = (
    "ip -d link", "ip route", "ip rule", "ip tcp_metrics", "tc qdisc", "sysctl net.ipv4",
    "ethtool -k {interface}", "grep . /sys/class/net/{interface}/queues/tx-*/xps_cpus",
)  # fmt: skip
OF_THEIR_OWN = re.compile(r" state [A-Z]+|\b(gc|hello)_timer\b.*")
"""What of these changes without anyone's doing: timers, and a link's state some time after it is there."""
CUT = {"tso": False, "gso": False}

DISTURBANCES: dict[str, Disturb] = {
    "work beside": spinning(2, frozenset({0})),
    "a quota": quota("a1", 0.05),
    "send memory": settings("a", {"net/ipv4/tcp_wmem": "4096 8192 8192"}),
    "a setting of the switch": switch_settings({team.HASH_POLICY: team.BY_PORTS}),
    "a setting of the machine": machine_settings({BACKLOG: "900"}),
    "offloads of ends": at_ends("ab", CUT),
    "offloads of ports": at_ports(CUT),
    "offloads of the uplink": at_uplink(CUT),
    "receive processing": at_ends("b", {"rps_cpus": "0"}),
    "a shaped port": shaped(1e9),
    "a link that gets slower": shaped_ever_less(1e9, 5e8, 0.2),
    "a black hole": black_hole(800),
    "a black hole for a while": black_hole(800, 0.01, 0.05),
    "one transmit queue": one_transmit_queue(),
    "a small window": congestion_window(20),
    "frames of few packets": super_frames(5),
    "rivals": rivals({}),
    "rivals in the same VMs": rivals({}, inside=True),
    "trials that are drawn": in_some_trials(1.0, shaped(1e9)),
}


@pytest.fixture(scope="module")
def bed() -> Iterator[NetnsTestbed]:
    raised = create_testbed("disturbed", NetnsShape("bridge", uplink=True), "a test")
    yield raised
    raised.close()


def scene(bed: NetnsTestbed, number: int = 1) -> Scene:
    return Scene(bed, number, random.Random(0), defaultdict(float))


def shown(bed: NetnsTestbed) -> list[str]:
    """All that there is to see of the testbed from outside, without what only counts or ages."""
    namespaces = [(end.namespace, end.interface) for end in bed.endpoints]
    namespaces.append((bed.topology.switch_namespace, "up0"))
    said = [Path("/proc/sys", BACKLOG).read_text()]
    said += subprocess.run(["ip", "netns"], capture_output=True, text=True).stdout.splitlines()
    for namespace, interface in namespaces:
        script = "; ".join(SHOWN).format(interface=interface)
        command = ["ip", "netns", "exec", namespace, "sh", "-c", script]
        shows = subprocess.run(command, capture_output=True, text=True)
        assert "not found" not in shows.stderr, shows.stderr
        said += shows.stdout.splitlines()
    return [OF_THEIR_OWN.sub("", line) for line in said]


@pytest.mark.usefixtures("real_root")
@pytest.mark.parametrize("disturb", DISTURBANCES.values(), ids=DISTURBANCES)
def test_a_disturbance_is_undone_also_when_what_it_surrounds_fails(
    bed: NetnsTestbed, disturb: Disturb
) -> None:
    if disturb is DISTURBANCES["offloads of ports"] or disturb is DISTURBANCES["offloads of the uplink"]:
        scene(bed).agent_at_switch()  # it stays as long as the testbed
    before, processes = shown(bed), len(testbed_processes(bed.topology.name))
    with pytest.raises(ZeroDivisionError), disturb(scene(bed)):
        raise ZeroDivisionError
    assert shown(bed) == before
    assert len(testbed_processes(bed.topology.name)) == processes


@pytest.mark.usefixtures("real_root")
def test_what_disturbances_do_can_be_seen_and_is_told(bed: NetnsTestbed) -> None:
    found = scene(bed)
    before = shown(bed)
    for name in (
        "send memory",
        "a shaped port",
        "a black hole",
        "offloads of ends",
        "a small window",
        "frames of few packets",
    ):
        with DISTURBANCES[name](found):
            assert shown(bed) != before, name
    for seconds in (0.3, 3.0, 30.0):
        with DISTURBANCES["work beside"](found), DISTURBANCES["rivals"](found):
            time.sleep(seconds)
        # On a machine that is full of work they take longer to begin.
        if found.told[SPUN] > 0 and found.told[CARRIED] > 1e6:
            break
    assert found.told[SPUN] > 0
    assert found.told[CARRIED] > 1e6
    assert THROTTLED not in found.told


@pytest.mark.usefixtures("real_root")
def test_a_team_carries_packets_both_ways_over_its_uplinks() -> None:
    bed = team.TeamLab(TestbedSpec(), "a test").create_testbed("team", NetnsShape("router"))
    try:
        effective = bed.apply(complete_levels({"vswitch": "router", "link_rate": 10**9}), TestbedSpec())
        assert effective["path_mtu_proved"] == 1500
        assert effective["link_rate"] == 10**9
        described = bed.as_facts()["observed_interfaces"]
        assert isinstance(described, list)
        assert sum(each["role"] == "uplink" for each in described) == 2 * team.UPLINKS
    finally:
        bed.close()
