"""A testbed of guests as data: guests, the host's own endpoints, and the switches between them."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import NamedTuple

from vnetbench.errors import BenchError
from vnetbench.lab.endpoint import NO_SIDE, SIDES, Endpoint, PairSide, PairSideOrEmpty
from vnetbench.lab.guest.hardware import DEFAULT_VIRTIO_RING_SIZE, Adapter, Hardware, guest_mac
from vnetbench.lab.guest.qemu import VIRTIO_ADAPTERS
from vnetbench.lab.netns.topology import (
    IPV4_ADDRESS_FORMAT,
    IPV4_PREFIX_LENGTH,
    IPV6_ADDRESS_FORMAT,
    IPV6_PREFIX_LENGTH,
    MAX_PAIRS,
    PARENT,
    PORT,
    ROUTED_PREFIX6_LENGTH,
    ROUTED_PREFIX_LENGTH,
    VM_INTERFACE,
    DelayLineEnds,
    NetDevice,
    TeamLinks,
    Vm,
    check_testbed_name,
    describe_observed_interfaces,
    namespace_name,
    router_addresses,
    uplink_devices,
)
from vnetbench.study.teams import IN_GATEWAYS

GUEST_TO_GUEST, GUEST_TO_HOST, ROUTER, BRIDGE = "guest-to-guest", "guest-to-host", "router", "bridge"
"""The levels of the factor `role`."""
ROUTER_LINK_LOCAL = "fe80::fe/64"
"""Link-local address with which a router resolves its neighbours (RFC 4861, section 7.2.2)."""
MACVTAP_PARENT_INTERFACE = "low0"
TEAM_LINK_SPEED_MBPS = 1000
"""Speed that virtio adapters of a team report. LACP needs a known one; nothing limits the rate to it."""
PORTS, TAPS = "ports", "taps"
"""What the host's endpoints of a forwarding guest are: VMs on ports of switches, or the guest's taps."""


_FIELDS_SHOWN_AS_NAME_ONLY = ("uplink", "delay_line")
"""Fields whose name alone is part of a shape's text."""
_STORED_KEY_BY_FIELD = {"pairs": "guests", "host_endpoint_device_type": "host_endpoints"}
"""Keys of a `GuestShape` in results files that differ from its fields."""


@dataclass(frozen=True)
class GuestShape:
    """The part of a treatment that determines its guests; everything else is a knob of theirs."""

    adapter: str = "virtio-net"
    vcpus: int = 1
    queues: int = 1
    pairs: int = 1
    role: str = GUEST_TO_GUEST
    rx_ring: int = DEFAULT_VIRTIO_RING_SIZE
    tx_ring: int = DEFAULT_VIRTIO_RING_SIZE
    lro: str = ""
    """Level of `lro` for a vmxnet3. QEMU's model loses most segments if LRO is enabled after an activation
    without it, as when a ring is set: 5 Mbit/s instead of 300. So no guest changes its level."""
    uplink: bool = False
    vf_interface: str = ""
    """The host's interface whose virtual functions the guests get; empty for none."""
    vsock: bool = False
    """Whether guests have VSOCK to the host."""
    host_endpoint_device_type: str = PORTS
    """What the host's endpoints of a forwarding guest are: `ports` or `taps`."""
    delay_line: bool = False
    """Whether the link between the switches is a delay line: two taps that an agent joins."""
    team_location: str = ""
    """Location of the teams in guests, `guests` or `gateways`; empty without a team."""
    team_link_count: int = 0

    def __str__(self) -> str:
        default = GuestShape().to_json()
        others = [
            f"{name}={value}"
            for name, value in self.to_json().items()
            if name not in ("adapter", *_FIELDS_SHOWN_AS_NAME_ONLY) and value != default[name]
        ]
        return " ".join(
            (self.adapter, *others, *(name for name in _FIELDS_SHOWN_AS_NAME_ONLY if getattr(self, name)))
        )

    def to_json(self) -> dict[str, object]:
        """Return the shape in the form that results files store."""
        return {_STORED_KEY_BY_FIELD.get(field, field): value for field, value in asdict(self).items()}

    def hardware(self, accelerator: str) -> Hardware:
        """Return the hardware of each guest."""
        adapter = Adapter(self.adapter, self.queues, self.rx_ring, self.tx_ring)
        count = 2 if self.role in (ROUTER, BRIDGE) else 1
        if self.team_link_count:
            speed = TEAM_LINK_SPEED_MBPS if self.adapter in VIRTIO_ADAPTERS else None
            adapter = replace(adapter, link_speed_mbps=speed)
            count = self.team_link_count + (self.team_location == IN_GATEWAYS)
        return Hardware(accelerator, self.vcpus, (adapter,) * count, self.vsock)


@dataclass(frozen=True)
class Nic:
    """One adapter of a guest."""

    guest_interface: str
    mac: str
    addresses_with_prefix_length: tuple[str, ...]
    host_device: NetDevice
    """The host's interface to which it is connected."""
    vswitch: str
    """The virtual switch of that port; empty if the port itself is an endpoint."""


@dataclass(frozen=True)
class Guest:
    """A guest and its adapters."""

    name: str
    side: PairSideOrEmpty
    """Side of the endpoint that the guest is; empty if it forwards between two endpoints."""
    pair: int
    nics: tuple[Nic, ...]

    def knob_endpoints(self) -> tuple[Endpoint, ...]:
        """Return its adapters in the form of endpoints with knobs."""
        return tuple(
            Endpoint(
                self.name if len(self.nics) == 1 else f"{self.name} {nic.guest_interface}",
                self.side,
                self.pair,
                nic.guest_interface,
                "",
                "",
            )
            for nic in self.nics
        )


class GuestInterface(NamedTuple):
    """An interface inside a guest."""

    guest_name: str
    interface: str


@dataclass(frozen=True)
class GuestTopology:
    """The topology of a testbed of the lab `qemu`. It also is a `SwitchNetwork`."""

    testbed_name: str
    shape: GuestShape
    guests: tuple[Guest, ...]
    endpoints: tuple[Endpoint, ...]
    """All endpoints, pair by pair, side a first; those on the host are `Vm`s."""
    switch_namespace: str
    vswitches: tuple[str, ...]
    """Empty if macvtap switches, which has no interface of its own."""
    uplink_ends: tuple[NetDevice, ...]
    ports_by_pair: tuple[tuple[NetDevice, ...], ...]
    team: TeamLinks | None = None
    """The links between the teams of two guests, if they have a team."""

    @property
    def vms(self) -> tuple[Vm, ...]:
        """The endpoints on the host."""
        return tuple(e for e in self.endpoints if isinstance(e, Vm))

    @property
    def rate_limited_devices(self) -> tuple[NetDevice, ...]:
        """Both ends of the uplink if there is one, else the ports next to a path's endpoints."""
        return self.uplink_ends if self.shape.uplink else self.netem_devices

    @property
    def netem_devices(self) -> tuple[NetDevice, ...]:
        """The ports next to a path's endpoints."""
        return tuple(port for ports in self.ports_by_pair if ports for port in (ports[0], ports[-1]))

    @property
    def delay_lines(self) -> tuple[DelayLineEnds, ...]:
        """The delay line, which takes the place of an uplink."""
        if not self.shape.delay_line:
            return ()
        first, last = self.uplink_ends
        return (DelayLineEnds((first, last), (first.interface, last.interface)),)

    def endpoints_on_side(self, side: PairSide) -> tuple[Vm, ...]:
        """Return the endpoints on the host on one side, by pair."""
        return tuple(vm for vm in self.vms if vm.side == side)

    def find_guest(self, name: str) -> Guest | None:
        """Return the guest of this name; None for an endpoint on the host."""
        return next((guest for guest in self.guests if guest.name == name), None)

    def describe(self) -> dict[str, object]:
        """Return the description for the results file."""
        return {
            "name": self.testbed_name,
            "shape": self.shape.to_json(),
            "endpoints": [asdict(e) for e in self.endpoints],
            "guests": [guest.name for guest in self.guests],
            "vswitches": list(self.vswitches),
            "hops": [
                [
                    element.name if isinstance(element, Guest) else element.display_name
                    for element in self.path_elements(pair)
                ]
                for pair in range(1, self.shape.pairs + 1)
            ],
            "observed_interfaces": describe_observed_interfaces(self),
        }

    def path_elements(self, pair: int) -> tuple[NetDevice | Guest, ...]:
        """Return what a packet of this pair (from 1) crosses, from a to b: host interfaces and guests."""
        a, b = (next(e for e in self.endpoints if e.pair == pair and e.side == side) for side in SIDES)
        forwarder = next((g for g in self.guests if g.pair == pair and not g.side), None)
        ports = self.ports_by_pair[pair - 1]
        middle: tuple[NetDevice | Guest, ...] = ports
        if forwarder:
            middle = (*ports[:2], forwarder, *ports[2:])
        return (self._find_device_or_guest(a), *middle, self._find_device_or_guest(b))

    def next_hop(self, endpoint: Endpoint) -> NetDevice | GuestInterface:
        """Return the receiver of frames that this endpoint sends to its peer: on the host, or in a guest."""
        if self.shape.role == ROUTER:
            forwarder = next(guest for guest in self.guests if guest.pair == endpoint.pair)
            nic = forwarder.nics[SIDES.index(endpoint.side)]
            return GuestInterface(forwarder.name, nic.guest_interface)
        peer = next(e for e in self.endpoints if e.pair == endpoint.pair and e.side != endpoint.side)
        return peer.device if isinstance(peer, Vm) else GuestInterface(peer.name, peer.interface)

    def _find_device_or_guest(self, endpoint: Endpoint) -> NetDevice | Guest:
        if isinstance(endpoint, Vm):
            return endpoint.device
        guest = self.find_guest(endpoint.name)
        assert guest is not None
        return guest


def make_topology(testbed_name: str, shape: GuestShape) -> GuestTopology:
    """Return the topology for this name and shape; raises BenchError for an impossible one."""
    check_testbed_name(testbed_name)
    if not 1 <= shape.pairs <= MAX_PAIRS:
        raise BenchError(
            f"a testbed has 1 to {MAX_PAIRS} pairs of guests, not {shape.pairs}", fix="request fewer pairs"
        )
    switch = namespace_name(testbed_name, "sw")
    pairs = range(1, shape.pairs + 1)
    if shape.role in (ROUTER, BRIDGE):
        return _make_forwarding_topology(testbed_name, shape, switch, pairs)
    uplinks = uplink_devices(switch) if shape.uplink or shape.delay_line else ()
    second = "sw1" if uplinks else "sw0"
    guests: list[Guest] = []
    endpoints: list[Endpoint] = []
    for pair in pairs:
        for number, side in enumerate(SIDES, start=1):
            address, ipv6_address = _ipv4_address(number, pair), _ipv6_address(number, pair)
            own_name = f"{side}{pair}"
            if side == "b" and shape.role == GUEST_TO_HOST:
                namespace = namespace_name(testbed_name, own_name)
                endpoints.append(Vm(own_name, side, pair, VM_INTERFACE, address, ipv6_address, namespace))
                continue
            endpoints.append(Endpoint(own_name, side, pair, VM_INTERFACE, address, ipv6_address))
            vswitch = "sw0" if side == "a" else second
            addresses = (f"{address}/{IPV4_PREFIX_LENGTH}", f"{ipv6_address}/{IPV6_PREFIX_LENGTH}")
            # The physical function controls the MAC addresses of its virtual functions, so they stay.
            own_mac = "" if shape.adapter == "vf" else guest_mac(number, pair, 0)
            port = _make_vswitch_port(shape, switch, own_name, vswitch)
            nic = Nic(VM_INTERFACE, own_mac, addresses, port, vswitch)
            guests.append(Guest(own_name, side, pair, (nic,)))
    is_macvtap = shape.adapter == "macvtap"
    vswitches = () if is_macvtap or shape.adapter == "vf" else ("sw0", "sw1") if uplinks else ("sw0",)
    ports = tuple(
        (
            _make_vswitch_port(shape, switch, f"a{pair}", "sw0"),
            *uplinks,
            _make_vswitch_port(shape, switch, f"b{pair}", second),
        )
        for pair in pairs
    )
    if is_macvtap:
        parent = NetDevice("parent of the macvtaps", switch, MACVTAP_PARENT_INTERFACE, PARENT)
        ports = tuple((first, parent, last) for first, last in ports)
    if shape.adapter == "vf":
        ports = tuple(() for _ in pairs)
    return GuestTopology(
        testbed_name, shape, tuple(guests), tuple(endpoints), switch, vswitches, uplinks, ports
    )


def _make_forwarding_topology(
    testbed_name: str, shape: GuestShape, switch: str, pairs: range
) -> GuestTopology:
    """Return a topology with a guest between two endpoints on the host.

    Each pair has its own switches, if any, so that no loop arises.
    """
    guests: list[Guest] = []
    endpoints: list[Endpoint] = []
    ports: list[tuple[NetDevice, ...]] = []
    is_router = shape.role == ROUTER
    length = ROUTED_PREFIX_LENGTH if is_router else IPV4_PREFIX_LENGTH
    length6 = ROUTED_PREFIX6_LENGTH if is_router else IPV6_PREFIX_LENGTH
    for pair in pairs:
        forwarder = f"g{pair}"
        nics: list[Nic] = []
        for number, side in enumerate(SIDES, start=1):
            vswitch, own_name = f"sw{2 * pair - 3 + number}", f"{side}{pair}"
            router, router6 = router_addresses(number)
            endpoints.append(
                Vm(
                    own_name,
                    side,
                    pair,
                    VM_INTERFACE,
                    _ipv4_address(number, pair),
                    _ipv6_address(number, pair),
                    namespace_name(testbed_name, own_name),
                    length,
                    length6,
                    (router, router6) if is_router else (),
                )
            )
            addresses = (f"{router}/{length}", f"{router6}/{length6}", ROUTER_LINK_LOCAL) if is_router else ()
            port = _make_vswitch_port(shape, switch, f"{forwarder}{side}", vswitch, forwarder)
            if shape.host_endpoint_device_type == TAPS:
                port, vswitch = (
                    NetDevice(f"tap of {forwarder}", namespace_name(testbed_name, own_name), VM_INTERFACE),
                    "",
                )
            own_mac = guest_mac(2 + number, pair, number - 1)
            nics.append(Nic(f"eth{number - 1}", own_mac, addresses, port, vswitch))
        guests.append(Guest(forwarder, NO_SIDE, pair, tuple(nics)))
        if shape.host_endpoint_device_type == TAPS:
            ports.append(())
            continue
        first, last = (
            _make_vswitch_port(shape, switch, f"{side}{pair}", nic.vswitch)
            for side, nic in zip(SIDES, nics, strict=True)
        )
        ports.append((first, nics[0].host_device, nics[1].host_device, last))
    vswitches = tuple(dict.fromkeys(nic.vswitch for guest in guests for nic in guest.nics if nic.vswitch))
    return GuestTopology(
        testbed_name, shape, tuple(guests), tuple(endpoints), switch, vswitches, (), tuple(ports)
    )


def _make_vswitch_port(
    shape: GuestShape, switch_namespace: str, own_name: str, vswitch: str, leads_to: str = ""
) -> NetDevice:
    label = f"macvtap {own_name}" if shape.adapter == "macvtap" else f"port {own_name} of vSwitch {vswitch}"
    return NetDevice(label, switch_namespace, own_name, PORT, leads_to or own_name)


def _ipv4_address(side_number: int, pair: int) -> str:
    return IPV4_ADDRESS_FORMAT.format(side=side_number, pair=pair)


def _ipv6_address(side_number: int, pair: int) -> str:
    return IPV6_ADDRESS_FORMAT.format(side=side_number, pair=pair)
