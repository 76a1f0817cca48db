"""Links that are shaped behind the bench: ports of virtual switches, by tbf or htb."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from bench.corpus.disturb.knobs import UPLINK_END
from bench.corpus.scene import Disturb, Scene
from vnetbench.lab.netns.topology import NetDevice
from vnetbench.lab.links.shaping import shape_link


def shaped(rate_bps: float, shaper: str = "tbf", sides: str = "b") -> Disturb:
    """What goes out of the ports to endpoints of these sides, or of the uplink where there is one."""

    @contextmanager
    def disturb(scene: Scene) -> Iterator[None]:
        devices = bottlenecks(scene, sides)
        try:
            for device in devices:
                shape_link(device, rate_bps, shaper)
            yield
        finally:
            for device in devices:
                shape_link(device, None, shaper)

    return disturb


def bottlenecks(scene: Scene, sides: str = "b") -> list[NetDevice]:
    """The uplink on the way from a to b, else the ports to endpoints of these sides, else side a's vNICs."""
    testbed = scene.bed.topology
    uplinks = [port for ports in testbed.ports for port in ports if port.interface == UPLINK_END]
    if uplinks:
        return uplinks[:1]
    ports = [
        port
        for way in testbed.ports
        for port in way
        if any(port.interface == end.name and end.side in sides for end in scene.bed.endpoints)
    ]
    if ports:
        return ports
    # Side a's own interface: what goes out of it goes to b.
    return [end.device for end in scene.vms if end.side == "a"]
