"""The metric of TCP segments that arrive out of order, as with a team that sends packets in turn."""

from __future__ import annotations

from collections.abc import Iterator

from vnetbench.estimate.metric import Metric
from vnetbench.estimate.time_series import SteadySamples

OUT_OF_ORDER = Metric(
    "out_of_order_percent",
    "%",
    "TCP out of order",
    "lower",
    "share of the segments at the receivers of the load that arrived out of order. Their kernels count them "
    "(`tcpi_rcv_ooopack`, Linux 5.4 or later). Segments that arrive after a lost one count too",
)


def segment_order_metrics(receivers: SteadySamples) -> Iterator[tuple[str, float]]:
    """Yield OUT_OF_ORDER if the receivers have TCP connections whose kernel counts it."""
    out_of_order = arrived = 0.0
    for _, samples in receivers:
        for sample in samples:
            for stream in sample.streams:
                late, segments = (stream.details.get(name) for name in ("rcv_ooopack", "segments_in"))
                if isinstance(late, int | float) and isinstance(segments, int | float):
                    out_of_order += late
                    arrived += segments
    if arrived:
        yield OUT_OF_ORDER.name, 100 * out_of_order / arrived
