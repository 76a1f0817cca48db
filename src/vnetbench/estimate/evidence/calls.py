"""Evidence of calls and requests: how much a sender hands over at once, and how long connections wait."""

from __future__ import annotations

from collections.abc import Sequence

from vnetbench.estimate.time_series import merged_of
from vnetbench.estimate.evidence.trial_data import Case
from vnetbench.estimate.evidence.aggregation import Figures, least, most, number, over
from vnetbench.estimate.evidence.metric import Figure
from vnetbench.estimate.latency import count_of
from vnetbench.estimate.steady_state import SteadyPart
from vnetbench.results.records import SideRecord

CALL_FIGURES = (
    Figure(
        "bytes_per_call",
        "B",
        "bytes a call",
        "bytes that a call to the kernel takes, at the sender where these are the fewest, of the whole trial",
        ("bytes_sent", "calls_sent"),
    ),
    Figure(
        "calls_per_s",
        "1/s",
        "calls",
        "calls that send, at the sender where these are the most, of the whole trial",
        ("calls_sent",),
    ),
    Figure(
        "transactions_per_connection_s",
        "1/s",
        "transactions of a connection",
        "requests that were answered, over the connections that make them",
        ("latency",),
    ),
    Figure(
        "latency_share",
        "1",
        "share of the time that is latency",
        "transaction rate times mean latency over connections (Little's law): 1 where each connection always "
        "waits for an answer",
        ("latency",),
    ),
)


def call_evidence(case: Case) -> Figures:
    """The figures of CALL_FIGURES."""
    return {**_of_calls([side for side, _ in case.part.senders]), **_of_requests(case.part)}


def _of_calls(senders: Sequence[SideRecord]) -> Figures:
    calls = [(side, number(side.totals.get("calls_sent"))) for side in senders]
    return {
        "bytes_per_call": least(over(side.bytes_sent, count) for side, count in calls),
        "calls_per_s": most(over(count, number(side.totals.get("duration_s"))) for side, count in calls),
    }


def _of_requests(part: SteadyPart) -> Figures:
    latency = merged_of((x for _, samples in part.sides for x in samples), "latency")
    asking = {
        (side.endpoint, stream.stream)
        for side, samples in part.senders
        for x in samples
        for stream in x.streams
        if stream.role == "source" and stream.part != "transfers"
    }
    if not (answered := count_of(latency)) or not asking:
        return {}
    waited_s = sum(value_ns * count for value_ns, count in latency) / 1e9
    return {
        "transactions_per_connection_s": answered / part.seconds / len(asking),
        "latency_share": waited_s / part.seconds / len(asking),
    }
