"""What every side counted in a trial, held against what must be so."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from vnetbench.campaign.load_checks import Totals, streams_of
from vnetbench.lab.errors import TreatmentRefused, TrialFailed
from vnetbench.results.records import SideRecord
from vnetbench.study.model import Level
from vnetbench.study.workloads import STREAM

STALLED_SHARE = 0.5
"""Of the load: where nothing arrives after it, and not in the drain either, the path is broken."""

MOST_UNCOUNTED = 0.05
"""Of what was sent: a server that counts less has not got it, whatever was acknowledged."""
MOST_BYTES = 1 << 62
"""What a results file can hold; nobody sends that much."""


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


def judge_server(factors: Mapping[str, Level], name: str, here: Totals, server: Totals) -> list[str]:
    """Hold this side's totals against those that an iperf3 server told at the end; returns what to note.

    Raises TreatmentRefused where it used another congestion control than was asked, TrialFailed where the
    counts of the two sides cannot be of the same trial.
    """
    sent, counted = int(here["bytes_sent"]), int(server["bytes_received"])
    if int(server["bytes_sent"]) > MOST_BYTES:
        raise TrialFailed(f"{name} tells that it sent {server['bytes_sent']} bytes")
    if counted > sent:
        raise TrialFailed(f"{name} counted {counted} bytes, and {sent} were sent to it")
    if sent - counted > MOST_UNCOUNTED * sent:
        raise TrialFailed(
            f"{name} counted {counted} of {sent} bytes that were sent: either it could not read all in time, "
            "or something on the way acknowledges what it has not got (a proxy)"
        )
    notes = []
    if counted < sent:
        notes.append(f"{name} did not count the last {sent - counted} of {sent} bytes")
    sent, counted = int(server["bytes_sent"]), int(here["bytes_received"])
    if counted < sent:
        notes.append(f"the last {sent - counted} of {sent} bytes that {name} sent did not arrive in time")
    if not sent:
        return notes
    asked, used = factors.get("congestion_control"), server.get("congestion_control")
    # Newer servers have a word for that they cannot say.
    if used in (None, "unknown"):
        notes.append(f"{name} does not tell its congestion control; {asked} was asked for")
    elif asked not in (None, used):
        raise TreatmentRefused(
            f"congestion_control = {asked} did not take effect: {used} was used",
            where=name,
            fix=f"name one that it has: congestion_control = {used}",
        )
    return notes
