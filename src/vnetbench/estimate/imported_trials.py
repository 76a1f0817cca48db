"""Trials that another tool ran: its own figures, and what its intervals tell where a warm-up is cut.

A log's figures were rounded, so each has a least and a most that it may have been. The interval of an
estimate reaches from the lower bound of the trials at their least to the upper bound of those at their most.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from vnetbench.estimate.time_series import TimeSeries, find_warmups
from vnetbench.estimate.evidence.imported import imported_evidence
from vnetbench.estimate.median import median_interval
from vnetbench.estimate.metrics import METRICS
from vnetbench.estimate.model import Estimate, Warmup
from vnetbench.estimate.summary import TrialPoint
from vnetbench.quantity import format_duration
from vnetbench.results.records import HIGH, LOW, OMITTED, IMPORTED, Sample, TrialRecord
from vnetbench.study.model import Level, Timing


@dataclass(frozen=True)
class _Figure:
    """A number, and the least and the most that may have been rounded to it."""

    value: float
    low: float
    high: float


_MOST_NAMED = 3
"""So many logs are named."""
_A_STUB = 0.5
"""Tools often end with an interval of some milliseconds: one shorter than so much of the one before is
counted with that one."""


@dataclass(frozen=True)
class _Rate:
    """A metric that intervals tell too: so much of their values a second, or of one value to another."""

    counts: Mapping[str, float]
    """Values that are added up, each times this."""
    over: str = ""
    """What they are a share of; empty: time."""
    way: str = ""
    """Of this way alone."""


_OF_INTERVALS: Mapping[str, _Rate] = {
    "goodput_bps": _Rate({"bytes": 8}),
    "goodput_forward_bps": _Rate({"bytes": 8}, way="forward"),
    "goodput_reverse_bps": _Rate({"bytes": 8}, way="reverse"),
    "transactions_per_s": _Rate({"transactions": 1}),
    "connections_per_s": _Rate({"transactions": 1}),
    "datagrams_received_per_s": _Rate({"datagrams": 1, "lost": -1}),
    "datagrams_sent_per_s": _Rate({"datagrams": 1}),
    "loss_percent": _Rate({"lost": 100}, over="datagrams"),
    "retransmits_per_s": _Rate({"retransmits": 1}),
}


_AtOnce = Sequence[tuple[str, Sample]]
"""The samples of one interval, each with its way."""


def metric_time_series(trial: TrialRecord, metric: str) -> TimeSeries:
    """A metric in time as far as the log tells it, else its one figure; nothing where it has neither."""
    at_once = _intervals(trial)
    rates = [rate for each in at_once if (rate := _rate([each], metric)) is not None]
    if rates and len(rates) == len(at_once):
        omitted = sum(any(OMITTED in sample.counters for _, sample in each) for each in at_once)
        return TimeSeries(tuple(rate.value for rate in rates), tuple(map(_length_s, at_once)), omitted_samples=omitted)
    figure = _figures(trial).get(metric)
    return TimeSeries((), ()) if figure is None else TimeSeries((figure.value,), (trial.duration_s or 1.0,))


def find_imported_warmups(time_series: Sequence[TimeSeries], timing: Timing) -> tuple[Warmup, ...]:
    """What of each trial of a treatment is warm-up: what its tool omitted, else what is found in it."""
    rests = [TimeSeries(each.values[each.omitted_samples :], each.interval_lengths_s[each.omitted_samples :]) for each in time_series]
    return tuple(
        replace(warmup, samples=each.omitted_samples, rule="omitted by the tool")
        if each.omitted_samples
        else replace(warmup, samples=max(0, warmup.samples))
        for each, warmup in zip(time_series, find_warmups(rests, timing), strict=True)
    )


def trial_point(
    trial: TrialRecord, warmup: Warmup, of_trial: TimeSeries, main: str, levels: Mapping[str, Level]
) -> TrialPoint:
    """A trial's values: the tool's own figures, and where a warm-up is cut those that its intervals tell."""
    told, after = _figures(trial), _intervals(trial)[warmup.samples :]
    is_cut = warmup.samples > of_trial.omitted_samples
    names = {name for name in _OF_INTERVALS if is_cut and name in told} | ({main} - told.keys())
    found = {name: rate for name in names if (rate := _rate(after, name)) is not None}
    figures = {name: figure for name, figure in (told | found).items() if name in METRICS}
    cut_s = sum(of_trial.interval_lengths_s[: warmup.samples])
    values = {name: figure.value for name, figure in figures.items()}
    return TrialPoint(
        trial=trial.id,
        block=trial.block,
        started_s=trial.started_s,
        duration_s=sum(of_trial.interval_lengths_s) or trial.duration_s,
        warmup_s=cut_s,
        has_steady_state=warmup.has_steady_state,
        values=values,
        rounding_ranges={name: (x.low, x.high) for name, x in figures.items() if x.low < x.high},
        time_series=of_trial.values,
        notes=(*trial.notes, *(_cut_in_words(cut_s, found, told) if is_cut else ())),
        imported=_mapping(trial.effective[IMPORTED]),
        evidence=imported_evidence(trial, warmup.samples, values, of_trial.values[warmup.samples :], levels),
    )


def widen_intervals(estimates: Mapping[str, Estimate], points: Sequence[TrialPoint]) -> dict[str, Estimate]:
    """The estimates with what rounding may have hidden in their intervals."""
    found = dict(estimates)
    for name, each in estimates.items():
        trials = [point for point in points if name in point.values]
        if each.low is None or each.high is None or not any(name in point.rounding_ranges for point in trials):
            continue
        ranges = [point.rounding_ranges.get(name, (point.values[name],) * 2) for point in trials]
        least, most = (median_interval(ends, each.confidence) for ends in zip(*ranges, strict=True))
        if least is not None and most is not None:
            found[name] = replace(each, low=min(each.low, least[0]), high=max(each.high, most[1]))
    return found


def describe_sources(points: Sequence[TrialPoint]) -> Iterator[str]:
    """What tools and logs imported trials are from, and whose figures they are; nothing without any."""
    told = [point.imported for point in points if point.imported]
    if told:
        yield f"imported, not measured here: {'; '.join(list_sources(points))}"
    ends = [end for end, _ in _groups(told, lambda x: str(x["told_by"])) if end]
    if len(ends) > 1:
        yield (
            "some trials are as their senders tell them, others as their receivers do: goodput of the first "
            "is what was sent, of the others what arrived"
        )


def list_sources(points: Sequence[TrialPoint]) -> list[str]:
    """Of each tool and version: how many trials, and from which logs."""
    found = []
    told = [point.imported for point in points if point.imported]
    for tool, of_tool in _groups(told, lambda x: f"{x['tool']} {x['version'] or '(version not told)'}"):
        logs = list(dict.fromkeys(str(each["log"]) for each in of_tool))
        more = f" and {len(logs) - _MOST_NAMED} more" if len(logs) > _MOST_NAMED else ""
        trials = f"{len(of_tool)} trial{'' if len(of_tool) == 1 else 's'}"
        found.append(f"{trials} of {tool} from {', '.join(logs[:_MOST_NAMED])}{more}")
    return found


def _groups(
    told: Sequence[Mapping[str, Any]], key: Callable[[Mapping[str, Any]], str]
) -> list[tuple[str, list[Mapping[str, Any]]]]:
    found: dict[str, list[Mapping[str, Any]]] = {}
    for each in told:
        found.setdefault(key(each), []).append(each)
    return list(found.items())


def _cut_in_words(cut_s: float, found: Mapping[str, _Figure], told: Mapping[str, _Figure]) -> Iterator[str]:
    cut = format_duration(cut_s)
    names = ", ".join(METRICS[name].label for name in METRICS if name in found)
    whole = ", ".join(METRICS[name].label for name in METRICS if name in told and name not in found)
    rest = f"; of the whole run, warm-up included, as the tool tells it: {whole}" if whole else ""
    after = f"from its intervals after that: {names}{rest}"
    yield f"a warm-up of {cut} was cut, as the tool omitted none; {after}"


def _figures(trial: TrialRecord) -> dict[str, _Figure]:
    told = _mapping(_mapping(trial.effective[IMPORTED]).get("figures"))
    return {name: _Figure(**figure) for name, figure in told.items()}


def _intervals(trial: TrialRecord) -> list[_AtOnce]:
    """The samples of each interval of all ways, as far as each way has them; a stub with the one before."""
    found: list[list[tuple[str, Sample]]] = []
    for at_once in zip(*([(side.name, x) for x in side.samples] for side in trial.endpoints), strict=False):
        if found and _length_s(at_once) < _A_STUB * _length_s(found[-1]):
            found[-1] += at_once
        else:
            found.append(list(at_once))
    return list(found)


def _length_s(at_once: _AtOnce) -> float:
    ways = {way for way, _ in at_once}
    return max(sum(sample.interval_s for way, sample in at_once if way == each) for each in ways)


def _rate(spans: Sequence[_AtOnce], metric: str) -> _Figure | None:
    """A metric over several intervals; None where they do not tell it."""
    rate = _OF_INTERVALS.get(metric)
    if rate is None or not spans:
        return None
    samples = [sample for at_once in spans for way, sample in at_once if rate.way in ("", way)]
    counts = [_counted(samples, name, times) for name, times in rate.counts.items()]
    over = _counted(samples, rate.over, 1) if rate.over else _Figure(*(sum(map(_length_s, spans)),) * 3)
    if not samples or over is None or not over.low > 0:
        return None
    known = [count for count in counts if count is not None]
    if len(known) < len(counts):
        return None
    value, low, high = (sum(ends) for ends in zip(*((x.value, x.low, x.high) for x in known), strict=True))
    return _Figure(value / over.value, low / over.high, high / over.low)


def _counted(samples: Sequence[Sample], name: str, times: float) -> _Figure | None:
    if any(name not in sample.counters for sample in samples):
        return None
    value, low, high = (
        times * sum(x.counters.get(name + end, x.counters[name]) for x in samples) for end in ("", LOW, HIGH)
    )
    return _Figure(value, min(low, high), max(low, high))


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}
