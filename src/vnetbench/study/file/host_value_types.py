"""Value types of the keys of hosts: names, addresses, interfaces, servers, destinations and ports."""

from __future__ import annotations

import ipaddress
import re

from vnetbench.study.factors.value_types import ValueType
from vnetbench.study.problems import WrongValue, format_raw_value

IPERF3_PORT = 5201
_HOST_NAME_PATTERN = r"[A-Za-z0-9]([A-Za-z0-9._-]{0,62})"
_SERVER_PATTERN = re.compile(r"(?:\[(?P<bracketed>[^\]]+)\]|(?P<host>[^:\s]+))(?::(?P<port>[0-9]{1,5}))?")


def host_names() -> ValueType:
    """Make the type of names of endpoints."""
    return _make_pattern_type(
        rf"{_HOST_NAME_PATTERN}", "a name of letters, digits, dots and hyphens, such as esx-07"
    )


def interface_names() -> ValueType:
    """Make the type of network interface names (IFNAMSIZ: 15 characters and a NUL)."""
    return _make_pattern_type(r"[^\s/]{1,15}", "the name of a network interface, such as ens192")


def ip_addresses() -> ValueType:
    """Make the type of IPv4 and IPv6 addresses."""
    expected = "an IP address, such as 192.0.2.1 or 2001:db8::1"

    def parse(raw: object) -> str:
        if isinstance(raw, str) and (address := _canonical_ip_address_if_valid(raw.strip())):
            return address
        raise WrongValue(f"{format_raw_value(raw)} is not an IP address", fix=f"write {expected}, in quotes")

    return ValueType(expected, parse, str, r"[0-9A-Fa-f:.]+")


def mac_addresses() -> ValueType:
    """Make the type of MAC addresses."""
    return _make_pattern_type(
        r"[0-9A-Fa-f]{2}(:[0-9A-Fa-f]{2}){5}", "a MAC address, such as 52:54:00:12:34:56"
    )


def hypervisor_connections() -> ValueType:
    """Make the type of URIs of hypervisors. They hold no password."""
    expected = "the URI of a hypervisor, such as qemu:///system"
    return _make_pattern_type(r"[a-z][a-z0-9+]*://(?![^/]*:[^/]*@)[^\s#]{0,200}", expected)


def vm_names() -> ValueType:
    """Make the type of names of VMs at their hypervisor."""
    return _make_pattern_type(r"[^\s/][^/\n\r\t]{0,79}", "the VM's name at the hypervisor, such as web-01")


def iperf3_servers() -> ValueType:
    """Make the type of iperf3 servers; canonical is `host:port`, with an IPv6 address in brackets."""
    expected = (
        "a name or an address, with a port if it is not 5201: 192.0.2.7, esx-07:5202, [2001:db8::7]:5201"
    )

    def parse(raw: object) -> str:
        text = raw.strip() if isinstance(raw, str) else ""
        if bare := _canonical_ip_address_if_valid(text):
            return join_host_port(bare, IPERF3_PORT)
        match = _SERVER_PATTERN.fullmatch(text)
        host = match and (match["host"] or _canonical_ip_address_if_valid(match["bracketed"]))
        port = int(match["port"] or IPERF3_PORT) if match else 0
        if not (host and re.fullmatch(rf"{_HOST_NAME_PATTERN}|[0-9a-f:.]+", host) and 1 <= port <= 65535):
            raise WrongValue(
                f"{format_raw_value(raw)} is not the address of a server", fix=f"write {expected}, in quotes"
            )
        return join_host_port(host, port)

    return ValueType(expected, parse, str, r"[A-Za-z0-9.:_\[\]-]+")


def ssh_destinations() -> ValueType:
    """Make the type of destinations for OpenSSH's client; it never matches an option."""
    expected = "an SSH destination, such as root@web-01 or ssh://root@web-01:2222"
    return _make_pattern_type(r"[A-Za-z0-9_\[][A-Za-z0-9_.@:%+\[\]/-]{0,254}", expected)


def port_ranges() -> ValueType:
    """Make the type of port ranges; canonical is `first-last`."""
    expected = "a range of ports from 1024 to 65535, such as 5300-5399"

    def parse(raw: object) -> str:
        match = isinstance(raw, str) and re.fullmatch(r"([0-9]{4,5})(?: *- *([0-9]{4,5}))?", raw.strip())
        first, last = (int(match[1]), int(match[2] or match[1])) if match else (0, 0)
        if not 1024 <= first <= last <= 65535:
            raise WrongValue(
                f"{format_raw_value(raw)} is not a range of ports", fix=f"write {expected}, in quotes"
            )
        return f"{first}-{last}"

    return ValueType(expected, parse, str, r"[0-9]{4,5}( *- *[0-9]{4,5})?")


def join_host_port(host: str, port: int) -> str:
    """Return `host:port`, with an IPv6 address in brackets."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def split_canonical_server(canonical_server: str) -> tuple[str, int]:
    """Return the host and port of a canonical server."""
    host, _, port = canonical_server.rpartition(":")
    return host.strip("[]"), int(port)


def _canonical_ip_address_if_valid(text: str | None) -> str | None:
    """Return the address in its shortest form; None if it is invalid or needs an interface (a zone)."""
    try:
        return None if text is None or "%" in text else str(ipaddress.ip_address(text))
    except ValueError:
        return None


def _make_pattern_type(pattern: str, expected: str) -> ValueType:
    def parse(raw: object) -> str:
        if isinstance(raw, str) and re.fullmatch(pattern, raw.strip()):
            return raw.strip()
        raise WrongValue(f"{format_raw_value(raw)} is not a valid name", fix=f"write {expected}, in quotes")

    return ValueType(expected, parse, str, pattern)
