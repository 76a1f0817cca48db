"""Frame metrics: of a run at one load, and of the search steps before it."""

from __future__ import annotations

import itertools
import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from vnetbench.estimate.datagrams import IntervalSamplesByEndpoint
from vnetbench.estimate.latency import latency_metrics, merge_histograms
from vnetbench.results.records import LOSS_CURVE_STEP, Sample, TrialRecord, mapping_or_empty
from vnetbench.study.workloads import THROUGHPUT_METRIC_NAMES

FRAMES_SENT, FRAMES_RECEIVED = "frames_sent", "frames_received"


@dataclass(frozen=True)
class SearchInterval:
    """The interval that a search reports for its throughput, in frames per second."""

    low: float
    high: float
    confidence: float | None
    """None if the search method reports no confidence."""


def count_frames(sample: Sample, kind: str) -> int:
    """Return the frames sent (`SENT`) or the distinct frames received (`RECEIVED`) in a sample."""
    return sum(int(str(stream.details.get(kind, 0))) for stream in sample.streams)


def frame_metrics(
    trial: TrialRecord, load_intervals: IntervalSamplesByEndpoint, warmup_samples: int, steady_s: float
) -> Iterator[tuple[str, float]]:
    """Yield the metrics of a trial after its warm-up; only those of its steps if no frames were sent.

    Frames in transit at the end of a sample are not lost. So the loss compares all frames sent after the
    warm-up with those that arrived by the end of the trial.
    """
    yield from metrics_measured_by_steps(trial)
    totals = [stream for endpoint in trial.endpoints for stream in final_stream_counts(endpoint.totals)]
    if not any(FRAMES_SENT in stream for stream in totals):
        return
    steady = [x for parts in load_intervals.values() for part in parts[warmup_samples:] for x in part]
    warmup = [x for parts in load_intervals.values() for part in parts[:warmup_samples] for x in part]

    def count_after_warmup(kind: str) -> int:
        return sum(int(stream.get(kind, 0)) for stream in totals) - sum(count_frames(x, kind) for x in warmup)

    sent, received = count_after_warmup(FRAMES_SENT), count_after_warmup(FRAMES_RECEIVED)
    yield "offered_load_fps", sum(count_frames(x, FRAMES_SENT) for x in steady) / steady_s
    yield "forwarding_rate_fps", sum(count_frames(x, FRAMES_RECEIVED) for x in steady) / steady_s
    if sent > 0:
        yield "frames", sent
        # Frames in transit at the end of the warm-up were sent before it and arrived after it.
        yield "frame_loss_percent", 100 * max(0, sent - received) / sent
    if arrived := sum(int(stream.get(FRAMES_RECEIVED, 0)) for stream in totals):
        for name, kind in (("duplicate_percent", "duplicates"), ("reordered_percent", "out_of_order")):
            yield name, 100 * sum(int(stream.get(kind, 0)) for stream in totals) / arrived
    yield from latency_metrics(merge_histograms(x.histograms.get("delay", ()) for x in steady), "delay")


def outstanding_frames(load_intervals: IntervalSamplesByEndpoint) -> tuple[int, ...]:
    """Return the frames sent but not received at the end of each interval; empty if none were sent."""
    intervals = list(zip(*load_intervals.values(), strict=True))
    sent, received = (
        [sum(count_frames(x, kind) for samples in interval for x in samples) for interval in intervals]
        for kind in (FRAMES_SENT, FRAMES_RECEIVED)
    )
    if not any(sent):
        return ()
    return tuple(
        s - r for s, r in zip(itertools.accumulate(sent), itertools.accumulate(received), strict=True)
    )


def metrics_measured_by_steps(trial: TrialRecord) -> Iterator[tuple[str, float]]:
    """Yield the metrics that the steps of a trial measured; none without steps.

    A search result is a load for each direction of each pair; a throughput is the sum over all of them. The
    buffer time is the corrected one of RFC 9004: the burst divided by its rate, minus the part that the
    device forwarded during the burst.
    """
    search = read_search_result(trial)
    for name, goal_result in zip(THROUGHPUT_METRIC_NAMES, _goal_results(search), strict=False):
        yield name, float(goal_result["throughput_fps"]) * int(search["direction_count"])
        if name == THROUGHPUT_METRIC_NAMES[0]:
            frame_bits = 8 * float(search["frame_bytes"])
            yield (
                "throughput_bps",
                frame_bits * float(goal_result["throughput_fps"]) * int(search["direction_count"]),
            )
    # Full steps only: in a short step, many frames may leave a buffer after the end of the load.
    if rates := [step.received / step.duration_s for step in trial.steps if step.purpose == LOSS_CURVE_STEP]:
        yield "max_forwarding_rate_fps", max(rates)
    bursts = mapping_or_empty(trial.effective.get("bursts"))
    if bursts:
        frames, rate_fps = statistics.mean(bursts["frames"]), float(bursts["rate_fps"])
        yield "back_to_back_frames", frames
        forwarded_share = float(_goal_results(search)[0]["throughput_fps"]) / rate_fps
        yield "buffer_s", frames / rate_fps * max(0.0, 1 - forwarded_share)


def search_interval_by_metric(search_result: Mapping[str, Any]) -> dict[str, SearchInterval]:
    """Return the search interval of each throughput metric; absent if the generator limited the search."""
    return {
        name: SearchInterval(
            int(search_result["direction_count"]) * float(goal_result["low_fps"]),
            int(search_result["direction_count"]) * float(goal_result["high_fps"]),
            goal_result["confidence"],
        )
        for name, goal_result in zip(THROUGHPUT_METRIC_NAMES, _goal_results(search_result), strict=False)
        if goal_result["limited_by"] != "generator"
    }


def read_search_result(trial: TrialRecord) -> Mapping[str, Any]:
    """Return the stored result of a trial's search; empty without one."""
    return mapping_or_empty(trial.effective.get("search"))


def _goal_results(search_result: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
    goal_results: Sequence[Mapping[str, Any]] = search_result.get("goal_results", ())
    return goal_results


def final_stream_counts(totals: Mapping[str, object]) -> Sequence[Mapping[str, Any]]:
    """Return the final counts of an endpoint's streams."""
    streams = totals.get("streams")
    return streams if isinstance(streams, list) else []
