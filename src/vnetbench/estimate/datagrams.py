"""What became of datagrams: the metrics of `udp_stream`, from what sources sent and sinks counted."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from vnetbench.estimate.latency import latency_metrics, merge_histograms
from vnetbench.results.records import Sample, StreamSample, TrialRecord

SHARE_METRICS: Mapping[str, tuple[str, ...]] = {
    "datagrams": ("loss_percent", "socket_drop_percent", "reordered_percent", "duplicate_percent"),
    "frames": ("frame_loss_percent", "reordered_percent", "duplicate_percent"),
}
"""The metrics that are shares of the datagrams, or of the frames, by the metric that says how many."""

IntervalSamples = Mapping[str, Sequence[Sequence[Sample]]]
"""Endpoint to its samples, an inner list an interval (`course.intervals`)."""


def count_arrived_datagrams(sample: Sample) -> int:
    """How many datagrams arrived in a sample, a duplicate not counted."""
    return sum(_count(x, "datagrams") - _count(x, "duplicates") for x in _of_role(sample, "sink"))


def datagram_metrics(
    trial: TrialRecord, load_intervals: IntervalSamples, warmup_samples: int, steady_s: float
) -> Iterator[tuple[str, float]]:
    """The metrics of a trial from its intervals after the first `cut`; none where no datagrams were sent.

    What is lost last shows only when the source has said how many it sent. So shares are of all that came of
    the trial in the end, less what was counted before the cut.
    """
    totals = [stream for side in trial.endpoints for stream in _streams(side.totals) if "datagrams" in stream]
    if not totals:
        return
    steady = [x for parts in load_intervals.values() for part in parts[warmup_samples:] for x in part]
    before = [x for parts in load_intervals.values() for part in parts[:warmup_samples] for x in part]
    sinks = [flow for x in steady for flow in _of_role(x, "sink")]
    sent = sum(_count(flow, "datagrams") for x in steady for flow in _of_role(x, "source"))
    yield "datagrams_sent_per_s", sent / steady_s
    yield "datagrams_received_per_s", sum(map(count_arrived_datagrams, steady)) / steady_s
    yield from _shares(totals, before)
    if sinks:
        yield "jitter_us", sum(_number(flow.info.get("jitter_us")) for flow in sinks) / len(sinks)
    yield from latency_metrics(merge_histograms(x.histograms.get("delay", ()) for x in steady), "delay")
    deviations = [_number(pacing.get("gap_deviation_us")) for pacing in _pacings(trial)]
    if deviations:
        yield "gap_deviation_us", max(deviations)


def _shares(totals: Sequence[Mapping[str, Any]], before: Sequence[Sample]) -> Iterator[tuple[str, float]]:
    sinks = [flow for flow in totals if flow["role"] == "sink"]
    early = [flow for x in before for flow in _of_role(x, "sink")]

    def after(name: str) -> int:
        return sum(int(flow[name]) for flow in sinks) - sum(_count(flow, name) for flow in early)

    duplicates, lost = after("duplicates"), after("lost")
    arrived = after("datagrams") - duplicates
    if arrived + lost <= 0:
        return
    yield "datagrams", arrived + lost
    # What comes late may have been missed before the cut.
    yield "loss_percent", 100 * max(0, lost) / (arrived + lost)
    yield "socket_drop_percent", 100 * after("socket_drops") / (arrived + lost)
    if arrived:
        yield "reordered_percent", 100 * after("reordered") / arrived
        yield "duplicate_percent", 100 * duplicates / arrived


def zero_count_upper_bound_percent(datagrams: float, confidence: float) -> float:
    """The share in percent that none of so many datagrams rules out being larger, at that confidence.

    The upper bound of a share of which none was seen, 1 - (1 - confidence)^(1/n), "rule of three" for 95 %
    (Hanley & Lippman-Hand 1983, JAMA 249(13)). It takes each datagram's fate as its own: where losses come
    in bursts more datagrams are needed for the same bound.
    """
    return -100 * math.expm1(math.log1p(-confidence) / datagrams)


def _streams(totals: Mapping[str, object]) -> Sequence[Mapping[str, Any]]:
    streams = totals.get("streams")
    return streams if isinstance(streams, list) else []


def _pacings(trial: TrialRecord) -> Iterator[Mapping[str, object]]:
    for side in trial.endpoints:
        instrument = side.totals.get("instrument")
        pacing = instrument.get("pacing") if isinstance(instrument, Mapping) else None
        if isinstance(pacing, Mapping) and pacing.get("gap_deviation_us") is not None:
            yield pacing


def _of_role(sample: Sample, role: str) -> list[StreamSample]:
    return [x for x in sample.streams if x.role == role and "datagrams" in x.info]


def _count(flow: StreamSample, name: str) -> int:
    return int(_number(flow.info.get(name)))


def _number(value: object) -> float:
    return float(value) if isinstance(value, int | float) else 0.0
