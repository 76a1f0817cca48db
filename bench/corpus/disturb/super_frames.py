"""How large the frames are that a sender leaves to be cut: smaller ones are more work for a receiver."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from bench.corpus.scene import Disturb, Scene
from vnetbench.lab import netlink
from vnetbench.lab.description import Vm


def super_frames(most_bytes: int) -> Disturb:
    """Those of side a have at most so many bytes (IFLA_GSO_MAX_SIZE)."""

    @contextmanager
    def disturb(scene: Scene) -> Iterator[None]:
        ends = [end for end in scene.vms if end.side == "a"]
        before = [_set(end, most_bytes) for end in ends]
        try:
            yield
        finally:
            for end, old in zip(ends, before, strict=True):
                _set(end, old)

    return disturb


def _set(end: Vm, most_bytes: int) -> int:
    """Set it, and return what it was."""
    with netlink.in_namespace(end.namespace) as ipr:
        index = netlink.index_of(ipr, end.interface)
        (link,) = ipr.get_links(index)
        before = int(link.get_attr("IFLA_GSO_MAX_SIZE"))
        ipr.link("set", index=index, gso_max_size=most_bytes)
        return before
