"""A testbed as data: endpoints, virtual switches and links, before and without anything that runs."""

from __future__ import annotations

import re
from dataclasses import asdict, dataclass
from typing import Protocol

from vnetbench.errors import BenchError
from vnetbench.lab.endpoint import Endpoint

NAME_FORM = re.compile(r"[a-z0-9][a-z0-9-]{0,23}")
ADDRESS_FORM = "10.77.{side}.{pair}"  # sides 1 and 2, in one /16
PREFIX_LENGTH = 16
ADDRESS6_FORM = "fd77::{side}:{pair:x}"  # in one /64
PREFIX6_LENGTH = 64
MOST_PAIRS = 64
VM_INTERFACE = "eth0"
BRIDGE, DIRECT, MACVLAN, ROUTER, OPEN_VSWITCH = "bridge", "direct", "macvlan", "router", "openvswitch"
"""The levels of the factor `vswitch`."""
ROUTER_PAIR = 254
"""A router's place among the addresses of a side: no pair has it."""
ROUTED_LENGTH, ROUTED6_LENGTH = 24, 112
"""Prefixes of the networks on either side of a router, where else both are one network."""
VNIC, PORT, UPLINK, PARENT = "vnic", "port", "uplink", "parent"
"""The roles of interfaces: an endpoint's own, of a virtual switch or router, between two, below macvlans."""


@dataclass(frozen=True)
class Shape:
    """What of a treatment decides which testbed it needs; everything else is a knob of that testbed."""

    vswitch: str = "bridge"
    pairs: int = 1
    uplink: bool = False
    line: bool = False
    """Whether the link is a delay line: taps that an agent joins."""

    def __str__(self) -> str:
        others = (" uplink" if self.uplink else "") + (" line" if self.line else "")
        return f"{self.vswitch} pairs={self.pairs}{others}"


@dataclass(frozen=True)
class Device:
    """One interface on a path, named as a person would name it."""

    label: str
    namespace: str
    interface: str
    role: str = VNIC
    leads_to: str = ""
    """The endpoint, guest or virtual switch that what leaves by it comes to; empty for an endpoint's own."""

    @property
    def place(self) -> tuple[str, str]:
        """Its namespace and its name there."""
        return self.namespace, self.interface


@dataclass(frozen=True)
class Vm(Endpoint):
    """A VM of the testbed: a namespace with one vNIC. It has its IPv6 address where the kernel has IPv6."""

    has_own_kernel = False
    namespace: str
    prefix_length: int = PREFIX_LENGTH
    prefix6_length: int = PREFIX6_LENGTH
    gateways: tuple[str, ...] = ()
    """What leads to the other side's addresses, IPv4 then IPv6, where that is not on the same network."""

    @property
    def device(self) -> Device:
        """Its vNIC."""
        return Device(f"{self.name} {self.interface}", self.namespace, self.interface)


@dataclass(frozen=True)
class LineEnds:
    """Both ends of a delay line, towards side a and towards side b."""

    devices: tuple[Device, Device]
    taps: tuple[str, str]
    """What they are called where they are made, in the switch namespace."""


class Network(Protocol):
    """What joins endpoints: virtual switches in a namespace of their own, their ports and uplink."""

    @property
    def switch_namespace(self) -> str:
        """The namespace of the virtual switches."""

    @property
    def vswitches(self) -> tuple[str, ...]:
        """Their interfaces; nothing where endpoints are joined directly."""

    @property
    def ports(self) -> tuple[tuple[Device, ...], ...]:
        """For each pair: the interfaces of the virtual switches on its path, from a to b."""

    @property
    def uplinks(self) -> tuple[Device, ...]:
        """Both ends of the link between two virtual switches, or nothing."""

    @property
    def lines(self) -> tuple[LineEnds, ...]:
        """The delay lines on the paths."""

    @property
    def shaped(self) -> tuple[Device, ...]:
        """Those whose way out a `link_rate` limits."""

    @property
    def delayed(self) -> tuple[Device, ...]:
        """Those whose way out netem delays."""


def watched(network: Network) -> dict[str, Device]:
    """What the observer counts at in the namespace of the virtual switches, by the interface's name."""
    return {device.interface: device for ports in network.ports for device in ports}


def watched_facts(network: Network) -> list[dict[str, object]]:
    """The same for the results file: what each is, and the pairs (from 1) whose packets cross it."""
    return [
        {
            "name": name,
            "role": device.role,
            "leads_to": device.leads_to,
            "pairs": [pair for pair, ports in enumerate(network.ports, start=1) if device in ports],
        }
        for name, device in watched(network).items()
    ]


@dataclass(frozen=True)
class Testbed:
    """Endpoints and what joins them."""

    __test__ = False  # pytest: not a test class

    name: str
    shape: Shape
    endpoints: tuple[Vm, ...]
    switch_namespace: str
    vswitches: tuple[str, ...]
    uplinks: tuple[Device, ...]
    """Both ends of the uplink, or nothing."""
    ports: tuple[tuple[Device, ...], ...]
    """For each pair: the interfaces between its two vNICs, from a to b."""

    @property
    def has_switch_namespace(self) -> bool:
        """Whether something stands between the VMs of a pair."""
        return self.shape.vswitch != DIRECT or self.shape.line

    @property
    def shaped(self) -> tuple[Device, ...]:
        """Those whose way out a `link_rate` limits: the uplink's both ends, else every vNIC."""
        return self.uplinks if self.shape.uplink else tuple(e.device for e in self.endpoints)

    @property
    def delayed(self) -> tuple[Device, ...]:
        """Those whose way out netem delays: the last ones before VMs, else every vNIC."""
        if self.shape.vswitch in (DIRECT, MACVLAN):
            return tuple(e.device for e in self.endpoints)
        return tuple(port for ports in self.ports for port in (ports[0], ports[-1]))

    @property
    def lines(self) -> tuple[LineEnds, ...]:
        """The delay lines: the uplink where there are two vSwitches, else the link of each pair's side b."""
        if not self.shape.line:
            return ()
        if self.uplinks:
            first, last = self.uplinks
            return (LineEnds((first, last), (first.interface, last.interface)),)
        pairs = zip(self.side("a"), self.side("b"), strict=True)
        return tuple(
            LineEnds((self.next_hop(b) if self.shape.vswitch == ROUTER else a.device, b.device),
                     (b.name if self.shape.vswitch == ROUTER else f"{a.name}-line", f"{b.name}-line"))
            for a, b in pairs
        )  # fmt: skip

    def side(self, side: str) -> tuple[Vm, ...]:
        """The endpoints of one side, by pair."""
        return tuple(e for e in self.endpoints if e.side == side)

    def hops(self, pair: int) -> tuple[Device, ...]:
        """Every interface that a packet of this pair (from 1) crosses, from a to b."""
        a, b = (next(e for e in self.side(side) if e.pair == pair) for side in "ab")
        return (a.device, *self.ports[pair - 1], b.device)

    def next_hop(self, endpoint: Endpoint) -> Device:
        """The interface that takes what this endpoint sends to the other one of its pair."""
        if self.shape.vswitch == ROUTER:
            return self.ports[endpoint.pair - 1]["ab".index(endpoint.side)]
        return next(e.device for e in self.endpoints if e.pair == endpoint.pair and e.side != endpoint.side)

    def namespaces(self) -> tuple[str, ...]:
        """All namespaces, that of the virtual switches first."""
        switch = (self.switch_namespace,) if self.has_switch_namespace else ()
        return (*switch, *(e.namespace for e in self.endpoints))

    def as_facts(self) -> dict[str, object]:
        """The description for the results file."""
        return {
            "name": self.name,
            "shape": asdict(self.shape),
            "endpoints": [asdict(e) for e in self.endpoints],
            "vswitches": list(self.vswitches),
            "hops": [[h.label for h in self.hops(p + 1)] for p in range(self.shape.pairs)],
            "watched": watched_facts(self),
        }


def check_name(name: str) -> None:
    """Raise BenchError for what cannot name a testbed."""
    if not NAME_FORM.fullmatch(name):
        raise BenchError(
            f"{name!r} cannot name a testbed",
            fix="use up to 24 small letters, digits and hyphens, for example: vnetbench lab up my-bed",
        )


def describe(name: str, shape: Shape) -> Testbed:
    """The testbed of this name and shape; raises BenchError for one that cannot be."""
    check_name(name)
    if not 1 <= shape.pairs <= MOST_PAIRS:
        raise BenchError(
            f"a testbed has 1 to {MOST_PAIRS} pairs of VMs, not {shape.pairs}", fix="ask for fewer"
        )
    if shape.uplink and shape.vswitch in (DIRECT, ROUTER):
        raise BenchError(
            f"VMs joined by vswitch = {shape.vswitch} have no vSwitch, so no uplink",
            fix="use vswitch = bridge",
        )
    endpoints = tuple(
        _vm(name, shape, number, side, pair)
        for pair in range(1, shape.pairs + 1)
        for number, side in enumerate("ab", start=1)
    )
    switch = namespace(name, "sw")
    has_vswitch = shape.vswitch not in (DIRECT, ROUTER)
    uplinks = uplink_of(switch) if shape.uplink or (shape.line and has_vswitch) else ()
    vswitches = 0 if not has_vswitch else 2 if uplinks else 1
    return Testbed(
        name,
        shape,
        endpoints,
        switch,
        tuple(f"sw{i}" for i in range(vswitches)),
        uplinks,
        tuple(_ports(shape, switch, uplinks, pair) for pair in range(1, shape.pairs + 1)),
    )


def router_addresses(side: int) -> tuple[str, str]:
    """A router's own on one side (1 or 2), IPv4 and IPv6."""
    return (
        ADDRESS_FORM.format(side=side, pair=ROUTER_PAIR),
        ADDRESS6_FORM.format(side=side, pair=ROUTER_PAIR),
    )


def namespace(testbed: str, part: str) -> str:
    """The name of the namespace of one part of a testbed; a dot parts what neither name may hold."""
    return f"vnb.{testbed}.{part}"


def uplink_of(switch_namespace: str) -> tuple[Device, Device]:
    """Both ends of the uplink between the first two virtual switches."""
    first, second = (
        Device(f"uplink of vSwitch sw{i}", switch_namespace, f"up{i}", UPLINK, f"sw{1 - i}") for i in (0, 1)
    )
    return first, second


def _vm(testbed: str, shape: Shape, number: int, side: str, pair: int) -> Vm:
    own = f"{side}{pair}"
    is_routed = shape.vswitch == ROUTER
    return Vm(
        own, side, pair, VM_INTERFACE, ADDRESS_FORM.format(side=number, pair=pair),
        ADDRESS6_FORM.format(side=number, pair=pair), namespace(testbed, own),
        ROUTED_LENGTH if is_routed else PREFIX_LENGTH,
        ROUTED6_LENGTH if is_routed else PREFIX6_LENGTH,
        router_addresses(number) if is_routed else (),
    )  # fmt: skip


def _ports(shape: Shape, switch: str, uplinks: tuple[Device, ...], pair: int) -> tuple[Device, ...]:
    if shape.vswitch == DIRECT:
        return ()
    if shape.vswitch == MACVLAN:
        return uplinks or (Device("parent of vSwitch sw0", switch, "low0", PARENT),)
    if shape.vswitch == ROUTER:
        return tuple(_port(f"{side}{pair}", "the router", switch) for side in "ab")
    last = "sw1" if uplinks else "sw0"
    return (
        _port(f"a{pair}", "vSwitch sw0", switch),
        *uplinks,
        _port(f"b{pair}", f"vSwitch {last}", switch),
    )


def _port(endpoint: str, of: str, switch: str) -> Device:
    return Device(f"port {endpoint} of {of}", switch, endpoint, PORT, endpoint)
