"""Testbeds of guests as data: who is an end, what is between, and which hardware a treatment asks for."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

import pytest

from vnetbench.errors import BenchError
from vnetbench.lab.guest.hardware import (
    Adapter,
    AdapterBackend,
    Hardware,
    QemuFiles,
    Software,
    check_memory,
    qemu_command,
)
from vnetbench.lab.guest.lab import guest_shape
from vnetbench.lab.guest.topology import Guest, GuestShape, make_topology
from vnetbench.lab.netns.topology import Vm
from vnetbench.study.factors.registry import complete_levels
from vnetbench.study.labs import QEMU
from vnetbench.study.model import Level, TestbedSpec
from vnetbench.study.workloads import TCP_STREAM


def asked(factors: Mapping[str, Level]) -> GuestShape:
    return guest_shape(complete_levels(factors, TCP_STREAM, QEMU), TestbedSpec(lab=QEMU))


def way(shape: GuestShape, pair: int = 1) -> list[str]:
    places = make_topology("t-way", shape).path_elements(pair)
    return [place.name if isinstance(place, Guest) else place.label for place in places]


def test_both_ends_are_guests_and_a_bridge_joins_them() -> None:
    bed = make_topology("t-two", GuestShape(guests=2))
    assert [e.name for e in bed.endpoints] == ["a1", "b1", "a2", "b2"] == [g.name for g in bed.guests]
    assert way(bed.shape, 2) == ["a2", "port a2 of vSwitch sw0", "port b2 of vSwitch sw0", "b2"]
    assert len({nic.mac for guest in bed.guests for nic in guest.nics}) == 4


def test_an_uplink_is_on_the_way() -> None:
    assert way(GuestShape(uplink=True)) == [
        "a1", "port a1 of vSwitch sw0", "uplink of vSwitch sw0", "uplink of vSwitch sw1",
        "port b1 of vSwitch sw1", "b1",
    ]  # fmt: skip


def test_the_second_end_is_on_the_host() -> None:
    bed = make_topology("t-host", GuestShape(role="guest-to-host"))
    assert [g.name for g in bed.guests] == ["a1"]
    assert [vm.name for vm in bed.vms] == ["b1"]
    assert way(bed.shape) == ["a1", "port a1 of vSwitch sw0", "port b1 of vSwitch sw0", "b1 eth0"]


@pytest.mark.parametrize("role", ["router", "bridge"])
def test_a_guest_stands_between_two_ends_of_the_host_on_switches_of_their_own(role: str) -> None:
    bed = make_topology("t-between", GuestShape(role=role, guests=2))
    assert [type(e) for e in bed.endpoints] == [Vm] * 4
    assert [len(g.nics) for g in bed.guests] == [2, 2]
    assert len(bed.vswitches) == 4
    assert way(bed.shape, 2) == [
        "a2 eth0", "port a2 of vSwitch sw2", "port g2a of vSwitch sw2", "g2",
        "port g2b of vSwitch sw3", "port b2 of vSwitch sw3", "b2 eth0",
    ]  # fmt: skip


def test_a_router_leads_from_one_network_to_another_and_a_bridge_is_in_one() -> None:
    routed, bridged = (make_topology("t-nets", GuestShape(role=role)) for role in ("router", "bridge"))
    assert routed.vms[0].gateways == ("10.77.1.254", "fd77::1:fe")
    assert routed.guests[0].nics[1].addresses == ("10.77.2.254/24", "fd77::2:fe/112", "fe80::fe/64")
    assert routed.vms[0].prefix_length == 24
    assert bridged.vms[0].gateways == () == bridged.guests[0].nics[0].addresses


@pytest.mark.parametrize("role", ["router", "bridge"])
def test_frames_come_from_the_taps_of_the_guest_that_alone_is_tested(role: str) -> None:
    shape = guest_shape(complete_levels({"role": role, "guests": 2}, "frames", QEMU), TestbedSpec(lab=QEMU))
    bed = make_topology("t-frames", shape)
    assert way(shape, 2) == ["a2 eth0", "g2", "b2 eth0"]
    assert bed.vswitches == ()
    assert [nic.port.location for nic in bed.guests[1].nics] == [e.device.location for e in bed.vms[2:]]
    other = guest_shape(complete_levels({"role": role}, "udp_stream", QEMU), TestbedSpec(lab=QEMU))
    assert way(other)[1] == "port a1 of vSwitch sw0"


def test_rings_and_queues_are_hardware_of_virtio_and_settings_of_the_rest() -> None:
    assert asked({"rx_ring": 1024, "queues": 4, "vcpus": 4}).hardware("tcg").adapters == (
        Adapter("virtio-net", 4, 1024, 256),
    )
    assert asked({"rx_ring": 300}).rx_ring == 512
    assert asked({"rx_ring": 64}) == asked({})
    assert asked({"adapter": "e1000e", "rx_ring": 4096}) == asked({"adapter": "e1000e"})
    assert asked({"mtu": 9000, "vcpu_pin": "spread"}) == asked({})


def test_a_shape_is_named_by_what_is_not_usual() -> None:
    assert str(GuestShape("vmxnet3")) == "vmxnet3"
    assert str(GuestShape("e1000", vcpus=2, guests=3, uplink=True)) == "e1000 vcpus=2 guests=3 uplink"


def test_the_command_line_has_the_adapter_with_its_queues_and_rings(tmp_path: Path) -> None:
    hardware = Hardware("tcg", 2, (Adapter("virtio-net", 2, 1024, 256), Adapter("vmxnet3")))
    plugs = [
        AdapterBackend("tap,ifname=a1,queues=2", "52:54:00:01:01:00"),
        AdapterBackend("tap,ifname=b1", "52:54:00:02:01:00"),
    ]
    software = Software(tmp_path / "vmlinuz", tmp_path / "initramfs")
    line = qemu_command("qemu", hardware, software, plugs, QemuFiles(tmp_path, "a1"), awaits_snapshot=True)
    first, second = (
        line[i + 1] for i, word in enumerate(line) if word == "-device" and "netdev" in line[i + 1]
    )
    assert "mq=on,vectors=6" in first and "rx_queue_size=1024" in first
    assert "mac=52:54:00:00:00:00" in first, "the address of a snapshot is nobody's"
    assert "mac=52:54:00:02:01:00" in second, "a vmxnet3 forgets what its driver set"
    assert line[-2:] == ["-incoming", "defer"]
    assert line[line.index("-smp") + 1] == "2"


def test_more_guests_than_memory_holds_are_refused_with_the_most() -> None:
    with pytest.raises(BenchError, match="20000 guests need") as refused:
        check_memory(20000, Hardware("tcg", 1, (Adapter("e1000"),)))
    assert re.search(r"guests = \d+ at most, each a pair", str(refused.value.fix))


@pytest.mark.parametrize(("name", "shape"), [("Bad Name", GuestShape()), ("t-none", GuestShape(guests=0))])
def test_a_testbed_that_cannot_be_is_refused(name: str, shape: GuestShape) -> None:
    with pytest.raises(BenchError):
        make_topology(name, shape)
