"""A testbed of guests as data: its guests, the host's own ends, and the switches that join them."""

from __future__ import annotations

from dataclasses import asdict, dataclass

from vnetbench.errors import BenchError
from vnetbench.lab.endpoint import Endpoint
from vnetbench.lab.guest.hardware import VIRTIO_RING, Adapter, Hardware, mac
from vnetbench.lab.netns.topology import (
    ADDRESS6_FORM,
    ADDRESS_FORM,
    MOST_PAIRS,
    PARENT,
    PORT,
    PREFIX6_LENGTH,
    PREFIX_LENGTH,
    ROUTED6_LENGTH,
    ROUTED_LENGTH,
    VM_INTERFACE,
    Device,
    LineEnds,
    Vm,
    check_name,
    namespace,
    router_addresses,
    uplink_of,
    watched_facts,
)

GUEST_TO_GUEST, GUEST_TO_HOST, ROUTER, BRIDGE = "guest-to-guest", "guest-to-host", "router", "bridge"
"""The levels of the factor `role`."""
ROUTER_LINK_LOCAL = "fe80::fe/64"
"""With it a router asks for its neighbours (RFC 4861, section 7.2.2): guests have none by themselves."""
MACVTAP_PARENT = "low0"
PORTS, TAPS = "ports", "taps"
"""The host's own ends are VMs on ports of switches, as the guest's taps are; or these taps themselves."""


_SWITCHES = ("uplink", "line")
"""What a shape has or has not, and is said by its name alone."""


@dataclass(frozen=True)
class GuestShape:
    """What of a treatment decides which guests it needs; everything else is a knob of theirs."""

    adapter: str = "virtio-net"
    vcpus: int = 1
    queues: int = 1
    guests: int = 1
    """Pairs."""
    role: str = GUEST_TO_GUEST
    rx_ring: int = VIRTIO_RING
    tx_ring: int = VIRTIO_RING
    lro: str = ""
    """Of a vmxnet3, the level asked. QEMU's loses most segments where it was activated without LRO (as when
    a ring is set) and then gets it: 5 Mbit/s instead of 300. So no guest goes from one level to another."""
    uplink: bool = False
    vf_of: str = ""
    """The interface of the host whose virtual functions the guests get; empty for none."""
    vsock: bool = False
    """Whether they have VSOCK to the host."""
    ends: str = PORTS
    """What the host's own ends of a guest between them are."""
    line: bool = False
    """Whether the link between the switches is a delay line: taps that an agent joins."""

    def __str__(self) -> str:
        default = GuestShape()
        others = [
            f"{name}={value}"
            for name, value in asdict(self).items()
            if name not in ("adapter", *_SWITCHES) and value != getattr(default, name)
        ]
        return " ".join((self.adapter, *others, *(name for name in _SWITCHES if getattr(self, name))))

    def hardware(self, accelerator: str) -> Hardware:
        """Of each of its guests."""
        adapter = Adapter(self.adapter, self.queues, self.rx_ring, self.tx_ring)
        count = 2 if self.role in (ROUTER, BRIDGE) else 1
        return Hardware(accelerator, self.vcpus, (adapter,) * count, self.vsock)


@dataclass(frozen=True)
class Nic:
    """One adapter of a guest, as the testbed wants it."""

    interface: str
    mac: str
    addresses: tuple[str, ...]
    port: Device
    """The interface of the host that it is plugged into."""
    vswitch: str
    """That this is a port of; empty where it is an end itself."""


@dataclass(frozen=True)
class Guest:
    """A guest and its adapters."""

    name: str
    side: str
    """That of the endpoint that it is; empty where it stands between two."""
    pair: int
    nics: tuple[Nic, ...]

    def knob_endpoints(self) -> tuple[Endpoint, ...]:
        """Its adapters, as the knobs name them."""
        return tuple(
            Endpoint(
                self.name if len(self.nics) == 1 else f"{self.name} {nic.interface}",
                self.side, self.pair, nic.interface, "", "",
            )
            for nic in self.nics
        )  # fmt: skip


@dataclass(frozen=True)
class GuestTestbed:
    """Guests, the ends that the host has itself, and what joins them. A `Network` too."""

    name: str
    shape: GuestShape
    guests: tuple[Guest, ...]
    endpoints: tuple[Endpoint, ...]
    """All of them, pair by pair, side a first; those of the host are `Vm`s."""
    switch_namespace: str
    vswitches: tuple[str, ...]
    """Nothing where macvtap switches: it has no interface of its own."""
    uplinks: tuple[Device, ...]
    ports: tuple[tuple[Device, ...], ...]

    @property
    def vms(self) -> tuple[Vm, ...]:
        """The ends that the host has itself."""
        return tuple(e for e in self.endpoints if isinstance(e, Vm))

    @property
    def shaped(self) -> tuple[Device, ...]:
        """What a `link_rate` limits: the uplink's both ends, else the ports that lead to a path's ends."""
        return self.uplinks if self.shape.uplink else self.delayed

    @property
    def delayed(self) -> tuple[Device, ...]:
        """What netem delays: the ports that lead to a path's ends."""
        return tuple(port for ports in self.ports if ports for port in (ports[0], ports[-1]))

    @property
    def lines(self) -> tuple[LineEnds, ...]:
        """The delay line: it stands where an uplink would."""
        if not self.shape.line:
            return ()
        first, last = self.uplinks
        return (LineEnds((first, last), (first.interface, last.interface)),)

    def guest(self, name: str) -> Guest | None:
        """The guest of this name; None for an end of the host's own."""
        return next((guest for guest in self.guests if guest.name == name), None)

    def as_facts(self) -> dict[str, object]:
        """The description for the results file."""
        return {
            "name": self.name,
            "shape": asdict(self.shape),
            "endpoints": [asdict(e) for e in self.endpoints],
            "guests": [guest.name for guest in self.guests],
            "vswitches": list(self.vswitches),
            "hops": [
                [place.name if isinstance(place, Guest) else place.label for place in self.way(pair)]
                for pair in range(1, self.shape.guests + 1)
            ],
            "watched": watched_facts(self),
        }

    def way(self, pair: int) -> tuple[Device | Guest, ...]:
        """What a packet of this pair (from 1) crosses, from a to b: interfaces of the host, and guests."""
        a, b = (next(e for e in self.endpoints if e.pair == pair and e.side == side) for side in "ab")
        between = next((g for g in self.guests if g.pair == pair and not g.side), None)
        ports = self.ports[pair - 1]
        middle: tuple[Device | Guest, ...] = ports
        if between:
            middle = (*ports[:2], between, *ports[2:])
        return (self._end(a), *middle, self._end(b))

    def next_hop(self, endpoint: Endpoint) -> Device | tuple[str, str]:
        """What takes the frames that this endpoint sends to the other one of its pair.

        An interface of the host, or a guest's name and its interface.
        """
        if self.shape.role == ROUTER:
            between = next(guest for guest in self.guests if guest.pair == endpoint.pair)
            return between.name, between.nics["ab".index(endpoint.side)].interface
        other = next(e for e in self.endpoints if e.pair == endpoint.pair and e.side != endpoint.side)
        return other.device if isinstance(other, Vm) else (other.name, other.interface)

    def _end(self, endpoint: Endpoint) -> Device | Guest:
        if isinstance(endpoint, Vm):
            return endpoint.device
        guest = self.guest(endpoint.name)
        assert guest is not None
        return guest


def describe(name: str, shape: GuestShape) -> GuestTestbed:
    """The testbed of this name and shape; raises BenchError for one that cannot be."""
    check_name(name)
    if not 1 <= shape.guests <= MOST_PAIRS:
        raise BenchError(
            f"a testbed has 1 to {MOST_PAIRS} pairs of guests, not {shape.guests}", fix="ask for fewer"
        )
    switch = namespace(name, "sw")
    pairs = range(1, shape.guests + 1)
    if shape.role in (ROUTER, BRIDGE):
        return _with_guests_between(name, shape, switch, pairs)
    uplinks = uplink_of(switch) if shape.uplink or shape.line else ()
    second = "sw1" if uplinks else "sw0"
    guests: list[Guest] = []
    endpoints: list[Endpoint] = []
    for pair in pairs:
        for number, side in enumerate("ab", start=1):
            address, address6 = _address(number, pair), _address6(number, pair)
            own = f"{side}{pair}"
            if side == "b" and shape.role == GUEST_TO_HOST:
                endpoints.append(Vm(own, side, pair, VM_INTERFACE, address, address6, namespace(name, own)))
                continue
            endpoints.append(Endpoint(own, side, pair, VM_INTERFACE, address, address6))
            vswitch = "sw0" if side == "a" else second
            addresses = (f"{address}/{PREFIX_LENGTH}", f"{address6}/{PREFIX6_LENGTH}")
            # A physical function has a say in the MAC addresses of its virtual ones: theirs stay.
            own_mac = "" if shape.adapter == "vf" else mac(number, pair, 0)
            nic = Nic(VM_INTERFACE, own_mac, addresses, _port(shape, switch, own, vswitch), vswitch)
            guests.append(Guest(own, side, pair, (nic,)))
    is_macvtap = shape.adapter == "macvtap"
    vswitches = () if is_macvtap or shape.adapter == "vf" else ("sw0", "sw1") if uplinks else ("sw0",)
    ports = tuple(
        (_port(shape, switch, f"a{pair}", "sw0"), *uplinks, _port(shape, switch, f"b{pair}", second))
        for pair in pairs
    )
    if is_macvtap:
        parent = Device("parent of the macvtaps", switch, MACVTAP_PARENT, PARENT)
        ports = tuple((first, parent, last) for first, last in ports)
    if shape.adapter == "vf":
        ports = tuple(() for _ in pairs)
    return GuestTestbed(name, shape, tuple(guests), tuple(endpoints), switch, vswitches, uplinks, ports)


def _with_guests_between(name: str, shape: GuestShape, switch: str, pairs: range) -> GuestTestbed:
    """Both ends on the host, a guest between. Each pair has switches of its own, if any: no loop is made."""
    guests: list[Guest] = []
    endpoints: list[Endpoint] = []
    ports: list[tuple[Device, ...]] = []
    is_router = shape.role == ROUTER
    length, length6 = (ROUTED_LENGTH, ROUTED6_LENGTH) if is_router else (PREFIX_LENGTH, PREFIX6_LENGTH)
    for pair in pairs:
        between = f"g{pair}"
        nics: list[Nic] = []
        for number, side in enumerate("ab", start=1):
            vswitch, own = f"sw{2 * pair - 3 + number}", f"{side}{pair}"
            router, router6 = router_addresses(number)
            endpoints.append(
                Vm(own, side, pair, VM_INTERFACE, _address(number, pair), _address6(number, pair),
                   namespace(name, own), length, length6, (router, router6) if is_router else ())
            )  # fmt: skip
            addresses = (f"{router}/{length}", f"{router6}/{length6}", ROUTER_LINK_LOCAL) if is_router else ()
            port = _port(shape, switch, f"{between}{side}", vswitch, between)
            if shape.ends == TAPS:
                port, vswitch = Device(f"tap of {between}", namespace(name, own), VM_INTERFACE), ""
            nics.append(Nic(f"eth{number - 1}", mac(2 + number, pair, number - 1), addresses, port, vswitch))
        guests.append(Guest(between, "", pair, tuple(nics)))
        if shape.ends == TAPS:
            ports.append(())
            continue
        first, last = (
            _port(shape, switch, f"{side}{pair}", nic.vswitch) for side, nic in zip("ab", nics, strict=True)
        )
        ports.append((first, nics[0].port, nics[1].port, last))
    vswitches = tuple(dict.fromkeys(nic.vswitch for guest in guests for nic in guest.nics if nic.vswitch))
    return GuestTestbed(name, shape, tuple(guests), tuple(endpoints), switch, vswitches, (), tuple(ports))


def _port(shape: GuestShape, switch: str, own: str, vswitch: str, leads_to: str = "") -> Device:
    label = f"macvtap {own}" if shape.adapter == "macvtap" else f"port {own} of vSwitch {vswitch}"
    return Device(label, switch, own, PORT, leads_to or own)


def _address(side: int, pair: int) -> str:
    return ADDRESS_FORM.format(side=side, pair=pair)


def _address6(side: int, pair: int) -> str:
    return ADDRESS6_FORM.format(side=side, pair=pair)
