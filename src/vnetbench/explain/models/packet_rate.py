"""The packet-rate model: a CPU with a cost per packet and a cost per byte.

A CPU that spends `a` cycles on a packet and `b` cycles on each byte carries clock / (a + b · bytes) packets
per second (both parts: Menon and Zwaenepoel, Optimizing TCP Receive Performance, USENIX ATC 2008).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class PacketCost:
    """CPU cost of a packet."""

    cycles_per_packet: float
    cycles_per_byte: float


def fit_packet_cost(packet_bytes: Sequence[float], cycles_per_packet: Sequence[float]) -> PacketCost | None:
    """Fit both costs by least squares, without negative ones; return None with fewer than two sizes.

    A negative cost per byte or per packet only means that it is not measurable: it becomes zero, and the fit
    has the other cost alone.
    """
    sizes, cycles = (np.asarray(each, dtype=float) for each in (packet_bytes, cycles_per_packet))
    if len(np.unique(sizes)) < 2:
        return None
    byte, packet = np.polyfit(sizes, cycles, 1)
    if byte < 0:
        return PacketCost(float(cycles.mean()), 0.0)
    if packet < 0:
        return PacketCost(0.0, float(sizes @ cycles / (sizes @ sizes)))
    return PacketCost(float(packet), float(byte))
