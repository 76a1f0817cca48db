"""A flow as team policies see it: addresses, ports, protocol, VLAN and port IDs of its two ends."""

from __future__ import annotations

import ipaddress
import re
from dataclasses import dataclass, replace
from functools import cached_property

from vnetbench.errors import BenchError

Address = ipaddress.IPv4Address | ipaddress.IPv6Address

ETHERTYPE_IPV4, ETHERTYPE_IPV6, ETHERTYPE_VLAN = 0x0800, 0x86DD, 0x8100
ICMP, TCP, UDP, DCCP, ESP, AH, ICMPV6, SCTP, UDP_LITE = 1, 6, 17, 33, 50, 51, 58, 132, 136
IPV4_IN_IP, IPV6_IN_IP, IPV6_FRAGMENT, GRE = 4, 41, 44, 47
"""IP protocol numbers of tunnels and of IPv6's fragment header (IANA, "Protocol Numbers")."""
PROTOCOL_NUMBERS = {
    "icmp": ICMP, "tcp": TCP, "udp": UDP, "icmpv6": ICMPV6, "sctp": SCTP, "esp": ESP, "ah": AH,
}  # fmt: skip
"""IP protocol numbers that `--flow` accepts by name; others are given as a number from 0 to 255."""
PROTOCOLS_WITH_PORTS = frozenset({TCP, UDP, SCTP})
"""Protocols whose ports every policy with ports reads."""
PROTOCOLS_WITH_PORT_FIELDS = PROTOCOLS_WITH_PORTS | {DCCP, UDP_LITE}
"""Protocols whose headers start with ports. Linux bonding reads them, Open vSwitch does not."""
ICMP_ERRORS = {ICMP: frozenset({3, 4, 5, 11, 12}), ICMPV6: frozenset({1, 2, 3, 4})}
"""ICMP types that quote the packet which caused them (Linux: icmp_is_err, icmpv6_is_err)."""
ECHO_TYPES = {ICMP: 8, ICMPV6: 128}
"""ICMP type of an echo request, by IP protocol."""
_REPLY_OF_ICMP_TYPE = {8: 0, 0: 8, 13: 14, 14: 13, 128: 129, 129: 128}

_LARGEST_PORT = 65535
MAC_PATTERN = re.compile(
    r"[0-9A-Fa-f]{1,2}(?::[0-9A-Fa-f]{1,2}){5}|[0-9A-Fa-f]{2}(?:-[0-9A-Fa-f]{2}){5}"
    r"|[0-9A-Fa-f]{4}(?:\.[0-9A-Fa-f]{4}){2}"
)
"""A MAC address as Linux, Windows or Cisco write it."""


@dataclass(frozen=True)
class Flow:
    """One direction of a conversation. A field that is not known is None.

    Attributes:
        source: IP address of the sender.
        destination: IP address of the receiver, of the same version.
        source_mac: Source MAC address of the frames, 6 bytes.
        destination_mac: Destination MAC address of the frames, 6 bytes. It is the router's if one is between.
        source_port: Port of TCP, UDP, SCTP, DCCP or UDP-Lite.
        destination_port: As `source_port`.
        protocol: IP protocol number.
        vlan: VLAN ID; 0 or None for frames without a tag.
        vlan_priority: Priority code point of the VLAN tag, 0 to 7.
        source_port_id: ID of the sender's port on its virtual switch.
        destination_port_id: ID of the receiver's port on its virtual switch.
        icmp_type: Type of the ICMP messages.
        icmp_code: Code of the ICMP messages.
        icmp_id: Identifier of ICMP echo messages.
        is_fragmented: Whether the packets are fragments of larger ones.
        has_extension_headers: Whether IPv6 extension headers stand before the header of the protocol.
        inner: The flow in a tunnel (IP in IP or GRE) that this flow carries, or that an ICMP error quotes.
        spi: Security parameters index of ESP or AH.
        answer_spi: SPI of the answers, which have one of their own.
    """

    source: Address | None = None
    destination: Address | None = None
    source_mac: bytes | None = None
    destination_mac: bytes | None = None
    source_port: int | None = None
    destination_port: int | None = None
    protocol: int | None = None
    vlan: int | None = None
    vlan_priority: int = 0
    source_port_id: int | None = None
    destination_port_id: int | None = None
    icmp_type: int | None = None
    icmp_code: int = 0
    icmp_id: int | None = None
    is_fragmented: bool = False
    has_extension_headers: bool = False
    inner: Flow | None = None
    spi: int | None = None
    answer_spi: int | None = None

    def __post_init__(self) -> None:
        if self.source is not None and self.destination is not None:
            _check_same_version(self.source, self.destination)
        for port in (self.source_port, self.destination_port):
            if port is not None and not 0 <= port <= _LARGEST_PORT:
                raise BenchError(f"the flow has the port {port}", fix="write ports from 1 to 65535")

    @cached_property
    def ethertype(self) -> int:
        """EtherType of the packets without a VLAN tag; IPv4 if no address is known."""
        return ETHERTYPE_IPV6 if isinstance(self.source, ipaddress.IPv6Address) else ETHERTYPE_IPV4

    def sent_icmp_type(self) -> int:
        """Return the type of the ICMP messages: an echo request if none is stated."""
        assert self.protocol is not None
        return ECHO_TYPES[self.protocol] if self.icmp_type is None else self.icmp_type

    def reverse(self) -> Flow:
        """Return the flow of the answers; the reverse of the reverse is the flow itself."""
        return replace(
            self,
            source=self.destination,
            destination=self.source,
            source_mac=self.destination_mac,
            destination_mac=self.source_mac,
            source_port=self.destination_port,
            destination_port=self.source_port,
            source_port_id=self.destination_port_id,
            destination_port_id=self.source_port_id,
            icmp_type=None
            if self.icmp_type is None
            else _REPLY_OF_ICMP_TYPE.get(self.icmp_type, self.icmp_type),
            spi=self.answer_spi,
            answer_spi=self.spi,
            inner=None if self.inner is None else self.inner.reverse(),
        )


def parse_mac(text: str) -> bytes:
    """Return the 6 bytes of 00:50:56:01:02:03, 00-50-56-01-02-03 or 0050.5601.0203.

    Raises:
        BenchError: The text is not a MAC address.
    """
    if MAC_PATTERN.fullmatch(text) is None:
        raise BenchError(f'"{text}" is not a MAC address', fix="write six bytes, such as 00:50:56:01:02:03")
    if ":" in text:
        return bytes(int(part, 16) for part in text.split(":"))
    return bytes.fromhex(text.replace("-", "").replace(".", ""))


def format_mac(mac: bytes) -> str:
    """Return a MAC address as 00:50:56:01:02:03."""
    return mac.hex(":")


def format_end(address: Address | None, mac: bytes | None, port: int | None) -> str:
    """Return one end of a flow as `--flow` writes it: an address or a MAC address, and the port if known."""
    if address is None:
        return "" if mac is None else format_mac(mac)
    if port is None:
        return str(address)
    return f"[{address}]:{port}" if address.version == 6 else f"{address}:{port}"


def _check_same_version(source: Address, destination: Address) -> None:
    if source.version != destination.version:
        raise BenchError(
            f"the flow {source}-{destination} mixes IPv4 and IPv6",
            fix="write two IPv4 or two IPv6 addresses",
        )
