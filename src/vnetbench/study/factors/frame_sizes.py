"""How long frames are: what of one is Ethernet's and what IP's, the smallest, and mixes of sizes."""

from __future__ import annotations

from collections.abc import Mapping

from vnetbench.study.model import Level

IMIX = "imix"
"""The level of `frame_size` that is a mix."""
SIMPLE_IMIX = ((64, 7), (570, 4), (1518, 1))
"""Bytes and how many of twelve frames: the simple Internet mix (FD.io CSIT's IMIX_v4_1 has the same)."""

MIN_FRAME_BYTES, MAX_FRAME_BYTES = 64, 9216
"""Bytes with the frame check sequence, as RFC 2544 counts them (section 9.1); the largest are jumbos."""
VLAN_TAG_BYTES = 4
_ETHERNET_BYTES = 18
"""Two addresses, the type, the frame check sequence."""
_MIN_BYTES_BY_IP_VERSION = {"4": MIN_FRAME_BYTES, "6": 84}
"""Ethernet, IP and UDP, and 18 bytes of ours: the trial, the stream, the frame's number and its time."""


def frame_mix(frame_size: Level) -> tuple[tuple[int, int], ...]:
    """The sizes in bytes of a level of `frame_size`, and how often each comes."""
    return SIMPLE_IMIX if frame_size == IMIX else ((int(frame_size), 1),)


def mean_frame_bytes(frame_size: Level) -> float:
    """Mean size of its frames."""
    mix = frame_mix(frame_size)
    return sum(size * weight for size, weight in mix) / sum(weight for _, weight in mix)


def smallest_frame_bytes(factors: Mapping[str, Level]) -> int:
    """Bytes of the smallest frame of this version of IP with so many VLAN tags."""
    tags = int(factors.get("vlan_tags", 0))
    return _MIN_BYTES_BY_IP_VERSION[str(factors.get("ip_version", "4"))] + VLAN_TAG_BYTES * tags


def largest_packet_bytes(factors: Mapping[str, Level]) -> int:
    """Bytes of the IP packet in the largest frame of a treatment: what the MTU has to be.

    Linux takes frames that are one tag longer (xdp_ok_fwd_dev in net/core/filter.c): a second one counts.
    """
    largest = max(size for size, _ in frame_mix(factors["frame_size"]))
    return largest - _ETHERNET_BYTES - VLAN_TAG_BYTES * min(1, int(factors.get("vlan_tags", 0)))


def throughput_share(frame_load: Level) -> float | None:
    """The share of the throughput that a level of `frame_load` names, as "90 %" does; None for another."""
    if isinstance(frame_load, str) and frame_load.endswith("%"):
        return float(frame_load[:-1]) / 100
    return None
