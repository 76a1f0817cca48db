"""Frame metrics, named as in RFC 1242, RFC 2285, RFC 2544 and RFC 9004."""

from __future__ import annotations

from vnetbench.estimate.metric import Metric
from vnetbench.study.workloads import THROUGHPUT_METRICS

_GOAL_ORDINALS = ("the first", "the second", "the third", "the fourth")
_THROUGHPUT_LABELS = ("Throughput", *(f"Throughput within {goal} goal" for goal in _GOAL_ORDINALS[1:]))

FRAME_METRICS = (
    *(
        Metric(
            name,
            "frame/s",
            label,
            "higher",
            f"highest rate with a frame loss ratio of at most {goal} loss goal (RFC 1242), summed over all "
            "directions and pairs",
        )
        for name, label, goal in zip(THROUGHPUT_METRICS, _THROUGHPUT_LABELS, _GOAL_ORDINALS, strict=True)
    ),
    Metric(
        "throughput_bps",
        "bit/s",
        "Throughput in bits",
        "higher",
        "throughput for the first loss goal in bits of whole frames: with frame check sequence, without "
        "preamble and inter-frame gap",
    ),
    Metric(
        "max_forwarding_rate_fps",
        "frame/s",
        "Maximum forwarding rate",
        "higher",
        "highest rate at which frames arrived, at any offered load (RFC 2285)",
    ),
    Metric(
        "back_to_back_frames",
        "1",
        "Longest burst",
        "higher",
        "longest burst at full rate without frame loss (RFC 2544), mean of repeated searches",
    ),
    Metric(
        "buffer_s",
        "s",
        "Buffer time",
        "higher",
        "time for which the device buffers frames that arrive at full rate (RFC 9004, corrected buffer time)",
    ),
    Metric(
        "forwarding_rate_fps",
        "frame/s",
        "Forwarding rate",
        "higher",
        "frames that arrived, summed over all directions and pairs; duplicates count once (RFC 2285)",
    ),
    Metric(
        "offered_load_fps",
        "frame/s",
        "Offered load",
        "neither",
        "frames that were sent, summed over all directions and pairs (RFC 2285)",
    ),
    Metric(
        "frame_loss_percent",
        "%",
        "Frame loss",
        "lower",
        "share of the sent frames that did not arrive (RFC 1242, frame loss rate)",
    ),
)
