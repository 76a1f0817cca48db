"""A hop that drops packets of full size and says nothing: its MTU is smaller than the path was proved for."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from bench.corpus.scene import Disturb, Scene
from vnetbench.lab import netlink
from vnetbench.lab.netns.topology import NetDevice


def black_hole(mtu: int, from_s: float = 0.0, until_s: float | None = None) -> Disturb:
    """The ports that lead to side b have this MTU: all the time, or for a part of the trial."""

    @contextmanager
    def disturb(scene: Scene) -> Iterator[None]:
        ports = [scene.bed.topology.ports[end.pair - 1][-1] for end in scene.bed.endpoints if end.side == "b"]
        before = [(port, netlink.interface_mtu(*port.location)) for port in ports]

        def narrow() -> None:
            for port in ports:
                _set(port, mtu)

        def widen() -> None:
            for port, old in before:
                _set(port, old)

        timers = [threading.Timer(from_s, narrow)] if from_s else []
        timers += [threading.Timer(until_s, widen)] if until_s is not None else []
        if not from_s:
            narrow()
        for timer in timers:
            timer.start()
        try:
            yield
        finally:
            for timer in timers:
                timer.cancel()
                timer.join()
            widen()

    return disturb


def _set(port: NetDevice, mtu: int) -> None:
    with netlink.open_in_namespace(port.namespace) as ipr:
        ipr.link("set", index=netlink.interface_index(ipr, port.interface), mtu=mtu)
