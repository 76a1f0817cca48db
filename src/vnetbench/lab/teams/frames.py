"""Builds one marked frame for each flow, of any protocol that a team may hash."""

from __future__ import annotations

import secrets
import struct
from dataclasses import dataclass, field

from vnetbench.errors import BenchError
from vnetbench.teaming.flows import (
    ETHERTYPE_IPV6,
    ETHERTYPE_VLAN,
    GRE,
    ICMP,
    ICMPV6,
    IPV4_IN_IP,
    IPV6_FRAGMENT,
    IPV6_IN_IP,
    SCTP,
    TCP,
    UDP,
    Flow,
)

_NUMBER = struct.Struct(">I")
_TCP_ACK = 0x10
_DONT_FRAGMENT, _MORE_FRAGMENTS = 0x4000, 0x2000
_TTL = 64


@dataclass(frozen=True)
class Mark:
    """The end of each frame of one test: a random token and the frame's number.

    With it, no frame is shorter than Ethernet's minimum of 60 bytes. An adapter would pad such a frame (as
    QEMU's vmxnet3 does), and the mark would not be its end.
    """

    token: bytes = field(default_factory=lambda: b"vnbteam" + secrets.token_bytes(11))

    def payload(self, number: int) -> bytes:
        """Return the payload of the frame with this number."""
        return self.token + _NUMBER.pack(number)

    def read_number(self, frame: bytes) -> int | None:
        """Return the number of a frame; None for a frame without this mark."""
        if frame[-_NUMBER.size - len(self.token) : -_NUMBER.size] != self.token:
            return None
        return int(_NUMBER.unpack(frame[-_NUMBER.size :])[0])


def build_frame(flow: Flow, payload: bytes) -> bytes:
    """Return a frame of a flow with correct lengths and checksums.

    Raises:
        BenchError: if the flow lacks addresses, or no frame can be built for its protocol.
    """
    if flow.source_mac is None or flow.destination_mac is None:
        raise _missing_field_error(flow, "MAC addresses")
    tag = b""
    if flow.vlan:
        tag = struct.pack(">HH", ETHERTYPE_VLAN, flow.vlan_priority << 13 | flow.vlan)
    return (
        flow.destination_mac
        + flow.source_mac
        + tag
        + struct.pack(">H", flow.ethertype)
        + _ip_packet(flow, payload)
    )


def _ip_packet(flow: Flow, payload: bytes) -> bytes:
    if flow.source is None or flow.destination is None:
        raise _missing_field_error(flow, "IP addresses")
    source, destination = flow.source.packed, flow.destination.packed
    protocol = flow.protocol
    if protocol is None:
        raise _missing_field_error(flow, "protocol")
    segment = _segment(flow, protocol, source + destination, payload)
    if flow.source.version == 6:
        if flow.is_fragmented:
            # The first fragment (RFC 8200, section 4.5).
            segment = struct.pack(">BBHI", protocol, 0, 1, 1) + segment
            protocol = IPV6_FRAGMENT
        return struct.pack(">IHBB", 6 << 28, len(segment), protocol, _TTL) + source + destination + segment
    flags = _MORE_FRAGMENTS if flow.is_fragmented else _DONT_FRAGMENT
    before = struct.pack(">BBHHHBB", 0x45, 0, 20 + len(segment), 0, flags, _TTL, protocol)
    checksum = _internet_checksum(before + b"\0\0" + source + destination)
    return before + struct.pack(">H", checksum) + source + destination + segment


def _segment(flow: Flow, protocol: int, addresses: bytes, payload: bytes) -> bytes:
    """Return the IP packet's payload: a transport header, an ICMP message, or a packet in a tunnel."""
    if flow.inner is not None:
        return _tunnel_header(flow, protocol) + _ip_packet(flow.inner, payload)
    if protocol in (ICMP, ICMPV6):
        pseudo_header = b"" if protocol == ICMP else _pseudo_header(addresses, protocol, 8 + len(payload))
        head = struct.pack(">BB", flow.sent_icmp_type(), flow.icmp_code)
        rest = struct.pack(">HH", flow.icmp_id or 0, 1)
        checksum = _internet_checksum(pseudo_header + head + b"\0\0" + rest + payload)
        return head + struct.pack(">H", checksum) + rest + payload
    if protocol not in (TCP, UDP, SCTP):
        raise BenchError(
            f"no frame can be built for the IP protocol {protocol}",
            fix="use TCP, UDP, SCTP, ICMP, or a tunnel with an inner flow",
        )
    if flow.source_port is None or flow.destination_port is None:
        raise _missing_field_error(flow, "ports")
    ports = struct.pack(">HH", flow.source_port, flow.destination_port)
    if protocol == SCTP:
        # A verification tag, and no valid checksum, which nothing on a team's path reads.
        return ports + struct.pack(">II", 1, 0) + payload
    length = (20 if protocol == TCP else 8) + len(payload)
    if protocol == TCP:
        before, after = ports + struct.pack(">IIBBH", 1, 1, 5 << 4, _TCP_ACK, 0xFFFF), b"\0\0"
    else:
        before, after = ports + struct.pack(">H", length), b""
    whole = _pseudo_header(addresses, protocol, length) + before + b"\0\0" + after + payload
    # In UDP, 0 means no checksum.
    return before + struct.pack(">H", _internet_checksum(whole) or 0xFFFF) + after + payload


def _tunnel_header(flow: Flow, protocol: int) -> bytes:
    assert flow.inner is not None
    if protocol == GRE:
        return struct.pack(">HH", 0, flow.inner.ethertype)
    expected = IPV6_IN_IP if flow.inner.ethertype == ETHERTYPE_IPV6 else IPV4_IN_IP
    if protocol != expected:
        raise BenchError(
            f"the IP protocol {protocol} is no tunnel for this inner flow", fix=f"use {expected} or {GRE}"
        )
    return b""


def _pseudo_header(addresses: bytes, protocol: int, length: int) -> bytes:
    return addresses + struct.pack(">HH", protocol, length)


def _missing_field_error(flow: Flow, what: str) -> BenchError:
    return BenchError(
        f"no frame can be built for a flow without {what}",
        where=f"{flow.source}-{flow.destination}",
        fix=f"give the flow {what}",
    )


def _internet_checksum(content: bytes) -> int:
    """Return the checksum of RFC 1071."""
    content += bytes(len(content) % 2)
    total: int = sum(struct.unpack(f">{len(content) // 2}H", content))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF
