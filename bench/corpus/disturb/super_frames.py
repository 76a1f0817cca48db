"""How large the frames are that a sender leaves to be cut: smaller ones are more work for a receiver."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from bench.corpus.scene import Disturb, Scene
from vnetbench.lab import netlink
from vnetbench.lab.netns.topology import Vm

_HEADERS_BYTES = 512
"""More than all of a frame's headers have, which the kernel takes off first (MAX_TCP_HEADER)."""


def super_frames(packets: int) -> Disturb:
    """Those of side a become at most so many packets (IFLA_GSO_MAX_SIZE), whatever the MTU."""

    @contextmanager
    def disturb(scene: Scene) -> Iterator[None]:
        ends = [end for end in scene.vms if end.side == "a"]
        before = [_set(end, _bytes_of(end, packets)) for end in ends]
        try:
            yield
        finally:
            for end, old in zip(ends, before, strict=True):
                _set(end, old)

    return disturb


def _bytes_of(end: Vm, packets: int) -> int:
    return packets * netlink.interface_mtu(end.namespace, end.interface) + _HEADERS_BYTES


def _set(end: Vm, most_bytes: int) -> int:
    """Set it, and return what it was."""
    with netlink.open_in_namespace(end.namespace) as ipr:
        index = netlink.interface_index(ipr, end.interface)
        (link,) = ipr.get_links(index)
        before = int(link.get_attr("IFLA_GSO_MAX_SIZE"))
        ipr.link("set", index=index, gso_max_size=most_bytes)
        return before
