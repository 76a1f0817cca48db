"""Sizes of frames: their headers, and mixes of sizes."""

from __future__ import annotations

from vnetbench.study.model import Level

IMIX = "imix"
"""Level of `frame_size` that stands for the mix `SIMPLE_IMIX`."""
SIMPLE_IMIX = ((64, 7), (570, 4), (1518, 1))
"""Frame sizes in bytes and their number among twelve frames: the simple Internet mix (FD.io CSIT:
IMIX_v4_1)."""

MIN_FRAME_BYTES, MAX_FRAME_BYTES = 64, 9216
"""Bytes with the frame check sequence, as RFC 2544 counts them (section 9.1); the largest are jumbo
frames."""
VLAN_TAG_BYTES = 4
ETHERNET_OVERHEAD_BYTES = 18
"""Two addresses, the type and the frame check sequence."""
MIN_FRAME_BYTES_BY_IP_VERSION = {"4": MIN_FRAME_BYTES, "6": 84}
"""Ethernet, IP and UDP headers, and the bench's 18 bytes: trial, stream, frame number and time stamp."""


def parse_frame_mix(frame_size: Level) -> tuple[tuple[int, int], ...]:
    """Return the sizes in bytes of a level of `frame_size`, each with its weight."""
    return SIMPLE_IMIX if frame_size == IMIX else ((int(frame_size), 1),)


def compute_mean_frame_bytes(frame_size: Level) -> float:
    """Return the mean size of the frames of a level of `frame_size`."""
    mix = parse_frame_mix(frame_size)
    return sum(size * weight for size, weight in mix) / sum(weight for _, weight in mix)


def parse_throughput_share(frame_load: Level) -> float | None:
    """Return the share of the throughput that a level such as "90 %" names; None for any other level."""
    if isinstance(frame_load, str) and frame_load.endswith("%"):
        return float(frame_load[:-1]) / 100
    return None
