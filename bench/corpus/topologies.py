"""The testbeds of the corpus and their levels."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from bench.corpus.multipath_testbed import MultipathLab
from vnetbench.lab.netns.testbed import NetnsLab
from vnetbench.lab.testbed import Lab
from vnetbench.study.labs import NETNS, QEMU
from vnetbench.study.model import Level, TestbedSpec


@dataclass(frozen=True)
class TestbedType:
    """The parts of a study that define its testbed."""

    lab: str = NETNS
    uplink: bool = False
    team_speed: str = ""
    """Speed of the links of a team between two virtual switches; empty without one."""
    levels: Mapping[str, Level] = field(default_factory=dict)
    create_lab: Callable[[TestbedSpec, str], Lab] = NetnsLab
    """Creates the lab of a testbed of namespaces."""


_GUESTS: Mapping[str, Level] = {
    # Runs reuse the testbeds of guests, so each run must set every level that another run changes.
    "mtu": 1500, "tso": "on", "gso": "on", "gro": "on", "checksum_offload": "on",
    "vcpu_pin": "1/2", "emulator_pin": "apart", "link_rate": "none",
}  # fmt: skip

TOPOLOGIES: Mapping[str, TestbedType] = {
    "bridge": TestbedType(levels={"vswitch": "bridge"}),
    "direct": TestbedType(levels={"vswitch": "direct"}),
    "macvlan": TestbedType(levels={"vswitch": "macvlan"}),
    "router": TestbedType(levels={"vswitch": "router"}),
    "jumbo6": TestbedType(levels={"vswitch": "router", "ip_version": "6", "mtu": 9000}),
    "uplink": TestbedType(uplink=True, levels={"vswitch": "bridge"}),
    "streams": TestbedType(levels={"streams": 4}),
    "pairs": TestbedType(levels={"pairs": 2}),
    "team": TestbedType(levels={"vswitch": "router"}, create_lab=MultipathLab),
    "bond": TestbedType(team_speed="40 Mbit/s", levels={"vswitch": "openvswitch"}),
    "mixed bond": TestbedType(
        team_speed="10 Mbit/s, 40 Mbit/s, 40 Mbit/s, 40 Mbit/s", levels={"vswitch": "openvswitch"}
    ),
    "connections": TestbedType(levels={"connections": 4}),
    "virtio-net": TestbedType(QEMU, levels={**_GUESTS, "adapter": "virtio-net"}),
    "e1000e": TestbedType(QEMU, levels={**_GUESTS, "adapter": "e1000e"}),
    "vmxnet3": TestbedType(QEMU, levels={**_GUESTS, "adapter": "vmxnet3"}),
}
