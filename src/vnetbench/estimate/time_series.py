"""Time series of a trial: its samples by interval, a metric over time, and the warm-up."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from vnetbench.estimate.datagrams import IntervalSamplesByEndpoint, count_distinct_arrived_datagrams
from vnetbench.estimate.frames import FRAMES_RECEIVED, count_frames, metrics_measured_by_steps
from vnetbench.estimate.latency import (
    count_histogram_values,
    histogram_quantile_us_if_resolved,
    merge_histograms,
)
from vnetbench.estimate.model import Warmup
from vnetbench.estimate.outage_metrics import outage_metrics
from vnetbench.estimate.warmup import find_shared_warmups, find_warmup, fixed_warmup
from vnetbench.results.records import HISTOGRAM_KINDS, OBSERVE, EndpointRecord, Histogram, Sample, TrialRecord
from vnetbench.study.model import Timing
from vnetbench.study.workloads import EVENT_METRIC_NAMES, SEARCH_METRIC_NAMES

SteadySamples = Sequence[tuple[EndpointRecord, Sequence[Sample]]]
"""Endpoints, each with its samples after the warm-up."""
_EndpointSamplesOfInterval = Sequence[Sequence[Sample]]
"""The samples of one interval: one sequence for each endpoint."""
_INTERVAL_ROUNDING_S = 1e-6
"""Tolerance for the rounding of sample times and lengths."""


@dataclass(frozen=True, slots=True)
class TimeSeries:
    """A metric in each sampling interval of one trial, warm-up included."""

    values: tuple[float, ...]
    interval_lengths_s: tuple[float, ...]
    """Length of each interval in seconds."""
    histograms: tuple[Histogram, ...] = ()
    """For a quantile: the histogram of each interval. Empty for a rate."""
    quantile: float = 0.0
    """For a quantile: its level, 0 to 1."""
    subtracted_idle_quantile_us: float = 0.0
    """For a latency increase: the quantile before the load, subtracted from every value."""
    idle_values: tuple[float, ...] = ()
    """Values of the idle phase before the load, if there is one. `values` does not contain them."""
    tool_omitted_sample_count: int = 0
    """For an imported trial: number of samples at the start that the tool itself omitted."""

    def steady_value(self, warmup_samples: int) -> float:
        """Return the metric after the warm-up, equal to the value in `trial_metrics.trial_metrics`.

        A quantile of too few values is absent there. Here the largest value replaces it.
        """
        if self.histograms:
            histogram = merge_histograms(self.histograms[warmup_samples:])
            return _quantile_or_largest_us(histogram, self.quantile) - self.subtracted_idle_quantile_us
        steady = list(zip(self.values, self.interval_lengths_s, strict=True))[warmup_samples:]
        return sum(rate * length_s for rate, length_s in steady) / sum(length_s for _, length_s in steady)


def metric_time_series(trial: TrialRecord, metric: str = "goodput_bps") -> TimeSeries:
    """Return the time series of a deciding metric (`study.workloads`).

    Raises:
        ValueError: The trial has no samples.
    """
    if metric in SEARCH_METRIC_NAMES:
        return TimeSeries((dict(metrics_measured_by_steps(trial))[metric],), (trial.duration_s,))
    if metric in EVENT_METRIC_NAMES:
        event_metrics = dict(outage_metrics(trial))
        if metric not in event_metrics:
            raise ValueError("the trial has no event whose arrivals were recorded")
        return TimeSeries((event_metrics[metric],), (trial.duration_s,))
    load = load_samples_by_endpoint_and_interval(trial)
    load_intervals, idle_intervals = (
        _group_by_interval(load),
        _group_by_interval(idle_samples_by_endpoint_and_interval(trial)),
    )
    lengths_s = interval_lengths_s(load)
    if metric == "goodput_bps":
        rates, idle_rates = (
            tuple(_goodput_bps(trial, interval) for interval in phase)
            for phase in (load_intervals, idle_intervals)
        )
        return TimeSeries(rates, lengths_s, idle_values=idle_rates)
    if metric == "datagrams_received_per_s":
        return _rate_time_series(
            [
                sum(map(count_distinct_arrived_datagrams, _samples_of_all_endpoints(each)))
                for each in load_intervals
            ],
            lengths_s,
        )
    if metric == "forwarding_rate_fps":
        return _rate_time_series(
            [
                sum(count_frames(x, FRAMES_RECEIVED) for x in _samples_of_all_endpoints(each))
                for each in load_intervals
            ],
            lengths_s,
        )
    kind = next((kind for kind in HISTOGRAM_KINDS if metric.startswith(kind)), "latency")
    histograms, idle_histograms = (
        tuple(merge_sample_histograms(_samples_of_all_endpoints(interval), kind) for interval in phase)
        for phase in (load_intervals, idle_intervals)
    )
    if metric.endswith("_per_s"):
        return _rate_time_series([count_histogram_values(histogram) for histogram in histograms], lengths_s)
    quantile = {"p50": 0.5, "p99": 0.99}[metric.split("_")[-2]]
    idle_us = 0.0
    if "increase" in metric:
        idle_us = _quantile_or_largest_us(
            merge_sample_histograms(trimmed_idle_samples(trial), kind), quantile
        )
    values = [value - idle_us for value in _interval_quantiles_us(histograms, quantile)]
    idle_values = [value - idle_us for value in _interval_quantiles_us(idle_histograms, quantile)]
    return TimeSeries(tuple(values), lengths_s, histograms, quantile, idle_us, tuple(idle_values))


def _rate_time_series(counts: Sequence[int], lengths_s: tuple[float, ...]) -> TimeSeries:
    rates = tuple(count / length_s for count, length_s in zip(counts, lengths_s, strict=True))
    return TimeSeries(rates, lengths_s)


def interval_lengths_s(load_intervals: IntervalSamplesByEndpoint) -> tuple[float, ...]:
    """Return the length of each interval in seconds."""
    return tuple(map(_longest_endpoint_interval_s, _group_by_interval(load_intervals)))


def _longest_endpoint_interval_s(interval: _EndpointSamplesOfInterval) -> float:
    return max(sum(x.interval_s for x in samples) for samples in interval)


def _goodput_bps(trial: TrialRecord, interval: _EndpointSamplesOfInterval) -> float:
    return (
        8
        * received_or_acknowledged_bytes(trial, _samples_of_all_endpoints(interval))
        / _longest_endpoint_interval_s(interval)
    )


def _interval_quantiles_us(histograms: Sequence[Histogram], quantile: float) -> list[float]:
    """Return the quantile of each interval. An interval without values repeats the previous value."""
    values: list[float] = []
    for histogram in histograms:
        previous = values[-1] if values else 0.0
        values.append(_quantile_or_largest_us(histogram, quantile) if histogram else previous)
    return values


def _quantile_or_largest_us(histogram: Histogram, quantile: float) -> float:
    """Return the quantile; the largest value if there are too few, 0 if there are none."""
    largest_us = histogram[-1][0] / 1e3 if histogram else 0.0
    return histogram_quantile_us_if_resolved(histogram, quantile) or largest_us


def received_load_bytes(sample: Sample) -> int:
    """Return the received bytes of the load. With `mixed` only the transfers are load, not the requests."""
    if any(stream.load_part for stream in sample.streams):
        return sum(s.bytes for s in sample.streams if s.load_part == "transfers" and s.role == "sink")
    return sample.bytes_received


def acknowledged_bytes_of_unsampled_endpoint(trial: TrialRecord, samples: Iterable[Sample]) -> int:
    """Return the acknowledged bytes if an endpoint has no samples of its own; otherwise 0."""
    if all(endpoint.is_sampled for endpoint in trial.endpoints):
        return 0
    return sum(stream.bytes_acked for sample in samples for stream in sample.streams)


def received_or_acknowledged_bytes(trial: TrialRecord, samples: Sequence[Sample]) -> int:
    """Return the load's received bytes, plus those that an endpoint without samples acknowledged."""
    return sum(map(received_load_bytes, samples)) + acknowledged_bytes_of_unsampled_endpoint(trial, samples)


def steady_latency_histogram(trial: TrialRecord, warmup_samples: int) -> Histogram:
    """Return the latencies, or else the one-way delays, of all endpoints after the warm-up."""
    by_endpoint = load_samples_by_endpoint_and_interval(trial).values()
    steady = [x for intervals in by_endpoint for interval in intervals[warmup_samples:] for x in interval]
    return merge_sample_histograms(steady, "latency") or merge_sample_histograms(steady, "delay")


def trimmed_idle_samples(trial: TrialRecord) -> list[Sample]:
    """Return the samples of the idle phase, without its first tenth and its last interval.

    The endpoints do not start at the same moment. So transfers of one endpoint may begin in the last idle
    interval of another.
    """
    by_endpoint = idle_samples_by_endpoint_and_interval(trial).values()
    return [
        x
        for intervals in by_endpoint
        for interval in intervals[max(1, len(intervals) // 10) : -1]
        for x in interval
    ]


def merge_sample_histograms(samples: Iterable[Sample], kind: str) -> Histogram:
    """Merge all histograms of one kind (`HISTOGRAM_KINDS`); empty if no sample has one."""
    return merge_histograms(x.histograms[kind] for x in samples if kind in x.histograms)


def find_warmups(
    time_series: Sequence[TimeSeries], timing: Timing, own_warmups: Sequence[Warmup] | None = None
) -> tuple[Warmup, ...]:
    """Return the warm-up of each trial of one treatment; at least one sample of each trial remains.

    Args:
        time_series: The time series of each trial.
        timing: The study's timing.
        own_warmups: The result of `find_warmup` for each trial, if it is known.
    """
    trials = [each.values for each in time_series]
    if timing.warmup_s is not None:
        return tuple(fixed_warmup(values, timing.interval_s, timing.warmup_s) for values in trials)
    warmups = find_shared_warmups(trials, own_warmups or [find_warmup(values) for values in trials])
    return tuple(
        replace(warmup, samples=min(warmup.samples, len(values) - 1))
        for warmup, values in zip(warmups, trials, strict=True)
    )


def load_samples_by_endpoint_and_interval(trial: TrialRecord) -> dict[str, list[list[Sample]]]:
    """Return each endpoint's samples under load, grouped into intervals that all endpoints share.

    Raises:
        ValueError: The trial has no samples.
    """
    by_endpoint = _group_samples_by_interval(trial, idle=False)
    if not any(by_endpoint.values()):
        raise ValueError(f"trial {trial.id} has no samples")
    return by_endpoint


def idle_samples_by_endpoint_and_interval(trial: TrialRecord) -> dict[str, list[list[Sample]]]:
    """Return each endpoint's samples of the idle phase, grouped likewise; empty without an idle phase."""
    return _group_samples_by_interval(trial, idle=True) if trial.idle_s > 0 else {}


def _group_by_interval(by_endpoint: IntervalSamplesByEndpoint) -> list[tuple[Sequence[Sample], ...]]:
    return list(zip(*by_endpoint.values(), strict=True))


def _samples_of_all_endpoints(interval: _EndpointSamplesOfInterval) -> list[Sample]:
    return [x for samples in interval for x in samples]


def _group_samples_by_interval(trial: TrialRecord, *, idle: bool) -> dict[str, list[list[Sample]]]:
    """Return each endpoint's samples of the idle phase or of the load, without the drain, by interval.

    An interval is usually one sample of each endpoint. If an agent's sample is so late that it closes several
    intervals at once (docs/protocol.md, trial.sample), the interval is as long as that sample.
    """
    load = {
        endpoint.name: [x for x in endpoint.samples if ends_before_drain(trial, x)]
        for endpoint in trial.endpoints
        if endpoint.role != OBSERVE and endpoint.is_sampled
    }
    ends = sorted(set.intersection(*({x.seq for x in samples} for samples in load.values()))) if load else []
    intervals: list[dict[str, list[Sample]]] = [{name: [] for name in load} for _ in ends]
    for name, samples in load.items():
        for x in samples:
            if (index := bisect_left(ends, x.seq)) < len(ends):
                intervals[index][name].append(x)
    # The load begins after the sample that closes the idle phase, even if that sample is late.
    is_load = [
        all(
            samples[0].end_s - samples[0].interval_s >= trial.idle_s - _INTERVAL_ROUNDING_S
            for samples in each.values()
        )
        for each in intervals
    ]
    return {
        name: [each[name] for each, loaded in zip(intervals, is_load, strict=True) if loaded != idle]
        for name in load
    }


def ends_before_drain(trial: TrialRecord, sample: Sample) -> bool:
    """Return whether a sample ends before the drain.

    The last load sample may be late by half an interval.
    """
    return sample.end_s <= trial.idle_s + trial.duration_s + sample.interval_s / 2
