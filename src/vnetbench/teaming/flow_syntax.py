"""Parse flows from the command line: `10.0.0.1:50000-10.0.0.2:5201,vlan=20`."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from vnetbench.errors import BenchError
from vnetbench.printable import make_printable
from vnetbench.teaming.flows import (
    AH,
    ESP,
    ICMP,
    ICMPV6,
    MAC_PATTERN,
    PROTOCOL_NUMBERS,
    PROTOCOLS_WITH_PORT_FIELDS,
    TCP,
    Address,
    Flow,
    parse_mac,
)

MAX_FLOWS = 20_000
"""Flows of one prediction; it bounds time and memory."""
_MAX_TEXT_CHARACTERS = 1000
_EXAMPLE = (
    "write SOURCE-DESTINATION, such as 10.0.0.1:50000-10.0.0.2:5201, [2001:db8::1]:50000-[2001:db8::2]:5201"
    " or 00:50:56:00:00:01-00:50:56:00:00:02"
)
_TWO_MACS_PATTERN = re.compile(rf"({MAC_PATTERN.pattern})\s*-\s*({MAC_PATTERN.pattern})")
_PORTS = r"(?::(?P<first>[0-9]{1,5})(?:\.\.(?P<last>[0-9]{1,5}))?)?"
_END_PATTERN = re.compile(rf"(?:\[(?P<bracketed>[^\]]+)\]|(?P<plain>[0-9.]+)){_PORTS}")
_MAX_BY_NUMBER_KEY = {
    "vlan": 4094, "vlan-priority": 7, "icmp-type": 255, "icmp-code": 255, "icmp-id": 65535,
    "spi": 2**32 - 1, "answer-spi": 2**32 - 1, "src-port-id": 2**32 - 1, "dst-port-id": 2**32 - 1,
}  # fmt: skip
_FIELD_BY_KEY = {
    "src-mac": "source_mac",
    "dst-mac": "destination_mac",
    "src-port-id": "source_port_id",
    "dst-port-id": "destination_port_id",
}


@dataclass(frozen=True)
class _End:
    """One end of a flow; `ports` is a range, (None,) if there is none."""

    address: Address | None
    mac: bytes | None
    ports: range | tuple[None]


def parse_flow_option(text: str) -> list[Flow]:
    """Return the flows of one `--flow`; a range of ports such as 50000..50003 gives several flows.

    Raises:
        BenchError: The text is not a flow.
    """
    if len(text) > _MAX_TEXT_CHARACTERS:
        raise _make_error(
            text[:40], f"has {len(text)} characters, at most {_MAX_TEXT_CHARACTERS} are accepted"
        )
    ends, *settings = text.strip().split(",")
    source, destination = (_parse_end(part, text) for part in _split_ends(ends, text))
    if (source.address is None) != (destination.address is None):
        raise _make_error(text, "has an IP address at one end only")
    fields = _parse_settings(settings, text)
    for name, mac in (("source_mac", source.mac), ("destination_mac", destination.mac)):
        if mac is not None and fields.setdefault(name, mac) != mac:
            raise _make_error(text, "has two MAC addresses at one end")
    port_pairs = list(_pair_ports(source.ports, destination.ports, text))
    if port_pairs[0] != (None, None):
        fields.setdefault("protocol", TCP)
    _check_protocol_fields(fields, has_ports=port_pairs[0] != (None, None), whole=text)
    return [
        Flow(source.address, destination.address, source_port=first, destination_port=second, **fields)
        for first, second in port_pairs
    ]


def _split_ends(text: str, whole: str) -> tuple[str, str]:
    """Return both ends; dashes within MAC addresses separate no ends."""
    if match := _TWO_MACS_PATTERN.fullmatch(text.strip()):
        return match[1], match[2]
    parts = [part.strip() for part in text.split("-")]
    if len(parts) != 2:
        raise _make_error(whole, "is not a flow")
    return parts[0], parts[1]


def _check_protocol_fields(fields: dict[str, Any], *, has_ports: bool, whole: str) -> None:
    """Refuse fields that packets of the flow's protocol do not have."""
    protocol = fields.get("protocol")
    if has_ports and protocol not in PROTOCOLS_WITH_PORT_FIELDS:
        raise _make_error(whole, "has ports, and its protocol has none")
    if protocol not in (ICMP, ICMPV6) and any(name.startswith("icmp_") for name in fields):
        raise _make_error(whole, "has fields of ICMP without protocol=icmp or protocol=icmpv6")
    if protocol not in (ESP, AH) and not fields.keys().isdisjoint(("spi", "answer_spi")):
        raise _make_error(whole, "has an SPI without protocol=esp or protocol=ah")


def _parse_end(text: str, whole: str) -> _End:
    if MAC_PATTERN.fullmatch(text):
        return _End(None, parse_mac(text), (None,))
    match = _END_PATTERN.fullmatch(text)
    try:
        if match is None:
            return _End(ipaddress.ip_address(text), None, (None,))  # IPv6 without brackets and port
        address = ipaddress.ip_address(match["bracketed"] or match["plain"])
    except ValueError:
        raise _make_error(whole, f'has the end "{text}", which is no IP address or MAC address') from None
    if match["first"] is None:
        return _End(address, None, (None,))
    first = int(match["first"])
    last = first if match["last"] is None else int(match["last"])
    if not 0 < first <= last <= 65535:
        raise _make_error(whole, f'has the end "{text}", whose ports are not from 1 to 65535')
    return _End(address, None, range(first, last + 1))


def _parse_settings(settings: list[str], whole: str) -> dict[str, Any]:
    fields: dict[str, Any] = {}
    for setting in settings:
        key, _, value = (part.strip() for part in setting.partition("="))
        name = _FIELD_BY_KEY.get(key, key.replace("-", "_"))
        if name in fields:
            raise _make_error(whole, f"has {key} twice")
        if key in ("src-mac", "dst-mac"):
            fields[name] = parse_mac(value)
        elif key == "protocol":
            fields[name] = _parse_protocol(value, whole)
        elif key in _MAX_BY_NUMBER_KEY:
            fields[name] = _parse_number(key, value, whole)
        else:
            known = ", ".join(("src-mac", "dst-mac", "protocol", *_MAX_BY_NUMBER_KEY))
            raise BenchError(
                f'the flow "{make_printable(whole)}" has the unknown key "{make_printable(key)}"',
                fix=f"use {known}",
            )
    return fields


def _parse_protocol(value: str, whole: str) -> int:
    if value.lower() in PROTOCOL_NUMBERS:
        return PROTOCOL_NUMBERS[value.lower()]
    if not re.fullmatch(r"[0-9]{1,3}", value) or int(value) > 255:
        names = ", ".join(PROTOCOL_NUMBERS)
        raise BenchError(
            f'the flow "{make_printable(whole)}" has the unknown protocol "{make_printable(value)}"',
            fix=f"use {names}, or a number from 0 to 255",
        )
    return int(value)


def _parse_number(key: str, value: str, whole: str) -> int:
    largest = _MAX_BY_NUMBER_KEY[key]
    if not re.fullmatch(r"[0-9]{1,10}", value) or int(value) > largest:
        raise BenchError(
            f'the flow "{make_printable(whole)}" has {key}={make_printable(value)}',
            fix=f"write a number from 0 to {largest}",
        )
    return int(value)


def _pair_ports(
    sources: range | tuple[None], destinations: range | tuple[None], whole: str
) -> Iterator[tuple[int | None, int | None]]:
    """Yield pairs of ports; two ranges of the same length go together, a single port goes with each."""
    if (sources == (None,)) != (destinations == (None,)):
        raise _make_error(whole, "has a port at one end only")
    if len(sources) == len(destinations):
        yield from zip(sources, destinations, strict=True)
    elif 1 in (len(sources), len(destinations)):
        yield from ((first, second) for first in sources for second in destinations)
    else:
        raise _make_error(whole, f"has {len(sources)} source ports and {len(destinations)} destination ports")


def _make_error(text: str, what: str) -> BenchError:
    return BenchError(f'the flow "{make_printable(text)}" {what}', fix=_EXAMPLE)
