"""A congestion window that the route limits to a number of segments."""

from __future__ import annotations

import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial

from bench.corpus.disturbance import Disturbance, DisturbanceTarget
from bench.corpus.disturbances.sysctls import write_sysctls
from vnetbench.lab import netlink
from vnetbench.lab.netns.topology import Vm

_RTAX_CWND = 7  # <linux/rtnetlink.h>
_NO_METRICS_SAVE = "net/ipv4/tcp_no_metrics_save"
_TIMEOUT_S = 2.0


def limited_congestion_window(segments: int) -> Disturbance:
    """Limit the congestion window of the connections from side a (ip-route(8): cwnd, locked)."""

    @contextmanager
    def disturb(target: DisturbanceTarget) -> Iterator[None]:
        ends = [
            (end, other)
            for end in target.vms
            for other in target.vms
            if (end.side, other.side) == ("a", "b") and end.pair == other.pair
        ]
        try:
            for end, other in ends:
                _add_route(end, other, segments)
                _create_tcp_metrics_entry(end, other)
            yield
        finally:
            for end, other in ends:
                with netlink.open_in_namespace(end.namespace) as ipr:
                    ipr.route("del", dst=f"{other.address}/32")
                _run_tcp_metrics(end, "flush", "all")

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


def _create_tcp_metrics_entry(end: Vm, other: Vm) -> None:
    """Make one connection, since TCP reads the limit from its saved metrics and not from the route."""
    original_values = netlink.run_in_namespace(end.namespace, partial(write_sysctls, {_NO_METRICS_SAVE: "0"}))
    try:
        _connect_once(end, other)
        _wait_for_metrics(end, other)
    finally:
        netlink.run_in_namespace(end.namespace, partial(write_sysctls, original_values))


def _connect_once(end: Vm, other: Vm) -> None:
    listen = partial(socket.create_server, (other.address, 0))
    with netlink.run_in_namespace(other.namespace, listen) as server:
        connect = partial(socket.create_connection, server.getsockname()[:2], _TIMEOUT_S)
        with netlink.run_in_namespace(end.namespace, connect) as client:
            server.settimeout(_TIMEOUT_S)
            accepted, _ = server.accept()
            with accepted:
                client.shutdown(socket.SHUT_WR)
                accepted.recv(1)


def _wait_for_metrics(end: Vm, other: Vm) -> None:
    """Wait for the saved metrics. The kernel saves them after both endpoints have closed the connection."""
    deadline = time.monotonic() + _TIMEOUT_S
    while other.address not in _run_tcp_metrics(end, "show") and time.monotonic() < deadline:
        time.sleep(0.005)


def _run_tcp_metrics(end: Vm, *arguments: str) -> str:
    command = ["ip", "-n", end.namespace, "tcp_metrics", *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout
