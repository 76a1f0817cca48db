"""How a trial went in time: its intervals, a metric's course over them, and what of it is warm-up."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from vnetbench.estimate.datagrams import IntervalSamples, count_arrived_datagrams
from vnetbench.estimate.frames import RECEIVED, count_frames, step_metrics
from vnetbench.estimate.latency import histogram_count, merge_histograms, quantile_us
from vnetbench.estimate.model import Warmup
from vnetbench.estimate.warmup import find_warmup, fixed_warmup, find_shared_warmups
from vnetbench.results.records import HISTOGRAMS, OBSERVE, Histogram, Sample, EndpointRecord, TrialRecord
from vnetbench.study.model import Timing
from vnetbench.study.workloads import SEARCH_METRICS

SteadySamples = Sequence[tuple[EndpointRecord, Sequence[Sample]]]
"""Sides, each with its samples after the warm-up."""
_ROUNDING_S = 1e-6
"""A sample's end less its length is where the one before ended, but for the rounding of both."""


@dataclass(frozen=True)
class TimeSeries:
    """How a metric went in one trial, sample by sample, warm-up included."""

    values: tuple[float, ...]
    interval_lengths_s: tuple[float, ...]
    """Seconds that each sample covers."""
    histograms: tuple[Histogram, ...] = ()
    """Of a percentile: what each sample counted; empty for a rate."""
    quantile: float = 0.0
    """Of a percentile: the share that does not exceed it."""
    idle_quantile_us: float = 0.0
    """Of an increase under load: the percentile without load, which is taken off every value."""
    idle_values: tuple[float, ...] = ()
    """The values of the idle phase before the load, where there is one; it is none of the `values`."""
    omitted_samples: int = 0
    """Of an imported trial: samples at its beginning that its tool itself left out."""

    def steady_value(self, warmup_samples: int) -> float:
        """The metric after the first `cut` samples: the same figure as in `trial_metrics.metric_values`.

        Where that has none, for a percentile of too few values, it is the longest of them.
        """
        if self.histograms:
            return _percentile_or_longest(merge_histograms(self.histograms[warmup_samples:]), self.quantile) - self.idle_quantile_us
        after = list(zip(self.values, self.interval_lengths_s, strict=True))[warmup_samples:]
        return sum(rate * length for rate, length in after) / sum(length for _, length in after)


def metric_time_series(trial: TrialRecord, metric: str = "goodput_bps") -> TimeSeries:
    """A deciding metric (`study.workloads`) in time; raises ValueError for a trial without samples."""
    if metric in SEARCH_METRICS:
        return TimeSeries((dict(step_metrics(trial))[metric],), (trial.duration_s,))
    load = split_load_samples(trial)
    together, idle = _together(load), _together(split_idle_samples(trial))
    lengths = interval_lengths_s(load)
    if metric == "goodput_bps":
        rates, idle_rates = (
            tuple(_goodput_bps(trial, at_once) for at_once in phase) for phase in (together, idle)
        )
        return TimeSeries(rates, lengths, idle_values=idle_rates)
    if metric == "datagrams_received_per_s":
        arrived = (sum(count_arrived_datagrams(x) for side in at_once for x in side) for at_once in together)
        return TimeSeries(tuple(n / s for n, s in zip(arrived, lengths, strict=True)), lengths)
    if metric == "forwarding_rate_fps":
        arrived = (sum(count_frames(x, RECEIVED) for side in at_once for x in side) for at_once in together)
        return TimeSeries(tuple(n / s for n, s in zip(arrived, lengths, strict=True)), lengths)
    kind = next((kind for kind in HISTOGRAMS if metric.startswith(kind)), "latency")
    histograms, idle_histograms = (
        tuple(merged_histogram((x for side in at_once for x in side), kind) for at_once in phase)
        for phase in (together, idle)
    )
    if metric.endswith("_per_s"):
        counts = (histogram_count(histogram) for histogram in histograms)
        return TimeSeries(tuple(n / s for n, s in zip(counts, lengths, strict=True)), lengths)
    share = {"p50": 0.5, "p99": 0.99}[metric.split("_")[-2]]
    idle_us = 0.0
    if "increase" in metric:
        idle_us = _percentile_or_longest(merged_histogram(idle_samples(trial), kind), share)
    values = [value - idle_us for value in _percentiles(histograms, share)]
    before = [value - idle_us for value in _percentiles(idle_histograms, share)]
    return TimeSeries(tuple(values), lengths, histograms, share, idle_us, tuple(before))


def interval_lengths_s(load_intervals: IntervalSamples) -> tuple[float, ...]:
    """Seconds that each of these intervals covers."""
    return tuple(map(_length_s, _together(load_intervals)))


def _length_s(at_once: Sequence[Sequence[Sample]]) -> float:
    return max(sum(x.interval_s for x in side) for side in at_once)


def _goodput_bps(trial: TrialRecord, at_once: Sequence[Sequence[Sample]]) -> float:
    return 8 * arrived_bytes(trial, [x for side in at_once for x in side]) / _length_s(at_once)


def _percentiles(histograms: Sequence[Histogram], share: float) -> list[float]:
    # Without values the one before goes on.
    values: list[float] = []
    for histogram in histograms:
        before = values[-1] if values else 0.0
        values.append(_percentile_or_longest(histogram, share) if histogram else before)
    return values


def _percentile_or_longest(histogram: Histogram, share: float) -> float:
    """In µs; of too few values for the percentile the longest stands for it, 0 for none."""
    longest = histogram[-1][0] / 1e3 if histogram else 0.0
    return quantile_us(histogram, share) or longest


def received_load_bytes(sample: Sample) -> int:
    """The bytes of the load that arrived: of `mixed` what its transfers moved, not requests and answers."""
    if any(stream.part for stream in sample.streams):
        return sum(s.bytes for s in sample.streams if s.part == "transfers" and s.role == "sink")
    return sample.bytes_received


def acknowledged_bytes(trial: TrialRecord, samples: Iterable[Sample]) -> int:
    """Bytes that the other side acknowledged, where it has no samples of its own; else 0."""
    if all(side.is_sampled for side in trial.endpoints):
        return 0
    return sum(stream.bytes_acked for sample in samples for stream in sample.streams)


def arrived_bytes(trial: TrialRecord, samples: Sequence[Sample]) -> int:
    """Bytes of the load that were received, and those that a side without samples acknowledged."""
    return sum(map(received_load_bytes, samples)) + acknowledged_bytes(trial, samples)


def steady_latency_histogram(trial: TrialRecord, warmup_samples: int) -> Histogram:
    """The latencies, or one-way delays, of all sides after the first `cut` samples; empty without any."""
    steady = [x for side in split_load_samples(trial).values() for part in side[warmup_samples:] for x in part]
    return merged_histogram(steady, "latency") or merged_histogram(steady, "delay")


def idle_samples(trial: TrialRecord) -> list[Sample]:
    """The samples of all sides in the idle phase, without its first tenth and its last interval.

    The last one is left out since the sides do not start at the same moment: the transfers of one may begin
    in the other's.
    """
    sides = split_idle_samples(trial).values()
    return [x for side in sides for part in side[max(1, len(side) // 10) : -1] for x in part]


def merged_histogram(samples: Iterable[Sample], kind: str) -> Histogram:
    """One kind of histogram of all these samples together; empty where none has it."""
    return merge_histograms(x.histograms[kind] for x in samples if kind in x.histograms)


def find_warmups(time_series: Sequence[TimeSeries], timing: Timing) -> tuple[Warmup, ...]:
    """What of each trial of one treatment is warm-up; at least one sample of each is left."""
    if timing.warmup_s is not None:
        own = [fixed_warmup(c.values, timing.interval_s, timing.warmup_s) for c in time_series]
        return tuple(own)
    found = find_shared_warmups([c.values for c in time_series], [find_warmup(c.values) for c in time_series])
    return tuple(replace(w, samples=min(w.samples, len(c.values) - 1)) for w, c in zip(found, time_series, strict=True))


def split_load_samples(trial: TrialRecord) -> dict[str, list[list[Sample]]]:
    """Endpoint to its samples under load, in intervals that are the same for all.

    Raises ValueError where there is none.
    """
    found = _divided(trial, idle=False)
    if not any(found.values()):
        raise ValueError(f"trial {trial.id} has no samples")
    return found


def split_idle_samples(trial: TrialRecord) -> dict[str, list[list[Sample]]]:
    """The same of the idle phase before the load; empty where there is no such phase."""
    return _divided(trial, idle=True) if trial.idle_s > 0 else {}


def _together(sides: IntervalSamples) -> list[tuple[Sequence[Sample], ...]]:
    return list(zip(*sides.values(), strict=True))


def _divided(trial: TrialRecord, *, idle: bool) -> dict[str, list[list[Sample]]]:
    """Endpoint to its samples before or after the load began, without the drain after it.

    An interval is one sample of each endpoint, but where an agent's sample came so late that it closes
    several at once (docs/protocol.md, trial.sample): then it is as long as that one.
    """
    load = {
        s.name: [x for x in s.samples if x.t_s <= load_end_s(trial, x)]
        for s in trial.endpoints
        if s.role != OBSERVE and s.is_sampled
    }
    ends = sorted(set.intersection(*({x.seq for x in samples} for samples in load.values()))) if load else []
    spans: list[dict[str, list[Sample]]] = [{endpoint: [] for endpoint in load} for _ in ends]
    for endpoint, samples in load.items():
        for x in samples:
            if (place := bisect_left(ends, x.seq)) < len(ends):
                spans[place][endpoint].append(x)
    # A load begins after the sample that closes the idle phase, however late that one comes.
    began = [all(side[0].t_s - side[0].interval_s >= trial.idle_s - _ROUNDING_S for side in span.values())
             for span in spans]  # fmt: skip
    return {
        endpoint: [span[endpoint] for span, loaded in zip(spans, began, strict=True) if loaded != idle]
        for endpoint in load
    }


def load_end_s(trial: TrialRecord, sample: Sample) -> float:
    """A sample that ends later is of the drain after the load; its last may be half an interval late."""
    return trial.idle_s + trial.duration_s + sample.interval_s / 2
