"""The packet-rate law: what a CPU carries that pays for each packet and for each byte of it.

A CPU that spends `a` cycles on a packet and `b` on each byte of it carries clock / (a + b · bytes) packets a
second (Menon and Zwaenepoel, Optimizing TCP Receive Performance, USENIX ATC 2008, on the two parts).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class PacketCost:
    """What a CPU pays, cycles."""

    cycles_per_packet: float
    cycles_per_byte: float


def fit_cost(packet_bytes: Sequence[float], cycles_per_packet: Sequence[float]) -> PacketCost | None:
    """Least squares of cycles on bytes, neither part below zero; None with fewer than two sizes.

    One part at zero is fitted alone: a negative cost of a byte only says that it cannot be told.
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
