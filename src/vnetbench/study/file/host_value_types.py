"""The kinds of value that name hosts: a name, addresses, an interface, a server's place, ways in, ports."""

from __future__ import annotations

import ipaddress
import re

from vnetbench.study.factors.value_types import ValueType
from vnetbench.study.problems import WrongValue, format_raw_value

IPERF3_PORT = 5201
_NAME = r"[A-Za-z0-9]([A-Za-z0-9._-]{0,62})"
_SERVER = re.compile(r"(?:\[(?P<bracketed>[^\]]+)\]|(?P<host>[^:\s]+))(?::(?P<port>[0-9]{1,5}))?")


def host_names() -> ValueType:
    """A name for an endpoint."""
    return _pattern_type(rf"{_NAME}", "a name of letters, digits, dots and hyphens, such as esx-07")


def interface_names() -> ValueType:
    """The name of a network interface (IFNAMSIZ: 15 characters and a NUL)."""
    return _pattern_type(r"[^\s/]{1,15}", "the name of a network interface, such as ens192")


def ip_addresses() -> ValueType:
    """An IPv4 or IPv6 address."""
    expects = "an IP address, such as 192.0.2.1 or 2001:db8::1"

    def parse(raw: object) -> str:
        if isinstance(raw, str) and (address := _canonical_ip_address(raw.strip())):
            return address
        raise WrongValue(f"{format_raw_value(raw)} is no IP address", fix=f"write {expects}, in quotes")

    return ValueType(expects, parse, str, r"[0-9A-Fa-f:.]+")


def mac_addresses() -> ValueType:
    """A MAC address."""
    return _pattern_type(r"[0-9A-Fa-f]{2}(:[0-9A-Fa-f]{2}){5}", "a MAC address, such as 52:54:00:12:34:56")


def iperf3_servers() -> ValueType:
    """Where an iperf3 server listens; canonical is `host:port`, an IPv6 address in brackets."""
    expects = (
        "a name or an address, with a port if it is not 5201: 192.0.2.7, esx-07:5202, [2001:db8::7]:5201"
    )

    def parse(raw: object) -> str:
        text = raw.strip() if isinstance(raw, str) else ""
        if bare := _canonical_ip_address(text):
            return join_host_port(bare, IPERF3_PORT)
        form = _SERVER.fullmatch(text)
        host = form and (form["host"] or _canonical_ip_address(form["bracketed"]))
        port = int(form["port"] or IPERF3_PORT) if form else 0
        if not (host and re.fullmatch(rf"{_NAME}|[0-9a-f:.]+", host) and 1 <= port <= 65535):
            raise WrongValue(f"{format_raw_value(raw)} names no server", fix=f"write {expects}, in quotes")
        return join_host_port(host, port)

    return ValueType(expects, parse, str, r"[A-Za-z0-9.:_\[\]-]+")


def ssh_destinations() -> ValueType:
    """What OpenSSH's client takes for a host; never an option of its."""
    expects = "what ssh takes, such as root@web-01 or ssh://root@web-01:2222"
    return _pattern_type(r"[A-Za-z0-9_\[][A-Za-z0-9_.@:%+\[\]/-]{0,254}", expects)


def port_ranges() -> ValueType:
    """A range of ports; canonical is `first-last`."""
    expects = "a range of ports from 1024 to 65535, such as 5300-5399"

    def parse(raw: object) -> str:
        form = isinstance(raw, str) and re.fullmatch(r"([0-9]{4,5})(?: *- *([0-9]{4,5}))?", raw.strip())
        first, last = (int(form[1]), int(form[2] or form[1])) if form else (0, 0)
        if not 1024 <= first <= last <= 65535:
            raise WrongValue(
                f"{format_raw_value(raw)} is no range of ports", fix=f"write {expects}, in quotes"
            )
        return f"{first}-{last}"

    return ValueType(expects, parse, str, r"[0-9]{4,5}( *- *[0-9]{4,5})?")


def join_host_port(host: str, port: int) -> str:
    """`host:port`, an IPv6 address in brackets."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def split_host_port(server: str) -> tuple[str, int]:
    """Host and port of a canonical server."""
    host, _, port = server.rpartition(":")
    return host.strip("[]"), int(port)


def _canonical_ip_address(text: str | None) -> str | None:
    """The address in its shortest form; None for what is none, or is one only together with an interface."""
    try:
        return None if text is None or "%" in text else str(ipaddress.ip_address(text))
    except ValueError:
        return None


def _pattern_type(pattern: str, expects: str) -> ValueType:
    def parse(raw: object) -> str:
        if isinstance(raw, str) and re.fullmatch(pattern, raw.strip()):
            return raw.strip()
        raise WrongValue(f"{format_raw_value(raw)} is no name here", fix=f"write {expects}, in quotes")

    return ValueType(expects, parse, str, pattern)
