"""Flows of a packet capture in pcap or pcapng form, as tcpdump, Wireshark and pktcap-uw write it."""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from vnetbench.deferred_module import DeferredModule
from vnetbench.errors import BenchError
from vnetbench.regular_file import open_regular_file
from vnetbench.teaming.flow_syntax import MAX_FLOWS
from vnetbench.teaming.flows import (
    AH,
    ESP,
    GRE,
    ICMP_ERRORS,
    IPV4_IN_IP,
    IPV6_FRAGMENT,
    IPV6_IN_IP,
    PROTOCOLS_WITH_PORT_FIELDS,
    Flow,
)

if TYPE_CHECKING:
    import dpkt
else:
    dpkt = DeferredModule("dpkt")

MAX_PACKETS = 200_000
"""Packets that are read: 5 to 10 s. Most conversations of a longer capture are among them."""
MAX_CAPTURE_BYTES = 256 * 2**20
MAX_BLOCK_BYTES = 2**20
"""Longest packet or block; tcpdump writes at most 256 KiB."""
_MAX_READS = 4 * MAX_PACKETS
"""Blocks of pcapng that are no packets cost time as well. A packet takes two reads."""
_PCAPNG_MAGIC = b"\x0a\x0d\x0d\x0a"
_ETHERNET, _COOKED, _COOKED_2 = 1, 113, 276
_RAW_IP = frozenset({12, 14, 101, 228, 229})
_SPI_OFFSETS = {ESP: 0, AH: 4}
"""Where the headers of IPsec have the SPI (RFC 4303, RFC 4302)."""


@dataclass(frozen=True)
class CapturedFlows:
    """Conversations of a capture, each in the direction of its first packet.

    Attributes:
        flows: Flows in the order of their first packets, without repetition.
        packets: Packets that were read.
        skipped: Packets without IP addresses, such as ARP, and damaged ones.
        is_complete: False if the capture is longer than what is read.
        is_damaged: Whether the file is damaged or cut off behind these packets.
    """

    flows: tuple[Flow, ...]
    packets: int
    skipped: int
    is_complete: bool
    is_damaged: bool = False


class _LimitReached(Exception):
    """The capture has more packets, bytes or blocks than are read."""


class _BoundedReads:
    """A file whose reads are bounded, singly and together: a damaged capture can state any length.

    Attributes:
        name: dpkt requires a name and does not use it.
    """

    name = "capture"

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._bytes_left = MAX_CAPTURE_BYTES
        self._reads_left = _MAX_READS

    def read(self, size: int) -> bytes:
        """Return exactly `size` bytes, or none at the end of the file.

        Raises:
            ValueError: No packet has this length, or the file ends before it.
            _LimitReached: The capture is longer than what is read.
        """
        if not 0 <= size <= MAX_BLOCK_BYTES:
            raise ValueError(f"a length of {size} bytes")
        self._bytes_left -= size
        self._reads_left -= 1
        if self._bytes_left < 0 or self._reads_left < 0:
            raise _LimitReached
        data = self._file.read(size)
        if data and len(data) < size:
            raise ValueError("the file is cut off")
        return data


def read_captured_flows(path: Path) -> CapturedFlows:
    """Return the flows of a capture.

    Raises:
        BenchError: The file is no capture, is of another kind of link, or has too many flows.
        OSError: The file cannot be read.
    """
    flows: dict[Flow, None] = {}
    packets = skipped = 0
    is_complete, is_damaged = True, False
    with open_regular_file(path) as file:
        link_type, reader = _open_reader(file, path)
        try:
            for _, data in reader:
                if packets == MAX_PACKETS:
                    raise _LimitReached
                packets += 1
                flow = _dissect(link_type, data)
                if flow is None:
                    skipped += 1
                elif flow not in flows and flow.reverse() not in flows:
                    flows[flow] = None
                    _check_flow_count(len(flows), path)
        except _LimitReached:
            is_complete = False
        except (ValueError, dpkt.UnpackError):
            is_damaged = True
    return CapturedFlows(tuple(flows), packets, skipped, is_complete, is_damaged)


def _check_flow_count(count: int, path: Path) -> None:
    if count > MAX_FLOWS:
        raise BenchError(
            f"the capture has more than {MAX_FLOWS} flows",
            where=str(path),
            fix="filter it, such as with tcpdump -r CAPTURE -w SMALLER host 10.0.0.1",
        )


def _open_reader(file: BinaryIO, path: Path) -> tuple[int, Any]:
    """Return the link type, and dpkt's reader, which yields the time and the bytes of each packet."""
    magic = file.read(4)
    file.seek(0)
    source = _BoundedReads(file)
    try:
        reader = dpkt.pcapng.Reader(source) if magic == _PCAPNG_MAGIC else dpkt.pcap.Reader(source)
        link_type = reader.datalink()
    except (ValueError, dpkt.UnpackError, _LimitReached):
        raise BenchError(
            "this is no packet capture in pcap or pcapng form",
            where=str(path),
            fix="write one with tcpdump -w FILE, or pktcap-uw -o FILE on ESXi",
        ) from None
    if link_type not in {_ETHERNET, _COOKED, _COOKED_2, *_RAW_IP}:
        raise BenchError(
            f"the capture has the link type {link_type}, which is not Ethernet",
            where=str(path),
            fix="capture on an Ethernet interface",
        )
    return link_type, reader


def _dissect(link_type: int, data: bytes) -> Flow | None:
    """Return the flow of a packet; None without IP addresses or for a damaged packet."""
    try:
        return _dissect_frame(link_type, data)
    except (
        Exception
    ):  # dpkt raises anything for a damaged packet: IndexError, struct.error, UnboundLocalError
        return None


def _dissect_frame(link_type: int, data: bytes) -> Flow | None:
    if link_type in _RAW_IP:
        return _dissect_ip(dpkt.ip6.IP6(data) if data[0] >> 4 == 6 else dpkt.ip.IP(data))
    if link_type == _ETHERNET:
        frame: Any = dpkt.ethernet.Ethernet(data)
        flow = _dissect_ip(frame.data)
        if flow is None:
            return None
        tags = getattr(frame, "vlan_tags", None) or ()
        vlan, priority = (tags[0].id, tags[0].pri) if tags else (0, 0)
        return replace(
            flow, source_mac=frame.src, destination_mac=frame.dst, vlan=vlan, vlan_priority=priority
        )
    frame = dpkt.sll.SLL(data) if link_type == _COOKED else dpkt.sll2.SLL2(data)
    flow = _dissect_ip(frame.data)
    has_mac = frame.hlen == 6
    return None if flow is None else replace(flow, source_mac=frame.hdr[:6] if has_mac else None)


def _dissect_ip(packet: Any) -> Flow | None:
    """Return the flow of an IP packet, with the flow in its tunnel."""
    if isinstance(packet, dpkt.ip.IP):
        is_fragmented, protocol = bool(packet.mf or packet.offset), packet.p
    elif isinstance(packet, dpkt.ip6.IP6) and packet.nxt == AH:
        return _dissect_ipv6_authentication(packet)
    elif isinstance(packet, dpkt.ip6.IP6):
        is_fragmented, protocol = IPV6_FRAGMENT in packet.extension_hdrs, packet.p
    else:
        return None
    flow = Flow(
        ipaddress.ip_address(packet.src),
        ipaddress.ip_address(packet.dst),
        protocol=protocol,
        is_fragmented=is_fragmented,
        has_extension_headers=isinstance(packet, dpkt.ip6.IP6) and packet.nxt != protocol,
    )
    if is_fragmented:
        return flow
    payload = packet.data
    if protocol in PROTOCOLS_WITH_PORT_FIELDS:
        return _add_ports(flow, payload)
    if protocol in (ESP, AH):
        start = _SPI_OFFSETS[protocol]
        return replace(flow, spi=int.from_bytes(_read_head(payload, start + 4)[start:]))
    if protocol in (IPV4_IN_IP, IPV6_IN_IP):
        return replace(flow, inner=_dissect_ip(payload))
    if protocol == GRE and isinstance(payload, dpkt.gre.GRE):
        return replace(flow, inner=_dissect_ip(payload.data))
    return _add_icmp(flow, payload)


def _dissect_ipv6_authentication(packet: Any) -> Flow:
    """Return the flow of an IPv6 packet with AH, which dpkt takes for an extension header."""
    source, destination = (ipaddress.ip_address(each) for each in (packet.src, packet.dst))
    return Flow(source, destination, protocol=AH, spi=packet.extension_hdrs[AH].spi)


def _read_head(payload: Any, length: int) -> bytes:
    """Return the first bytes of a packet's payload, which a packet that was cut off may still have."""
    head = bytes(payload)[:length]
    if len(head) < length:
        raise ValueError("the packet is cut off")
    return head


def _add_ports(flow: Flow, payload: Any) -> Flow:
    head = _read_head(payload, 4)
    return replace(flow, source_port=int.from_bytes(head[:2]), destination_port=int.from_bytes(head[2:]))


def _add_icmp(flow: Flow, payload: Any) -> Flow:
    """Return the flow with type, code and ID of ICMP, and the packet that an error quotes.

    Other protocols have none.
    """
    if not isinstance(payload, dpkt.icmp.ICMP | dpkt.icmp6.ICMP6):
        return flow
    # The ID stands behind type, code and checksum (RFC 792, RFC 4443).
    icmp_id = int.from_bytes(bytes(payload)[4:6]) if payload.type in (0, 8, 128, 129) else None
    is_error = flow.protocol is not None and payload.type in ICMP_ERRORS.get(flow.protocol, ())
    inner = _dissect_ip(payload.data.data) if is_error else None
    return replace(flow, icmp_type=payload.type, icmp_code=payload.code, icmp_id=icmp_id, inner=inner)
