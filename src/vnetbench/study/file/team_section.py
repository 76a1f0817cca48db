"""Keys of `[[testbed.team]]` in a study file."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from vnetbench.study.factors import value_types
from vnetbench.study.factors.list_types import lists_of
from vnetbench.study.factors.team_factors import TEAM_POLICIES, team_policies
from vnetbench.study.factors.testbed_factors import MAX_LINK_RATE_BPS, MIN_LINK_RATE_BPS
from vnetbench.study.factors.value_types import ValueType
from vnetbench.study.file import host_value_types
from vnetbench.study.file.keys import KeyFormat, StudySection
from vnetbench.study.teams import (
    ACTIVE_ENDS,
    ACTIVE_NEAR,
    BETWEEN_VSWITCHES,
    FAR_AUTO,
    FAR_SAME,
    FAR_SWITCH,
    GUEST_LOCATIONS,
    IN_GUESTS,
    LACP_AUTO,
    LACP_FAST,
    LACP_OFF,
    LACP_SLOW,
    MAX_TEAM_LINKS,
    MIN_TEAM_LINKS,
    VSWITCH_POLICIES,
    TeamSpec,
)

MIN_LOAD_PERIOD_S, MAX_LOAD_PERIOD_S = 0.1, 3600.0

_TEAM = TeamSpec()


def link_speeds() -> ValueType:
    """Make the type of the rates of links, as a text or a list; canonical is "10 Gbit/s, 1 Gbit/s"."""
    rate = value_types.bit_rates(MIN_LINK_RATE_BPS, MAX_LINK_RATE_BPS)
    expected = 'a rate for all links, such as "1 Gbit/s", or a list with one for each link'
    return lists_of(rate, MAX_TEAM_LINKS, expected)


class TeamSection(StudySection):
    """A team: links that act as one (a bond or port channel); a policy chooses one for each packet.

    Location `vswitches`, in the lab `netns`: two virtual switches, with one VM of each pair on each, joined
    by the links. With `vswitch = "bridge"`, a BPF program of the agent runs the policy, and `far_end` decides
    whether the second switch bundles the links too. With `vswitch = "openvswitch"`, the team is a bond of
    Open vSwitch: with LACP both switches bundle the links, without it the second one is an ordinary switch.

    Locations `guests` and `gateways`, in the lab `qemu`: Linux bonding bundles adapters of two guests, and
    link i joins member i of one guest with member i of the other. Modes that need a channel or LACP at the
    other end have a bond of the same mode there. With LACP, `far_end` can choose a bond of Open vSwitch
    instead. `active-backup`, `balance-tlb` and `balance-alb` have a switch there that does not bundle the
    links.

    The bench creates the team anew for each trial and reads its state back. Each trial counts the bytes and
    packets of every link.
    """

    heading = "testbed.team"

    name: Annotated[str, KeyFormat(host_value_types.host_names(), '"uplinks"')] = Field(
        _TEAM.name, description="Name of the team in the results."
    )
    location: Annotated[
        str, KeyFormat(value_types.keywords(BETWEEN_VSWITCHES, *GUEST_LOCATIONS), f'"{IN_GUESTS}"')
    ] = Field(
        _TEAM.location,
        description="Where the team is. `vswitches`: between the two virtual switches of the path. `guests`: "
        "in both guests of the pair, which use it as their interface. `gateways`: in two guests that forward "
        'frames for the VMs behind them, which are on the host (`role = "bridge"`).',
    )
    policy: Annotated[str, KeyFormat(team_policies(TEAM_POLICIES), '"balance-tcp"')] = Field(
        _TEAM.policy,
        description="Policy of the first end, unless the factor `team_policy` varies it. The location and "
        "`vswitch` decide which policies can run; `team_policy` names them.",
    )
    far_end: Annotated[
        str, KeyFormat(team_policies(VSWITCH_POLICIES, FAR_AUTO, FAR_SAME, FAR_SWITCH), f'"{FAR_SWITCH}"')
    ] = Field(
        _TEAM.far_end,
        description='The second switch, with `vswitch = "bridge"`, unless the factor `team_far_end` '
        "varies it. `same`: a channel with the same policy. `switch`: an ordinary switch without a "
        "channel. Another policy: a channel with that one. `auto`: `switch` for `active-backup`, "
        "`port-id`, `source-mac` and `physical-load`, else `same`. For teams in guests "
        "with LACP: `auto`, or a bond of Open vSwitch on the host with `balance-tcp` or `balance-slb`.",
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
        description="Timer of LACP at both ends, unless the factor `team_lacp` varies it. "
        "`fast`: a link without frames of the partner leaves the team after 3 s. `slow`: after 90 s. "
        "`off`: no LACP. `auto`: `fast` for policies that need LACP, which are `balance-tcp` and those with "
        "`802.3ad/`, else `off`.",
    )
    lacp_active: Annotated[str, KeyFormat(value_types.keywords(*ACTIVE_ENDS), f'"{ACTIVE_NEAR}"')] = Field(
        _TEAM.lacp_active,
        description="Ends of the team that negotiate LACP actively, unless the factor `team_lacp_active` "
        "varies it: `both`, only the end at the first VM (`near`), only the other one (`far`), or `neither`. "
        "A passive end sends no frame of LACP until it has received one, so with `neither` LACP finds no "
        "partner. Only bonds of Open vSwitch have `neither`.",
    )
    load_period_s: Annotated[
        float, KeyFormat(value_types.durations(MIN_LOAD_PERIOD_S, MAX_LOAD_PERIOD_S), '"5 s"')
    ] = Field(
        _TEAM.load_period_s,
        alias="load_period",
        description="With the policy `physical-load`: time over which the load of a link is averaged, and "
        "between two moves of a port. A trial has to last longer to show a move.",
    )
