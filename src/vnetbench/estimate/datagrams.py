"""Datagram metrics of `udp_stream`: rates, loss, reordering, duplicates, jitter and delay."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from vnetbench.estimate.latency import latency_metrics, merge_histograms
from vnetbench.results.records import Sample, StreamSample, TrialRecord

SHARE_METRICS_BY_DENOMINATOR_METRIC: Mapping[str, tuple[str, ...]] = {
    "datagrams": ("loss_percent", "socket_drop_percent", "reordered_percent", "duplicate_percent"),
    "frames": ("frame_loss_percent", "reordered_percent", "duplicate_percent"),
}
"""The metric that counts datagrams or frames, to the metrics that are shares of that count."""

IntervalSamplesByEndpoint = Mapping[str, Sequence[Sequence[Sample]]]
"""Endpoint name to its samples, grouped by interval (`time_series.load_samples_by_endpoint_and_interval`)."""


def count_distinct_arrived_datagrams(sample: Sample) -> int:
    """Return the number of datagrams that arrived in a sample, without duplicates."""
    return sum(
        _count_or_zero(x, "datagrams") - _count_or_zero(x, "duplicates")
        for x in _datagram_streams(sample, "sink")
    )


def datagram_metrics(
    trial: TrialRecord, load_intervals: IntervalSamplesByEndpoint, warmup_samples: int, steady_s: float
) -> Iterator[tuple[str, float]]:
    """Yield the metrics of a trial after its warm-up; none if no datagrams were sent.

    A sink knows the last losses only after the source reports how many datagrams it sent. So shares use the
    final counts of the trial minus the counts of the warm-up.
    """
    totals = [
        stream
        for endpoint in trial.endpoints
        for stream in _final_stream_counts(endpoint.totals)
        if "datagrams" in stream
    ]
    if not totals:
        return
    steady = [x for parts in load_intervals.values() for part in parts[warmup_samples:] for x in part]
    warmup = [x for parts in load_intervals.values() for part in parts[:warmup_samples] for x in part]
    sinks = [flow for x in steady for flow in _datagram_streams(x, "sink")]
    sent = sum(_count_or_zero(flow, "datagrams") for x in steady for flow in _datagram_streams(x, "source"))
    yield "datagrams_sent_per_s", sent / steady_s
    yield "datagrams_received_per_s", sum(map(count_distinct_arrived_datagrams, steady)) / steady_s
    yield from _loss_reordering_duplicate_percents(totals, warmup)
    if sinks:
        yield "jitter_us", sum(_number_or_zero(flow.details.get("jitter_us")) for flow in sinks) / len(sinks)
    yield from latency_metrics(merge_histograms(x.histograms.get("delay", ()) for x in steady), "delay")
    deviations = [
        _number_or_zero(pacing.get("gap_deviation_us")) for pacing in _pacing_deviation_records(trial)
    ]
    if deviations:
        yield "gap_deviation_us", max(deviations)


def _loss_reordering_duplicate_percents(
    totals: Sequence[Mapping[str, Any]], warmup: Sequence[Sample]
) -> Iterator[tuple[str, float]]:
    sinks = [flow for flow in totals if flow["role"] == "sink"]
    warmup_sinks = [flow for x in warmup for flow in _datagram_streams(x, "sink")]

    def count_after_warmup(name: str) -> int:
        return sum(int(flow[name]) for flow in sinks) - sum(
            _count_or_zero(flow, name) for flow in warmup_sinks
        )

    duplicates, lost = count_after_warmup("duplicates"), count_after_warmup("lost")
    arrived = count_after_warmup("datagrams") - duplicates
    if arrived + lost <= 0:
        return
    yield "datagrams", arrived + lost
    # A datagram that arrives after the warm-up may have counted as lost during it.
    yield "loss_percent", 100 * max(0, lost) / (arrived + lost)
    yield "socket_drop_percent", 100 * count_after_warmup("socket_drops") / (arrived + lost)
    if arrived:
        yield "reordered_percent", 100 * count_after_warmup("reordered") / arrived
        yield "duplicate_percent", 100 * duplicates / arrived


def zero_count_upper_bound_percent(datagrams: float, confidence: float) -> float:
    """Return the upper confidence bound in percent of a share that had no event in `datagrams` datagrams.

    The bound is 1 - (1 - confidence)^(1/n), for 95 % the "rule of three" (Hanley & Lippman-Hand 1983, JAMA
    249(13)). It assumes independent datagrams: if losses come in bursts, the true bound is higher.
    """
    return -100 * math.expm1(math.log1p(-confidence) / datagrams)


def _final_stream_counts(totals: Mapping[str, object]) -> Sequence[Mapping[str, Any]]:
    streams = totals.get("streams")
    return streams if isinstance(streams, list) else []


def _pacing_deviation_records(trial: TrialRecord) -> Iterator[Mapping[str, object]]:
    for endpoint in trial.endpoints:
        instrument = endpoint.totals.get("instrument")
        pacing = instrument.get("pacing") if isinstance(instrument, Mapping) else None
        if isinstance(pacing, Mapping) and pacing.get("gap_deviation_us") is not None:
            yield pacing


def _datagram_streams(sample: Sample, role: str) -> list[StreamSample]:
    return [x for x in sample.streams if x.role == role and "datagrams" in x.details]


def _count_or_zero(flow: StreamSample, name: str) -> int:
    return int(_number_or_zero(flow.details.get(name)))


def _number_or_zero(value: object) -> float:
    return float(value) if isinstance(value, int | float) else 0.0
