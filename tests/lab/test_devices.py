"""Tests of the device under test between VMs: forwarding, its CPUs, and its removal."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing

import pytest

from tests.machine import FIRST_CPU, USABLE_CPUS, needs_two_cpus
from vnetbench.campaign.frame_counts import FrameTotals, sum_endpoint_counts
from vnetbench.campaign.instrument import LabInstrument
from vnetbench.campaign.trial import TrialLoad
from vnetbench.errors import BenchError
from vnetbench.lab import netlink, registry
from vnetbench.lab.errors import TreatmentRefused
from vnetbench.lab.netns import open_vswitch
from vnetbench.lab.netns.testbed import NetnsLab, NetnsTestbed, create_testbed
from vnetbench.lab.netns.topology import NetnsShape, make_topology
from vnetbench.study.factors.cpu_lists import format_cpu_list
from vnetbench.study.factors.registry import complete_levels
from vnetbench.study.model import Level, TestbedSpec

pytestmark = pytest.mark.lab

CreateTestbed = Callable[..., NetnsTestbed]
SWITCHING = ("bridge", "router", "openvswitch")
UNANSWERED = 0x01 | 0x20
"""NUD_INCOMPLETE and NUD_FAILED: states of a neighbour that has not answered."""
TIMEOUT_S = 60.0


@pytest.fixture
def create() -> Iterator[CreateTestbed]:
    testbeds: list[NetnsTestbed] = []

    def create_one(*shape: str | int | bool) -> NetnsTestbed:
        testbeds.append(create_testbed(f"t-device-{len(testbeds)}", NetnsShape(*shape), "a test"))  # type: ignore[arg-type]
        return testbeds[-1]

    yield create_one
    for testbed in testbeds:
        testbed.close()
        assert registry.testbed_pids(testbed.topology.testbed_name) == []


def apply_levels(testbed: NetnsTestbed, workload: str = "tcp_stream", **levels: Level) -> dict[str, object]:
    shape = testbed.topology.shape
    spec = {"vswitch": shape.vswitch, "pairs": shape.pairs, **levels}
    return testbed.set_knobs_and_prove_paths(
        complete_levels(spec, workload), TestbedSpec(uplink=shape.uplink)
    )


@pytest.mark.parametrize("shape", [("router", 2), ("openvswitch", 2), ("openvswitch", 1, True)], ids=str)
def test_every_pair_passes_jumbo_and_small_packets_of_both_ip_versions(
    create: CreateTestbed, shape: tuple[str, int]
) -> None:
    testbed = create(*shape)
    for mtu, version in ((1500, "4"), (9000, "6"), (576, "4"), (1280, "6")):
        found = apply_levels(testbed, mtu=mtu, ip_version=version)
        assert found["path_mtu_proved"] == found["vswitch_mtu"] == mtu


def test_a_path_is_proved_although_it_loses_the_first_neighbour_answers(create: CreateTestbed) -> None:
    testbed = create("bridge", 1)
    switch = testbed.topology.switch_namespace
    subprocess.run(["ip", "-n", switch, "link", "set", "b1", "down"], check=True)

    def set_up_after_a_lost_request() -> None:
        deadline = time.monotonic() + TIMEOUT_S
        with netlink.open_in_namespace(testbed.endpoints[0].namespace) as ipr:
            while not any(n["state"] & UNANSWERED for n in ipr.get_neighbours(family=socket.AF_INET)):
                assert time.monotonic() < deadline, "no address was requested"
        with netlink.open_in_namespace(switch) as ipr:
            ipr.link("set", index=netlink.interface_index(ipr, "b1"), state="up")

    with ThreadPoolExecutor(1) as pool:
        setting_up = pool.submit(set_up_after_a_lost_request)
        assert testbed.prove_paths(1500)["path_mtu_proved"] == 1500
        setting_up.result()


@pytest.mark.parametrize("vswitch", ["router", "openvswitch"])
@pytest.mark.parametrize("workload", ["tcp_stream", "tcp_rr", "udp_stream"])
def test_other_workloads_pass_the_device_too(vswitch: str, workload: str) -> None:
    spec = TestbedSpec()
    load = TrialLoad(complete_levels({"vswitch": vswitch}, workload), 0.2, 0.05, workload)
    with closing(LabInstrument(NetnsLab(spec, "a test"), spec)) as instrument:
        sides = instrument.measure(load, lambda: False).measurement.endpoints
    assert min(side.bytes_received for side in sides if side.role == "sink") > 0


def test_a_router_knows_its_neighbours_permanently(create: CreateTestbed) -> None:
    testbed = create("router", 1)
    apply_levels(testbed, ip_version="6")
    a1, b1 = testbed.endpoints
    assert a1.address.split(".")[:3] != b1.address.split(".")[:3]
    with netlink.open_in_namespace(testbed.topology.switch_namespace) as ipr:
        known = {
            (n.get_attr("NDA_DST"), n.get_attr("NDA_LLADDR"))
            for family in (socket.AF_INET, socket.AF_INET6)
            for n in ipr.get_neighbours(family=family)
            if n["state"] == 0x80  # NUD_PERMANENT
        }
    macs = {end: netlink.interface_mac(*end.device.location) for end in (a1, b1)}
    assert {(address, macs[e]) for e in (a1, b1) for address in (e.address, e.ipv6_address)} <= known


@pytest.mark.parametrize("vswitch", ["bridge", "direct", "macvlan", "openvswitch"])
def test_frames_go_to_the_peer_if_nothing_routes(create: CreateTestbed, vswitch: str) -> None:
    testbed = create(vswitch)
    a1, b1 = testbed.endpoints
    assert testbed.next_hop_mac(a1, "4") == netlink.interface_mac(*b1.device.location)
    assert testbed.next_hop_mac(b1, "6") == netlink.interface_mac(*a1.device.location)


def test_frames_go_to_the_port_of_the_router_on_the_same_side(create: CreateTestbed) -> None:
    testbed = create("router", 2)
    switch = testbed.topology.switch_namespace
    assert [testbed.next_hop_mac(e, "4") for e in testbed.endpoints] == [
        netlink.interface_mac(switch, e.name) for e in testbed.endpoints
    ]


@pytest.mark.parametrize("vswitch", ["direct", "macvlan"])
def test_without_a_device_the_sender_counts_the_frames(create: CreateTestbed, vswitch: str) -> None:
    found = apply_levels(create(vswitch), "frames")
    assert (found["device_cpus"], found["sink_cpus"]) == ("any", {})


@needs_two_cpus
@pytest.mark.usefixtures("real_root")
@pytest.mark.parametrize("vswitch", SWITCHING)
def test_device_and_tester_run_on_different_cpus(create: CreateTestbed, vswitch: str) -> None:
    testbed = create(vswitch)
    first, second = USABLE_CPUS[:2]
    testbed.online_cpus = frozenset({first, second})
    tester, device = str(first), str(second)
    for level in ("auto", "apart", device):
        found = apply_levels(testbed, "frames", device_cpus=level)
        assert (found["device_cpus"], found["tester_cpus"]) == (device, tester)
        assert found["sink_cpus"] == {"b1": tester}
        assert found["port_offloads"] == {"gro": True, "tso": False}
        assert "device_cpus_unavailable" not in found
    both = apply_levels(testbed, "frames", direction="both")
    assert both["sink_cpus"] == {"a1": tester, "b1": tester}
    threads = open_vswitch.switch_threads(testbed.topology)
    assert bool(threads) == (vswitch == "openvswitch")
    assert all(os.sched_getaffinity(thread) == {second} for thread in threads)
    found = apply_levels(testbed, "frames", device_cpus="any")
    assert (found["tester_cpus"], found["sink_cpus"]) == (format_cpu_list((first, second)), {})
    assert all(os.sched_getaffinity(thread) == {first, second} for thread in threads)


@needs_two_cpus
@pytest.mark.usefixtures("real_root")
@pytest.mark.parametrize("vswitch", SWITCHING)
def test_napi_threads_are_watched_while_they_exist(create: CreateTestbed, vswitch: str) -> None:
    testbed = create(vswitch)
    testbed.online_cpus = frozenset(USABLE_CPUS[:2])

    def watched_names() -> set[str]:
        return {str(thread["name"]) for thread in (testbed.observer_targets() or {})["threads"]}  # type: ignore[attr-defined]

    napi_threads = {"a1 switch0", "b1 switch0", "b1 sink0"}
    apply_levels(testbed, "frames", device_cpus="apart")
    assert napi_threads <= watched_names()
    apply_levels(testbed, "frames", device_cpus="any")
    assert not napi_threads & watched_names()


def test_a_device_without_own_cpus_is_noted_or_refused(create: CreateTestbed) -> None:
    testbed = create("bridge")
    testbed.online_cpus = frozenset({FIRST_CPU})
    found = apply_levels(testbed, "frames")
    assert found["device_cpus"] == "any"
    assert "no CPU is left for the device under test" in str(found["device_cpus_unavailable"])
    with pytest.raises(BenchError, match="no CPU is left"):
        apply_levels(testbed, "frames", device_cpus="apart")


def test_the_ports_of_a_vswitch_are_watched(create: CreateTestbed) -> None:
    assert create("direct").observer_targets() is None
    testbed = create("openvswitch")
    watched = testbed.observer_targets()
    assert watched is not None
    assert watched["interfaces"] == ["a1", "b1"]
    assert "ovs-vswitchd" in [thread["name"] for thread in watched["threads"]]  # type: ignore[attr-defined]


def test_frames_larger_than_the_path_are_refused_with_the_hop(create: CreateTestbed) -> None:
    testbed = create("bridge")
    assert apply_levels(testbed, "frames", device_cpus="any", frame_size=9018)["path_mtu_proved"] == 9000
    with pytest.raises(
        TreatmentRefused, match="a packet of 1500 bytes does not fit an MTU of 1400"
    ) as refused:
        apply_levels(testbed, "frames", device_cpus="any", frame_size=1518, mtu=1400)
    assert "a1 eth0" in str(refused.value)
    assert "1500" in str(refused.value.fix)


def test_the_version_of_open_vswitch_is_a_fact_of_the_testbed(create: CreateTestbed) -> None:
    assert create("openvswitch").describe()["open_vswitch"] == open_vswitch.installed_version() != ""


def test_a_missing_open_vswitch_is_reported_with_its_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(open_vswitch, "_SEARCH_PATH", "/nowhere")
    with pytest.raises(BenchError, match="Open vSwitch is not installed") as refused:
        create_testbed("t-none", NetnsShape("openvswitch"), "a test")
    assert "openvswitch-switch" in str(refused.value.fix)


def test_a_switch_that_ends_while_it_starts_leaves_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(open_vswitch, "SWITCH", "false")
    monkeypatch.setattr(open_vswitch, "START_TIMEOUT_S", 1.0)
    with pytest.raises(BenchError, match="Open vSwitch does not run"):
        create_testbed("t-dies", NetnsShape("openvswitch"), "a test")
    assert registry.testbed_pids("t-dies") == []


def test_open_vswitch_of_a_killed_bench_is_removed() -> None:
    program = (
        "from vnetbench.lab.netns.topology import NetnsShape\n"
        "from vnetbench.lab.netns.testbed import create_testbed\n"
        "import time\n"
        "create_testbed('t-killed-ovs', NetnsShape('openvswitch'), 'a test')\n"
        "print('built', flush=True); time.sleep(300)\n"
    )
    builder = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True)
    assert builder.stdout is not None
    assert builder.stdout.readline() == "built\n"
    os.kill(builder.pid, signal.SIGKILL)
    builder.wait()
    assert open_vswitch.switch_threads(make_topology("t-killed-ovs", NetnsShape("openvswitch")))
    registry.remove_testbed_and_list_remaining_groups("t-killed-ovs")
    assert registry.testbed_pids("t-killed-ovs") == []
    assert not (registry.REGISTRY_FOLDER / "t-killed-ovs").exists()


@pytest.mark.parametrize("vswitch", ["direct", "router"])
def test_an_uplink_without_a_switch_is_refused(vswitch: str) -> None:
    with pytest.raises(BenchError, match="no virtual switch, so it has no uplink"):
        make_topology("t-none", NetnsShape(vswitch, uplink=True))


def measure_frames(vswitch: str, **levels: Level) -> FrameTotals:
    factors = complete_levels({"vswitch": vswitch, **levels}, "frames")
    spec = TestbedSpec()
    with closing(LabInstrument(NetnsLab(spec, "a test"), spec)) as instrument:
        # On a busy machine, a switch in user space may not run for some tenths of a second.
        done = instrument.measure(TrialLoad(factors, 1.0, 0.05, "frames"), lambda: False)
    return sum_endpoint_counts(done.measurement.endpoints, factors)


@pytest.mark.parametrize("vswitch", [*SWITCHING, "direct", "macvlan"])
@pytest.mark.parametrize(
    "levels", [{}, {"ip_version": "6"}, {"direction": "both", "frame_size": 1518}], ids=str
)
def test_frames_pass_every_kind_of_vswitch(vswitch: str, levels: dict[str, Level]) -> None:
    counts = measure_frames(vswitch, frame_load=1000.0, **levels)
    # Their number depends on the CPUs that are free.
    for way, sent in counts.sent_by_direction.items():
        assert sent >= counts.received_by_direction[way] > 0, counts
    assert all(
        each.own_returned == each.from_other_trials == 0
        for each in counts.foreign_frames_by_endpoint.values()
    )


@pytest.mark.usefixtures("real_root")
def test_frames_beyond_the_capacity_of_a_device_count_as_sent_and_lost() -> None:
    counts = measure_frames("openvswitch", frame_load="max")
    assert counts.total_sent > counts.total_received > 0
