"""What became of frames: the metrics of a run at one load, and what the steps before it found."""

from __future__ import annotations

import itertools
import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from vnetbench.estimate.datagrams import IntervalSamples
from vnetbench.estimate.latency import latency_metrics, merge_histograms
from vnetbench.results.records import CURVE, Sample, TrialRecord
from vnetbench.study.workloads import THROUGHPUT_METRICS

SENT, RECEIVED = "frames_sent", "frames_received"


@dataclass(frozen=True)
class SearchInterval:
    """What one search says of its own answer."""

    low: float
    high: float
    confidence: float | None
    """None where its method has no notion of it."""


def count_frames(sample: Sample, kind: str) -> int:
    """How many frames a side sent, or received (distinct ones), in a sample."""
    return sum(int(str(stream.info.get(kind, 0))) for stream in sample.streams)


def frame_metrics(
    trial: TrialRecord, load_intervals: IntervalSamples, warmup_samples: int, steady_s: float
) -> Iterator[tuple[str, float]]:
    """The metrics of a trial from its intervals after the first `cut`; none where no frames were sent.

    Frames that are on their way when a sample ends are none that are lost. So the loss is of all that was
    sent after the cut and came in the end.
    """
    yield from step_metrics(trial)
    totals = [stream for side in trial.endpoints for stream in stream_totals(side.totals)]
    if not any(SENT in stream for stream in totals):
        return
    steady = [x for parts in load_intervals.values() for part in parts[warmup_samples:] for x in part]
    before = [x for parts in load_intervals.values() for part in parts[:warmup_samples] for x in part]

    def after(kind: str) -> int:
        return sum(int(stream.get(kind, 0)) for stream in totals) - sum(count_frames(x, kind) for x in before)

    sent, received = after(SENT), after(RECEIVED)
    yield "offered_load_fps", sum(count_frames(x, SENT) for x in steady) / steady_s
    yield "forwarding_rate_fps", sum(count_frames(x, RECEIVED) for x in steady) / steady_s
    if sent > 0:
        yield "frames", sent
        # What was on its way at the cut came after it, and was sent before.
        yield "frame_loss_percent", 100 * max(0, sent - received) / sent
    if arrived := sum(int(stream.get(RECEIVED, 0)) for stream in totals):
        for name, kind in (("duplicate_percent", "duplicates"), ("reordered_percent", "out_of_order")):
            yield name, 100 * sum(int(stream.get(kind, 0)) for stream in totals) / arrived
    yield from latency_metrics(merge_histograms(x.histograms.get("delay", ()) for x in steady), "delay")


def outstanding_frames(load_intervals: IntervalSamples) -> tuple[int, ...]:
    """At the end of each interval: frames that had been sent and had not come; empty where none were sent."""
    together = list(zip(*load_intervals.values(), strict=True))
    sent, received = (
        [sum(count_frames(x, kind) for side in at_once for x in side) for at_once in together]
        for kind in (SENT, RECEIVED)
    )
    if not any(sent):
        return ()
    return tuple(
        s - r for s, r in zip(itertools.accumulate(sent), itertools.accumulate(received), strict=True)
    )


def step_metrics(trial: TrialRecord) -> Iterator[tuple[str, float]]:
    """What the steps of a trial found; nothing where it has none.

    A search's answers are loads of each direction of each pair; a throughput is the sum over them. The buffer
    time is that of RFC 9004: the burst over the rate at which it came, less what was forwarded meanwhile.
    """
    search = search_result(trial)
    for name, answer in zip(THROUGHPUT_METRICS, _answers(search), strict=False):
        yield name, float(answer["throughput_fps"]) * int(search["ways"])
        if name == THROUGHPUT_METRICS[0]:
            frame_bits = 8 * float(search["frame_bytes"])
            yield "throughput_bps", frame_bits * float(answer["throughput_fps"]) * int(search["ways"])
    # Of full steps only: in a short one much of what arrives may come out of a buffer after its end.
    if rates := [step.received / step.duration_s for step in trial.steps if step.purpose == CURVE]:
        yield "max_forwarding_rate_fps", max(rates)
    bursts = _mapping(trial.effective.get("bursts"))
    if bursts:
        frames, rate_fps = statistics.mean(bursts["frames"]), float(bursts["rate_fps"])
        yield "back_to_back_frames", frames
        passed = float(_answers(search)[0]["throughput_fps"]) / rate_fps
        yield "buffer_s", frames / rate_fps * max(0.0, 1 - passed)


def search_intervals(search: Mapping[str, Any]) -> dict[str, SearchInterval]:
    """Metric to the interval that a search (`search_of`) gave its throughput, where it found an upper end."""
    return {
        name: SearchInterval(
            int(search["ways"]) * float(answer["low_fps"]),
            int(search["ways"]) * float(answer["high_fps"]),
            answer["confidence"],
        )
        for name, answer in zip(THROUGHPUT_METRICS, _answers(search), strict=False)
        if answer["limited_by"] != "generator"
    }


def search_result(trial: TrialRecord) -> Mapping[str, Any]:
    """What the steps of a trial found, as the campaign keeps it; empty where it has none."""
    return _mapping(trial.effective.get("search"))


def _answers(search: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
    answers: Sequence[Mapping[str, Any]] = search.get("answers", ())
    return answers


def stream_totals(totals: Mapping[str, object]) -> Sequence[Mapping[str, Any]]:
    """What a side said of its streams at the end."""
    streams = totals.get("streams")
    return streams if isinstance(streams, list) else []


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}
