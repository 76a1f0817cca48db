"""Factors of a team of links: its policy, its number of links, and its LACP."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from vnetbench.study.bonding_policies import BONDING_POLICIES
from vnetbench.study.factors import value_types
from vnetbench.study.factors.factor import Factor
from vnetbench.study.labs import NETNS, QEMU
from vnetbench.study.model import Level, TestbedSpec
from vnetbench.study.problems import WrongValue, format_raw_value
from vnetbench.study.teams import (
    ACTIVE_BOTH,
    ACTIVE_FAR,
    ACTIVE_NEAR,
    LACP_FAST,
    LACP_OFF,
    LACP_SLOW,
    MAX_TEAM_LINKS,
    MIN_TEAM_LINKS,
    OPEN_VSWITCH_POLICIES,
    TeamSpec,
)


def team_policies() -> value_types.ValueType:
    """Make the type of policies that a team of some location runs."""
    known = value_types.keywords(*dict.fromkeys((*OPEN_VSWITCH_POLICIES, *BONDING_POLICIES)))

    def parse(raw: object) -> Level:
        try:
            return known.parse(raw)
        except WrongValue as wrong:
            what = f"no team of a testbed has a policy {format_raw_value(raw)}"
            raise WrongValue(what, fix=wrong.fix) from wrong

    return replace(known, parse=parse)


TEAM_POLICY = Factor(
    "team_policy",
    team_policies(),
    unit="",
    default=None,
    description="Policy by which the team of `[[testbed.team]]` chooses the link of a packet. "
    "`active-backup`: one link carries everything. `balance-slb`: the source MAC address and VLAN decide. "
    "`balance-tcp`: addresses and ports decide; it needs LACP. Teams in guests have the policies of Linux "
    "bonding instead ([policies](team-predict.md#policies)): a hash policy alone is the mode balance-xor, "
    "and `802.3ad/layer3+4` is LACP with this hash policy. Without the factor, the team's own `policy` "
    "applies.",
    examples=('["active-backup", "balance-slb", "balance-tcp"]', '"balance-tcp"'),
    labs=(NETNS, QEMU),
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
    labs=(NETNS, QEMU),
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
    labs=(NETNS, QEMU),
    label="Team LACP",
    phrase_template="LACP {}",
)

TEAM_LACP_ACTIVE = Factor(
    "team_lacp_active",
    value_types.keywords(ACTIVE_BOTH, ACTIVE_NEAR, ACTIVE_FAR),
    unit="",
    default=None,
    description="Ends of a team in guests that negotiate LACP actively: `both`, only the end at the first VM "
    "(`near`), or only the other one (`far`). The passive end sends no frame of LACP until it has received "
    "one. Without the factor, the team's own `lacp_active` applies.",
    examples=('["both", "near", "far"]', '"near"'),
    labs=(QEMU,),
    label="Active ends of LACP",
    phrase_template="LACP active: {}",
)

TEAM_FACTORS = (TEAM_POLICY, TEAM_LINKS, TEAM_LACP, TEAM_LACP_ACTIVE)


def teams_of_treatment(spec: TestbedSpec, levels: Mapping[str, Level]) -> tuple[TeamSpec, ...]:
    """Return the teams of a testbed with the levels of a treatment."""
    changes: dict[str, Level] = {}
    if TEAM_POLICY.is_present_in(levels):
        changes["policy"] = levels[TEAM_POLICY.name]
    if TEAM_LINKS.is_present_in(levels):
        changes["links"] = levels[TEAM_LINKS.name]
    if TEAM_LACP.is_present_in(levels):
        changes["lacp"] = levels[TEAM_LACP.name]
    if TEAM_LACP_ACTIVE.is_present_in(levels):
        changes["lacp_active"] = levels[TEAM_LACP_ACTIVE.name]
    return tuple(replace(team, **changes) for team in spec.teams)  # type: ignore[arg-type]
