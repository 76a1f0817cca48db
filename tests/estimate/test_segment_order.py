"""The share of TCP segments that arrive out of order."""

from __future__ import annotations

from typing import Any

import pytest

from vnetbench.estimate.segment_order import segment_order_metrics
from vnetbench.results.records import EndpointRecord, Sample, StreamSample

pytestmark = pytest.mark.pure


def receivers(*intervals: list[dict[str, Any]]) -> list[tuple[EndpointRecord, list[Sample]]]:
    """Return a receiver with a sample for each interval, and a stream for each mapping of TCP counters."""
    samples = [
        Sample(
            number,
            number + 1.0,
            1.0,
            0,
            0,
            {},
            streams=tuple(
                StreamSample(stream, "sink", 0, None, None, None, counters)
                for stream, counters in enumerate(streams)
            ),
        )
        for number, streams in enumerate(intervals)
    ]
    return [(EndpointRecord("b1", "sink", {}, tuple(samples)), samples)]


def test_the_share_is_over_all_streams_and_intervals() -> None:
    counted = receivers(
        [{"rcv_ooopack": 1, "segments_in": 10}, {"rcv_ooopack": 0, "segments_in": 70}],
        [{"rcv_ooopack": 4, "segments_in": 20}, {"rcv_ooopack": 0, "segments_in": 0}],
    )
    assert dict(segment_order_metrics(counted)) == {"out_of_order_percent": 5.0}


@pytest.mark.parametrize(
    "counters",
    [{}, {"segments_in": 10}, {"rcv_ooopack": None, "segments_in": 10}, {"rcv_ooopack": 0, "segments_in": 0}],
)
def test_without_the_kernels_count_or_segments_there_is_no_value(counters: dict[str, Any]) -> None:
    assert dict(segment_order_metrics(receivers([counters]))) == {}
