"""Keys of `[[testbed.team]]` in a study file."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from vnetbench.study.factors import value_types
from vnetbench.study.factors.list_types import lists_of
from vnetbench.study.factors.team_factors import team_policies
from vnetbench.study.factors.testbed_factors import MAX_LINK_RATE_BPS, MIN_LINK_RATE_BPS
from vnetbench.study.factors.value_types import ValueType
from vnetbench.study.file import host_value_types
from vnetbench.study.file.keys import KeyFormat, StudySection
from vnetbench.study.teams import (
    BETWEEN_VSWITCHES,
    FAR_AUTO,
    FAR_SAME,
    FAR_SWITCH,
    LACP_AUTO,
    LACP_FAST,
    LACP_OFF,
    LACP_SLOW,
    MAX_TEAM_LINKS,
    MIN_TEAM_LINKS,
    TeamSpec,
)

_TEAM = TeamSpec()


def link_speeds() -> ValueType:
    """Make the type of the rates of links, as a text or a list; canonical is "10 Gbit/s, 1 Gbit/s"."""
    rate = value_types.bit_rates(MIN_LINK_RATE_BPS, MAX_LINK_RATE_BPS)
    expected = 'a rate for all links, such as "1 Gbit/s", or a list with one for each link'
    return lists_of(rate, MAX_TEAM_LINKS, expected)


class TeamSection(StudySection):
    """A team: links that act as one (a bond or port channel); a policy chooses one for each packet.

    Lab `netns`: two virtual switches, with one VM of each pair on each, joined by the links. With
    `vswitch = "bridge"`, a BPF program of the agent runs the policy, and `far_end` decides whether the
    second switch bundles the links too. With `vswitch = "openvswitch"`, the team is a bond of Open vSwitch:
    with LACP both switches bundle the links, without it the second one is an ordinary switch. The bench
    creates the team anew for each trial and reads its state back. Each trial counts the bytes and packets of
    every link.
    """

    heading = "testbed.team"

    name: Annotated[str, KeyFormat(host_value_types.host_names(), '"uplinks"')] = Field(
        _TEAM.name, description="Name of the team in the results."
    )
    location: Annotated[str, KeyFormat(value_types.keywords(BETWEEN_VSWITCHES), f'"{BETWEEN_VSWITCHES}"')] = (
        Field(
            _TEAM.location,
            description="Where the team is. `vswitches`: between the two virtual switches of the path.",
        )
    )
    policy: Annotated[str, KeyFormat(team_policies(), '"balance-tcp"')] = Field(
        _TEAM.policy,
        description="Policy of the first switch, unless the factor `team_policy` varies it. `vswitch` "
        "decides which policies can run; `team_policy` names them.",
    )
    far_end: Annotated[str, KeyFormat(team_policies(FAR_AUTO, FAR_SAME, FAR_SWITCH), f'"{FAR_SWITCH}"')] = (
        Field(
            _TEAM.far_end,
            description='The second switch, with `vswitch = "bridge"`, unless the factor `team_far_end` '
            "varies it. `same`: a channel with the same policy. `switch`: an ordinary switch without a "
            "channel. Another policy: a channel with that one. `auto`: `switch` for `active-backup`, "
            "`port-id` and `source-mac`, else `same`.",
        )
    )
    links: Annotated[int, KeyFormat(value_types.integers(MIN_TEAM_LINKS, MAX_TEAM_LINKS), "4")] = Field(
        _TEAM.links,
        description="Number of links, unless the factor `team_links` varies it. Both ends use all of them.",
    )
    speed: Annotated[str | None, KeyFormat(link_speeds(), '["1 Gbit/s", "1 Gbit/s"]')] = Field(
        _TEAM.speed,
        description="Rate to which `testbed.shaper` shapes each link in both directions: one for all links, "
        "or a list with one for each link. Without it, the factor `link_rate` applies to each link.",
    )
    lacp: Annotated[
        str, KeyFormat(value_types.keywords(LACP_AUTO, LACP_OFF, LACP_SLOW, LACP_FAST), '"fast"')
    ] = Field(
        _TEAM.lacp,
        description="Timer of LACP, which both ends negotiate actively, unless the factor `team_lacp` varies "
        "it. `fast`: a link without frames of the partner leaves the team after 3 s. `slow`: after 90 s. "
        "`off`: no LACP. `auto`: `fast` for policies that need LACP, which is `balance-tcp`, else `off`.",
    )
