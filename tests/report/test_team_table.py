"""The links of a team in the terminal, on the page and in the JSON: measured next to predicted."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest

from tests.report.campaigns import campaign, treatment
from tests.report.test_table import print_lines
from vnetbench.estimate.summary import CampaignSummary
from vnetbench.estimate.team_traffic import DirectionTraffic, LinkTraffic, TeamTraffic
from vnetbench.report.export.campaign_json import campaign_json
from vnetbench.report.page.html import render_page
from vnetbench.report.tables.estimates_table import estimates_table
from vnetbench.report.tables.team_table import TEAM_TABLE_TITLE, team_advice, team_columns
from vnetbench.study.model import FactorLevels

pytestmark = pytest.mark.pure

POLICIES = ("active-backup", "balance-tcp")


def direction(shares: list[float], flows: list[int | None]) -> list[DirectionTraffic]:
    return [
        DirectionTraffic(round(1000 * share), 10, share, count)
        for share, count in zip(shares, flows, strict=True)
    ]


def team(shares: list[float], flows: list[int | None]) -> TeamTraffic:
    links = zip(direction(shares, flows), direction(shares[::-1], flows[::-1]), strict=True)
    return TeamTraffic(
        "uplinks",
        "balance-tcp",
        "negotiated",
        tuple(LinkTraffic(f"link{i}", 10**9, there, back) for i, (there, back) in enumerate(links)),
        sum(filter(None, flows)),
    )


@pytest.fixture
def teams() -> CampaignSummary:
    """Return two treatments whose trial nearest to the median has another team than the others."""
    rng = np.random.default_rng(1)
    treatments = []
    for index, policy in enumerate(POLICIES):
        one = treatment(rng, index, {"team_policy": policy}, 1e9)
        median = one.metrics["goodput_bps"].value
        typical, other = (
            (team([1.0, 0, 0, 0], [8, 0, 0, 0]), team([0, 1.0, 0, 0], [0, 8, 0, 0]))
            if index == 0
            else (team([0.5, 0.3, 0.196, 0.004], [4, 2, 2, 0]), team([0, 0, 0, 1.0], [0, 0, 0, None]))
        )
        points = tuple(
            replace(point, teams=(typical if point.values["goodput_bps"] == median else other,))
            for point in one.points
        )
        treatments.append(replace(one, points=points))
    return campaign("Teams", "Which?", [FactorLevels("team_policy", POLICIES)], treatments)


def test_the_trial_nearest_to_the_median_is_drawn(teams: CampaignSummary) -> None:
    rows = list(zip(*(column.cells for column in team_columns(teams)), strict=True))
    assert rows == [
        (("active-backup",), ("forward",), ("█    100   0   0   0",), (" 8  0  0  0",)),
        (("",), ("reverse",), ("   █   0   0   0 100",), (" 0  0  0  8",)),
        (("balance-tcp",), ("forward",), ("▄▂▂▁  50  30  20   0",), (" 4  2  2  0",)),
        (("",), ("reverse",), ("▁▂▂▄   0  20  30  50",), (" 0  2  2  4",)),
    ]


def test_open_flows_may_be_on_any_link(teams: CampaignSummary) -> None:
    one = replace(team([1.0, 0, 0, 0], [2, 0, 0, None]), open_flows={"forward": 3, "reverse": 0})
    point = replace(teams.treatments[0].points[0], teams=(one,))
    columns = team_columns(replace(teams, treatments=(replace(teams.treatments[0], points=(point,)),)))
    assert columns[3].cells == ((" 2+  0+  0+  ?",), (" ?  0  0  2",))


@pytest.mark.parametrize("width", [80, 120])
def test_the_terminal_shows_each_link_uncut(teams: CampaignSummary, width: int) -> None:
    lines = print_lines(estimates_table(teams), width)
    assert TEAM_TABLE_TITLE in lines
    assert any("▄▂▂▁  50  30  20   0   4  2  2  0" in line for line in lines), lines
    assert not any("…" in line for line in lines)


def test_advice_stands_once_with_the_number_of_its_treatments(teams: CampaignSummary) -> None:
    def advise(one: TeamTraffic) -> TeamTraffic:
        return replace(one, advice=("Use more flows.",))

    treatments = tuple(
        replace(each, points=tuple(replace(p, teams=tuple(map(advise, p.teams))) for p in each.points))
        for each in teams.treatments
    )
    advised = replace(teams, treatments=treatments)
    assert team_advice(teams) == []
    assert team_advice(advised) == ["Use more flows. (2 treatments)"]
    assert "· Use more flows. (2 treatments)" in print_lines(estimates_table(advised))
    assert "<li>Use more flows. (2 treatments)</li>" in render_page([advised])


def test_a_narrow_terminal_says_what_the_table_needs(teams: CampaignSummary) -> None:
    assert any("needs a terminal of 59 columns" in line for line in print_lines(estimates_table(teams), 50))


def test_more_than_four_links_take_more_lines(teams: CampaignSummary) -> None:
    six = team([0.5, 0.3, 0.1, 0.05, 0.05, 0.0], [4, 2, 1, 1, 1, None])
    one = replace(teams.treatments[0], points=(replace(teams.treatments[0].points[0], teams=(six,)),))
    columns = team_columns(replace(teams, treatments=(one,)))
    assert columns[2].cells[0] == ("▄▂▁▁  50  30  10   5", "▁      5   0")
    assert columns[3].cells[0] == (" 4  2  1  1", " 1  ?")


def test_the_page_and_the_json_have_the_links(teams: CampaignSummary) -> None:
    page = render_page([teams])
    assert f"<h2>{TEAM_TABLE_TITLE}</h2>" in page
    assert "▄▂▂▁  50  30  20   0" in page
    (first, *_) = json.loads(campaign_json(teams))["treatments"][0]["trials"]
    assert first["teams"][0]["policy"] == "balance-tcp"
    assert first["teams"][0]["links"][1]["forward"]["share"] in (0, 1.0)


def test_without_a_team_there_is_no_table(jumbo: CampaignSummary) -> None:
    assert team_columns(jumbo) == []
    assert TEAM_TABLE_TITLE not in render_page([jumbo])
