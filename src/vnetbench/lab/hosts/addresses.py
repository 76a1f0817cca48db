"""Chooses each host's interface and addresses for load from what the host reports."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from vnetbench.errors import BenchError
from vnetbench.lab.netlink import InterfaceAddress
from vnetbench.study.model import ExistingEndpointSpec

RouteLookup = Callable[[str, str | None], InterfaceAddress]
"""Returns the interface and source address of packets to an address, given a source address or None."""

_ADDRESS_LINE = re.compile(
    r"\d+: (?P<interface>[^\s@]+)\S*\s+inet6? (?P<address>[0-9a-f.:]+).* scope (?P<scope>\w+)(?P<flags>.*)"
)
LOOPBACK = "lo"
_UNUSABLE_FLAGS = ("temporary", "deprecated", "tentative", "dadfailed")


@dataclass(frozen=True)
class PairHost:
    """A host of a pair, as requested and as it reports itself."""

    spec: ExistingEndpointSpec
    address_listing: str
    """Output of `ip -o address show` on the host."""
    address_reached_by_ssh: str
    """The host's address to which SSH connected; empty for the bench's own machine."""
    find_route: RouteLookup


@dataclass(frozen=True)
class LoadInterface:
    """The interface and addresses of a host's load."""

    interface: str
    primary_address: str
    """IPv4 or IPv6."""
    ipv6_address: str
    """Empty if the interface has no usable one."""
    has_any_ipv6_address: bool


def choose_routed_interfaces(a: PairHost, b: PairHost) -> tuple[LoadInterface, LoadInterface]:
    """Return interface and addresses of both hosts of a pair, with routes checked; raises BenchError."""
    known_a, known_b = _route_lookup_address(a), _route_lookup_address(b)
    # At most one address is unknown: that of the bench's own machine.
    found_a = _choose_interface(a, known_b or _choose_interface(b, known_a).primary_address)
    found_b = _choose_interface(b, found_a.primary_address)
    for host, own, peer in ((a, found_a, found_b), (b, found_b, found_a)):
        _check_route(host, own, peer)
    return found_a, found_b


def choose_interfaces_of_one_machine(a: PairHost, b: PairHost) -> tuple[LoadInterface, LoadInterface]:
    """Return two interfaces of one machine, without a route check, because frames need no route."""
    first, second = (
        _interface_with_default_addresses(host, *defaults)
        for host, defaults in ((a, ("198.18.0.1", "2001:2::1")), (b, ("198.19.0.1", "2001:2:0:1::1")))
    )
    return first, second


def _interface_with_default_addresses(host: PairHost, default_ipv4: str, default_ipv6: str) -> LoadInterface:
    """Return the interface with its own addresses, else with addresses reserved for benchmarks.

    Each side's default is from its half of 198.18.0.0/15 (RFC 2544, appendix C.2.2) or of 2001:2::/48
    (RFC 6890, table 24).
    """
    interface = host.spec.interface or ""
    own = [address for _, address in usable_addresses(host.address_listing, interface)]
    if host.spec.address:
        own.insert(0, host.spec.address)
    ipv4 = next((each for each in own if ":" not in each), default_ipv4)
    ipv6 = next((each for each in own if ":" in each), default_ipv6)
    return LoadInterface(interface, ipv4, ipv6, _has_any_ipv6_address(host, interface))


def usable_addresses(listing: str, interface: str | None = None) -> list[InterfaceAddress]:
    """Return the usable addresses with their interfaces, IPv4 first, of one interface or of all."""
    found = [
        InterfaceAddress(match["interface"], match["address"])
        for line in listing.splitlines()
        if (match := _ADDRESS_LINE.match(line))
        and match["scope"] != "link"
        and not any(flag in match["flags"] for flag in _UNUSABLE_FLAGS)
        and interface in (None, match["interface"])
    ]
    return sorted(found, key=lambda each: ":" in each.address)


def _route_lookup_address(host: PairHost) -> str:
    """Return an address for route lookups; empty for the bench's own machine, whose routes decide."""
    spec = host.spec
    if spec.address:
        return spec.address
    if spec.interface:
        return _first_address(host, spec.interface)
    if not host.address_reached_by_ssh and not spec.is_bench_machine:
        raise BenchError(
            "the host does not report the address to which SSH connects",
            where=f"testbed.host {spec.name}",
            fix='write interface = "ens192", or address = ..., in the section of the host',
        )
    return host.address_reached_by_ssh


def _choose_interface(host: PairHost, peer: str) -> LoadInterface:
    spec = host.spec
    if spec.address:
        interface, address = spec.interface or _interface_with_address(host, spec.address), spec.address
    elif spec.interface:
        interface, address = spec.interface, _first_address(host, spec.interface)
    else:
        interface, address = host.find_route(peer, None)
    ipv6 = [each for _, each in usable_addresses(host.address_listing, interface) if ":" in each]
    ipv6_address = address if ":" in address else next(iter(ipv6), "")
    return LoadInterface(interface, address, ipv6_address, _has_any_ipv6_address(host, interface))


def _has_any_ipv6_address(host: PairHost, interface: str) -> bool:
    pattern = rf"^\d+: {re.escape(interface)}\S*\s+inet6 "
    return re.search(pattern, host.address_listing, re.MULTILINE) is not None


def _first_address(host: PairHost, interface: str) -> str:
    if found := usable_addresses(host.address_listing, interface):
        return found[0].address
    interfaces = sorted({name for name, _ in usable_addresses(host.address_listing)} - {LOOPBACK})
    raise BenchError(
        f"the host has no interface {interface} with an address (it has: {', '.join(interfaces) or 'none'})",
        where=f"testbed.host {host.spec.name}",
        fix="name one of these interfaces, or write address = ...",
    )


def _interface_with_address(host: PairHost, address: str) -> str:
    found = {own: interface for interface, own in usable_addresses(host.address_listing)}
    if address not in found:
        raise BenchError(
            f"the host does not have the address {address} (it has: {', '.join(found)})",
            where=f"testbed.host {host.spec.name}",
            fix="write one of these addresses, or remove address",
        )
    return found[address]


def _check_route(host: PairHost, own_interface: LoadInterface, peer_interface: LoadInterface) -> None:
    leaves_by, _ = host.find_route(peer_interface.primary_address, own_interface.primary_address)
    if LOOPBACK in (leaves_by, own_interface.interface):
        raise BenchError(
            f"{peer_interface.primary_address} is the host's own address, "
            "so both hosts of the pair are the same machine",
            where=f"testbed.host {host.spec.name}",
            fix="name another host, or another address of its peer",
        )
    if leaves_by != own_interface.interface:
        raise BenchError(
            f"packets to {peer_interface.primary_address} leave by {leaves_by}, "
            f"not by {own_interface.interface}",
            where=f"testbed.host {host.spec.name}",
            fix=f"name {leaves_by}, or add a route "
            f"(ip route get {peer_interface.primary_address} from {own_interface.primary_address} shows it)",
        )
