"""Locations of frame losses, each by itself and all together."""

from __future__ import annotations

from typing import Any

import pytest

from vnetbench.estimate.frame_losses import (
    AT_SWITCH,
    BEFORE_LINK,
    BEFORE_RECEIVER,
    ELSEWHERE,
    IN_BACKLOG,
    FrameLosses,
    attribute_losses_to_locations,
    path_counters,
    sum_losses_of_runs,
)
from vnetbench.results.records import EndpointRecord

pytestmark = pytest.mark.pure

BRIDGE = {
    "endpoints": [{"name": "a1"}, {"name": "b1"}],
    "observed_interfaces": [
        {"name": "a1", "role": "port", "leads_to": "a1"},
        {"name": "b1", "role": "port", "leads_to": "b1"},
    ],
}
UPLINK = {
    **BRIDGE,
    "observed_interfaces": [
        *BRIDGE["observed_interfaces"],
        {"name": "up0", "role": "uplink", "leads_to": "sw1"},
        {"name": "up1", "role": "uplink", "leads_to": "sw0"},
    ],
}
SENT = 1000


def count_losses(testbed: dict[str, Any], received: int, **counts: Any) -> dict[str, int]:
    """Return the lost frames of each location with losses; `counts` are those of the host's interfaces."""
    others: dict[str, Any] = {
        name: counts.pop(name) for name in ("softnet_dropped", "rejected") if name in counts
    }
    found = attribute_losses_to_locations(SENT, received, {"interfaces": {"host": counts}, **others}, testbed)
    assert (found.sent_frames, found.lost_frames, sum(found.lost_frames_by_location.values())) == (
        SENT,
        SENT - received,
        found.lost_frames,
    )
    return {location: count for location, count in found.lost_frames_by_location.items() if count}


def port(taken: int = 0, given: int = 0, **more: int) -> dict[str, int]:
    return {"rx_packets": taken, "tx_packets": given, **more}


def test_without_losses_no_location_lost_frames() -> None:
    assert count_losses(BRIDGE, 1000, a1=port(1000), b1=port(0, 1000)) == {}


@pytest.mark.parametrize(
    ("counts", "location"),
    [
        ({"a1": port(400, rx_dropped=600), "b1": port(0, 400)}, AT_SWITCH),
        ({"a1": port(1000), "b1": port(0, 400)}, AT_SWITCH),
        ({"a1": port(1000), "b1": port(0, 400, tx_dropped=600)}, BEFORE_RECEIVER),
        ({"a1": port(1000), "b1": port(0, 400, queue_drops=600)}, BEFORE_LINK),
        ({"a1": port(400, rx_dropped=600), "b1": port(0, 400), "softnet_dropped": 600}, IN_BACKLOG),
        ({"a1": port(400), "b1": port(0, 400)}, ELSEWHERE),
        ({"a1": port(1000), "b1": port(0, 1000)}, ELSEWHERE),
    ],
)
def test_losses_are_attributed_to_their_location(counts: dict[str, Any], location: str) -> None:
    assert count_losses(BRIDGE, 400, **counts) == {location: 600}


def test_losses_between_two_switches_are_not_attributed_to_a_switch() -> None:
    lost_on_link = {"a1": port(1000), "up0": port(0, 1000), "up1": port(700), "b1": port(0, 700)}
    assert count_losses(UPLINK, 700, **lost_on_link) == {ELSEWHERE: 300}
    lost_in_switch = {"a1": port(1000), "up0": port(0, 700), "up1": port(700), "b1": port(0, 700)}
    assert count_losses(UPLINK, 700, **lost_in_switch) == {AT_SWITCH: 300}


def test_frames_refused_before_the_observer_started_are_lost_at_the_switch() -> None:
    late = {"a1": port(200, rx_dropped=300), "b1": port(0, 200)}
    assert count_losses(BRIDGE, 400, **late, rejected=600) == {AT_SWITCH: 600}


def test_drops_of_foreign_packets_do_not_count_as_lost_frames() -> None:
    assert count_losses(BRIDGE, 990, a1=port(1000, rx_dropped=25), b1=port(0, 1000, tx_dropped=25)) == {
        AT_SWITCH: 10
    }


def test_losses_add_up_over_locations_and_runs() -> None:
    counts = {"a1": port(800, rx_dropped=200), "b1": port(0, 500, tx_dropped=100, queue_drops=200)}
    once = count_losses(BRIDGE, 500, **counts)
    assert once == {AT_SWITCH: 200, BEFORE_LINK: 200, BEFORE_RECEIVER: 100}
    twice = sum_losses_of_runs([FrameLosses(1000, 500, once), FrameLosses(1000, 100, {ELSEWHERE: 100})])
    assert (twice.sent_frames, twice.lost_frames) == (2000, 600)
    assert twice.lost_frames_by_location[AT_SWITCH] == 200 and twice.lost_frames_by_location[ELSEWHERE] == 100


def test_shares_are_unknown_without_frames() -> None:
    assert attribute_losses_to_locations(10, 10, {}, {}).percent_of_lost(AT_SWITCH) is None


def test_path_counters_contain_interface_counts_and_lost_refused_frames() -> None:
    interface = {
        "name": "b1",
        "rx_packets": 1,
        "tx_packets": 2,
        "rx_dropped": 3,
        "tx_dropped": 4,
        "rx_bytes": 5,
    }
    host = {"interfaces": [{**interface, "qdisc": {"drops": 6}}], "counters": {"softnet_dropped": 7}}
    sides = [
        EndpointRecord("a1", "source", {"streams": [{"id": 0, "rejected": 8}]}, ()),
        EndpointRecord("host", "observe", host, ()),
    ]
    port_of_b = {"rx_packets": 1, "tx_packets": 2, "rx_dropped": 3, "tx_dropped": 4, "queue_drops": 6}
    expected = {"interfaces": {"host": {"b1": port_of_b}}, "softnet_dropped": 7, "rejected": 8}
    assert path_counters(sides, {"rejected_frames": "lost"}) == expected
    assert path_counters(sides, {"rejected_frames": "unsent"}) == {**expected, "rejected": 0}
