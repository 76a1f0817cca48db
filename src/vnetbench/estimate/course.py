"""How a trial went in time: its intervals, a metric's course over them, and what of it is warm-up."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from vnetbench.estimate.datagrams import arrived_in
from vnetbench.estimate.latency import count_of, merged, percentile_us
from vnetbench.estimate.model import Warmup
from vnetbench.estimate.warmup import find_warmup, fixed_warmup, shared_warmup
from vnetbench.results.records import HISTOGRAMS, Histogram, Sample, TrialRecord
from vnetbench.study.model import Timing


@dataclass(frozen=True)
class Course:
    """How a metric went in one trial, sample by sample, warm-up included."""

    values: tuple[float, ...]
    lengths_s: tuple[float, ...]
    """Seconds that each sample covers."""
    histograms: tuple[Histogram, ...] = ()
    """Of a percentile: what each sample counted; empty for a rate."""
    share: float = 0.0
    """Of a percentile: the share that does not exceed it."""

    def value(self, cut: int) -> float:
        """The metric after the first `cut` samples: the same figure as in `trial_metrics.metric_values`."""
        if self.histograms:
            return percentile_us(merged(self.histograms[cut:]), self.share) or 0.0
        after = list(zip(self.values, self.lengths_s, strict=True))[cut:]
        return sum(rate * length for rate, length in after) / sum(length for _, length in after)


def course(trial: TrialRecord, metric: str = "goodput_bps") -> Course:
    """A deciding metric (`study.workloads`) in time; raises ValueError for a trial without samples."""
    sides = list(intervals(trial).values())
    together = list(zip(*sides, strict=True))
    lengths = tuple(max(sum(x.interval_s for x in side) for side in at_once) for at_once in together)
    if metric == "goodput_bps":
        received = (sum(x.bytes_received for side in at_once for x in side) for at_once in together)
        return Course(tuple(8 * b / s for b, s in zip(received, lengths, strict=True)), lengths)
    if metric == "datagrams_received_per_s":
        arrived = (sum(arrived_in(x) for side in at_once for x in side) for at_once in together)
        return Course(tuple(n / s for n, s in zip(arrived, lengths, strict=True)), lengths)
    kind = next((kind for kind in HISTOGRAMS if metric.startswith(kind)), "latency")
    histograms = tuple(merged_of((x for side in at_once for x in side), kind) for at_once in together)
    if metric.endswith("_per_s"):
        counts = (count_of(histogram) for histogram in histograms)
        return Course(tuple(n / s for n, s in zip(counts, lengths, strict=True)), lengths)
    share = {"p50": 0.5, "p99": 0.99}[metric.split("_")[1]]
    # Too few values for the percentile: the longest of them stands for it, and none for the one before.
    values: list[float] = []
    for histogram in histograms:
        longest = histogram[-1][0] / 1e3 if histogram else (values[-1] if values else 0.0)
        values.append(percentile_us(histogram, share) or longest)
    return Course(tuple(values), lengths, histograms, share)


def steady_latencies(trial: TrialRecord, cut: int) -> Histogram:
    """The latencies, or one-way delays, of all sides after the first `cut` samples; empty without any."""
    steady = [x for side in intervals(trial).values() for part in side[cut:] for x in part]
    return merged_of(steady, "latency") or merged_of(steady, "delay")


def merged_of(samples: Iterable[Sample], kind: str) -> Histogram:
    """One kind of histogram of all these samples together; empty where none has it."""
    return merged(x.histograms[kind] for x in samples if kind in x.histograms)


def warmups(courses: Sequence[Course], timing: Timing) -> tuple[Warmup, ...]:
    """What of each trial of one treatment is warm-up; at least one sample of each is left."""
    if timing.warmup_s is not None:
        own = [fixed_warmup(c.values, timing.interval_s, timing.warmup_s) for c in courses]
        return tuple(own)
    found = shared_warmup([c.values for c in courses], [find_warmup(c.values) for c in courses])
    return tuple(replace(w, cut=min(w.cut, len(c.values) - 1)) for w, c in zip(found, courses, strict=True))


def intervals(trial: TrialRecord) -> dict[str, list[list[Sample]]]:
    """Endpoint to its samples, in intervals that are the same for all, without the drain after the load.

    An interval is one sample of each endpoint, but where an agent's sample came so late that it closes
    several at once (docs/protocol.md, trial.sample): then it is as long as that one.
    """
    load = {
        s.endpoint: [x for x in s.samples if x.t_s <= load_end_s(trial, x)]
        for s in trial.sides
        if s.role != "observe"
    }
    ends = sorted(set.intersection(*({x.seq for x in samples} for samples in load.values()))) if load else []
    if not ends:
        raise ValueError(f"trial {trial.id} has no samples")
    return {
        endpoint: [
            [x for x in samples if after < x.seq <= end]
            for after, end in zip([-1, *ends], ends, strict=False)
        ]
        for endpoint, samples in load.items()
    }


def load_end_s(trial: TrialRecord, sample: Sample) -> float:
    """A sample that ends later is of the drain after the load; its last may be half an interval late."""
    return trial.duration_s + sample.interval_s / 2
