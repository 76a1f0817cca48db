"""Evidence of calls and requests: bytes for each send call, and the waiting time of connections."""

from __future__ import annotations

from collections.abc import Sequence

from vnetbench.estimate.evidence.aggregation import EvidenceValues, largest, ratio, smallest, to_number
from vnetbench.estimate.evidence.metric import EvidenceMetric
from vnetbench.estimate.evidence.trial_data import TrialData
from vnetbench.estimate.latency import count_histogram_values
from vnetbench.estimate.steady_state import SteadyPart
from vnetbench.estimate.time_series import merge_sample_histograms
from vnetbench.results.records import EndpointRecord

CALL_EVIDENCE_METRICS = (
    EvidenceMetric(
        "bytes_per_call",
        "B",
        "bytes per send call",
        "mean number of bytes that a send call passes to the kernel in the whole trial, of the sender with "
        "the smallest calls",
        ("bytes_sent", "calls_sent"),
    ),
    EvidenceMetric(
        "calls_per_s",
        "1/s",
        "send calls",
        "send calls per second in the whole trial, of the sender with the most",
        ("calls_sent",),
    ),
    EvidenceMetric(
        "transactions_per_connection_s",
        "1/s",
        "transactions per connection",
        "answered requests per second, divided by the number of connections",
        ("latency",),
    ),
    EvidenceMetric(
        "latency_share",
        "1",
        "time in which a connection waits for an answer",
        "transaction rate times mean latency, divided by the number of connections (Little's law). It is 1 "
        "if each connection always waits for an answer",
        ("latency",),
    ),
)


def send_call_and_request_evidence(data: TrialData) -> EvidenceValues:
    """Return the values of CALL_EVIDENCE_METRICS."""
    senders = [endpoint for endpoint, _ in data.steady_part.senders]
    return {**_send_call_values(senders), **_request_values(data.steady_part)}


def _send_call_values(senders: Sequence[EndpointRecord]) -> EvidenceValues:
    calls = [(sender, to_number(sender.totals.get("calls_sent"))) for sender in senders]
    return {
        "bytes_per_call": smallest(ratio(sender.bytes_sent, count) for sender, count in calls),
        "calls_per_s": largest(
            ratio(count, to_number(sender.totals.get("duration_s"))) for sender, count in calls
        ),
    }


def _request_values(part: SteadyPart) -> EvidenceValues:
    latency = merge_sample_histograms((x for _, samples in part.endpoints for x in samples), "latency")
    connections = {
        (endpoint.name, stream.stream_id)
        for endpoint, samples in part.senders
        for x in samples
        for stream in x.streams
        if stream.role == "source" and stream.load_part != "transfers"
    }
    if not (answered := count_histogram_values(latency)) or not connections:
        return {}
    latency_s = sum(value_ns * count for value_ns, count in latency) / 1e9
    return {
        "transactions_per_connection_s": answered / part.duration_s / len(connections),
        "latency_share": latency_s / part.duration_s / len(connections),
    }
