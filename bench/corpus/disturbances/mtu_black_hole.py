"""An MTU black hole: a hop with a smaller MTU than the path, which drops large packets silently."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from bench.corpus.disturbance import Disturbance, DisturbanceTarget
from vnetbench.lab import netlink
from vnetbench.lab.netns.topology import NetDevice


def mtu_black_hole(mtu: int, from_s: float = 0.0, until_s: float | None = None) -> Disturbance:
    """Set the MTU of the ports to side b, from `from_s` until `until_s` (None: the end) of each trial."""

    @contextmanager
    def disturb(target: DisturbanceTarget) -> Iterator[None]:
        ports = [
            target.testbed.topology.ports_by_pair[end.pair - 1][-1]
            for end in target.testbed.endpoints
            if end.side == "b"
        ]
        original_mtus = [(port, netlink.interface_mtu(*port.location)) for port in ports]

        def reduce_mtu() -> None:
            for port in ports:
                _set_mtu(port, mtu)

        def restore_mtu() -> None:
            for port, original_mtu in original_mtus:
                _set_mtu(port, original_mtu)

        timers = [threading.Timer(from_s, reduce_mtu)] if from_s else []
        timers += [threading.Timer(until_s, restore_mtu)] if until_s is not None else []
        if not from_s:
            reduce_mtu()
        for timer in timers:
            timer.start()
        try:
            yield
        finally:
            for timer in timers:
                timer.cancel()
                timer.join()
            restore_mtu()

    return disturb


def _set_mtu(port: NetDevice, mtu: int) -> None:
    with netlink.open_in_namespace(port.namespace) as ipr:
        ipr.link("set", index=netlink.interface_index(ipr, port.interface), mtu=mtu)
