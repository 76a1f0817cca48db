"""What stands between VMs as a device under test: it forwards, has CPUs of its own, and goes with its bed."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import closing

import pytest

from vnetbench.campaign.frame_counts import FrameTotals, sum_endpoint_counts
from vnetbench.campaign.instrument import LabInstrument
from vnetbench.campaign.trial import TrialLoad
from vnetbench.errors import BenchError
from vnetbench.lab import netlink, registry
from vnetbench.lab.errors import TreatmentRefused
from vnetbench.lab.netns import open_vswitch
from vnetbench.lab.netns.testbed import NetnsLab, NetnsTestbed, create_testbed
from vnetbench.lab.netns.topology import NetnsShape, make_topology
from vnetbench.study.factors.registry import complete_levels
from vnetbench.study.model import Level, TestbedSpec

pytestmark = pytest.mark.lab

Raise = Callable[..., NetnsTestbed]
SWITCHING = ("bridge", "router", "openvswitch")


@pytest.fixture
def raised() -> Iterator[Raise]:
    beds: list[NetnsTestbed] = []

    def one(*shape: str | int | bool) -> NetnsTestbed:
        beds.append(create_testbed(f"t-device-{len(beds)}", NetnsShape(*shape), "a test"))  # type: ignore[arg-type]
        return beds[-1]

    yield one
    for bed in beds:
        bed.close()
        assert registry.testbed_processes(bed.topology.name) == []


def apply(bed: NetnsTestbed, workload: str = "tcp_stream", **levels: Level) -> dict[str, object]:
    shape = bed.topology.shape
    asked = {"vswitch": shape.vswitch, "pairs": shape.pairs, **levels}
    return bed.apply(complete_levels(asked, workload), TestbedSpec(uplink=shape.uplink))


@pytest.mark.parametrize("shape", [("router", 2), ("openvswitch", 2), ("openvswitch", 1, True)], ids=str)
def test_every_pair_reaches_the_other_side_in_both_versions_with_jumbo_frames_and_small_ones(
    raised: Raise, shape: tuple[str, int]
) -> None:
    bed = raised(*shape)
    for mtu, version in ((1500, "4"), (9000, "6"), (576, "4"), (1280, "6")):
        found = apply(bed, mtu=mtu, ip_version=version)
        assert found["path_mtu_proved"] == found["vswitch_mtu"] == mtu


def test_a_path_that_loses_the_first_answers_of_its_neighbours_is_proved_all_the_same(raised: Raise) -> None:
    bed = raised("bridge", 1)
    switch = bed.topology.switch_namespace
    subprocess.run(["ip", "-n", switch, "link", "set", "b1", "down"], check=True)
    again = threading.Timer(1.2, subprocess.run, [["ip", "-n", switch, "link", "set", "b1", "up"]])
    again.start()
    try:
        assert bed.prove_paths(1500)["path_mtu_proved"] == 1500
    finally:
        again.join()


@pytest.mark.parametrize("vswitch", ["router", "openvswitch"])
@pytest.mark.parametrize("workload", ["tcp_stream", "tcp_rr", "udp_stream"])
def test_load_of_other_workloads_goes_through_too(vswitch: str, workload: str) -> None:
    asked = TestbedSpec()
    load = TrialLoad(complete_levels({"vswitch": vswitch}, workload), 0.2, 0.05, workload)
    with closing(LabInstrument(NetnsLab(asked, "a test"), asked)) as instrument:
        sides = instrument.measure(load, lambda: False).measurement.endpoints
    assert min(side.bytes_received for side in sides if side.role == "sink") > 0


def test_a_router_routes_and_never_asks_who_its_neighbours_are(raised: Raise) -> None:
    bed = raised("router", 1)
    apply(bed, ip_version="6")
    a1, b1 = bed.endpoints
    assert a1.address.split(".")[:3] != b1.address.split(".")[:3]
    with netlink.open_in_namespace(bed.topology.switch_namespace) as ipr:
        known = {
            (n.get_attr("NDA_DST"), n.get_attr("NDA_LLADDR"))
            for family in (socket.AF_INET, socket.AF_INET6)
            for n in ipr.get_neighbours(family=family)
            if n["state"] == 0x80  # NUD_PERMANENT
        }
    macs = {end: netlink.interface_mac(*end.device.location) for end in (a1, b1)}
    assert {(address, macs[e]) for e in (a1, b1) for address in (e.address, e.address6)} <= known


@pytest.mark.parametrize("vswitch", ["bridge", "direct", "macvlan", "openvswitch"])
def test_frames_are_sent_to_the_other_end_where_nothing_routes(raised: Raise, vswitch: str) -> None:
    bed = raised(vswitch)
    a1, b1 = bed.endpoints
    assert bed.next_hop_mac(a1, "4") == netlink.interface_mac(*b1.device.location)
    assert bed.next_hop_mac(b1, "6") == netlink.interface_mac(*a1.device.location)


def test_frames_are_sent_to_the_routers_port_on_ones_own_side(raised: Raise) -> None:
    bed = raised("router", 2)
    switch = bed.topology.switch_namespace
    assert [bed.next_hop_mac(e, "4") for e in bed.endpoints] == [
        netlink.interface_mac(switch, e.name) for e in bed.endpoints
    ]


@pytest.mark.parametrize("vswitch", ["direct", "macvlan"])
def test_where_nothing_stands_between_frames_are_counted_by_whoever_sends_them(
    raised: Raise, vswitch: str
) -> None:
    found = apply(raised(vswitch), "frames")
    assert (found["device_cpus"], found["sink_cpus"]) == ("any", {})


@pytest.mark.usefixtures("real_root")
@pytest.mark.parametrize("vswitch", SWITCHING)
def test_a_device_works_on_its_own_cpus_and_the_tester_on_the_others(raised: Raise, vswitch: str) -> None:
    bed = raised(vswitch)
    bed.online_cpus = frozenset({0, 1})
    for level in ("auto", "apart", "1"):
        found = apply(bed, "frames", device_cpus=level)
        assert (found["device_cpus"], found["tester_cpus"], found["sink_cpus"]) == ("1", "0", {"b1": "0"})
        assert found["port_offloads"] == {"gro": True, "tso": False}
        assert "device_not_apart" not in found
    both = apply(bed, "frames", direction="both")
    assert both["sink_cpus"] == {"a1": "0", "b1": "0"}
    threads = open_vswitch.switch_threads(bed.topology.name)
    assert bool(threads) == (vswitch == "openvswitch")
    assert all(os.sched_getaffinity(thread) == {1} for thread in threads)
    found = apply(bed, "frames", device_cpus="any")
    assert (found["tester_cpus"], found["sink_cpus"]) == ("0-1", {})
    assert all(os.sched_getaffinity(thread) == {0, 1} for thread in threads)


@pytest.mark.usefixtures("real_root")
@pytest.mark.parametrize("vswitch", SWITCHING)
def test_the_threads_that_take_frames_in_are_watched_while_there_are_any(raised: Raise, vswitch: str) -> None:
    bed = raised(vswitch)
    bed.online_cpus = frozenset({0, 1})

    def named() -> set[str]:
        return {str(thread["name"]) for thread in (bed.observer_targets() or {})["threads"]}  # type: ignore[attr-defined]

    taking_in = {"a1 switch0", "b1 switch0", "b1 sink0"}
    apply(bed, "frames", device_cpus="apart")
    assert taking_in <= named()
    apply(bed, "frames", device_cpus="any")
    assert not taking_in & named()


def test_a_device_that_cannot_be_apart_is_told_why_or_refused(raised: Raise) -> None:
    bed = raised("bridge")
    bed.online_cpus = frozenset({0})
    found = apply(bed, "frames")
    assert found["device_cpus"] == "any"
    assert "no CPU is left for the device under test" in str(found["device_not_apart"])
    with pytest.raises(BenchError, match="no CPU is left"):
        apply(bed, "frames", device_cpus="apart")


def test_what_a_vswitch_carries_is_watched_at_its_ports(raised: Raise) -> None:
    assert raised("direct").observer_targets() is None
    bed = raised("openvswitch")
    watched = bed.observer_targets()
    assert watched is not None
    assert watched["interfaces"] == ["a1", "b1"]
    assert "ovs-vswitchd" in [thread["name"] for thread in watched["threads"]]  # type: ignore[attr-defined]


def test_frames_that_do_not_fit_the_path_are_refused_with_the_hop(raised: Raise) -> None:
    bed = raised("bridge")
    assert apply(bed, "frames", device_cpus="any", frame_size=9018)["path_mtu_proved"] == 9000
    with pytest.raises(
        TreatmentRefused, match="a packet of 1500 bytes does not fit an MTU of 1400"
    ) as refused:
        apply(bed, "frames", device_cpus="any", frame_size=1518, mtu=1400)
    assert "a1 eth0" in str(refused.value)
    assert "1500" in str(refused.value.fix)


def test_which_open_vswitch_it_was_is_a_fact_of_the_testbed(raised: Raise) -> None:
    assert raised("openvswitch").as_facts()["open_vswitch"] == open_vswitch.installed_version() != ""


def test_open_vswitch_that_is_not_installed_is_said_with_the_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(open_vswitch, "_PLACES", "/nowhere")
    with pytest.raises(BenchError, match="Open vSwitch is not installed") as refused:
        create_testbed("t-none", NetnsShape("openvswitch"), "a test")
    assert "openvswitch-switch" in str(refused.value.fix)


def test_a_switch_that_dies_while_it_starts_leaves_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(open_vswitch, "SWITCH", "false")
    monkeypatch.setattr(open_vswitch, "STARTING_TIMEOUT_S", 1.0)
    with pytest.raises(BenchError, match="Open vSwitch does not run"):
        create_testbed("t-dies", NetnsShape("openvswitch"), "a test")
    assert registry.testbed_processes("t-dies") == []


def test_what_a_killed_bench_left_of_open_vswitch_is_removed() -> None:
    program = (
        "from vnetbench.lab.netns.topology import Shape; from vnetbench.lab.netns.testbed import raise_bed\n"
        "import time\n"
        "raise_bed('t-killed', Shape('openvswitch'), 'a test'); print('built', flush=True); time.sleep(300)\n"
    )
    builder = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True)
    assert builder.stdout is not None
    assert builder.stdout.readline() == "built\n"
    os.kill(builder.pid, signal.SIGKILL)
    builder.wait()
    assert open_vswitch.switch_threads("t-killed")
    registry.remove_testbed("t-killed")
    assert registry.testbed_processes("t-killed") == []
    assert not (registry.REGISTRY_DIR / "t-killed").exists()


@pytest.mark.parametrize("vswitch", ["direct", "router"])
def test_what_has_no_switch_has_no_uplink(vswitch: str) -> None:
    with pytest.raises(BenchError, match="no vSwitch, so no uplink"):
        make_topology("t-none", NetnsShape(vswitch, uplink=True))


def frames_through(vswitch: str, **levels: Level) -> FrameTotals:
    factors = complete_levels({"vswitch": vswitch, **levels}, "frames")
    asked = TestbedSpec()
    with closing(LabInstrument(NetnsLab(asked, "a test"), asked)) as instrument:
        done = instrument.measure(TrialLoad(factors, 0.3, 0.05, "frames"), lambda: False)
    return sum_endpoint_counts(done.measurement.endpoints, factors)


@pytest.mark.parametrize("vswitch", [*SWITCHING, "direct", "macvlan"])
@pytest.mark.parametrize(
    "form", [{}, {"ip_version": "6"}, {"direction": "both", "frame_size": 1518}], ids=str
)
def test_frames_pass_whatever_joins_the_vms(vswitch: str, form: dict[str, Level]) -> None:
    counts = frames_through(vswitch, frame_load=1000.0, **form)
    # How many of them is a matter of the CPUs that are free for it.
    assert all(counts.sent[way] >= counts.received[way] > 0 for way in counts.sent)
    assert all(each.own == each.other_trial == 0 for each in counts.foreign.values())


@pytest.mark.usefixtures("real_root")
def test_what_a_device_is_offered_beyond_its_own_is_lost_and_was_sent() -> None:
    counts = frames_through("openvswitch", frame_load="max")
    assert counts.total_sent > 2 * counts.total_received > 0
