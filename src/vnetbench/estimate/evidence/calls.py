"""Evidence of calls and requests: how much a sender hands over at once, and how long connections wait."""

from __future__ import annotations

from collections.abc import Sequence

from vnetbench.estimate.evidence.aggregation import EvidenceValues, largest, ratio, smallest, to_number
from vnetbench.estimate.evidence.metric import EvidenceMetric
from vnetbench.estimate.evidence.trial_data import TrialData
from vnetbench.estimate.latency import histogram_count
from vnetbench.estimate.steady_state import SteadyPart
from vnetbench.estimate.time_series import merged_histogram
from vnetbench.results.records import EndpointRecord

CALL_METRICS = (
    EvidenceMetric(
        "bytes_per_call",
        "B",
        "bytes a call",
        "bytes that a call to the kernel takes, at the sender where these are the fewest, of the whole trial",
        ("bytes_sent", "calls_sent"),
    ),
    EvidenceMetric(
        "calls_per_s",
        "1/s",
        "calls",
        "calls that send, at the sender where these are the most, of the whole trial",
        ("calls_sent",),
    ),
    EvidenceMetric(
        "transactions_per_connection_s",
        "1/s",
        "transactions of a connection",
        "requests that were answered, over the connections that make them",
        ("latency",),
    ),
    EvidenceMetric(
        "latency_share",
        "1",
        "share of the time that is latency",
        "transaction rate times mean latency over connections (Little's law): 1 where each connection always "
        "waits for an answer",
        ("latency",),
    ),
)


def call_evidence(case: TrialData) -> EvidenceValues:
    """The figures of CALL_FIGURES."""
    return {**_of_calls([side for side, _ in case.steady_part.senders]), **_of_requests(case.steady_part)}


def _of_calls(senders: Sequence[EndpointRecord]) -> EvidenceValues:
    calls = [(side, to_number(side.totals.get("calls_sent"))) for side in senders]
    return {
        "bytes_per_call": smallest(ratio(side.bytes_sent, count) for side, count in calls),
        "calls_per_s": largest(
            ratio(count, to_number(side.totals.get("duration_s"))) for side, count in calls
        ),
    }


def _of_requests(part: SteadyPart) -> EvidenceValues:
    latency = merged_histogram((x for _, samples in part.endpoints for x in samples), "latency")
    asking = {
        (side.name, stream.stream_id)
        for side, samples in part.senders
        for x in samples
        for stream in x.streams
        if stream.role == "source" and stream.load_part != "transfers"
    }
    if not (answered := histogram_count(latency)) or not asking:
        return {}
    waited_s = sum(value_ns * count for value_ns, count in latency) / 1e9
    return {
        "transactions_per_connection_s": answered / part.duration_s / len(asking),
        "latency_share": waited_s / part.duration_s / len(asking),
    }
