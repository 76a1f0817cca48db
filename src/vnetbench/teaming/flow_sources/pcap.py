"""Flows of a packet capture in pcap or pcapng form, as tcpdump, Wireshark and pktcap-uw write it."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from vnetbench.deferred_module import DeferredModule
from vnetbench.errors import BenchError
from vnetbench.teaming.flow_syntax import MAX_FLOWS
from vnetbench.teaming.flows import PROTOCOLS_WITH_PORTS, Flow

if TYPE_CHECKING:
    import dpkt
else:
    dpkt = DeferredModule("dpkt")

MAX_PACKETS = 1_000_000
"""Packets that are read; more would take minutes."""
MAX_BLOCK_BYTES = 2**20
"""Longest packet or block; tcpdump writes at most 256 KiB."""
_PCAPNG_MAGIC = b"\x0a\x0d\x0d\x0a"
_ETHERNET, _COOKED, _COOKED_2 = 1, 113, 276
_RAW_IP = frozenset({12, 14, 101, 228, 229})
_IP_IN_IP, _GRE, _IPV6_IN_IP, _IPV6_FRAGMENT = 4, 47, 41, 44


@dataclass(frozen=True)
class CapturedFlows:
    """Conversations of a capture, each in the direction of its first packet.

    Attributes:
        flows: Flows in the order of their first packets, without repetition.
        packets: Packets that were read.
        skipped: Packets without IP addresses, such as ARP, and damaged ones.
        is_complete: False if the capture has more packets than are read.
    """

    flows: tuple[Flow, ...]
    packets: int
    skipped: int
    is_complete: bool


class _BoundedReads:
    """A file whose single reads are bounded, because a damaged capture can state any length."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self.name = "capture"

    def read(self, size: int) -> bytes:
        """Return at most `size` bytes; raises ValueError for a length that no packet has."""
        if not 0 <= size <= MAX_BLOCK_BYTES:
            raise ValueError(f"a length of {size} bytes")
        return self._file.read(size)


def read_captured_flows(path: Path) -> CapturedFlows:
    """Return the flows of a capture.

    Raises:
        BenchError: The file is no capture, is of another kind of link, or has too many flows.
        OSError: The file cannot be read.
    """
    flows: dict[Flow, None] = {}
    packets = skipped = 0
    is_complete = True
    with path.open("rb") as file:
        for link_type, data in _read_packets(file, path):
            if packets == MAX_PACKETS:
                is_complete = False
                break
            packets += 1
            flow = _dissect(link_type, data)
            if flow is None:
                skipped += 1
            elif flow not in flows and flow.reverse() not in flows:
                flows[flow] = None
                if len(flows) > MAX_FLOWS:
                    raise BenchError(
                        f"the capture has more than {MAX_FLOWS} flows",
                        where=str(path),
                        fix="filter it, such as with tcpdump -r CAPTURE -w SMALLER host 10.0.0.1",
                    )
    return CapturedFlows(tuple(flows), packets, skipped, is_complete)


def _read_packets(file: IO[bytes], path: Path) -> Iterator[tuple[int, bytes]]:
    """Yield the link type and the bytes of each packet. A capture that was cut off ends at the cut."""
    magic = file.read(4)
    file.seek(0)
    source = _BoundedReads(file)
    try:
        reader = dpkt.pcapng.Reader(source) if magic == _PCAPNG_MAGIC else dpkt.pcap.Reader(source)
        link_type = reader.datalink()
    except (ValueError, dpkt.UnpackError):
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
    try:
        for _, data in reader:
            yield link_type, data
    except (ValueError, dpkt.UnpackError):
        return


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
    elif isinstance(packet, dpkt.ip6.IP6):
        is_fragmented, protocol = _IPV6_FRAGMENT in packet.extension_hdrs, packet.p
    else:
        return None
    flow = Flow(
        ipaddress.ip_address(packet.src),
        ipaddress.ip_address(packet.dst),
        protocol=protocol,
        is_fragmented=is_fragmented,
    )
    if is_fragmented:
        return flow
    payload = packet.data
    if protocol in PROTOCOLS_WITH_PORTS:
        return _add_ports(flow, payload)
    if protocol in (_IP_IN_IP, _IPV6_IN_IP):
        return replace(flow, inner=_dissect_ip(payload))
    if protocol == _GRE and isinstance(payload, dpkt.gre.GRE):
        return replace(flow, inner=_dissect_ip(payload.data))
    return _add_icmp(flow, payload)


def _add_ports(flow: Flow, payload: Any) -> Flow:
    """Return the flow with its ports, which a packet that was cut off may still have."""
    head = bytes(payload)[:4]
    if len(head) < 4:
        raise ValueError("no ports")
    return replace(flow, source_port=int.from_bytes(head[:2]), destination_port=int.from_bytes(head[2:]))


def _add_icmp(flow: Flow, payload: Any) -> Flow:
    """Return the flow with type, code and ID of ICMP; other protocols have none."""
    if not isinstance(payload, dpkt.icmp.ICMP | dpkt.icmp6.ICMP6):
        return flow
    # The ID stands behind type, code and checksum (RFC 792, RFC 4443).
    icmp_id = int.from_bytes(bytes(payload)[4:6]) if payload.type in (0, 8, 128, 129) else None
    return replace(flow, icmp_type=payload.type, icmp_code=payload.code, icmp_id=icmp_id)
