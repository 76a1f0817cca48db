"""A testbed as data: endpoints, virtual switches and links, independent of anything that runs."""

from __future__ import annotations

import re
from dataclasses import asdict, dataclass
from typing import NamedTuple, Protocol

from vnetbench.errors import BenchError
from vnetbench.lab.endpoint import SIDES, Endpoint, PairSide

NAME_PATTERN = re.compile(r"[a-z0-9][a-z0-9-]{0,23}")
IPV4_ADDRESS_FORMAT = "10.77.{side}.{pair}"  # sides 1 and 2, in one /16
IPV4_PREFIX_LENGTH = 16
IPV6_ADDRESS_FORMAT = "fd77::{side}:{pair:x}"  # in one /64
IPV6_PREFIX_LENGTH = 64
MAX_PAIRS = 64
VM_INTERFACE = "eth0"
BRIDGE, DIRECT, MACVLAN, ROUTER, OPEN_VSWITCH = "bridge", "direct", "macvlan", "router", "openvswitch"
"""The levels of the factor `vswitch`."""
ROUTER_ADDRESS_NUMBER = 254
"""Position of a router among the addresses of a side, which no pair has."""
ROUTED_PREFIX_LENGTH, ROUTED_PREFIX6_LENGTH = 24, 112
"""Prefix lengths of the two networks of a router; without a router both sides share one network."""
VNIC, PORT, UPLINK, PARENT = "vnic", "port", "uplink", "parent"
"""Roles of interfaces: of an endpoint, of a virtual switch or router, between switches, below macvlans."""


@dataclass(frozen=True)
class NetnsShape:
    """The part of a treatment that determines its testbed; everything else is a knob of that testbed."""

    vswitch: str = "bridge"
    pairs: int = 1
    uplink: bool = False
    delay_line: bool = False
    """Whether the link is a delay line: two taps that an agent joins."""
    team_link_count: int = 0
    """Links of a team between two virtual switches; 0 without a team."""

    def __str__(self) -> str:
        others = (" uplink" if self.uplink else "") + (" delay_line" if self.delay_line else "")
        others += f" team_links={self.team_link_count}" if self.team_link_count else ""
        return f"{self.vswitch} pairs={self.pairs}{others}"


class InterfaceLocation(NamedTuple):
    """A network namespace, and the name of an interface in it."""

    namespace: str
    interface: str


@dataclass(frozen=True)
class NetDevice:
    """A network interface on a path."""

    display_name: str
    namespace: str
    interface: str
    role: str = VNIC
    leads_to: str = ""
    """The endpoint, guest or virtual switch at the other end of its link; empty for an endpoint's own."""

    @property
    def location(self) -> InterfaceLocation:
        """Its namespace and its name there."""
        return InterfaceLocation(self.namespace, self.interface)


@dataclass(frozen=True)
class Vm(Endpoint):
    """A VM of the testbed: a namespace with one vNIC. It has an IPv6 address only if the kernel has IPv6."""

    has_own_kernel = False
    namespace: str
    prefix_length: int = IPV4_PREFIX_LENGTH
    ipv6_prefix_length: int = IPV6_PREFIX_LENGTH
    gateways: tuple[str, ...] = ()
    """Gateways to the other side, IPv4 then IPv6; empty if both sides share one network."""

    @property
    def device(self) -> NetDevice:
        """The VM's vNIC."""
        return NetDevice(f"{self.name} {self.interface}", self.namespace, self.interface)


@dataclass(frozen=True)
class DelayLineEnds:
    """Both ends of a delay line: towards side a and towards side b."""

    devices: tuple[NetDevice, NetDevice]
    temporary_tap_names: tuple[str, str]
    """Temporary names of the ends in the switch namespace, where they are created."""


@dataclass(frozen=True)
class TeamLinks:
    """The links of a team between the first two virtual switches."""

    near: tuple[NetDevice, ...]
    """The first switch's end of each link, in the order of the team."""
    far: tuple[NetDevice, ...]
    """The second switch's end of each link."""

    @property
    def devices(self) -> tuple[NetDevice, ...]:
        """Both ends of all links."""
        return (*self.near, *self.far)


def team_port(vswitch: str) -> str:
    """Return the interface by which a bridge uses its team of BPF programs."""
    return f"{vswitch}-team"


class SwitchNetwork(Protocol):
    """The network between endpoints: virtual switches in their own namespace, with ports and an uplink."""

    @property
    def switch_namespace(self) -> str:
        """The namespace of the virtual switches."""

    @property
    def vswitches(self) -> tuple[str, ...]:
        """Interfaces of the virtual switches; empty if endpoints are joined directly."""

    @property
    def ports_by_pair(self) -> tuple[tuple[NetDevice, ...], ...]:
        """Interfaces of the virtual switches on each pair's path, from a to b."""

    @property
    def uplink_ends(self) -> tuple[NetDevice, ...]:
        """Both ends of the link between two virtual switches, if there is one."""

    @property
    def delay_lines(self) -> tuple[DelayLineEnds, ...]:
        """Delay lines on the paths."""

    @property
    def rate_limited_devices(self) -> tuple[NetDevice, ...]:
        """Devices whose transmit rate a `link_rate` limits."""

    @property
    def netem_devices(self) -> tuple[NetDevice, ...]:
        """Devices on whose transmit side netem adds delay."""


def observed_devices(network: SwitchNetwork) -> dict[str, NetDevice]:
    """Return the interfaces that the observer watches in the switch namespace, by name."""
    return {device.interface: device for ports in network.ports_by_pair for device in ports}


def describe_observed_interfaces(network: SwitchNetwork) -> list[dict[str, object]]:
    """Return the watched interfaces for the results file, with the pairs (from 1) that use each."""
    return [
        {
            "name": name,
            "role": device.role,
            "leads_to": device.leads_to,
            "pairs": [pair for pair, ports in enumerate(network.ports_by_pair, start=1) if device in ports],
        }
        for name, device in observed_devices(network).items()
    ]


@dataclass(frozen=True)
class NetnsTopology:
    """The topology of a testbed of the lab `netns`."""

    testbed_name: str
    shape: NetnsShape
    endpoints: tuple[Vm, ...]
    switch_namespace: str
    vswitches: tuple[str, ...]
    uplink_ends: tuple[NetDevice, ...]
    """Both ends of the uplink, if there is one."""
    ports_by_pair: tuple[tuple[NetDevice, ...], ...]
    """Interfaces between the two vNICs of each pair, from a to b."""
    team: TeamLinks | None = None
    """The team's links between the two virtual switches, if there is a team."""

    @property
    def has_switch_namespace(self) -> bool:
        """Whether something is between the VMs of a pair."""
        return self.shape.vswitch != DIRECT or self.shape.delay_line

    @property
    def rate_limited_devices(self) -> tuple[NetDevice, ...]:
        """Both ends of the uplink or of a team's links if there are any, else every vNIC."""
        if self.team is not None:
            return self.team.devices
        return self.uplink_ends if self.shape.uplink else tuple(e.device for e in self.endpoints)

    @property
    def netem_devices(self) -> tuple[NetDevice, ...]:
        """The last interfaces before the VMs if there are any, else every vNIC."""
        if self.shape.vswitch in (DIRECT, MACVLAN):
            return tuple(e.device for e in self.endpoints)
        return tuple(port for ports in self.ports_by_pair for port in (ports[0], ports[-1]))

    @property
    def delay_lines(self) -> tuple[DelayLineEnds, ...]:
        """The uplink if there are two virtual switches, else the link to side b of each pair."""
        if not self.shape.delay_line:
            return ()
        if self.uplink_ends:
            first, last = self.uplink_ends
            return (DelayLineEnds((first, last), (first.interface, last.interface)),)
        pairs = zip(self.endpoints_on_side("a"), self.endpoints_on_side("b"), strict=True)
        return tuple(
            DelayLineEnds(
                (self.next_hop(b) if self.shape.vswitch == ROUTER else a.device, b.device),
                (b.name if self.shape.vswitch == ROUTER else f"{a.name}-line", f"{b.name}-line"),
            )
            for a, b in pairs
        )

    def endpoints_on_side(self, side: PairSide) -> tuple[Vm, ...]:
        """Return the endpoints of one side, by pair."""
        return tuple(e for e in self.endpoints if e.side == side)

    def hops(self, pair: int) -> tuple[NetDevice, ...]:
        """Return every interface on the path of a pair (numbered from 1), from a to b."""
        a, b = (next(e for e in self.endpoints_on_side(side) if e.pair == pair) for side in SIDES)
        return (a.device, *self.ports_by_pair[pair - 1], b.device)

    def next_hop(self, endpoint: Endpoint) -> NetDevice:
        """Return the interface that receives what this endpoint sends to its peer."""
        if self.shape.vswitch == ROUTER:
            return self.ports_by_pair[endpoint.pair - 1][SIDES.index(endpoint.side)]
        return next(e.device for e in self.endpoints if e.pair == endpoint.pair and e.side != endpoint.side)

    def namespaces(self) -> tuple[str, ...]:
        """Return all namespaces, that of the virtual switches first."""
        switch_namespace = (self.switch_namespace,) if self.has_switch_namespace else ()
        return (*switch_namespace, *(e.namespace for e in self.endpoints))

    def describe(self) -> dict[str, object]:
        """Return the description for the results file."""
        return {
            "name": self.testbed_name,
            "shape": asdict(self.shape),
            "endpoints": [asdict(e) for e in self.endpoints],
            "vswitches": list(self.vswitches),
            "hops": [[h.display_name for h in self.hops(p + 1)] for p in range(self.shape.pairs)],
            "observed_interfaces": describe_observed_interfaces(self),
        }


def check_testbed_name(name: str) -> None:
    """Raise BenchError if a name is invalid for a testbed."""
    if not NAME_PATTERN.fullmatch(name):
        raise BenchError(
            f"{name!r} is not a valid testbed name",
            fix="use up to 24 lower-case letters, digits and hyphens, as in vnetbench lab up my-testbed",
        )


def make_topology(testbed_name: str, shape: NetnsShape) -> NetnsTopology:
    """Return the topology of a testbed of this name and shape; raise BenchError for an impossible shape."""
    check_testbed_name(testbed_name)
    if not 1 <= shape.pairs <= MAX_PAIRS:
        raise BenchError(
            f"a testbed has 1 to {MAX_PAIRS} pairs of VMs, not {shape.pairs}", fix="request fewer pairs"
        )
    if shape.uplink and shape.vswitch in (DIRECT, ROUTER):
        raise BenchError(
            f"vswitch = {shape.vswitch} has no virtual switch, so it has no uplink",
            fix="use vswitch = bridge",
        )
    endpoints = tuple(
        _make_vm(testbed_name, shape, side_number, side, pair)
        for pair in range(1, shape.pairs + 1)
        for side_number, side in enumerate(SIDES, start=1)
    )
    switch_namespace = namespace_name(testbed_name, "sw")
    has_vswitch = shape.vswitch not in (DIRECT, ROUTER)
    uplinks = uplink_devices(switch_namespace) if shape.uplink or (shape.delay_line and has_vswitch) else ()
    team = team_links(switch_namespace, shape.team_link_count) if shape.team_link_count else None
    between = team.devices if team else uplinks
    vswitches = 0 if not has_vswitch else 2 if between else 1
    return NetnsTopology(
        testbed_name,
        shape,
        endpoints,
        switch_namespace,
        tuple(f"sw{i}" for i in range(vswitches)),
        uplinks,
        tuple(_path_ports(shape, switch_namespace, between, pair) for pair in range(1, shape.pairs + 1)),
        team,
    )


def pair_address_number(side_number: int, pair: int, *, has_team: bool) -> int:
    """Return the last part of the addresses of a pair's VM on one side (1 or 2).

    It is the pair's number, except on side 2 of a team. With equal numbers on both sides, IP hash would put
    all pairs on one link. With N links, N a power of two, N successive pairs now have N different links: the
    XOR of n and 2n is the Gray code of 2n.
    """
    return 2 * pair if has_team and side_number == 2 else pair


class RouterAddresses(NamedTuple):
    """A router's addresses on one side."""

    ipv4: str
    ipv6: str


def router_addresses(side_number: int) -> RouterAddresses:
    """Return a router's addresses on one side (1 or 2)."""
    return RouterAddresses(
        IPV4_ADDRESS_FORMAT.format(side=side_number, pair=ROUTER_ADDRESS_NUMBER),
        IPV6_ADDRESS_FORMAT.format(side=side_number, pair=ROUTER_ADDRESS_NUMBER),
    )


def namespace_name(testbed_name: str, part: str) -> str:
    """Return the name of a part's namespace; neither name may contain the dot that separates them."""
    return f"vnb.{testbed_name}.{part}"


def uplink_devices(switch_namespace: str) -> tuple[NetDevice, NetDevice]:
    """Return both ends of the uplink between the first two virtual switches."""
    first, second = (
        NetDevice(f"uplink of vSwitch sw{i}", switch_namespace, f"up{i}", UPLINK, f"sw{1 - i}")
        for i in (0, 1)
    )
    return first, second


def team_links(switch_namespace: str, count: int) -> TeamLinks:
    """Return the links of a team between the first two virtual switches."""
    near, far = (
        tuple(
            NetDevice(
                f"link {number} at vSwitch sw{i}",
                switch_namespace,
                f"sw{i}-link{number}",
                UPLINK,
                f"sw{1 - i}",
            )
            for number in range(count)
        )
        for i in (0, 1)
    )
    return TeamLinks(near, far)


def _make_vm(testbed_name: str, shape: NetnsShape, side_number: int, side: PairSide, pair: int) -> Vm:
    own_name = f"{side}{pair}"
    is_routed = shape.vswitch == ROUTER
    number = pair_address_number(side_number, pair, has_team=shape.team_link_count > 0)
    return Vm(
        own_name,
        side,
        pair,
        VM_INTERFACE,
        IPV4_ADDRESS_FORMAT.format(side=side_number, pair=number),
        IPV6_ADDRESS_FORMAT.format(side=side_number, pair=number),
        namespace_name(testbed_name, own_name),
        ROUTED_PREFIX_LENGTH if is_routed else IPV4_PREFIX_LENGTH,
        ROUTED_PREFIX6_LENGTH if is_routed else IPV6_PREFIX_LENGTH,
        router_addresses(side_number) if is_routed else (),
    )


def _path_ports(
    shape: NetnsShape, switch_namespace: str, uplinks: tuple[NetDevice, ...], pair: int
) -> tuple[NetDevice, ...]:
    if shape.vswitch == DIRECT:
        return ()
    if shape.vswitch == MACVLAN:
        return uplinks or (NetDevice("parent of vSwitch sw0", switch_namespace, "low0", PARENT),)
    if shape.vswitch == ROUTER:
        return tuple(_make_port(f"{side}{pair}", "the router", switch_namespace) for side in SIDES)
    last = "sw1" if uplinks else "sw0"
    return (
        _make_port(f"a{pair}", "vSwitch sw0", switch_namespace),
        *uplinks,
        _make_port(f"b{pair}", f"vSwitch {last}", switch_namespace),
    )


def _make_port(endpoint: str, owner: str, switch_namespace: str) -> NetDevice:
    return NetDevice(f"port {endpoint} of {owner}", switch_namespace, endpoint, PORT, endpoint)
