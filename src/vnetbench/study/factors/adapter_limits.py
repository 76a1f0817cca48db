"""Limits of each virtual adapter, by its Linux driver and its QEMU model; they hold on every machine."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from vnetbench.study.factors.guest_factors import ADAPTER, VCPUS
from vnetbench.study.model import Level

MAX_VIRTIO_QUEUES = 256
MAX_VMXNET3_QUEUES = 8
"""VMXNET3_DEVICE_MAX_TX_QUEUES (drivers/net/vmxnet3/vmxnet3_defs.h)."""


@dataclass(frozen=True)
class AdapterLimits:
    """What one adapter supports."""

    max_mtu: int
    max_queues: int
    rx_ring: tuple[int, int]
    """Smallest and largest receive ring, in descriptors."""
    tx_ring: tuple[int, int]
    """Smallest and largest transmit ring, in descriptors."""
    has_lro: bool = False
    """Whether it has large receive offload."""
    has_coalescing: bool = False
    """Whether ethtool can set its interrupt coalescing."""


_VIRTIO = AdapterLimits(65535, MAX_VIRTIO_QUEUES, (2, 1024), (2, 256), has_coalescing=True)
ADAPTER_LIMITS: Mapping[str, AdapterLimits] = {
    "virtio-net": _VIRTIO,
    "virtio-net-vhost": _VIRTIO,
    "macvtap": _VIRTIO,
    # MTU: VMXNET3_MAX_MTU; rings: VMXNET3_RX_RING_MAX_SIZE, VMXNET3_TX_RING_MAX_SIZE.
    "vmxnet3": AdapterLimits(9000, MAX_VMXNET3_QUEUES, (32, 4096), (32, 4096), has_lro=True),
    # The 82574L's max_hw_frame_size is 9234, with header, VLAN tag and checksum; E1000_MIN_RXD is 64.
    "e1000e": AdapterLimits(9216 - 4, 1, (64, 4096), (64, 4096), has_coalescing=True),
    # MAX_JUMBO_FRAME_SIZE is 0x3F00, with header and checksum; E1000_MIN_RXD is 48.
    "e1000": AdapterLimits(16110, 1, (48, 4096), (48, 4096)),
    # 8139cp: CP_MAX_MTU, and fixed rings of 64.
    "rtl8139": AdapterLimits(4096, 1, (64, 64), (64, 64)),
    # MAX_STD_JUMBO_FRAME_SIZE, IGB_MAX_RX_QUEUES, IGB_MIN_RXD.
    "igb": AdapterLimits(9216, 8, (64, 4096), (64, 4096), has_coalescing=True),
}
"""Limits by level of the factor `adapter`. `vf` is absent: only the driver of a virtual function knows
them."""


def find_adapter_limits(levels: Mapping[str, Level]) -> AdapterLimits | None:
    """Return the limits of a treatment's adapter; None without an adapter or with unknown limits."""
    return ADAPTER_LIMITS.get(str(levels.get(ADAPTER.name)))


def is_ring_out_of_range(levels: Mapping[str, Level], ring: str) -> bool:
    """Return whether the adapter does not support the treatment's `rx_ring` or `tx_ring`."""
    limits = find_adapter_limits(levels)
    if limits is None or ring not in levels:
        return False
    smallest, largest = getattr(limits, ring)
    return not smallest <= int(levels[ring]) <= largest


def derive_vmxnet3_queues_from_vcpus(levels: Mapping[str, Level]) -> int:
    """Return the queues of a vmxnet3: its driver creates one for each vCPU."""
    return min(int(VCPUS.read_level(levels)), MAX_VMXNET3_QUEUES)
