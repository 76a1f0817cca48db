"""A limit on the GSO packet size. Smaller GSO packets cost the receiver more work."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from bench.corpus.disturbance import Disturbance, DisturbanceTarget
from vnetbench.lab import netlink
from vnetbench.lab.netns.topology import Vm

_HEADERS_BYTES = 512
"""Upper bound of a packet's headers, which the kernel subtracts from the size (MAX_TCP_HEADER)."""


def limited_gso_size(packets: int) -> Disturbance:
    """Limit the GSO packets of side a to `packets` segments (IFLA_GSO_MAX_SIZE) at any MTU."""

    @contextmanager
    def disturb(target: DisturbanceTarget) -> Iterator[None]:
        ends = [end for end in target.vms if end.side == "a"]
        original_sizes = [_set_max_bytes(end, _gso_bytes(end, packets)) for end in ends]
        try:
            yield
        finally:
            for end, original_bytes in zip(ends, original_sizes, strict=True):
                _set_max_bytes(end, original_bytes)

    return disturb


def _gso_bytes(end: Vm, packets: int) -> int:
    return packets * netlink.interface_mtu(end.namespace, end.interface) + _HEADERS_BYTES


def _set_max_bytes(end: Vm, max_bytes: int) -> int:
    """Set the largest GSO size in bytes and return the original one."""
    with netlink.open_in_namespace(end.namespace) as ipr:
        index = netlink.interface_index(ipr, end.interface)
        (link,) = ipr.get_links(index)
        original_bytes = int(link.get_attr("IFLA_GSO_MAX_SIZE"))
        ipr.link("set", index=index, gso_max_size=max_bytes)
        return original_bytes
