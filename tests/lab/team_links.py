"""Which links of a team carried data in a trial, compared with the links predicted for its flows."""

from __future__ import annotations

from collections import Counter
from typing import Any

from vnetbench.estimate.team_traffic import DIRECTIONS, TeamTraffic
from vnetbench.results.records import TrialRecord
from vnetbench.study.factors.directions import FORWARD

FIRST_PORT = 50000
SOURCE_PORTS = f"{FIRST_PORT}-{FIRST_PORT + 63}"
"""Level of `source_ports` with which stream N has the port FIRST_PORT + N."""
MIN_LOAD_BYTES = 10_000
"""A few full frames of a stream; more than LACP and requests for addresses can be."""


def check_links_with_data(trial: TrialRecord, team: TeamTraffic, first: str) -> None:
    """Check that a link carries data exactly if flows that delivered data are predicted for it.

    On a busy machine, a stream may deliver nothing. Its link may then be idle, and carries data only if
    flows are predicted for it.

    Args:
        trial: A trial whose `source_ports` are SOURCE_PORTS.
        team: Its first team.
        first: Endpoint that connects the streams.
    """
    teams: Any = trial.effective["teams"]
    flows = teams[0]["predicted"]["links_by_flow"]
    link_by_stream = {flow["source_port"] - FIRST_PORT: flow for flow in flows}
    assert len(link_by_stream) == team.flows
    has_delivered = False
    for direction in DIRECTIONS:
        links = [getattr(link, direction) for link in team.links]
        assert [each.predicted_flows for each in links] == [
            sum(flow[direction] == number for flow in flows) for number in range(len(links))
        ]
        carrying = {number for number, each in enumerate(links) if each.bytes >= MIN_LOAD_BYTES}
        delivering = find_delivering_streams(trial, first, direction)
        has_delivered |= bool(delivering)
        needed = {link_by_stream[stream][direction] for stream in delivering} - {None}
        assert needed <= carrying, (direction, links, flows)
        if not team.open_flows[direction]:
            predicted = {number for number, each in enumerate(links) if each.predicted_flows}
            assert carrying <= predicted, (direction, links, flows)
    assert has_delivered


def find_delivering_streams(trial: TrialRecord, first: str, direction: str) -> set[int]:
    """Return the streams whose sink received data of a direction during the load.

    The counters of links are read at slightly other times, so twice MIN_LOAD_BYTES are data here.
    """
    delivered: Counter[int] = Counter()
    for endpoint in trial.endpoints:
        if (endpoint.name == first) == (direction == FORWARD):
            continue
        for sample in endpoint.samples:
            delivered.update({each.stream_id: each.bytes for each in sample.streams if each.role == "sink"})
    return {stream for stream, count in delivered.items() if count >= 2 * MIN_LOAD_BYTES}
