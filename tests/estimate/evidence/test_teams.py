"""Evidence of teams, from the traffic of their links and the state just before the load."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from vnetbench.estimate.evidence import teams
from vnetbench.estimate.evidence.teams import team_evidence
from vnetbench.estimate.team_traffic import DirectionTraffic, LinkTraffic, TeamTraffic
from vnetbench.explain.rules import load_rules
from vnetbench.explain.scoring import rank_causes
from vnetbench.study.workloads import TCP_STREAM

pytestmark = pytest.mark.pure

SPEED_BPS, LOAD_S = 8_000_000, 2.0
NO_LACP = {"lacp": "off"}
FULL_BYTES = round(SPEED_BPS / 8 * LOAD_S)


class _SteadyPart:
    class trial:  # noqa: N801
        idle_s, duration_s = 0.0, LOAD_S


class _Data:
    steady_part = _SteadyPart()


def make_team(carried: list[float], flows: list[int], **changes: Any) -> TeamTraffic:
    """Return a team whose links carry these shares of their speed, with these predicted flows."""
    total = sum(carried) or 1.0
    links = []
    for number, (share, count) in enumerate(zip(carried, flows, strict=True)):
        size = round(FULL_BYTES * share)
        there = DirectionTraffic(size, size // 1000, share / total, count, size // 1000)
        back = DirectionTraffic(size // 50, size // 2000, share / total, count, size // 2000)
        links.append(LinkTraffic(f"link{number}", SPEED_BPS, there, back, True))
    known = {"far_end": "bond", "distinct_flows": sum(flows), "mac_moves": {"near": 0, "far": 0}}
    team = TeamTraffic("uplinks", "balance-tcp", "negotiated", tuple(links), sum(flows), load_s=LOAD_S)
    values: dict[str, Any] = {**known, **changes}
    return replace(team, **values)


def evidence_of(team: TeamTraffic, monkeypatch: pytest.MonkeyPatch) -> dict[str, float]:
    monkeypatch.setattr(teams, "collect_team_traffic", lambda part: (team,))
    values = team_evidence(_Data())  # type: ignore[arg-type]
    return {name: float(value) for name, value in values.items() if value is not None}


@pytest.mark.parametrize("links", [2, 3, 7])
def test_one_full_link_carries_all_flows(links: int, monkeypatch: pytest.MonkeyPatch) -> None:
    team = make_team([1.0] + [0.0] * (links - 1), [6] + [0] * (links - 1), distinct_flows=1)
    values = evidence_of(team, monkeypatch)
    assert (values["team_used_links"], values["team_idle_links"]) == (1, links - 1)
    assert values["team_fullest_link_percent"] == pytest.approx(100)
    assert values["team_capacity_used_percent"] == pytest.approx(100 / links)
    assert values["team_silent_links"] == 0


def test_a_link_with_flows_that_delivers_nothing_is_silent(monkeypatch: pytest.MonkeyPatch) -> None:
    team = make_team([0.0, 0.9, 0.9], [2, 2, 2])
    assert evidence_of(team, monkeypatch)["team_silent_links"] == 1
    unused = make_team([0.0, 0.9, 0.9], [0, 3, 3])
    assert evidence_of(unused, monkeypatch)["team_silent_links"] == 0


def test_only_a_full_link_that_is_slower_than_another_counts_as_slow(monkeypatch: pytest.MonkeyPatch) -> None:
    team = make_team([1.0, 0.2], [1, 1])
    fast = replace(team, links=(team.links[0], replace(team.links[1], speed_bps=4 * SPEED_BPS)))
    assert evidence_of(team, monkeypatch)["team_slow_full_links"] == 0
    assert evidence_of(fast, monkeypatch)["team_slow_full_links"] == 1


def test_without_negotiation_lacp_leaves_out_all_links(monkeypatch: pytest.MonkeyPatch) -> None:
    team = make_team([1.0, 0.0], [4, 0])
    assert evidence_of(team, monkeypatch)["team_links_without_lacp"] == 0
    assert evidence_of(replace(team, lacp="not negotiated"), monkeypatch)["team_links_without_lacp"] == 2
    detached = replace(team, links=(team.links[0], replace(team.links[1], is_attached=False)))
    assert evidence_of(detached, monkeypatch)["team_links_without_lacp"] == 1


@pytest.mark.parametrize(
    ("changes", "cause"),
    [
        ({"distinct_flows": 1}, "one_uplink"),
        ({"lacp": "not negotiated"}, "lacp_not_negotiated"),
        ({"same_parity_links": 1}, "even_source_ports"),
        ({**NO_LACP, "far_end": "switch without a bond", "mac_moves": {"far": 90}}, "hash_without_channel"),
        (
            {
                **NO_LACP,
                "policy": "ip-hash-whole",
                "far_end": "switch without a bond",
                "mac_moves": {"far": 90},
            },
            "hash_without_channel",
        ),
        (
            {
                **NO_LACP,
                "policy": "layer3+4",
                "far_end": "switch without a bond",
                "mac_moves": {"near": None, "far": None},
                "open_flows": {"forward": 0, "reverse": 4},
            },
            "hash_without_channel",
        ),
        ({**NO_LACP, "policy": "source-mac", "mac_moves": {"near": 90}}, "channel_without_hash"),
        (
            {**NO_LACP, "policy": "port-id", "far_policy": "ip-hash", "mac_moves": {"near": 90}},
            "channel_without_hash",
        ),
    ],
)
def test_each_state_of_a_team_has_its_cause(
    changes: dict[str, object], cause: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    team = make_team([1.0, 0.0], [4, 0], **changes)
    links = {"uplink_count": 2.0, "busiest_uplink_percent": 100.0, "overlimits_per_s": 9000.0}
    evidence = {**evidence_of(team, monkeypatch), **links, "time_link_queue_percent": 90.0}
    first = rank_causes([evidence], load_rules(), TCP_STREAM).candidates[0]
    assert first.cause.name == cause


def test_a_far_end_with_one_active_link_and_no_count_of_moves_has_no_channel_fault(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    unknown = {"near": None, "far": None}
    team = make_team(
        [1.0, 0.0], [4, 0], policy="active-backup", far_policy="active-backup", mac_moves=unknown
    )
    values = evidence_of(replace(team, lacp="off"), monkeypatch)
    assert values["team_channel_without_hash"] == values["team_hash_without_channel"] == 0
    assert "team_near_mac_moves_per_s" not in values


def test_one_flow_on_one_link_is_a_natural_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    team = make_team([1.0, 0.0], [1, 0])
    links = {"uplink_count": 2.0, "busiest_uplink_percent": 100.0, "overlimits_per_s": 9000.0}
    evidence = {**evidence_of(team, monkeypatch), **links, "time_link_queue_percent": 90.0}
    first = rank_causes([evidence], load_rules(), TCP_STREAM).candidates[0]
    assert (first.cause.name, first.cause.is_fault) == ("one_flow_one_link", False)
