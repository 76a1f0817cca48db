"""Evidence of trials that other tools ran, as far as their logs report it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from vnetbench.estimate.evidence.aggregation import median, percent, ratio, total_of_counter
from vnetbench.estimate.evidence.window import coefficient_of_variation
from vnetbench.results.records import IMPORTED_LOG_KEY, Sample, TrialRecord
from vnetbench.study.model import Level

_METRICS_USED_AS_EVIDENCE = ("loss_percent", "reordered_percent")
"""Metrics that are evidence under the same name."""


def imported_evidence(
    trial: TrialRecord,
    warmup_samples: int,
    metrics: Mapping[str, float],
    time_series: Sequence[float],
    levels: Mapping[str, Level],
) -> dict[str, float]:
    """Return the evidence of an imported trial from its intervals after the warm-up and its metrics.

    With one stream, the CPU time of a process counts as that of its busiest thread.

    Args:
        trial: The trial.
        warmup_samples: The number of intervals at the start that are warm-up.
        metrics: The trial's metrics.
        time_series: The deciding metric in each interval after the warm-up.
        levels: The levels of the treatment.
    """
    samples = [x for endpoint in trial.endpoints for x in endpoint.samples[warmup_samples:]]
    streams = levels.get("streams", levels.get("connections"))
    stream_count = float(streams) if isinstance(streams, int) else None
    mean_latency_us = metrics.get("latency_mean_us")
    rate_per_connection = ratio(metrics.get("transactions_per_s"), stream_count)
    retransmits = total_of_counter(samples, "retransmits")
    mss_bytes = None if retransmits is None else _mss_bytes(trial)
    is_single_stream = stream_count == 1
    latency_share = None
    if rate_per_connection is not None and mean_latency_us is not None:
        latency_share = rate_per_connection * mean_latency_us / 1e6
    evidence = {
        **{name: metrics.get(name) for name in _METRICS_USED_AS_EVIDENCE},
        "sender_thread_busy_percent": metrics.get("sender_cpu_percent") if is_single_stream else None,
        "receiver_thread_busy_percent": metrics.get("receiver_cpu_percent") if is_single_stream else None,
        "rtt_us": _median_counter(samples, "rtt_us") or metrics.get("rtt_us"),
        "window_bytes": _median_counter(samples, "cwnd_bytes"),
        "mss_bytes": mss_bytes,
        "retransmitted_percent": percent(retransmits, ratio(total_of_counter(samples, "bytes"), mss_bytes)),
        "stream_goodput_bps": ratio(metrics.get("goodput_bps"), stream_count),
        "transactions_per_connection_s": rate_per_connection,
        "latency_share": latency_share,
        "goodput_variation": coefficient_of_variation(time_series),
    }
    return {name: value for name, value in evidence.items() if value is not None}


def _median_counter(samples: Sequence[Sample], name: str) -> float | None:
    return median(x.counters.get(name) for x in samples)


def _mss_bytes(trial: TrialRecord) -> float | None:
    """Return the MSS that iperf3 reports; with UDP that of the control connection."""
    log = trial.effective.get(IMPORTED_LOG_KEY)
    others = log.get("other_results") if isinstance(log, Mapping) else None
    text = str(others.get("tcp_mss_default", "")) if isinstance(others, Mapping) else ""
    return float(text) if text.isdecimal() and int(text) else None
