"""Frame metrics, named as in RFC 1242, RFC 2285, RFC 2544 and RFC 9004."""

from __future__ import annotations

from vnetbench.estimate.metric import Metric
from vnetbench.study.workloads import THROUGHPUT_METRIC_NAMES

_LOSS_GOAL_ORDINALS = ("the first", "the second", "the third", "the fourth")
_THROUGHPUT_LABELS = ("Throughput", *(f"Throughput within {goal} goal" for goal in _LOSS_GOAL_ORDINALS[1:]))

FRAME_METRICS = (
    *(
        Metric(
            name,
            "frame/s",
            label,
            "higher",
            f"highest rate at which the frame loss ratio does not exceed {goal} loss goal (RFC 1242), sum "
            "of all directions and pairs",
        )
        for name, label, goal in zip(
            THROUGHPUT_METRIC_NAMES, _THROUGHPUT_LABELS, _LOSS_GOAL_ORDINALS, strict=True
        )
    ),
    Metric(
        "throughput_bps",
        "bit/s",
        "Throughput in bits",
        "higher",
        "throughput for the first loss goal in bits of whole frames. It includes the frame check sequence, "
        "and not the preamble and the inter-frame gap",
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
        "number of frames in the longest burst at full rate without frame loss (RFC 2544), mean of repeated "
        "searches",
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
        "frames per second that arrive, sum of all directions and pairs (RFC 2285). Duplicates count once",
    ),
    Metric(
        "offered_load_fps",
        "frame/s",
        "Offered load",
        "neither",
        "frames per second that the generators send, sum of all directions and pairs (RFC 2285)",
    ),
    Metric(
        "frame_loss_percent",
        "%",
        "Frame loss",
        "lower",
        "share of the sent frames that did not arrive (RFC 1242, frame loss rate)",
    ),
)
