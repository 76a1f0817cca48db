"""Flows of the connections that `ss -tin`, `ss -tn` or `ss -tun` lists."""

from __future__ import annotations

import ipaddress
import re
from dataclasses import dataclass

from vnetbench.errors import BenchError
from vnetbench.printable import make_printable
from vnetbench.teaming.flow_syntax import MAX_FLOWS
from vnetbench.teaming.flows import PROTOCOL_NUMBERS, TCP, Address, Flow

MAX_LIST_BYTES = 16 * 2**20
MAX_LINES = 100_000
"""Lines that are read; ss -tin prints two for each connection."""
_FIX_TOO_LONG = "filter it: ss -tin dst 10.0.0.2"
_FIX = "write it with ss -tin > FILE"
_END_PATTERN = re.compile(
    r"(?:\[(?P<v6>[0-9A-Fa-f:.]+)(?:%[^\]]*)?\](?:%\S+?)?|(?P<v4>[0-9.]+)(?:%\S+?)?):(?P<port>[0-9]{1,5})"
)
_HEADER = "Local Address:Port"
_STATES = (
    "ESTAB",
    "SYN-SENT",
    "SYN-RECV",
    "FIN-WAIT-1",
    "FIN-WAIT-2",
    "CLOSE-WAIT",
    "CLOSING",
    "LAST-ACK",
    "TIME-WAIT",
)
_LINE_STARTS = tuple([state] for state in (*_STATES, "LISTEN"))
_NETIDS = ("tcp", "udp", "sctp")


@dataclass(frozen=True)
class ListedFlows:
    """Connections of a list.

    Attributes:
        flows: Flows from the local to the peer address.
        skipped_loopback: Connections within the host, which use no uplink.
    """

    flows: tuple[Flow, ...]
    skipped_loopback: int


def parse_socket_list(text: str) -> ListedFlows:
    """Return the connections in the output of ss. `ss state …` prints no column with the state.

    Raises:
        BenchError: The text is not from ss, has names in place of numbers, or has too many lines or flows.
    """
    if text.count("\n") > MAX_LINES:
        raise BenchError(f"the socket list has more than {MAX_LINES} lines", fix=_FIX_TOO_LONG)
    lines = text.splitlines()
    header = next((line.split() for line in lines if _HEADER in line), None)
    if header is None and not any(line.split()[:1] in _LINE_STARTS for line in lines):
        start = next((line.strip() for line in lines if line.strip()), "")
        raise BenchError(
            f'the socket list starts with "{make_printable(start[:60])}", which ss does not print', fix=_FIX
        )
    has_state = header is None or "State" in header
    flows: dict[Flow, None] = {}
    skipped = 0
    for line in lines:
        flow = _parse_line(line, has_state=has_state)
        if flow is None:
            continue
        assert flow.source is not None and flow.destination is not None
        if flow.source == flow.destination or flow.destination.is_loopback:
            skipped += 1
        else:
            flows[flow] = None
        if len(flows) > MAX_FLOWS:
            raise BenchError(f"the socket list has more than {MAX_FLOWS} connections", fix=_FIX_TOO_LONG)
    return ListedFlows(tuple(flows), skipped)


def _parse_line(line: str, *, has_state: bool) -> Flow | None:
    """Return the connection of a line; None for headers, details and listening sockets."""
    words = line.split()
    protocol = TCP
    if words and words[0] in _NETIDS:
        protocol = PROTOCOL_NUMBERS[words.pop(0)]
    if has_state:
        if not words or words.pop(0) not in _STATES:
            return None
    elif not words or not words[0].isdigit():
        return None
    # The words left are Recv-Q, Send-Q, the local and the peer address.
    if len(words) < 4 or words[3].endswith(":*"):
        return None
    ends = [_END_PATTERN.fullmatch(word) for word in words[2:4]]
    if None in ends:
        raise BenchError(
            f'the socket list has names in place of numbers: "{make_printable(line.strip()[:100])}"',
            fix="write it with the option -n: ss -tin > FILE",
        )
    (source, source_port), (destination, destination_port) = (_parse_end(end) for end in ends if end)
    return Flow(
        source,
        destination,
        source_port=source_port,
        destination_port=destination_port,
        protocol=protocol,
    )


def _parse_end(match: re.Match[str]) -> tuple[Address, int]:
    """Return address and port; packets to an IPv4-mapped address are IPv4."""
    try:
        address = ipaddress.ip_address(match["v6"] or match["v4"])
    except ValueError:
        raise BenchError(f'the socket list has the invalid address "{match[0]}"', fix=_FIX) from None
    if int(match["port"]) > 65535:
        raise BenchError(f'the socket list has the port "{match["port"]}"', fix=_FIX)
    if isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped is not None:
        address = address.ipv4_mapped
    return address, int(match["port"])
