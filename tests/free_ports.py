"""Ports of loopback that only this process uses: the kernel and other test processes take none of them."""

from __future__ import annotations

import random
import socket
from pathlib import Path

LOOPBACK = "127.0.0.1"
_LOWEST_PORT = 10_000
"""Well-known services have lower ports."""
_LAST_PORT = 65_535
_locks: list[socket.socket] = []
"""Locks of the ports that this process has taken. They end with the process."""


def take_free_port() -> int:
    """Return a port of loopback on which no program listens, with TCP or UDP.

    The kernel assigns ports of its own range to connections at any time, so a port from there can be taken
    before the test uses it. These ports are outside, and a socket with the port's name keeps other test
    processes away. As ports do, such names belong to a network namespace.

    Raises:
        AssertionError: if all ports are taken.
    """
    text = Path("/proc/sys/net/ipv4/ip_local_port_range").read_text(encoding="ascii")
    candidates = list_ports_outside(*map(int, text.split()))
    random.Random().shuffle(candidates)
    for port in candidates:
        lock = socket.socket(socket.AF_UNIX)
        try:
            lock.bind(f"\0vnetbench test port {port}")
        except OSError:
            lock.close()
            continue
        _locks.append(lock)
        if not _is_in_use(port):
            return port
    raise AssertionError("no port of loopback is free")


def list_ports_outside(first: int, last: int) -> list[int]:
    """Return the ports outside a range; all ports if it contains them all."""
    all_ports = range(_LOWEST_PORT, _LAST_PORT + 1)
    return [port for port in all_ports if not first <= port <= last] or list(all_ports)


def _is_in_use(port: int) -> bool:
    for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM):
        with socket.socket(socket.AF_INET, kind) as probe:
            try:
                probe.bind((LOOPBACK, port))
            except OSError:
                return True
    return False
