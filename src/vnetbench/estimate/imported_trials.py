"""Trials that another tool ran: metrics from its log, and from its intervals after a warm-up.

The values in a log are rounded, so each has a range of possible exact values. The interval of an estimate
runs from the lower bound for the smallest possible values to the upper bound for the largest possible values.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from vnetbench.dataclass_json import share_texts
from vnetbench.estimate.evidence.imported import imported_evidence
from vnetbench.estimate.median import median_interval
from vnetbench.estimate.metrics import METRICS
from vnetbench.estimate.model import Estimate, Warmup
from vnetbench.estimate.summary import TrialPoint
from vnetbench.estimate.time_series import TimeSeries, find_warmups
from vnetbench.estimate.warmup import find_warmup
from vnetbench.quantity import format_duration
from vnetbench.results.records import (
    HIGH_SUFFIX,
    IMPORTED_LOG_KEY,
    LOW_SUFFIX,
    OMITTED_SAMPLE_COUNTER,
    Sample,
    TrialRecord,
    mapping_or_empty,
)
from vnetbench.study.model import Level, Timing

_MAX_LISTED_LOGS = 3
_MERGED_IF_SHORTER_THAN_SHARE_OF_PREVIOUS = 0.5
"""Tools often end with an interval of some milliseconds. An interval shorter than this share of the previous
one is merged into it."""


@dataclass(frozen=True)
class _RoundedValue:
    """A rounded number, with the smallest and the largest possible exact value."""

    value: float
    low: float
    high: float


@dataclass(frozen=True)
class _IntervalMetric:
    """The definition of a metric by the counters of a log's intervals."""

    weight_by_counter: Mapping[str, float]
    """Counters in the numerator, with their weights."""
    divisor_counter: str = ""
    """The counter in the denominator; empty for time."""
    only_counted_direction: str = ""
    """The only direction that counts; empty for all."""


_INTERVAL_METRICS: Mapping[str, _IntervalMetric] = {
    "goodput_bps": _IntervalMetric({"bytes": 8}),
    "goodput_forward_bps": _IntervalMetric({"bytes": 8}, only_counted_direction="forward"),
    "goodput_reverse_bps": _IntervalMetric({"bytes": 8}, only_counted_direction="reverse"),
    "transactions_per_s": _IntervalMetric({"transactions": 1}),
    "connections_per_s": _IntervalMetric({"transactions": 1}),
    "datagrams_received_per_s": _IntervalMetric({"datagrams": 1, "lost": -1}),
    "datagrams_sent_per_s": _IntervalMetric({"datagrams": 1}),
    "loss_percent": _IntervalMetric({"lost": 100}, divisor_counter="datagrams"),
    "retransmits_per_s": _IntervalMetric({"retransmits": 1}),
}

_DirectedSamplesOfInterval = Sequence[tuple[str, Sample]]
"""The samples of one interval, each with its direction."""


def metric_time_series(trial: TrialRecord, metric: str) -> TimeSeries:
    """Return the time series of a metric from the log's intervals, or else its single value; may be empty."""
    intervals = _intervals_of_all_directions(trial)
    values = [value for each in intervals if (value := _metric_of_intervals([each], metric)) is not None]
    if values and len(values) == len(intervals):
        omitted = sum(
            any(OMITTED_SAMPLE_COUNTER in sample.counters for _, sample in each) for each in intervals
        )
        lengths_s = tuple(map(_longest_direction_interval_s, intervals))
        return TimeSeries(tuple(each.value for each in values), lengths_s, tool_omitted_sample_count=omitted)
    single = _reported_values(trial).get(metric)
    return TimeSeries((), ()) if single is None else TimeSeries((single.value,), (trial.duration_s,))


def find_own_warmup(time_series: TimeSeries) -> Warmup:
    """Return the warm-up of one trial after the part that its tool omitted."""
    return find_warmup(time_series.values[time_series.tool_omitted_sample_count :])


def find_imported_warmups(
    time_series: Sequence[TimeSeries], timing: Timing, own_warmups: Sequence[Warmup] | None = None
) -> tuple[Warmup, ...]:
    """Return each trial's warm-up: the part that its tool omitted, or else the detected one.

    Args:
        time_series: The time series of each trial of one treatment.
        timing: The study's timing.
        own_warmups: The result of `find_own_warmup` for each trial, if it is known.
    """
    remainders = [
        TimeSeries(
            each.values[each.tool_omitted_sample_count :],
            each.interval_lengths_s[each.tool_omitted_sample_count :],
        )
        for each in time_series
    ]
    return tuple(
        replace(warmup, samples=each.tool_omitted_sample_count, rule="omitted by the tool")
        if each.tool_omitted_sample_count
        else replace(warmup, samples=max(0, warmup.samples))
        for each, warmup in zip(time_series, find_warmups(remainders, timing, own_warmups), strict=True)
    )


@dataclass(slots=True)
class _PointDraft:
    """A trial's point with the warm-up that its own samples show."""

    trial_id: int
    point: TrialPoint
    time_series: TimeSeries
    own_warmup: Warmup | None
    """None if the study sets the warm-up."""
    warmup: Warmup


class PointDrafts:
    """Points of imported trials, which are read once: most trials have the warm-up that they show alone."""

    def __init__(
        self, timing: Timing, deciding_metric: str, levels_by_treatment: Mapping[int, Mapping[str, Level]]
    ) -> None:
        self._timing = timing
        self._metric = deciding_metric
        self._levels = levels_by_treatment
        self._by_treatment: dict[int, list[_PointDraft]] = {}
        self._shared_lengths_s: dict[tuple[float, ...], tuple[float, ...]] = {}
        """Most trials of a file have the same intervals, so they share the tuple of their lengths."""

    def add(self, trial: TrialRecord) -> None:
        """Compute the point of a trial from this trial alone."""
        series = metric_time_series(trial, self._metric)
        lengths_s = self._shared_lengths_s.setdefault(series.interval_lengths_s, series.interval_lengths_s)
        series = replace(series, interval_lengths_s=lengths_s)
        own = find_own_warmup(series) if self._timing.warmup_s is None else None
        (warmup,) = find_imported_warmups([series], self._timing, None if own is None else [own])
        draft = _PointDraft(trial.id, self._point(trial, warmup, series), series, own, warmup)
        self._by_treatment.setdefault(trial.treatment, []).append(draft)

    def finish(
        self, read_trials: Callable[[Collection[int]], Iterator[TrialRecord]]
    ) -> dict[int, list[TrialPoint]]:
        """Return the points by treatment, in the order of the trials.

        Args:
            read_trials: Reads the trials with these ids again. Their warm-up changes with all trials of the
                treatment.
        """
        changed: dict[int, _PointDraft] = {}
        for drafts in self._by_treatment.values():
            series, own = [each.time_series for each in drafts], [each.own_warmup for each in drafts]
            known = [each for each in own if each is not None]
            warmups = find_imported_warmups(series, self._timing, known or None)
            for draft, warmup in zip(drafts, warmups, strict=True):
                if warmup != draft.warmup:
                    draft.warmup, changed[draft.trial_id] = warmup, draft
        for trial in read_trials(changed) if changed else ():
            draft = changed[trial.id]
            draft.point = self._point(trial, draft.warmup, draft.time_series)
        return {
            treatment: [each.point for each in drafts] for treatment, drafts in self._by_treatment.items()
        }

    def _point(self, trial: TrialRecord, warmup: Warmup, time_series: TimeSeries) -> TrialPoint:
        return trial_point(trial, warmup, time_series, self._metric, self._levels[trial.treatment])


def trial_point(
    trial: TrialRecord,
    warmup: Warmup,
    time_series: TimeSeries,
    deciding_metric: str,
    levels: Mapping[str, Level],
) -> TrialPoint:
    """Return a trial's values: those that the tool reports, or after a warm-up those of its intervals."""
    reported, steady = _reported_values(trial), _intervals_of_all_directions(trial)[warmup.samples :]
    has_own_warmup = warmup.samples > time_series.tool_omitted_sample_count
    recomputed_names = {name for name in _INTERVAL_METRICS if has_own_warmup and name in reported}
    recomputed_names |= {deciding_metric} - reported.keys()
    recomputed = {
        name: value for name in recomputed_names if (value := _metric_of_intervals(steady, name)) is not None
    }
    results = {name: value for name, value in (reported | recomputed).items() if name in METRICS}
    warmup_s = sum(time_series.interval_lengths_s[: warmup.samples])
    values = {name: each.value for name, each in results.items()}
    notes = (_warmup_omitted_by_vnetbench_note(warmup_s, recomputed, reported),) if has_own_warmup else ()
    return TrialPoint(
        trial_id=trial.id,
        block=trial.block,
        since_campaign_start_s=trial.since_campaign_start_s,
        duration_s=_load_duration_s(trial, time_series),
        warmup_s=warmup_s,
        has_steady_state=warmup.has_steady_state,
        values=values,
        rounding_ranges={name: (x.low, x.high) for name, x in results.items() if x.low < x.high},
        time_series=time_series.values,
        notes=(*trial.notes, *notes),
        imported_log=share_texts(mapping_or_empty(trial.effective[IMPORTED_LOG_KEY])),
        evidence=imported_evidence(
            trial, warmup.samples, values, time_series.values[warmup.samples :], levels
        ),
    )


def _load_duration_s(trial: TrialRecord, time_series: TimeSeries) -> float:
    """Return how long the load lasted, with the part that its tool omitted; 0 if the log does not say.

    Intervals may cover a part of the load only, so the tool's own duration comes first.
    """
    omitted_s = sum(time_series.interval_lengths_s[: time_series.tool_omitted_sample_count])
    return omitted_s + trial.duration_s if trial.duration_s else sum(time_series.interval_lengths_s)


def widen_intervals_by_rounding(
    estimates: Mapping[str, Estimate], points: Sequence[TrialPoint]
) -> dict[str, Estimate]:
    """Return the estimates with intervals widened by the rounding of their trials."""
    widened = dict(estimates)
    for name, each in estimates.items():
        trials = [point for point in points if name in point.values]
        is_rounded = any(name in point.rounding_ranges for point in trials)
        if each.low is None or each.high is None or not is_rounded:
            continue
        ranges = [point.rounding_ranges.get(name, (point.values[name],) * 2) for point in trials]
        lowest, highest = (median_interval(bounds, each.confidence) for bounds in zip(*ranges, strict=True))
        if lowest is not None and highest is not None:
            widened[name] = replace(each, low=min(each.low, lowest[0]), high=max(each.high, highest[1]))
    return widened


def describe_sources(points: Sequence[TrialPoint]) -> Iterator[str]:
    """Yield sentences about the tools, logs and endpoints behind imported trials; none without any."""
    logs = [point.imported_log for point in points if point.imported_log]
    if logs:
        origins = "; ".join(describe_logs_by_tool(points))
        yield f"the trials were imported, not measured by vnetbench: {origins}"
    reporters = {str(log["reported_by"]) for log in logs if log["reported_by"]}
    if len(reporters) > 1:
        yield (
            "the logs of some trials are from the sender, of others from the receiver. Goodput is the data "
            "that was "
            "sent in the former, and the data that arrived in the latter"
        )


def describe_logs_by_tool(points: Sequence[TrialPoint]) -> list[str]:
    """Return for each tool and version the number of trials and their logs."""
    by_tool: dict[str, list[Mapping[str, Any]]] = {}
    for log in (point.imported_log for point in points if point.imported_log):
        tool = f"{log['tool']} {log['version'] or '(unknown version)'}"
        by_tool.setdefault(tool, []).append(log)
    sources = []
    for tool, logs in by_tool.items():
        names = list(dict.fromkeys(str(log["log"]) for log in logs))
        hidden = len(names) - _MAX_LISTED_LOGS
        more = f" and {hidden} more" if hidden > 0 else ""
        trials = f"{len(logs)} trial{'' if len(logs) == 1 else 's'}"
        sources.append(f"{trials} of {tool} from {', '.join(names[:_MAX_LISTED_LOGS])}{more}")
    return sources


def _warmup_omitted_by_vnetbench_note(
    warmup_s: float, recomputed: Mapping[str, _RoundedValue], reported: Mapping[str, _RoundedValue]
) -> str:
    steady = ", ".join(METRICS[name].label for name in METRICS if name in recomputed)
    whole = ", ".join(METRICS[name].label for name in METRICS if name in reported and name not in recomputed)
    note = (
        f"the tool left out no warm-up. vnetbench left out the first {format_duration(warmup_s)} "
        f"for these metrics: {steady}"
    )
    return f"{note}. These metrics cover the whole run, as the tool reported them: {whole}" if whole else note


def _reported_values(trial: TrialRecord) -> dict[str, _RoundedValue]:
    values = mapping_or_empty(mapping_or_empty(trial.effective[IMPORTED_LOG_KEY]).get("metrics"))
    return {name: _RoundedValue(**value) for name, value in values.items()}


def _intervals_of_all_directions(trial: TrialRecord) -> list[_DirectedSamplesOfInterval]:
    """Return the intervals that all directions have. A short one is merged into the previous one."""
    intervals: list[list[tuple[str, Sample]]] = []
    by_direction = ([(endpoint.name, x) for x in endpoint.samples] for endpoint in trial.endpoints)
    for interval in zip(*by_direction, strict=False):
        is_short = intervals and (
            _longest_direction_interval_s(interval)
            < _MERGED_IF_SHORTER_THAN_SHARE_OF_PREVIOUS * _longest_direction_interval_s(intervals[-1])
        )
        if is_short:
            intervals[-1] += interval
        else:
            intervals.append(list(interval))
    return list(intervals)


def _longest_direction_interval_s(interval: _DirectedSamplesOfInterval) -> float:
    if len(interval) == 1:  # most logs
        return interval[0][1].interval_s
    directions = {direction for direction, _ in interval}
    return max(sum(x.interval_s for direction, x in interval if direction == each) for each in directions)


def _metric_of_intervals(
    intervals: Sequence[_DirectedSamplesOfInterval], metric: str
) -> _RoundedValue | None:
    """Return a metric over several intervals; None if they lack a counter."""
    definition = _INTERVAL_METRICS.get(metric)
    if definition is None or not intervals:
        return None
    samples = [
        sample
        for interval in intervals
        for direction, sample in interval
        if definition.only_counted_direction in ("", direction)
    ]
    terms = [
        _sum_weighted_counter(samples, name, weight) for name, weight in definition.weight_by_counter.items()
    ]
    if definition.divisor_counter:
        divisor = _sum_weighted_counter(samples, definition.divisor_counter, 1)
    else:
        divisor = _RoundedValue(*(sum(map(_longest_direction_interval_s, intervals)),) * 3)
    if not samples or divisor is None or not divisor.low > 0:
        return None
    known = [term for term in terms if term is not None]
    if len(known) < len(terms):
        return None
    value, low, high = (sum(ends) for ends in zip(*((x.value, x.low, x.high) for x in known), strict=True))
    return _RoundedValue(value / divisor.value, low / divisor.high, high / divisor.low)


def _sum_weighted_counter(samples: Sequence[Sample], name: str, weight: float) -> _RoundedValue | None:
    counters = [sample.counters for sample in samples if name in sample.counters]
    if len(counters) < len(samples):
        return None
    value, low, high = (
        weight * sum([each.get(bound, each[name]) for each in counters])
        for bound in (name, name + LOW_SUFFIX, name + HIGH_SUFFIX)
    )
    return _RoundedValue(value, min(low, high), max(low, high))
