"""What a route says of TCP: a congestion window that does not grow beyond so many segments."""

from __future__ import annotations

import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial

from bench.corpus.disturb.settings import exchange
from bench.corpus.scene import Disturb, Scene
from vnetbench.lab import netlink
from vnetbench.lab.netns.topology import Vm

_RTAX_CWND = 7  # <linux/rtnetlink.h>
_NOT_KEPT = "net/ipv4/tcp_no_metrics_save"
_TIMEOUT_S = 2.0


def congestion_window(segments: int) -> Disturb:
    """Side a's connections have at most this congestion window (ip-route(8): cwnd, locked)."""

    @contextmanager
    def disturb(scene: Scene) -> Iterator[None]:
        ends = [
            (end, other)
            for end in scene.vms
            for other in scene.vms
            if (end.side, other.side) == ("a", "b") and end.pair == other.pair
        ]
        try:
            for end, other in ends:
                _add_route(end, other, segments)
                _learn(end, other)
            yield
        finally:
            for end, other in ends:
                with netlink.open_in_namespace(end.namespace) as ipr:
                    ipr.route("del", dst=f"{other.address}/32")
                _forget(end)

    return disturb


def _add_route(end: Vm, other: Vm, segments: int) -> None:
    with netlink.open_in_namespace(end.namespace) as ipr:
        (route,) = ipr.route("get", dst=other.address)
        gateway = route.get_attr("RTA_GATEWAY")
        ipr.route(
            "add",
            dst=f"{other.address}/32",
            oif=route.get_attr("RTA_OIF"),
            metrics={"lock": 1 << _RTAX_CWND, "cwnd": segments},
            **({"gateway": gateway} if gateway else {}),
        )


def _learn(end: Vm, other: Vm) -> None:
    """Have TCP take over what the route says: it asks what it kept of earlier connections, and no route."""
    before = netlink.run_in_namespace(end.namespace, partial(exchange, {_NOT_KEPT: "0"}))
    try:
        _connect_once(end, other)
        _wait_until_known(end, other)
    finally:
        netlink.run_in_namespace(end.namespace, partial(exchange, before))


def _connect_once(end: Vm, other: Vm) -> None:
    with netlink.run_in_namespace(other.namespace, partial(socket.create_server, (other.address, 0))) as server:
        connect = partial(socket.create_connection, server.getsockname()[:2], _TIMEOUT_S)
        with netlink.run_in_namespace(end.namespace, connect) as sent:
            server.settimeout(_TIMEOUT_S)
            taken, _ = server.accept()
            with taken:
                sent.shutdown(socket.SHUT_WR)
                taken.recv(1)


def _wait_until_known(end: Vm, other: Vm) -> None:
    """A connection is taken note of when it has closed on both sides."""
    deadline = time.monotonic() + _TIMEOUT_S
    while other.address not in _metrics(end, "show") and time.monotonic() < deadline:
        time.sleep(0.005)


def _forget(end: Vm) -> None:
    _metrics(end, "flush", "all")


def _metrics(end: Vm, *what: str) -> str:
    command = ["ip", "-n", end.namespace, "tcp_metrics", *what]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout
