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

    Lab `netns` with `vswitch = "openvswitch"`: two virtual switches, with one VM of each pair on each, joined
    by the links. With LACP, both switches bundle the links with the same policy (a bond of Open vSwitch).
    Without LACP, the second one is an ordinary switch: it sends answers over the link where it learned the
    address. The bench creates the bonds anew for each trial and reads their state back. Each trial counts
    the bytes and packets of every link.
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
        description="Policy of both ends with LACP, and of the first end without, unless the factor "
        "`team_policy` varies it. Open vSwitch runs these policies.",
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
