"""The testbeds that runs are made on, and the load that each has by itself."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from bench.corpus.team import TeamLab
from vnetbench.lab.testbed import Lab
from vnetbench.lab.netns.testbed import NetnsLab
from vnetbench.study.labs import NETNS, QEMU
from vnetbench.study.model import Level, TestbedSpec


@dataclass(frozen=True)
class Topology:
    """What of a study says which testbed it has."""

    lab: str = NETNS
    uplink: bool = False
    levels: Mapping[str, Level] = field(default_factory=dict)
    make_lab: Callable[[TestbedSpec, str], Lab] = NetnsLab
    """Of namespaces: what makes it."""


_GUESTS: Mapping[str, Level] = {
    # Testbeds of guests are kept from run to run: what one run changes each has to name.
    "mtu": 1500, "tso": "on", "gso": "on", "gro": "on", "checksum_offload": "on",
    "vcpu_pin": "1/2", "emulator_pin": "apart", "link_rate": "none",
}  # fmt: skip

TOPOLOGIES: Mapping[str, Topology] = {
    "bridge": Topology(levels={"vswitch": "bridge"}),
    "direct": Topology(levels={"vswitch": "direct"}),
    "macvlan": Topology(levels={"vswitch": "macvlan"}),
    "router": Topology(levels={"vswitch": "router"}),
    "jumbo6": Topology(levels={"vswitch": "router", "ip_version": "6", "mtu": 9000}),
    "uplink": Topology(uplink=True, levels={"vswitch": "bridge"}),
    "streams": Topology(levels={"streams": 4}),
    "pairs": Topology(levels={"pairs": 2}),
    "team": Topology(levels={"vswitch": "router"}, make_lab=TeamLab),
    "connections": Topology(levels={"connections": 4}),
    "virtio-net": Topology(QEMU, levels={**_GUESTS, "adapter": "virtio-net"}),
    "e1000e": Topology(QEMU, levels={**_GUESTS, "adapter": "e1000e"}),
    "vmxnet3": Topology(QEMU, levels={**_GUESTS, "adapter": "vmxnet3"}),
}
