"""Factors of a team of links: its policy, its number of links, and its LACP."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from vnetbench.study.factors import value_types
from vnetbench.study.factors.factor import Factor
from vnetbench.study.labs import NETNS
from vnetbench.study.model import Level, TestbedSpec
from vnetbench.study.problems import WrongValue, format_raw_value
from vnetbench.study.teams import (
    LACP_FAST,
    LACP_OFF,
    LACP_SLOW,
    MAX_TEAM_LINKS,
    MIN_TEAM_LINKS,
    OPEN_VSWITCH_POLICIES,
    TeamSpec,
)


def team_policies() -> value_types.ValueType:
    """Make the type of policies that Open vSwitch runs."""
    known = value_types.keywords(*OPEN_VSWITCH_POLICIES)

    def parse(raw: object) -> Level:
        try:
            return known.parse(raw)
        except WrongValue as wrong:
            what = f"Open vSwitch, which runs the team, has no policy {format_raw_value(raw)}"
            raise WrongValue(what, fix=wrong.fix) from wrong

    return replace(known, parse=parse)


TEAM_POLICY = Factor(
    "team_policy",
    team_policies(),
    unit="",
    default=None,
    description="Policy by which the team of `[[testbed.team]]` chooses the link of a packet. "
    "`active-backup`: one link carries everything. `balance-slb`: the source MAC address and VLAN decide. "
    "`balance-tcp`: addresses and ports decide; it needs LACP. Without the factor, the team's own `policy` "
    "applies.",
    examples=('["active-backup", "balance-slb", "balance-tcp"]', '"balance-tcp"'),
    labs=(NETNS,),
    label="Team policy",
    phrase_template="{}",
)

TEAM_LINKS = Factor(
    "team_links",
    value_types.integers(MIN_TEAM_LINKS, MAX_TEAM_LINKS),
    unit="1",
    default=None,
    description="Number of links of the team of `[[testbed.team]]`. Without the factor, the team's own "
    "`links` applies.",
    examples=("[2, 4]", '"2, 4, 8"'),
    labs=(NETNS,),
    label="Team links",
    counted_noun="link",
    should_not_lower_rate=True,
    x_axis_rank=7,
)

TEAM_LACP = Factor(
    "team_lacp",
    value_types.keywords(LACP_OFF, LACP_SLOW, LACP_FAST),
    unit="",
    default=None,
    description="Timer of LACP at both ends of the team of `[[testbed.team]]`. `fast`: a link without frames "
    "of the partner leaves the team after 3 s. `slow`: after 90 s. `off`: no LACP. Without the factor, the "
    "team's own `lacp` applies.",
    examples=('["slow", "fast"]', '"fast"'),
    labs=(NETNS,),
    label="Team LACP",
    phrase_template="LACP {}",
)

FACTOR_BY_TEAM_KEY = {"policy": TEAM_POLICY, "links": TEAM_LINKS, "lacp": TEAM_LACP}
"""The factor that varies a key of `[[testbed.team]]`, which is also a field of `TeamSpec`."""


def teams_of_treatment(spec: TestbedSpec, levels: Mapping[str, Level]) -> tuple[TeamSpec, ...]:
    """Return the teams of a testbed with the levels of a treatment."""
    changes: dict[str, Level] = {
        key: levels[factor.name] for key, factor in FACTOR_BY_TEAM_KEY.items() if factor.is_present_in(levels)
    }
    return tuple(replace(team, **changes) for team in spec.teams)  # type: ignore[arg-type]
