"""Consistency checks of the counts that the endpoints of a trial report."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from vnetbench.campaign.load_checks import TrialEndParameters, stream_totals
from vnetbench.failure_kinds import COUNT_MISMATCH, NO_DATA
from vnetbench.lab.errors import TreatmentRefused, TrialFailed
from vnetbench.results.records import EndpointRecord
from vnetbench.study.factors.load_factors import CONGESTION_CONTROL
from vnetbench.study.model import Level
from vnetbench.study.workloads import WORKLOADS

STALL_CHECK_START_SHARE = 0.5
"""Share of the load. If nothing arrives after it, nor in the drain, the path is broken."""

MAX_SHARE_OF_SENT_BYTES_MISSED_BY_SERVER = 0.05
"""Share of the sent bytes. A server that misses more did not receive them, whatever was acknowledged."""
MAX_STORABLE_BYTES = 1 << 62
"""Maximum count that a results file can store; a larger one cannot be real."""


def find_count_error(workload: str, idle_and_load_s: float, endpoints: Sequence[EndpointRecord]) -> str:
    """Return a message if the endpoints' counts are inconsistent, else an empty string.

    TCP delivers every byte, and every datagram either arrives or is lost, so a difference is a fault of the
    instrument. If data stops arriving long before the end of the load, the path is broken.
    """
    if all(endpoint.totals.get("drained", False) for endpoint in endpoints):
        flows = [
            stream
            for endpoint in endpoints
            for stream in stream_totals(endpoint.totals)
            if "datagrams" in stream
        ]
        if flows:
            return _find_datagram_count_error(flows)
        sent = sum(endpoint.bytes_sent for endpoint in endpoints)
        received = sum(endpoint.bytes_received for endpoint in endpoints)
        return "" if sent == received else (
            f"the agents' counts contradict each other: {sent} bytes were sent, but {received} bytes arrived"
        )  # fmt: skip
    if not WORKLOADS[workload].is_byte_stream:
        return ""
    for endpoint in endpoints:
        if endpoint.role == "source" or endpoint.totals.get("drained", False):
            continue
        last_s = max((x.end_s for x in endpoint.samples if x.bytes_received), default=0.0)
        if last_s < STALL_CHECK_START_SHARE * idle_and_load_s:
            return (
                f"no data arrived at {endpoint.name} after {last_s:.2f} s, so the path no longer carries data"
            )
    return ""


def kind_of_count_error(endpoints: Sequence[EndpointRecord]) -> str:
    """Return the failure kind of an error that `find_count_error` found."""
    is_drained = all(endpoint.totals.get("drained", False) for endpoint in endpoints)
    return COUNT_MISMATCH if is_drained else NO_DATA


def _find_datagram_count_error(flows: Sequence[Mapping[str, Any]]) -> str:
    sources = [flow for flow in flows if flow["role"] == "source"]
    sinks = [flow for flow in flows if flow["role"] == "sink"]
    sent = sum(int(flow["datagrams"]) for flow in sources)
    arrived = sum(int(flow["datagrams"]) - int(flow["duplicates"]) for flow in sinks)
    lost = sum(int(flow["lost"]) for flow in sinks)
    if sent != arrived + lost or any(int(flow["lost"]) < 0 for flow in sinks):
        return (
            f"the agents' counts contradict each other: {sent} datagrams were sent, {arrived} arrived and "
            f"{lost} were lost"
        )
    return ""


def check_server_totals(
    factors: Mapping[str, Level],
    endpoint_name: str,
    local_totals: TrialEndParameters,
    server_totals: TrialEndParameters,
) -> list[str]:
    """Check this endpoint's totals against those that an iperf3 server reports, and return notes.

    Raises:
        TreatmentRefused: The server used another congestion control than the treatment requests.
        TrialFailed: The totals of the two endpoints are inconsistent.
    """
    sent, counted = int(local_totals["bytes_sent"]), int(server_totals["bytes_received"])
    if int(server_totals["bytes_sent"]) > MAX_STORABLE_BYTES:
        raise TrialFailed(
            f"the iperf3 server {endpoint_name} reports that it sent {server_totals['bytes_sent']} bytes, "
            "which is impossible"
        )
    if counted > sent:
        raise TrialFailed(
            f"the iperf3 server {endpoint_name} counted {counted} bytes, "
            f"but only {sent} bytes were sent to it"
        )
    if sent - counted > MAX_SHARE_OF_SENT_BYTES_MISSED_BY_SERVER * sent:
        raise TrialFailed(
            f"the iperf3 server {endpoint_name} counted only {counted} of {sent} bytes sent. "
            "It was too slow to read them, or a proxy on the path acknowledged data that the server did "
            "not receive"
        )
    notes = []
    if counted < sent:
        notes.append(
            f"the iperf3 server {endpoint_name} did not count the last {sent - counted} of {sent} bytes sent"
        )
    sent, counted = int(server_totals["bytes_sent"]), int(local_totals["bytes_received"])
    if counted < sent:
        notes.append(
            f"the last {sent - counted} of {sent} bytes from the iperf3 server {endpoint_name} "
            "did not arrive before the trial ended"
        )
    if not sent:
        return notes
    requested, used = factors.get(CONGESTION_CONTROL.name), server_totals.get("congestion_control")
    # Newer servers report "unknown" if they cannot determine it.
    if used in (None, "unknown"):
        note = f"the iperf3 server {endpoint_name} does not report which congestion control it used"
        notes.append(f"{note}. The treatment requests {requested}" if requested else note)
    elif requested not in (None, used):
        raise TreatmentRefused(
            f"congestion_control = {requested} had no effect: the iperf3 server used {used}",
            where=endpoint_name,
            fix=f"write congestion_control = {used}, which the server uses",
        )
    return notes
