"""Shaping of links with tbf or htb, which the study does not contain."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from bench.corpus.disturbance import Disturbance, DisturbanceTarget
from bench.corpus.disturbances.knobs import UPLINK_END
from vnetbench.lab.links.shaping import limit_transmit_rate
from vnetbench.lab.netns.topology import NetDevice


def shaped_links(rate_bps: float, shaper: str = "tbf", sides: str = "b") -> Disturbance:
    """Shape the uplink, or without an uplink the ports to the endpoints on these sides."""

    @contextmanager
    def disturb(target: DisturbanceTarget) -> Iterator[None]:
        devices = bottleneck_devices(target, sides)
        try:
            for device in devices:
                limit_transmit_rate(device, rate_bps, shaper)
            yield
        finally:
            for device in devices:
                limit_transmit_rate(device, None, shaper)

    return disturb


def bottleneck_devices(target: DisturbanceTarget, sides: str = "b") -> list[NetDevice]:
    """Return the devices to shape.

    These are the uplink in the direction from a to b, or else the ports to the endpoints on these sides, or
    else the interfaces of side a.
    """
    testbed = target.testbed.topology
    uplinks = [port for ports in testbed.ports_by_pair for port in ports if port.interface == UPLINK_END]
    if uplinks:
        return uplinks[:1]
    ports = [
        port
        for path_ports in testbed.ports_by_pair
        for port in path_ports
        if any(port.interface == end.name and end.side in sides for end in target.testbed.endpoints)
    ]
    if ports:
        return ports
    # The interfaces of side a send to side b.
    return [end.device for end in target.vms if end.side == "a"]
