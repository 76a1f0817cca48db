"""Tests of guest topologies: endpoints, forwarding guests, and the hardware of a treatment."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

import pytest

from vnetbench.errors import BenchError
from vnetbench.lab.guest.hardware import (
    Adapter,
    AdapterBackend,
    BootImages,
    Hardware,
    QemuRuntimeFiles,
    check_memory,
    qemu_command,
)
from vnetbench.lab.guest.lab import guest_shape
from vnetbench.lab.guest.qemu import SANDBOX_OPTIONS
from vnetbench.lab.guest.topology import Guest, GuestShape, make_topology
from vnetbench.lab.netns.topology import Vm
from vnetbench.study.factors.registry import complete_levels
from vnetbench.study.labs import QEMU
from vnetbench.study.model import Level, TestbedSpec
from vnetbench.study.workloads import TCP_STREAM


def shape_for(factors: Mapping[str, Level]) -> GuestShape:
    return guest_shape(complete_levels(factors, TCP_STREAM, QEMU), TestbedSpec(lab=QEMU))


def path_labels(shape: GuestShape, pair: int = 1) -> list[str]:
    elements = make_topology("t-way", shape).path_elements(pair)
    return [element.name if isinstance(element, Guest) else element.display_name for element in elements]


def test_both_endpoints_are_guests_joined_by_a_bridge() -> None:
    topology = make_topology("t-two", GuestShape(pairs=2))
    assert (
        [e.name for e in topology.endpoints] == ["a1", "b1", "a2", "b2"] == [g.name for g in topology.guests]
    )
    assert path_labels(topology.shape, 2) == ["a2", "port a2 of vSwitch sw0", "port b2 of vSwitch sw0", "b2"]
    assert len({nic.mac for guest in topology.guests for nic in guest.nics}) == 4


def test_an_uplink_is_on_the_path_labels() -> None:
    assert path_labels(GuestShape(uplink=True)) == [
        "a1", "port a1 of vSwitch sw0", "uplink of vSwitch sw0", "uplink of vSwitch sw1",
        "port b1 of vSwitch sw1", "b1",
    ]  # fmt: skip


def test_the_second_endpoint_is_on_the_host() -> None:
    topology = make_topology("t-host", GuestShape(role="guest-to-host"))
    assert [g.name for g in topology.guests] == ["a1"]
    assert [vm.name for vm in topology.vms] == ["b1"]
    assert path_labels(topology.shape) == [
        "a1",
        "port a1 of vSwitch sw0",
        "port b1 of vSwitch sw0",
        "b1 eth0",
    ]


@pytest.mark.parametrize("role", ["router", "bridge"])
def test_a_forwarding_guest_has_two_switches_of_its_own(role: str) -> None:
    topology = make_topology("t-between", GuestShape(role=role, pairs=2))
    assert [type(e) for e in topology.endpoints] == [Vm] * 4
    assert [len(g.nics) for g in topology.guests] == [2, 2]
    assert len(topology.vswitches) == 4
    assert path_labels(topology.shape, 2) == [
        "a2 eth0", "port a2 of vSwitch sw2", "port g2a of vSwitch sw2", "g2",
        "port g2b of vSwitch sw3", "port b2 of vSwitch sw3", "b2 eth0",
    ]  # fmt: skip


def test_a_router_joins_two_networks_and_a_bridge_is_in_one() -> None:
    routed, bridged = (make_topology("t-nets", GuestShape(role=role)) for role in ("router", "bridge"))
    assert routed.vms[0].gateways == ("10.77.1.254", "fd77::1:fe")
    assert routed.guests[0].nics[1].addresses_with_prefix_length == (
        "10.77.2.254/24",
        "fd77::2:fe/112",
        "fe80::fe/64",
    )
    assert routed.vms[0].prefix_length == 24
    assert bridged.vms[0].gateways == () == bridged.guests[0].nics[0].addresses_with_prefix_length


@pytest.mark.parametrize("role", ["router", "bridge"])
def test_frames_enter_and_leave_by_the_taps_of_the_tested_guest(role: str) -> None:
    shape = guest_shape(complete_levels({"role": role, "guests": 2}, "frames", QEMU), TestbedSpec(lab=QEMU))
    topology = make_topology("t-frames", shape)
    assert path_labels(shape, 2) == ["a2 eth0", "g2", "b2 eth0"]
    assert topology.vswitches == ()
    assert [nic.host_device.location for nic in topology.guests[1].nics] == [
        e.device.location for e in topology.vms[2:]
    ]
    other = guest_shape(complete_levels({"role": role}, "udp_stream", QEMU), TestbedSpec(lab=QEMU))
    assert path_labels(other)[1] == "port a1 of vSwitch sw0"


def test_rings_and_queues_are_hardware_of_virtio_adapters_only() -> None:
    assert shape_for({"rx_ring": 1024, "queues": 4, "vcpus": 4}).hardware("tcg").adapters == (
        Adapter("virtio-net", 4, 1024, 256),
    )
    assert shape_for({"rx_ring": 300}).rx_ring == 512
    assert shape_for({"rx_ring": 64}) == shape_for({})
    assert shape_for({"adapter": "e1000e", "rx_ring": 4096}) == shape_for({"adapter": "e1000e"})
    assert shape_for({"mtu": 9000, "vcpu_pin": "spread"}) == shape_for({})


def test_a_shape_is_named_by_its_fields_that_are_not_default() -> None:
    assert str(GuestShape("vmxnet3")) == "vmxnet3"
    assert str(GuestShape("e1000", vcpus=2, pairs=3, uplink=True)) == "e1000 vcpus=2 guests=3 uplink"
    assert str(GuestShape(host_endpoint_device_type="taps")) == "virtio-net host_endpoints=taps"


def test_the_command_line_has_the_adapter_with_its_queues_and_rings(tmp_path: Path) -> None:
    hardware = Hardware("tcg", 2, (Adapter("virtio-net", 2, 1024, 256), Adapter("vmxnet3")))
    plugs = [
        AdapterBackend("tap,ifname=a1,queues=2", "52:54:00:01:01:00"),
        AdapterBackend("tap,ifname=b1", "52:54:00:02:01:00"),
    ]
    software = BootImages(tmp_path / "vmlinuz", tmp_path / "initramfs")
    line = qemu_command(
        "qemu", hardware, software, plugs, QemuRuntimeFiles(tmp_path, "a1"), awaits_snapshot=True
    )
    first, second = (
        line[i + 1] for i, word in enumerate(line) if word == "-device" and "netdev" in line[i + 1]
    )
    assert "mq=on,vectors=6" in first and "rx_queue_size=1024" in first
    assert "mac=52:54:00:00:00:00" in first, "a snapshot has no guest's address"
    assert "mac=52:54:00:02:01:00" in second, "a vmxnet3 resets its address to this one"
    assert line[-2:] == ["-incoming", "defer"]
    assert line[1:3] == ["-sandbox", SANDBOX_OPTIONS] and "spawn=deny" in SANDBOX_OPTIONS
    assert line[line.index("-smp") + 1] == "2"


def test_too_many_guests_for_the_memory_are_refused_with_the_maximum() -> None:
    with pytest.raises(BenchError, match="20000 guests need") as refused:
        check_memory(20000, Hardware("tcg", 1, (Adapter("e1000"),)))
    assert re.search(r"at most guests = \d+ \(each is a pair\)", str(refused.value.fix))


@pytest.mark.parametrize(("name", "shape"), [("Bad Name", GuestShape()), ("t-none", GuestShape(pairs=0))])
def test_an_impossible_testbed_is_refused(name: str, shape: GuestShape) -> None:
    with pytest.raises(BenchError):
        make_topology(name, shape)
