"""Knobs on a running testbed: set, read back by other means than ours, judged; and the proof of the path."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from vnetbench.agents.launch import start_observer
from vnetbench.campaign.trial import TrialLoad, measure_trial
from vnetbench.lab import netlink
from vnetbench.lab.errors import TreatmentRefused
from vnetbench.lab.netns.testbed import NetnsTestbed as Bed
from vnetbench.lab.netns.testbed import create_testbed
from vnetbench.lab.netns.topology import NetnsShape
from vnetbench.study.factors.registry import complete_levels
from vnetbench.study.model import Level, TestbedSpec

pytestmark = pytest.mark.lab

ONLINE = frozenset(os.sched_getaffinity(0))


@pytest.fixture(scope="module", params=["bridge", "direct", "macvlan"])
def bed(request: pytest.FixtureRequest) -> Iterator[Bed]:
    raised = create_testbed(f"t-knobs-{request.param}", NetnsShape(request.param), "a test")
    yield raised
    raised.close()


@pytest.fixture(scope="module")
def bridged() -> Iterator[Bed]:
    raised = create_testbed("t-bridged", NetnsShape(uplink=True), "a test")
    yield raised
    raised.close()


def apply(bed: Bed, asked: TestbedSpec | None = None, /, **levels: Level) -> dict[str, Any]:
    return bed.apply(complete_levels(levels), asked or TestbedSpec())


def inside(bed: Bed, endpoint: str, *command: str) -> str:
    namespace = next(e.namespace for e in bed.topology.endpoints if e.name == endpoint)
    return subprocess.run(
        ["ip", "netns", "exec", namespace, *command], capture_output=True, text=True, check=True
    ).stdout


@pytest.mark.parametrize("mtu", [9000, 1500, 576, 9000])
def test_the_mtu_is_set_everywhere_and_proved(bed: Bed, mtu: int) -> None:
    found = apply(bed, mtu=mtu)
    assert found["mtu"] == mtu
    assert found["path_mtu_proved"] == mtu
    assert f"mtu {mtu} " in inside(bed, "a1", "ip", "link", "show", "eth0")
    assert f"mtu {mtu} " in inside(bed, "b1", "ip", "link", "show", "eth0")


@pytest.mark.parametrize("knob", ["tso", "gso", "uso", "gro"])
def test_an_offload_goes_off_and_on_again(bed: Bed, knob: str) -> None:
    if bed.topology.shape.vswitch == "macvlan":
        pytest.skip("macvlan has some offloads fixed, which the next test is about")
    assert apply(bed, **{knob: "off"})[knob] is False
    assert apply(bed, **{knob: "on"})[knob] is True


def test_an_offload_that_the_driver_has_fixed_is_refused_in_words() -> None:
    bed = create_testbed("t-fixed", NetnsShape("macvlan"), "a test")
    try:
        for knob in ("tso", "gso"):
            with pytest.raises(
                TreatmentRefused, match=f"{knob} = off (cannot be set|did not take effect)"
            ) as no:
                apply(bed, **{knob: "off"})
            assert "[[exclude]]" in str(no.value.fix)
    finally:
        bed.close()


def test_what_an_offload_does_shows_in_the_interface_s_own_counts(bridged: Bed) -> None:
    def bytes_per_packet(state: str) -> float:
        apply(bridged, tso=state, gso=state)
        before = _sent(bridged)
        _send(bridged, 4_000_000)
        after = _sent(bridged)
        return (after[0] - before[0]) / (after[1] - before[1])

    assert bytes_per_packet("off") < 1600
    assert bytes_per_packet("on") > 5000


def test_a_vm_gets_the_cpus_that_its_level_names(bed: Bed) -> None:
    last = max(ONLINE)
    found = apply(bed, cpus=f"0/{last}")
    assert found["cpus"] == ({"a1": "0", "b1": str(last)} if last else "0")
    assert apply(bed, cpus="any")["cpus"] is not None


def test_receive_processing_goes_to_the_cpus_named(bed: Bed, real_root: None) -> None:
    apply(bed, irq_cpus="0", cpus="any")
    path = "/sys/class/net/eth0/queues/rx-0/rps_cpus"
    assert int(inside(bed, "a1", "cat", path).strip().replace(",", ""), 16) == 1
    apply(bed, irq_cpus="off")
    assert int(inside(bed, "a1", "cat", path).strip().replace(",", ""), 16) == 0


def test_a_narrow_vswitch_is_found_and_named_with_the_fix(bridged: Bed) -> None:
    with pytest.raises(TreatmentRefused) as refused:
        apply(bridged, TestbedSpec(uplink=True, vswitch_mtu=1500), mtu=9000)
    text = str(refused.value)
    assert "packets of 9000 bytes do not pass from a1 to b1 unfragmented" in text
    assert "port a1 of vSwitch sw0 has MTU 1500" in text
    assert "vswitch_mtu = 9000" in text
    assert apply(bridged, TestbedSpec(uplink=True, vswitch_mtu=9000), mtu=1500)["path_mtu_proved"] == 1500


def test_one_narrow_hop_in_the_middle_is_the_one_that_is_named(bridged: Bed) -> None:
    apply(bridged, mtu=9000)
    uplink = bridged.topology.uplinks[1]
    with netlink.open_in_namespace(uplink.namespace) as ipr:
        ipr.link("set", index=netlink.interface_index(ipr, uplink.interface), mtu=4000)
    with pytest.raises(TreatmentRefused) as refused:
        bridged.prove_paths(9000)
    assert refused.value.where == "uplink of vSwitch sw1"
    assert "has MTU 4000" in refused.value.what
    assert apply(bridged, mtu=9000)["path_mtu_proved"] == 9000


def test_a_link_that_is_down_is_no_mystery(bridged: Bed) -> None:
    uplink = bridged.topology.uplinks[0]
    with netlink.open_in_namespace(uplink.namespace) as ipr:
        index = netlink.interface_index(ipr, uplink.interface)
        ipr.link("set", index=index, state="down")
        try:
            with pytest.raises(TreatmentRefused, match="though every hop has an MTU of 1500") as refused:
                apply(bridged)
            assert "link that is down" in str(refused.value.fix)
        finally:
            ipr.link("set", index=index, state="up")


def test_more_queues_than_the_adapter_has_are_refused(bed: Bed) -> None:
    with pytest.raises(TreatmentRefused, match="queues = 64 cannot be set") as refused:
        apply(bed, queues=64)
    assert refused.value.fix


@pytest.mark.parametrize("shaper", ["tbf", "htb"])
def test_a_shaped_link_is_shaped_in_truth(bridged: Bed, shaper: str) -> None:
    assert apply(bridged, TestbedSpec(uplink=True, shaper=shaper), link_rate=200_000_000)["link_rate"] == 2e8
    uplink = bridged.topology.uplinks[0]
    shown = subprocess.run(
        ["tc", "-n", uplink.namespace, "-d", "qdisc", "show", "dev", uplink.interface],
        capture_output=True, text=True, check=True,
    ).stdout  # fmt: skip
    assert f"qdisc {shaper}" in shown
    # The queue is finite and the sender never pauses, so the link's own count shows the rate: less where the
    # machine's host takes the CPUs that send, never more.
    rates = [_rate_through(bridged)]
    while max(rates) < 0.85 * 2e8 and len(rates) < 8:
        rates.append(_rate_through(bridged))
    assert max(rates) == pytest.approx(2e8, rel=0.15), rates
    assert apply(bridged, TestbedSpec(uplink=True, shaper=shaper), link_rate="none")["link_rate"] == "none"


def _sent(bed: Bed) -> tuple[int, int]:
    base = "/sys/class/net/eth0/statistics"
    size, packets = inside(bed, "a1", "cat", f"{base}/tx_bytes", f"{base}/tx_packets").split()
    return int(size), int(packets)


def _send(bed: Bed, size: int) -> None:
    """Move bytes from a1 to b1 over TCP by other means than the agent."""
    a, b = bed.topology.endpoints
    sink = subprocess.Popen(
        ["ip", "netns", "exec", b.namespace, sys.executable, "-c",
         "import socket; s = socket.create_server(('0.0.0.0', 7000)); print('up', flush=True)\n"
         "c, _ = s.accept()\nwhile c.recv(1 << 20): pass"],
        stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert sink.stdout is not None
    assert sink.stdout.readline() == "up\n"
    connect = f"import socket; c = socket.create_connection(('{b.address}', 7000))"
    inside(bed, a.name, sys.executable, "-c", f"{connect}; c.sendall(bytes({size}))")
    sink.wait(timeout=60)


def _rate_through(bed: Bed) -> float:
    """Bits per second that the agent moves through the testbed in a second, beginning not counted."""
    observer = start_observer("t-rate")
    try:
        done = measure_trial(bed, observer, TrialLoad(complete_levels({}), 1.5, 0.1))
    finally:
        observer.close()
    (sink,) = [s for s in done.endpoints if s.role == "sink"]
    late = [x for x in sink.samples if 0.45 < x.t_s < 1.55]
    return 8 * sum(x.bytes_received for x in late) / sum(x.interval_s for x in late)
