"""Metrics of frames, as RFC 1242, 2285, 2544 and 9004 name them."""

from __future__ import annotations

from vnetbench.estimate.metric import Metric
from vnetbench.study.workloads import THROUGHPUT_METRICS

_GOALS = ("the first", "the second", "the third", "the fourth")
_THROUGHPUT_LABELS = ("Throughput", *(f"Throughput within {goal} goal" for goal in _GOALS[1:]))

FRAME_METRICS = (
    *(
        Metric(
            name,
            "frame/s",
            label,
            "higher",
            f"highest rate at which no more than {goal} accepted share of frames is lost (RFC 1242), all "
            "directions and pairs",
        )
        for name, label, goal in zip(THROUGHPUT_METRICS, _THROUGHPUT_LABELS, _GOALS, strict=True)
    ),
    Metric(
        "throughput_bps",
        "bit/s",
        "Throughput in bits",
        "higher",
        "the same of the first accepted share, in bits of frames with their check sequences, without "
        "preambles and gaps",
    ),
    Metric(
        "max_forwarding_rate_fps",
        "frame/s",
        "Maximum forwarding rate",
        "higher",
        "highest rate at which frames arrived, whatever load was offered (RFC 2285)",
    ),
    Metric(
        "back_to_back_frames",
        "1",
        "Longest burst",
        "higher",
        "frames that were sent as fast as they go without one being lost, mean of repeated searches",
    ),
    Metric(
        "buffer_s",
        "s",
        "Buffer time",
        "higher",
        "how long the device's buffer holds what comes as fast as it goes (RFC 9004, corrected)",
    ),
    Metric(
        "forwarding_rate_fps",
        "frame/s",
        "Forwarding rate",
        "higher",
        "frames that arrived, all directions and pairs; of duplicates the first (RFC 2285)",
    ),
    Metric(
        "offered_load_fps",
        "frame/s",
        "Offered load",
        "neither",
        "frames that were sent, all directions and pairs (RFC 2285)",
    ),
    Metric(
        "frame_loss_percent",
        "%",
        "Frame loss",
        "lower",
        "share of the frames that were sent and did not arrive (RFC 1242)",
    ),
)
