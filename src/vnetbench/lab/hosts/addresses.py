"""Where hosts send and receive load: the interface and the addresses of each, by what it says of itself."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from vnetbench.errors import BenchError
from vnetbench.study.model import HostAsked

Route = Callable[[str, str | None], tuple[str, str]]
"""To an address, from one or None: the interface by which packets leave, and where they then come from."""

_ADDRESS = re.compile(
    r"\d+: (?P<interface>[^\s@]+)\S*\s+inet6? (?P<address>[0-9a-f.:]+).* scope (?P<scope>\w+)(?P<flags>.*)"
)
LOOPBACK = "lo"
_UNFIT = ("temporary", "deprecated", "tentative", "dadfailed")


@dataclass(frozen=True)
class Side:
    """A host of a pair, as asked and as it says it is."""

    asked: HostAsked
    addresses: str
    """What `ip -o address show` prints there."""
    reached_at: str
    """Its own address that SSH came to; empty for the machine of the bench."""
    route: Route


@dataclass(frozen=True)
class Placed:
    """Where a host's load goes through and comes from."""

    interface: str
    address: str
    address6: str
    """Empty where the interface has none that is good for load."""
    has_ipv6: bool


def place(a: Side, b: Side) -> tuple[Placed, Placed]:
    """Interface and addresses of both hosts of a pair, their routes checked; raises BenchError."""
    meeting_a, meeting_b = _known(a), _known(b)
    # Only one may be silent of itself: the machine of the bench.
    found_a = _of_side(a, meeting_b or _of_side(b, meeting_a).address)
    found_b = _of_side(b, found_a.address)
    for side, own, other in ((a, found_a, found_b), (b, found_b, found_a)):
        _check_route(side, own, other)
    return found_a, found_b


def place_on_one(a: Side, b: Side) -> tuple[Placed, Placed]:
    """Two interfaces of one machine: its routes lead from neither to the other, and frames need none."""
    first, second = (
        _of_port(side, *addresses)
        for side, addresses in ((a, ("198.18.0.1", "2001:2::1")), (b, ("198.19.0.1", "2001:2:0:1::1")))
    )
    return first, second


def _of_port(side: Side, ours: str, ours6: str) -> Placed:
    """With its own addresses, else with ours, which are kept for benchmarks.

    Each side's is from its half of 198.18.0.0/15 (RFC 2544, appendix C.2.2) or 2001:2::/48 (RFC 6890,
    table 24).
    """
    interface = side.asked.interface or ""
    own = [address for _, address in own_addresses(side.addresses, interface)]
    if side.asked.address:
        own.insert(0, side.asked.address)
    four = next((each for each in own if ":" not in each), ours)
    six = next((each for each in own if ":" in each), ours6)
    return Placed(interface, four, six, _has_ipv6(side, interface))


def own_addresses(addresses: str, interface: str | None = None) -> list[tuple[str, str]]:
    """Interface and address of all that are good for load, IPv4 first; of one interface, or of all."""
    found = [
        (form["interface"], form["address"])
        for line in addresses.splitlines()
        if (form := _ADDRESS.match(line))
        and form["scope"] != "link"
        and not any(flag in form["flags"] for flag in _UNFIT)
        and interface in (None, form["interface"])
    ]
    return sorted(found, key=lambda each: ":" in each[1])


def _known(side: Side) -> str:
    """An address to find routes by; empty for the machine of the bench, which routes decide."""
    asked = side.asked
    if asked.address:
        return asked.address
    if asked.interface:
        return _first(side, asked.interface)
    if not side.reached_at and not asked.local:
        raise BenchError(
            "it does not say at which of its addresses SSH reaches it",
            where=f"testbed.host {asked.name}",
            fix='write interface = "ens192" below it, or address =',
        )
    return side.reached_at


def _of_side(side: Side, other: str) -> Placed:
    asked = side.asked
    if asked.address:
        interface, address = asked.interface or _interface_of(side, asked.address), asked.address
    elif asked.interface:
        interface, address = asked.interface, _first(side, asked.interface)
    else:
        interface, address = side.route(other, None)
    six = [each for _, each in own_addresses(side.addresses, interface) if ":" in each]
    address6 = address if ":" in address else next(iter(six), "")
    return Placed(interface, address, address6, _has_ipv6(side, interface))


def _has_ipv6(side: Side, interface: str) -> bool:
    inet6 = rf"^\d+: {re.escape(interface)}\S*\s+inet6 "
    return re.search(inet6, side.addresses, re.MULTILINE) is not None


def _first(side: Side, interface: str) -> str:
    if found := own_addresses(side.addresses, interface):
        return found[0][1]
    interfaces = sorted({name for name, _ in own_addresses(side.addresses)} - {LOOPBACK})
    raise BenchError(
        f"it has no interface {interface} with an address (it has: {', '.join(interfaces) or 'none'})",
        where=f"testbed.host {side.asked.name}",
        fix="name one of these, or write address =",
    )


def _interface_of(side: Side, address: str) -> str:
    found = {own: interface for interface, own in own_addresses(side.addresses)}
    if address not in found:
        raise BenchError(
            f"{address} is none of its addresses ({', '.join(found)})",
            where=f"testbed.host {side.asked.name}",
            fix="write one of these, or take address away",
        )
    return found[address]


def _check_route(side: Side, own: Placed, other: Placed) -> None:
    leaves_by, _ = side.route(other.address, own.address)
    if LOOPBACK in (leaves_by, own.interface):
        raise BenchError(
            f"{other.address} is its own address: both hosts of the pair are one machine",
            where=f"testbed.host {side.asked.name}",
            fix="name another host, or another address of the other one",
        )
    if leaves_by != own.interface:
        raise BenchError(
            f"packets to {other.address} leave by {leaves_by}, not by {own.interface}",
            where=f"testbed.host {side.asked.name}",
            fix=f"name {leaves_by}, or add a route: ip route get {other.address} from {own.address} shows it",
        )
