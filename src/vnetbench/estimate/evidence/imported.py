"""Evidence of trials that other tools ran: the figures that their logs tell, and no more."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from vnetbench.estimate.evidence.aggregation import counter_total, median, percent, ratio
from vnetbench.estimate.evidence.window import variation_percent
from vnetbench.results.records import IMPORTED, Sample, TrialRecord
from vnetbench.study.model import Level

_ALIKE = ("loss_percent", "reordered_percent")
"""Metrics that are evidence as they are."""


def imported_evidence(
    trial: TrialRecord,
    warmup_samples: int,
    metrics: Mapping[str, float],
    time_series: Sequence[float],
    factors: Mapping[str, Level],
) -> dict[str, float]:
    """The figures of an imported trial, from its intervals after the first `cut` and from its `metrics`.

    `course` is its deciding metric in each of these intervals, `factors` are the levels of its treatment. A
    process's CPU time is that of its busiest thread where it has one stream.
    """
    samples = [x for side in trial.endpoints for x in side.samples[warmup_samples:]]
    streams = factors.get("streams", factors.get("connections"))
    count = float(streams) if isinstance(streams, int) else None
    rate, mean_us = metrics.get("transactions_per_s"), metrics.get("latency_mean_us")
    a_connection = ratio(rate, count)
    again = counter_total(samples, "retransmits")
    mss_bytes = None if again is None else _mss_bytes(trial)
    found = {
        **{name: metrics.get(name) for name in _ALIKE},
        "sender_thread_busy_percent": metrics.get("sender_cpu_percent") if count == 1 else None,
        "receiver_thread_busy_percent": metrics.get("receiver_cpu_percent") if count == 1 else None,
        "rtt_us": _level(samples, "rtt_us") or metrics.get("rtt_us"),
        "window_bytes": _level(samples, "cwnd_bytes"),
        "mss_bytes": mss_bytes,
        "retransmitted_percent": percent(again, ratio(counter_total(samples, "bytes"), mss_bytes)),
        "stream_goodput_bps": ratio(metrics.get("goodput_bps"), count),
        "transactions_per_connection_s": a_connection,
        "latency_share": None if a_connection is None or mean_us is None else a_connection * mean_us / 1e6,
        "goodput_variation_percent": variation_percent(time_series),
    }
    return {name: value for name, value in found.items() if value is not None}


def _level(samples: Sequence[Sample], name: str) -> float | None:
    return median(x.counters.get(name) for x in samples)


def _mss_bytes(trial: TrialRecord) -> float | None:
    """As iperf3 tells it: with UDP too, and then of the connection beside the load."""
    told = trial.effective.get(IMPORTED)
    also = told.get("also") if isinstance(told, Mapping) else None
    text = str(also.get("tcp_mss_default", "")) if isinstance(also, Mapping) else ""
    return float(text) if text.isdecimal() and int(text) else None
