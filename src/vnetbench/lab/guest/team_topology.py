"""Testbeds whose guests have a team: two guests, and links that join their adapters one by one."""

from __future__ import annotations

from dataclasses import dataclass

from vnetbench.lab.endpoint import NO_SIDE, SIDES, Endpoint
from vnetbench.lab.guest.hardware import guest_mac
from vnetbench.lab.guest.topology import Guest, GuestShape, GuestTopology, Nic, make_topology
from vnetbench.lab.netns.topology import (
    IPV4_ADDRESS_FORMAT,
    IPV4_PREFIX_LENGTH,
    IPV6_ADDRESS_FORMAT,
    IPV6_PREFIX_LENGTH,
    PORT,
    VM_INTERFACE,
    NetDevice,
    Vm,
    check_testbed_name,
    namespace_name,
    pair_address_number,
    team_links,
)
from vnetbench.study.teams import IN_GATEWAYS

TEAM_INTERFACE = "bond0"
NEAR_SWITCH, FAR_SWITCH = "sw0", "sw1"
"""The virtual switches of gateways, and of the far end if it does not bundle the links."""
_GATEWAY_SIDE_NUMBER = 7
"""Part of the gateways' MAC addresses (`guest_mac`) that no other guest has."""


@dataclass(frozen=True)
class TeamEnd:
    """One end of a team in a guest."""

    guest: Guest
    """The guest. Its last adapters are the members, in the order of the links."""
    patches: tuple[str, ...]
    """The bridges that join each member's tap with its link."""

    @property
    def member_names(self) -> tuple[str, ...]:
        """The guest's names of the members."""
        return tuple(nic.guest_interface for nic in self._members)

    @property
    def member_taps(self) -> tuple[NetDevice, ...]:
        """The taps of the members, in the order of the links."""
        return tuple(nic.host_device for nic in self._members)

    @property
    def inner_nics(self) -> tuple[Nic, ...]:
        """The adapter that a gateway bridges with its team; empty for a guest that is an endpoint."""
        return self.guest.nics[: -len(self.patches)]

    def adapter_number(self, link: int) -> int:
        """Return QEMU's number of the adapter that is a link's member."""
        return len(self.inner_nics) + link

    @property
    def _members(self) -> tuple[Nic, ...]:
        return self.guest.nics[-len(self.patches) :]


@dataclass(frozen=True)
class GuestTeamTopology(GuestTopology):
    """A testbed whose two guests have a team each, joined link by link."""

    @property
    def team_ends(self) -> tuple[TeamEnd, TeamEnd]:
        """The near end, from which the load comes, and the far end."""
        near, far = (
            TeamEnd(guest, _patch_names(switch, self.shape.team_link_count))
            for guest, switch in zip(self.guests, (NEAR_SWITCH, FAR_SWITCH), strict=True)
        )
        return near, far

    @property
    def rate_limited_devices(self) -> tuple[NetDevice, ...]:
        """Both ends of all links."""
        assert self.team is not None
        return self.team.devices

    def path_elements(self, pair: int) -> tuple[NetDevice | Guest, ...]:
        """See GuestTopology."""
        near, far = self.guests
        if not self.vms:
            return (near, *self.ports_by_pair[pair - 1], far)
        a, b = (next(vm for vm in self.vms if vm.pair == pair and vm.side == side) for side in SIDES)
        first, *between, last = self.ports_by_pair[pair - 1]
        return (a.device, first, near, *between, far, last, b.device)


def make_guest_topology(testbed_name: str, shape: GuestShape) -> GuestTopology:
    """Return the topology for this name and shape, with or without a team; raises BenchError."""
    if not shape.team_link_count:
        return make_topology(testbed_name, shape)
    check_testbed_name(testbed_name)
    return _make_team_topology(testbed_name, shape, namespace_name(testbed_name, "sw"))


def _make_team_topology(testbed_name: str, shape: GuestShape, switch_namespace: str) -> GuestTeamTopology:
    is_gateway = shape.team_location == IN_GATEWAYS
    links = team_links(switch_namespace, shape.team_link_count)
    switches = (NEAR_SWITCH, FAR_SWITCH)
    make_guest = _make_gateway if is_gateway else _make_endpoint_guest
    guests = tuple(
        make_guest(switch_namespace, shape.team_link_count, number, switch)
        for number, switch in enumerate(switches, start=1)
    )
    taps = [tuple(nic.host_device for nic in guest.nics[-shape.team_link_count :]) for guest in guests]
    between = (*taps[0], *links.devices, *taps[1])
    patches = (name for switch in switches for name in _patch_names(switch, shape.team_link_count))
    pairs = range(1, shape.pairs + 1)
    endpoints = tuple(
        _make_vm(testbed_name, number, pair) if is_gateway else _make_guest_endpoint(number, pair)
        for pair in pairs
        for number in (1, 2)
    )
    ports = tuple(
        (_vm_port(switch_namespace, 1, pair), *between, _vm_port(switch_namespace, 2, pair))
        if is_gateway
        else between
        for pair in pairs
    )
    return GuestTeamTopology(
        testbed_name,
        shape,
        guests,
        endpoints,
        switch_namespace,
        (*switches, *patches),
        (),
        ports,
        links,
    )


def _make_endpoint_guest(namespace: str, link_count: int, number: int, switch: str) -> Guest:
    side = SIDES[number - 1]
    name = f"{side}1"
    return Guest(name, side, 1, _make_members(namespace, name, link_count, number, switch, first=0))


def _make_gateway(namespace: str, link_count: int, number: int, switch: str) -> Guest:
    name = f"g{number}"
    inner = Nic(
        VM_INTERFACE,
        guest_mac(_GATEWAY_SIDE_NUMBER, number, 0),
        (),
        _tap(namespace, name, VM_INTERFACE),
        switch,
    )
    members = _make_members(namespace, name, link_count, _GATEWAY_SIDE_NUMBER, switch, first=1, pair=number)
    return Guest(name, NO_SIDE, 1, (inner, *members))


def _make_members(
    namespace: str,
    guest_name: str,
    link_count: int,
    side_number: int,
    switch: str,
    *,
    first: int,
    pair: int = 1,
) -> tuple[Nic, ...]:
    return tuple(
        Nic(
            f"eth{first + link}",
            guest_mac(side_number, pair, first + link),
            (),
            _tap(namespace, guest_name, f"eth{first + link}"),
            patch,
        )
        for link, patch in enumerate(_patch_names(switch, link_count))
    )


def _make_guest_endpoint(number: int, pair: int) -> Endpoint:
    side = SIDES[number - 1]
    address, ipv6_address = _addresses(number, pair)
    return Endpoint(f"{side}{pair}", side, pair, TEAM_INTERFACE, address, ipv6_address)


def _make_vm(testbed_name: str, number: int, pair: int) -> Vm:
    side = SIDES[number - 1]
    name = f"{side}{pair}"
    namespace = namespace_name(testbed_name, name)
    return Vm(name, side, pair, VM_INTERFACE, *_addresses(number, pair), namespace)


def _vm_port(namespace: str, number: int, pair: int) -> NetDevice:
    name = f"{SIDES[number - 1]}{pair}"
    switch = (NEAR_SWITCH, FAR_SWITCH)[number - 1]
    return NetDevice(f"port {name} of vSwitch {switch}", namespace, name, PORT, name)


def _tap(namespace: str, guest_name: str, interface: str) -> NetDevice:
    return NetDevice(
        f"tap of {guest_name} {interface}", namespace, f"{guest_name}-{interface}", PORT, guest_name
    )


def _patch_names(switch: str, link_count: int) -> tuple[str, ...]:
    return tuple(f"{switch}-patch{number}" for number in range(link_count))


def _addresses(side_number: int, pair: int) -> tuple[str, str]:
    number = pair_address_number(side_number, pair, has_team=True)
    return (
        IPV4_ADDRESS_FORMAT.format(side=side_number, pair=number),
        IPV6_ADDRESS_FORMAT.format(side=side_number, pair=number),
    )


def address_texts(endpoint: Endpoint) -> list[str]:
    """Return the addresses of an endpoint with their prefix lengths."""
    return [
        f"{endpoint.address}/{IPV4_PREFIX_LENGTH}",
        f"{endpoint.ipv6_address}/{IPV6_PREFIX_LENGTH}",
    ]
