"""Evidence of stalls: requests and connections that waited for a retransmission timer.

Stalls are rare, and one of them can fill the rest of a short trial. So these metrics cover the whole trial
with its warm-up, and with the answers that arrived after the end of the load.
"""

from __future__ import annotations

from collections import Counter

from vnetbench.estimate.evidence.aggregation import (
    EvidenceValues,
    largest,
    percent,
    percent_at_most_100,
    ratio,
    sum_known_values,
    to_number,
    total_of_counter,
)
from vnetbench.estimate.evidence.metric import EvidenceMetric
from vnetbench.estimate.evidence.trial_data import TrialData
from vnetbench.estimate.latency import merge_histograms
from vnetbench.results.records import EndpointRecord, Histogram, mapping_or_empty

_MIN_RETRANSMISSION_TIMEOUT_NS = 190e6
"""5 % below TCP_RTO_MIN = 200 ms: Linux waits so much longer than a round trip (include/net/tcp.h)."""
_SYN_TIMEOUT_NS = 950e6
"""5 % below TCP_TIMEOUT_INIT = 1 s, after which Linux repeats a SYN (RFC 6298, section 2)."""
_LOAD_ROLES = ("source", "sink", "both")

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
    EvidenceMetric(
        "syn_share_of_retransmits_percent",
        "% of retransmissions",
        "connection requests among the retransmissions",
        "share of the segments that both endpoints retransmitted which open a connection (SYN and SYN-ACK)",
        ("tcp_syn_retransmits", "tcp_segments_retransmitted"),
    ),
)


def stall_evidence(data: TrialData) -> EvidenceValues:
    """Return the values of STALL_EVIDENCE_METRICS."""
    endpoints = [each for each in data.steady_part.trial.endpoints if each.role in _LOAD_ROLES]
    sources = [each for each in endpoints if each.role != "sink"]
    requests = Counter(dict(merge_histograms(_histogram_of_whole_trial(each, "latency") for each in sources)))
    connects = Counter(
        dict(merge_histograms(_histogram_of_whole_trial(each, "connect_time") for each in sources))
    )
    stalled_requests = _values_timeout_above_median(requests, _MIN_RETRANSMISSION_TIMEOUT_NS)
    stalled_connects = _values_timeout_above_median(connects, _SYN_TIMEOUT_NS)
    stall_count = max(stalled_requests.total(), stalled_connects.total())
    retransmits, syn_retransmits = (
        sum_known_values(*(_counter_of_whole_trial(each, counter) for each in endpoints))
        for counter in ("tcp_segments_retransmitted", "tcp_syn_retransmits")
    )
    return {
        "request_stall_percent": percent(_total_ns(stalled_requests), _total_ns(requests)),
        "connect_stall_percent": percent(_total_ns(stalled_connects), _total_ns(connects)),
        "connect_share_of_stalls_percent": percent(stalled_connects.total(), stall_count)
        if connects
        else None,
        "retransmits_per_stall": ratio(retransmits, stall_count),
        "syn_retransmits_percent": largest(map(_syn_retransmits_percent, endpoints)),
        "syn_share_of_retransmits_percent": percent_at_most_100(syn_retransmits, retransmits),
    }


def _histogram_of_whole_trial(endpoint: EndpointRecord, kind: str) -> Histogram:
    """Return a histogram of the whole trial; that of the samples if the agent reports no total."""
    buckets = mapping_or_empty(endpoint.totals.get(kind)).get("buckets")
    if isinstance(buckets, list):
        return tuple((int(middle_ns), int(count)) for middle_ns, count in buckets)
    return tuple(bucket for x in endpoint.samples for bucket in x.histograms.get(kind, ()))


def _counter_of_whole_trial(endpoint: EndpointRecord, counter: str) -> float | None:
    """Return a counter of the whole trial; that of the samples if the agent reports no total."""
    total = to_number(mapping_or_empty(endpoint.totals.get("counters")).get(counter))
    return total_of_counter(endpoint.samples, counter) if total is None else total


def _syn_retransmits_percent(endpoint: EndpointRecord) -> float | None:
    opened = _counter_of_whole_trial(endpoint, "tcp_connections_opened")
    retransmits = _counter_of_whole_trial(endpoint, "tcp_syn_retransmits")
    return percent(retransmits, opened + retransmits) if opened and retransmits is not None else None


def _values_timeout_above_median(histogram: Counter[int], timeout_ns: float) -> Counter[int]:
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
