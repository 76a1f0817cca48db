"""Evidence of stalls: requests and connections that waited for a retransmission timer.

Stalls are rare, and one of them can fill the rest of a short trial. So these metrics cover the whole load of
a trial with its warm-up and its drain, not only the steady part.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from vnetbench.estimate.evidence.aggregation import (
    EvidenceValues,
    largest,
    percent,
    ratio,
    total_of_counter,
)
from vnetbench.estimate.evidence.metric import EvidenceMetric
from vnetbench.estimate.evidence.trial_data import TrialData
from vnetbench.results.records import EndpointRecord, Histogram, Sample, TrialRecord

_MIN_RETRANSMISSION_TIMEOUT_NS = 190e6
"""5 % below TCP_RTO_MIN = 200 ms: Linux waits so much longer than a round trip (include/net/tcp.h)."""
_SYN_TIMEOUT_NS = 950e6
"""5 % below TCP_TIMEOUT_INIT = 1 s, after which Linux repeats a SYN (RFC 6298, section 2)."""

STALL_EVIDENCE_METRICS = (
    EvidenceMetric(
        "request_stall_percent",
        "% of time",
        "requests' time in stalls of 200 ms or more",
        "time of the requests that took at least 190 ms longer than the median, as a share of the time of "
        "all requests. The shortest retransmission timeout of Linux is 200 ms",
        ("latency",),
    ),
    EvidenceMetric(
        "connect_stall_percent",
        "% of time",
        "connections' setup time in stalls of 1 s or more",
        "setup time of the connections that took at least 0.95 s longer than the median, as a share of the "
        "setup time of all connections. The first timeout of a SYN is 1 s",
        ("connect_time",),
    ),
    EvidenceMetric(
        "connect_share_of_stalls_percent",
        "% of stalls",
        "stalls that open a connection",
        "share of the stalled requests that stalled while their connection was opened",
        ("latency", "connect_time"),
    ),
    EvidenceMetric(
        "retransmits_per_stall",
        "1",
        "retransmissions per stalled request",
        "segments that both endpoints retransmitted, for each request that stalled. A stall without any "
        "retransmission has another reason than loss",
        ("tcp_segments_retransmitted", "latency", "connect_time"),
    ),
    EvidenceMetric(
        "syn_retransmits_percent",
        "% of SYN segments",
        "retransmitted connection requests",
        "share of the connection requests (SYN) that were retransmissions, of the endpoint with the most. "
        "Only for endpoints that open connections under load",
        ("tcp_syn_retransmits", "tcp_connections_opened"),
    ),
)


def stall_evidence(data: TrialData) -> EvidenceValues:
    """Return the values of STALL_EVIDENCE_METRICS."""
    trial = data.steady_part.trial
    sources = [each for each in trial.endpoints if each.role in ("source", "both")]
    sinks = [each for each in trial.endpoints if each.role == "sink"]
    samples = _load_samples(trial, sources)
    requests = _merge(x.histograms.get("latency", ()) for x in samples)
    connects = _merge(x.histograms.get("connect_time", ()) for x in samples)
    stalled_requests = _stalls(requests, _MIN_RETRANSMISSION_TIMEOUT_NS)
    stalled_connects = _stalls(connects, _SYN_TIMEOUT_NS)
    stall_count = max(stalled_requests.total(), stalled_connects.total())
    retransmits = total_of_counter([*samples, *_load_samples(trial, sinks)], "tcp_segments_retransmitted")
    return {
        "request_stall_percent": percent(_total_ns(stalled_requests), _total_ns(requests)),
        "connect_stall_percent": percent(_total_ns(stalled_connects), _total_ns(connects)),
        "connect_share_of_stalls_percent": percent(stalled_connects.total(), stall_count)
        if connects
        else None,
        "retransmits_per_stall": ratio(retransmits, stall_count),
        "syn_retransmits_percent": largest(
            _syn_retransmits_percent(_load_samples(trial, [each])) for each in trial.endpoints
        ),
    }


def _load_samples(trial: TrialRecord, endpoints: Iterable[EndpointRecord]) -> list[Sample]:
    """Return the samples of the load and of its drain."""
    return [x for endpoint in endpoints for x in endpoint.samples if x.end_s > trial.idle_s]


def _syn_retransmits_percent(samples: Sequence[Sample]) -> float | None:
    opened = total_of_counter(samples, "tcp_connections_opened")
    retransmits = total_of_counter(samples, "tcp_syn_retransmits")
    return percent(retransmits, opened + retransmits) if opened and retransmits is not None else None


def _merge(histograms: Iterable[Histogram]) -> Counter[int]:
    merged: Counter[int] = Counter()
    for histogram in histograms:
        for middle_ns, count in histogram:
            merged[middle_ns] += count
    return merged


def _stalls(histogram: Counter[int], timeout_ns: float) -> Counter[int]:
    """Return the part of a histogram that lies a timeout or more above its median."""
    threshold_ns = _median_ns(histogram) + timeout_ns
    return Counter({middle: count for middle, count in histogram.items() if middle >= threshold_ns})


def _median_ns(histogram: Counter[int]) -> float:
    left = histogram.total() / 2
    for middle_ns in sorted(histogram):
        left -= histogram[middle_ns]
        if left <= 0:
            return middle_ns
    return 0.0


def _total_ns(histogram: Counter[int]) -> float:
    return float(sum(middle_ns * count for middle_ns, count in histogram.items()))
