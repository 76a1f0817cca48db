"""What every side counted in a trial, held against what must be so."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from vnetbench.campaign.judging import streams_of
from vnetbench.results.records import SideRecord
from vnetbench.study.workloads import STREAM

STALLED_SHARE = 0.5
"""Of the load: where nothing arrives after it, and not in the drain either, the path is broken."""


def wrong_counts(workload: str, duration_s: float, sides: Sequence[SideRecord]) -> str:
    """What cannot be in the counts of all endpoints, in words; empty where nothing is wrong.

    Every byte that was sent must have arrived, as TCP promises, and every datagram must have arrived or been
    lost: a difference is the instrument's fault. Data that stopped coming long before the end of the load,
    and has not come since, is the path's.
    """
    if all(side.totals.get("drained", False) for side in sides):
        flows = [stream for side in sides for stream in streams_of(side.totals) if "datagrams" in stream]
        if flows:
            return _wrong_datagrams(flows)
        sent = sum(side.bytes_sent for side in sides)
        received = sum(side.bytes_received for side in sides)
        return "" if sent == received else (
            f"the instrument miscounted: {sent} bytes were sent and {received} arrived"
        )  # fmt: skip
    if workload != STREAM:
        return ""
    for side in sides:
        if side.role == "source" or side.totals.get("drained", False):
            continue
        last_s = max((x.t_s for x in side.samples if x.bytes_received), default=0.0)
        if last_s < STALLED_SHARE * duration_s:
            return f"{side.endpoint}: nothing arrived after {last_s:.2f} s: the path carries no more"
    return ""


def _wrong_datagrams(flows: Sequence[Mapping[str, Any]]) -> str:
    sources = [flow for flow in flows if flow["role"] == "source"]
    sinks = [flow for flow in flows if flow["role"] == "sink"]
    sent = sum(int(flow["datagrams"]) for flow in sources)
    arrived = sum(int(flow["datagrams"]) - int(flow["duplicates"]) for flow in sinks)
    lost = sum(int(flow["lost"]) for flow in sinks)
    if sent != arrived + lost or any(int(flow["lost"]) < 0 for flow in sinks):
        return (
            f"the instrument miscounted: {sent} datagrams were sent, {arrived} arrived and {lost} were lost"
        )
    return ""
