"""What each virtual adapter can, by its driver in Linux and its model in QEMU, whatever machine it is on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from vnetbench.study.model import Level

MAX_VIRTIO_QUEUES = 256
MAX_VMXNET3_QUEUES = 8
"""VMXNET3_DEVICE_MAX_TX_QUEUES (drivers/net/vmxnet3/vmxnet3_defs.h)."""


@dataclass(frozen=True)
class AdapterLimits:
    """Of one adapter."""

    mtu: int
    queues: int
    rx_ring: tuple[int, int]
    """The shortest and the longest, in descriptors."""
    tx_ring: tuple[int, int]
    lro: bool = False
    coalesce: bool = False
    """Whether its interrupts can be put off by ethtool."""


_VIRTIO = AdapterLimits(65535, MAX_VIRTIO_QUEUES, (2, 1024), (2, 256), coalesce=True)
ADAPTER_LIMITS: Mapping[str, AdapterLimits] = {
    "virtio-net": _VIRTIO,
    "virtio-net-vhost": _VIRTIO,
    "macvtap": _VIRTIO,
    # MTU: VMXNET3_MAX_MTU; rings: VMXNET3_RX_RING_MAX_SIZE, VMXNET3_TX_RING_MAX_SIZE.
    "vmxnet3": AdapterLimits(9000, MAX_VMXNET3_QUEUES, (32, 4096), (32, 4096), lro=True),
    # The 82574L's max_hw_frame_size is 9234, with header, VLAN tag and checksum; E1000_MIN_RXD is 64.
    "e1000e": AdapterLimits(9216 - 4, 1, (64, 4096), (64, 4096), coalesce=True),
    # MAX_JUMBO_FRAME_SIZE is 0x3F00, with header and checksum; E1000_MIN_RXD is 48.
    "e1000": AdapterLimits(16110, 1, (48, 4096), (48, 4096)),
    # 8139cp: CP_MAX_MTU, and rings of 64 that cannot be changed.
    "rtl8139": AdapterLimits(4096, 1, (64, 64), (64, 64)),
    # MAX_STD_JUMBO_FRAME_SIZE, IGB_MAX_RX_QUEUES, IGB_MIN_RXD.
    "igb": AdapterLimits(9216, 8, (64, 4096), (64, 4096), coalesce=True),
}
"""By a level of the factor `adapter`; those of a virtual function (`vf`) only its driver knows."""


def find_adapter_limits(levels: Mapping[str, Level]) -> AdapterLimits | None:
    """Those of a treatment's adapter; None where there is none, or nothing is known of it."""
    return ADAPTER_LIMITS.get(str(levels.get("adapter")))


def is_ring_out_of_range(levels: Mapping[str, Level], ring: str) -> bool:
    """Whether a treatment asks for a `rx_ring` or `tx_ring` that its adapter cannot have."""
    found = find_adapter_limits(levels)
    if found is None or ring not in levels:
        return False
    least, most = getattr(found, ring)
    return not least <= int(levels[ring]) <= most


def vmxnet3_queues(levels: Mapping[str, Level]) -> int:
    """So many queues its driver has: one for each vCPU."""
    return min(int(levels.get("vcpus", 1)), MAX_VMXNET3_QUEUES)
