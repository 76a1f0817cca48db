"""Tests of knobs on a running testbed, read back by other programs, and of the path proof."""

from __future__ import annotations

import re
import subprocess
import sys
import time
from collections.abc import Iterator
from typing import Any

import pytest

from tests.machine import FIRST_CPU, USABLE_CPUS, needs_adapters_with_few_queues
from vnetbench.agents.launch import start_observer
from vnetbench.campaign.trial import TrialLoad, measure_trial
from vnetbench.lab import netlink
from vnetbench.lab.errors import TreatmentRefused
from vnetbench.lab.netns.testbed import NetnsTestbed, create_testbed
from vnetbench.lab.netns.topology import NetnsShape
from vnetbench.study.factors.registry import complete_levels
from vnetbench.study.model import Level, TestbedSpec

pytestmark = pytest.mark.lab

MAX_BURST_BYTES = 1 << 20
"""More than the bucket of a shaper of 200 Mbit/s holds."""


@pytest.fixture(scope="module", params=["bridge", "direct", "macvlan"])
def testbed(request: pytest.FixtureRequest) -> Iterator[NetnsTestbed]:
    testbed = create_testbed(f"t-knobs-{request.param}", NetnsShape(request.param), "a test")
    yield testbed
    testbed.close()


@pytest.fixture(scope="module")
def bridged() -> Iterator[NetnsTestbed]:
    testbed = create_testbed("t-bridged", NetnsShape(uplink=True), "a test")
    yield testbed
    testbed.close()


def apply_levels(
    testbed: NetnsTestbed, spec: TestbedSpec | None = None, /, **levels: Level
) -> dict[str, Any]:
    return testbed.set_knobs_and_prove_paths(complete_levels(levels), spec or TestbedSpec())


def run_inside(testbed: NetnsTestbed, endpoint: str, *command: str) -> str:
    namespace = next(e.namespace for e in testbed.topology.endpoints if e.name == endpoint)
    return subprocess.run(
        ["ip", "netns", "exec", namespace, *command], capture_output=True, text=True, check=True
    ).stdout


@pytest.mark.parametrize("mtu", [9000, 1500, 576, 9000])
def test_the_mtu_is_set_everywhere_and_proved(testbed: NetnsTestbed, mtu: int) -> None:
    found = apply_levels(testbed, mtu=mtu)
    assert found["mtu"] == mtu
    assert found["path_mtu_proved"] == mtu
    assert f"mtu {mtu} " in run_inside(testbed, "a1", "ip", "link", "show", "eth0")
    assert f"mtu {mtu} " in run_inside(testbed, "b1", "ip", "link", "show", "eth0")


# Not macvlan, which cannot change some offloads: the next test covers that.
@pytest.mark.parametrize("testbed", ["bridge", "direct"], indirect=True)
@pytest.mark.parametrize("knob", ["tso", "gso", "uso", "gro"])
def test_an_offload_can_be_disabled_and_enabled(testbed: NetnsTestbed, knob: str) -> None:
    assert apply_levels(testbed, **{knob: "off"})[knob] is False
    assert apply_levels(testbed, **{knob: "on"})[knob] is True


def test_an_offload_that_the_driver_cannot_change_is_refused_with_the_fix() -> None:
    testbed = create_testbed("t-fixed", NetnsShape("macvlan"), "a test")
    try:
        for knob in ("tso", "gso"):
            with pytest.raises(
                TreatmentRefused, match=f"{knob} = off cannot be set|{knob} = off did not take effect"
            ) as refused:
                apply_levels(testbed, **{knob: "off"})
            assert "[[exclude]]" in str(refused.value.fix)
    finally:
        testbed.close()


def test_an_offload_shows_in_the_counters_of_the_interface(bridged: NetnsTestbed) -> None:
    def bytes_per_packet(state: str) -> float:
        apply_levels(bridged, tso=state, gso=state)
        before = _sent_counters(bridged)
        _send_bytes(bridged, 4_000_000)
        after = _sent_counters(bridged)
        return (after[0] - before[0]) / (after[1] - before[1])

    assert bytes_per_packet("off") < 1600
    assert bytes_per_packet("on") > 5000


def test_a_vm_gets_the_cpus_of_its_level(testbed: NetnsTestbed) -> None:
    first, last = str(USABLE_CPUS[0]), str(USABLE_CPUS[-1])
    found = apply_levels(testbed, cpus=f"{first}/{last}")
    assert found["cpus"] == ({"a1": first, "b1": last} if last != first else first)
    assert apply_levels(testbed, cpus="any")["cpus"] is not None


def test_receive_processing_runs_on_the_named_cpus(testbed: NetnsTestbed, real_root: None) -> None:
    apply_levels(testbed, irq_cpus=str(FIRST_CPU), cpus="any")
    path = "/sys/class/net/eth0/queues/rx-0/rps_cpus"
    assert int(run_inside(testbed, "a1", "cat", path).strip().replace(",", ""), 16) == 1 << FIRST_CPU
    apply_levels(testbed, irq_cpus="off")
    assert int(run_inside(testbed, "a1", "cat", path).strip().replace(",", ""), 16) == 0


def test_a_vswitch_with_a_small_mtu_is_named_with_the_fix(bridged: NetnsTestbed) -> None:
    with pytest.raises(TreatmentRefused) as refused:
        apply_levels(bridged, TestbedSpec(uplink=True, vswitch_mtu=1500), mtu=9000)
    text = str(refused.value)
    assert "packets of 9000 bytes do not pass from a1 to b1 unfragmented" in text
    assert "port a1 of vSwitch sw0 has MTU 1500" in text
    assert "vswitch_mtu = 9000" in text
    assert (
        apply_levels(bridged, TestbedSpec(uplink=True, vswitch_mtu=9000), mtu=1500)["path_mtu_proved"] == 1500
    )


def test_the_one_hop_with_a_small_mtu_is_named(bridged: NetnsTestbed) -> None:
    apply_levels(bridged, mtu=9000)
    uplink = bridged.topology.uplink_ends[1]
    with netlink.open_in_namespace(uplink.namespace) as ipr:
        ipr.link("set", index=netlink.interface_index(ipr, uplink.interface), mtu=4000)
    with pytest.raises(TreatmentRefused) as refused:
        bridged.prove_paths(9000)
    assert refused.value.where == "uplink of vSwitch sw1"
    assert "has MTU 4000" in refused.value.what
    assert apply_levels(bridged, mtu=9000)["path_mtu_proved"] == 9000


def test_an_interface_that_is_down_is_suggested_as_the_reason(bridged: NetnsTestbed) -> None:
    uplink = bridged.topology.uplink_ends[0]
    with netlink.open_in_namespace(uplink.namespace) as ipr:
        index = netlink.interface_index(ipr, uplink.interface)
        ipr.link("set", index=index, state="down")
        try:
            with pytest.raises(TreatmentRefused, match="although every hop has an MTU of 1500") as refused:
                apply_levels(bridged)
            assert "interface that is down" in str(refused.value.fix)
        finally:
            ipr.link("set", index=index, state="up")


@needs_adapters_with_few_queues
def test_more_queues_than_the_adapter_has_are_refused(testbed: NetnsTestbed) -> None:
    with pytest.raises(TreatmentRefused, match="queues = 64 cannot be set") as refused:
        apply_levels(testbed, queues=64)
    assert refused.value.fix


@pytest.mark.parametrize("shaper", ["tbf", "htb"])
def test_a_shaped_link_really_limits_the_rate(bridged: NetnsTestbed, shaper: str) -> None:
    assert (
        apply_levels(bridged, TestbedSpec(uplink=True, shaper=shaper), link_rate=200_000_000)["link_rate"]
        == 2e8
    )
    uplink = bridged.topology.uplink_ends[0]
    shown = "".join(
        subprocess.run(
            ["tc", "-n", uplink.namespace, "-d", kind, "show", "dev", uplink.interface],
            capture_output=True, text=True, check=True,
        ).stdout
        for kind in ("qdisc", "class")
    )  # fmt: skip
    assert f"qdisc {shaper}" in shown
    assert "rate 200Mbit" in shown
    sent_bytes, elapsed_s, overlimits = _load_uplink(bridged)
    # A busy machine may load the link with less than its rate. Whatever exceeds it, the shaper counts.
    assert overlimits > 0
    assert 0 < sent_bytes < 2e8 / 8 * elapsed_s + MAX_BURST_BYTES
    assert (
        apply_levels(bridged, TestbedSpec(uplink=True, shaper=shaper), link_rate="none")["link_rate"]
        == "none"
    )


def _sent_counters(testbed: NetnsTestbed) -> tuple[int, int]:
    base = "/sys/class/net/eth0/statistics"
    size, packets = run_inside(testbed, "a1", "cat", f"{base}/tx_bytes", f"{base}/tx_packets").split()
    return int(size), int(packets)


def _send_bytes(testbed: NetnsTestbed, size: int) -> None:
    """Move bytes from a1 to b1 over TCP without the agent."""
    a, b = testbed.topology.endpoints
    sink = subprocess.Popen(
        ["ip", "netns", "exec", b.namespace, sys.executable, "-c",
         "import socket; s = socket.create_server(('0.0.0.0', 7000)); print('up', flush=True)\n"
         "c, _ = s.accept()\nwhile c.recv(1 << 20): pass"],
        stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert sink.stdout is not None
    assert sink.stdout.readline() == "up\n"
    connect = f"import socket; c = socket.create_connection(('{b.address}', 7000))"
    run_inside(testbed, a.name, sys.executable, "-c", f"{connect}; c.sendall(bytes({size}))")
    sink.wait(timeout=60)


def _load_uplink(testbed: NetnsTestbed) -> tuple[int, float, int]:
    """Load a shaped uplink; return its sent bytes, the time, and how often the shaper held a packet back."""
    uplink = testbed.topology.uplink_ends[0]

    def read_sent_bytes_and_overlimits() -> tuple[int, int]:
        show = ["tc", "-n", uplink.namespace, "-s", "qdisc", "show", "dev", uplink.interface]
        shown = subprocess.run(show, capture_output=True, text=True, check=True).stdout
        # The first discipline is the shaper. The kernel counts what leaves it.
        found = re.search(r"Sent (\d+) bytes .*overlimits (\d+)", shown)
        assert found, shown
        return int(found[1]), int(found[2])

    observer = start_observer("t-rate")
    try:
        start_s, (sent_before, overlimits_before) = time.monotonic(), read_sent_bytes_and_overlimits()
        measure_trial(testbed, observer, TrialLoad(complete_levels({}), 1.0, 0.1))
        sent, overlimits = read_sent_bytes_and_overlimits()
        elapsed_s = time.monotonic() - start_s
    finally:
        observer.close()
    return sent - sent_before, elapsed_s, overlimits - overlimits_before
