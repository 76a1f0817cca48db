"""Evidence of stalls: requests and connections that waited for a retransmission timer."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from vnetbench.estimate.evidence.aggregation import EvidenceValues, percent
from vnetbench.estimate.evidence.metric import EvidenceMetric
from vnetbench.estimate.evidence.trial_data import TrialData
from vnetbench.results.records import Histogram

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
)


def stall_evidence(data: TrialData) -> EvidenceValues:
    """Return the values of STALL_EVIDENCE_METRICS."""
    samples = [x for _, part in data.steady_part.senders for x in part]
    requests = _merge(x.histograms.get("latency", ()) for x in samples)
    connects = _merge(x.histograms.get("connect_time", ()) for x in samples)
    stalled_requests = _stalls(requests, _MIN_RETRANSMISSION_TIMEOUT_NS)
    stalled_connects = _stalls(connects, _SYN_TIMEOUT_NS)
    stall_count = max(stalled_requests.total(), stalled_connects.total())
    return {
        "request_stall_percent": percent(_total_ns(stalled_requests), _total_ns(requests)),
        "connect_stall_percent": percent(_total_ns(stalled_connects), _total_ns(connects)),
        "connect_share_of_stalls_percent": percent(stalled_connects.total(), stall_count)
        if connects
        else None,
    }


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
