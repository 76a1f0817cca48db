"""Tests of testbeds of namespaces: topologies as described, independent of each other, removed completely."""

from __future__ import annotations

import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path

import pytest
from pyroute2.netlink.rtnl import ifaddrmsg

from vnetbench.errors import BenchError
from vnetbench.lab import netlink, registry
from vnetbench.lab.endpoint import SIDES
from vnetbench.lab.errors import TreatmentRefused
from vnetbench.lab.links.shaping import limit_transmit_rate
from vnetbench.lab.netns import builder
from vnetbench.lab.netns.topology import NetnsShape, NetnsTopology, Vm, make_topology, namespace_name
from vnetbench.study.factors.testbed_factors import MIN_IPV6_MTU

pytestmark = pytest.mark.lab

Build = Callable[[str, NetnsShape], NetnsTopology]


@pytest.fixture
def build() -> Iterator[Build]:
    topologies: list[NetnsTopology] = []

    def build_one(name: str, shape: NetnsShape) -> NetnsTopology:
        topology = make_topology(name, shape)
        topologies.append(topology)
        builder.build_network(topology)
        return topology

    yield build_one
    for topology in topologies:
        registry.remove_testbed_and_list_remaining_groups(topology.testbed_name)


def is_reachable(topology: NetnsTopology, pair: int = 1, size: int = 0) -> bool:
    """Whether a packet of `size` bytes passes unfragmented in both directions."""
    a, b = (next(e for e in topology.endpoints_on_side(side) if e.pair == pair) for side in SIDES)
    return _passes(a.namespace, b.namespace, b.address, size) and _passes(
        b.namespace, a.namespace, a.address, size
    )


def _passes(source: str, target: str, address: str, size: int) -> bool:
    receiver = subprocess.Popen(
        ["ip", "netns", "exec", target, sys.executable, "-c",
         "import socket; s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.bind(('0.0.0.0', 7777));"
         # A busy machine may take long to start the sender.
         "s.settimeout(60); print('bound', flush=True); print(len(s.recv(70000)) >= 0, flush=True)"],
        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
    )  # fmt: skip
    assert receiver.stdout is not None
    assert receiver.stdout.readline() == "bound\n"
    sender = subprocess.run(
        ["ip", "netns", "exec", source, sys.executable, "-c",
         # IP_MTU_DISCOVER = 10, IP_PMTUDISC_PROBE = 3: never fragment, whatever path MTU is cached.
         "import socket, sys; s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.setsockopt(0, 10, 3);"
         f"s.sendto(bytes({max(0, size - 28)}), ('{address}', 7777))"],
        stderr=subprocess.DEVNULL, check=False,
    )  # fmt: skip
    if sender.returncode != 0:
        receiver.kill()
    return receiver.communicate()[0].strip() == "True"


@pytest.mark.parametrize(
    "shape",
    [
        NetnsShape("bridge", 2),
        NetnsShape("bridge", 1, uplink=True),
        NetnsShape("direct", 2),
        NetnsShape("macvlan", 2),
        NetnsShape("macvlan", 1, uplink=True),
    ],
    ids=str,
)
def test_vms_of_a_pair_reach_each_other(build: Build, shape: NetnsShape) -> None:
    topology = build("t-reach", shape)
    assert all(is_reachable(topology, pair) for pair in range(1, shape.pairs + 1))


@pytest.mark.parametrize("vswitch", ["bridge", "direct", "macvlan"])
def test_a_vm_has_only_its_ipv6_address_and_gets_it_back_after_a_small_mtu(
    build: Build, vswitch: str
) -> None:
    topology = build("t-ipv6", NetnsShape(vswitch))
    for endpoint in topology.endpoints:
        assert ipv6_addresses(endpoint) == [endpoint.ipv6_address]
        netlink.run_in_namespace(endpoint.namespace, partial(bind6, endpoint.ipv6_address))
        set_mtu(endpoint, MIN_IPV6_MTU - 1)
        assert ipv6_addresses(endpoint) == []
    with pytest.raises(TreatmentRefused, match="MTU of 1279 cannot carry IPv6") as refused:
        builder.restore_ipv6_addresses_and_routes(topology.endpoints)
    assert "a1 eth0" in str(refused.value)
    for endpoint in topology.endpoints:
        set_mtu(endpoint, MIN_IPV6_MTU)
    builder.restore_ipv6_addresses_and_routes(topology.endpoints)
    for endpoint in topology.endpoints:
        assert ipv6_addresses(endpoint) == [endpoint.ipv6_address]
        netlink.run_in_namespace(endpoint.namespace, partial(bind6, endpoint.ipv6_address))


def test_a_kernel_without_ipv6_refuses_only_treatments_that_need_it(
    build: Build, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(builder, "_kernel_has_ipv6", lambda: False)
    topology = build("t-no6", NetnsShape())
    assert is_reachable(topology)
    assert ipv6_addresses(topology.endpoints[0]) == []
    with pytest.raises(TreatmentRefused, match="this kernel has no IPv6") as refused:
        builder.restore_ipv6_addresses_and_routes(topology.endpoints)
    assert "ipv6.disable=1" in str(refused.value.fix)


def ipv6_addresses(endpoint: Vm) -> list[str]:
    """Return the usable IPv6 addresses of the VM's vNIC."""
    with netlink.open_in_namespace(endpoint.namespace) as ipr:
        index = netlink.interface_index(ipr, endpoint.interface)
        found = list(ipr.get_addr(family=socket.AF_INET6, index=index))
    return [a.get_attr("IFA_ADDRESS") for a in found if not a["flags"] & ifaddrmsg.IFA_F_TENTATIVE]


def bind6(address: str) -> None:
    with socket.socket(socket.AF_INET6) as made:
        made.bind((address, 0))


def set_mtu(endpoint: Vm, mtu: int) -> None:
    with netlink.open_in_namespace(endpoint.namespace) as ipr:
        ipr.link("set", index=netlink.interface_index(ipr, endpoint.interface), mtu=mtu)


@pytest.mark.parametrize("vswitch", ["bridge", "macvlan"])
def test_the_network_passes_jumbo_frames_after_its_mtu_is_set(build: Build, vswitch: str) -> None:
    topology = build("t-mtu", NetnsShape(vswitch, 1, uplink=True))
    assert not is_reachable(topology, size=9000)
    builder.set_network_mtu(topology, 9000)
    for endpoint in topology.endpoints:
        with netlink.open_in_namespace(endpoint.namespace) as ipr:
            ipr.link("set", index=netlink.interface_index(ipr, endpoint.interface), mtu=9000)
    assert builder.read_smallest_mtu_between_vnics(topology) == 9000
    assert is_reachable(topology, size=9000)


def test_two_testbeds_are_independent_of_each_other(build: Build) -> None:
    first, second = build("t-one", NetnsShape()), build("t-two", NetnsShape())
    assert is_reachable(first)
    assert is_reachable(second)
    registry.remove_testbed_and_list_remaining_groups(first.testbed_name)
    assert is_reachable(second)


@pytest.mark.parametrize("shaper", ["tbf", "htb"])
def test_a_shaped_link_reports_its_rate_until_it_is_removed(build: Build, shaper: str) -> None:
    device = build("t-shape", NetnsShape()).endpoints[0].device
    for rate in (1e9, 1e10):
        shaped = limit_transmit_rate(device, rate, shaper)
        assert shaped is not None and shaped.rate_bps == rate
    assert limit_transmit_rate(device, None, shaper) is None


def test_a_queue_before_a_shaped_link_has_the_requested_length_or_is_refused(build: Build) -> None:
    device = build("t-queue", NetnsShape()).endpoints[0].device
    shaped = limit_transmit_rate(device, 1e8, "tbf", 0.04)
    assert shaped is not None and shaped.fifo_bytes_or_qdisc == 500_000
    with pytest.raises(BenchError, match="12500 bytes"):
        limit_transmit_rate(device, 1e8, "tbf", 0.001)


@pytest.mark.parametrize("shaper", ["tbf", "htb"])
def test_a_discipline_is_added_before_a_shaped_link_or_named_as_missing(build: Build, shaper: str) -> None:
    device = build("t-inner", NetnsShape()).endpoints[0].device
    # Every kernel has pfifo, but this one may lack the others.
    shaped = limit_transmit_rate(device, 1e8, shaper, "pfifo")
    assert shaped is not None and shaped.fifo_bytes_or_qdisc == "pfifo"
    for discipline in ("codel", "fq_codel"):
        try:
            shaped = limit_transmit_rate(device, 1e8, shaper, discipline)
        except BenchError as refused:
            assert refused.what == f"this kernel has no queueing discipline {discipline}"
            assert f"modprobe sch_{discipline}" in str(refused.fix)
        else:
            assert shaped is not None and shaped.fifo_bytes_or_qdisc == discipline


def test_a_rate_that_the_kernel_cannot_hold_is_refused(build: Build) -> None:
    device = build("t-fast", NetnsShape()).endpoints[0].device
    with pytest.raises(BenchError, match="cannot shape a link"):
        limit_transmit_rate(device, 1e12, "tbf")


def test_a_name_can_be_registered_only_once() -> None:
    registry.register_testbed("t-name", "a test", {})
    try:
        with pytest.raises(BenchError, match="lab down t-name"):
            registry.register_testbed("t-name", "a test", {})
    finally:
        registry.remove_testbed_and_list_remaining_groups("t-name")


def test_leftovers_of_a_killed_builder_are_found_and_removed() -> None:
    program = (
        "from vnetbench.lab import registry; from vnetbench.lab.netns import builder\n"
        "from vnetbench.lab.netns.topology import *\n"
        "import subprocess, os, time\n"
        "t = make_topology('t-killed', NetnsShape(pairs=2))\n"
        "registry.register_testbed('t-killed', 'a test', t.describe())\n"
        "builder.build_network(t)\n"
        "child = subprocess.Popen(['sleep', '300'], env={**os.environ, 'VNETBENCH_TESTBED': 't-killed'},"
        " start_new_session=True)\n"
        # The label is readable only after the child has loaded its program.
        "while not open(f'/proc/{child.pid}/environ').read(): time.sleep(0.01)\n"
        "print('topologies', flush=True); time.sleep(300)\n"
    )
    builder = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True)
    assert builder.stdout is not None
    assert builder.stdout.readline() == "topologies\n"
    assert registry.find_testbed("t-killed").is_in_use
    builder.kill()
    builder.wait()
    assert not registry.find_testbed("t-killed").is_in_use
    assert namespace_name("t-killed", "a1") in netlink.list_namespaces()
    registry.remove_testbed_and_list_remaining_groups("t-killed")
    assert not [n for n in netlink.list_namespaces() if n.startswith(namespace_name("t-killed", ""))]
    assert _labelled("t-killed") == []


def test_a_truncated_entry_still_names_its_testbed() -> None:
    registry.REGISTRY_FOLDER.mkdir(parents=True, exist_ok=True)
    (registry.REGISTRY_FOLDER / "t-cut.json").write_text('{"purpose": "a te')
    assert registry.find_testbed("t-cut").purpose == "creation was interrupted"
    registry.remove_testbed_and_list_remaining_groups("t-cut")
    assert "t-cut" not in [e.name for e in registry.list_registered_and_leftover_testbeds()]


@pytest.mark.parametrize("name", ["", "UPPER", "a" * 25, "a.b", "-a", "a b", "../a", "a/b"])
def test_an_invalid_name_is_refused(name: str) -> None:
    with pytest.raises(BenchError, match="is not a valid testbed name"):
        make_topology(name, NetnsShape())


def _labelled(name: str) -> list[str]:
    """Return the ids of processes that carry a testbed's label in their environment."""
    found = []
    for path in Path("/proc").glob("[0-9]*/environ"):
        with suppress(OSError):
            if f"VNETBENCH_TESTBED={name}".encode() in path.read_bytes().split(b"\0"):
                found.append(path.parent.name)
    return found
