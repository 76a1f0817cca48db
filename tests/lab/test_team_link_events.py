"""Events on a team's link: the chosen link, what the proof says, and why a team did not notice."""

from __future__ import annotations

import pytest

from vnetbench.lab.disruption import catalog
from vnetbench.lab.disruption.team_flow import TeamReading
from vnetbench.lab.disruption.team_lacp_stop import read_enabled_members
from vnetbench.lab.disruption.team_link import explain_unnoticed
from vnetbench.lab.errors import TreatmentRefused
from vnetbench.lab.netns.open_vswitch_bonds import lacp_columns, read_lacp_timer
from vnetbench.lab.netns.topology import NetnsShape, make_topology
from vnetbench.study.factors.disruption_factors import TEAM_EVENTS
from vnetbench.study.teams import TeamSpec

pytestmark = pytest.mark.pure

BOTH = frozenset({0, 1})


@pytest.mark.parametrize(
    ("link_by_state", "sent_packets", "link"),
    [(1, (0, 0), 1), (None, (3, 900), 1), (None, (0, 0), None), (None, (5, 5), None), (0, (1, 900), 0)],
)
def test_the_state_of_the_bond_names_the_link_or_else_its_packets(
    link_by_state: int | None, sent_packets: tuple[int, ...], link: int | None
) -> None:
    assert TeamReading(link_by_state, sent_packets, BOTH).link == link


@pytest.mark.parametrize(
    ("event", "spec", "expected"),
    [
        ("team-link-down", TeamSpec(), "link1, which was down, when the event ended"),
        ("team-link-silent", TeamSpec(), "because it has no LACP: the outage lasts as long as the event"),
        ("team-link-silent", TeamSpec(lacp="slow"), "LACP with the timer slow needs up to 90 s"),
        ("team-link-silent", TeamSpec(policy="balance-tcp"), "LACP with the timer fast needs up to 3 s"),
    ],
)
def test_a_team_that_did_not_notice_says_why(event: str, spec: TeamSpec, expected: str) -> None:
    assert expected in explain_unnoticed(event, 1, spec)


@pytest.mark.parametrize("event", TEAM_EVENTS)
def test_a_testbed_without_a_team_refuses_the_event(event: str) -> None:
    topology = make_topology("x", NetnsShape("openvswitch"))
    with pytest.raises(TreatmentRefused, match=f"event {event} happens to a team of links") as caught:
        catalog.make_network_event(topology, {"event": event})
    assert caught.value.fix == "write [[testbed.team]] in the study"


def test_lacp_sends_three_frames_in_its_timeout() -> None:
    assert [TeamSpec(lacp=timer).lacp_period_s for timer in ("off", "slow", "fast")] == [0, 30, 1]


def test_the_links_that_a_bond_uses_are_read_even_if_it_drops_every_packet() -> None:
    shown = "lacp_status: configured\n\nmember sw0-link0: disabled\n  may_enable: false\n"
    assert read_enabled_members(shown) == frozenset()
    assert read_enabled_members(shown + "\nmember sw0-link1: enabled\n") == {"sw0-link1"}


def test_the_timer_of_lacp_is_set_and_read_back() -> None:
    assert lacp_columns("slow") == ("lacp=active", "other_config:lacp-time=slow")
    assert lacp_columns("slow", is_active=False) == ("lacp=passive", "other_config:lacp-time=slow")
    assert lacp_columns("off") == ("lacp=off",)
    shown = "---- team-sw0 ----\n  status: active negotiated\n  aggregation key: 1\n  lacp_time: slow\n"
    assert read_lacp_timer(shown) == "slow"
    assert read_lacp_timer("---- team-sw0 ----\n") is None
