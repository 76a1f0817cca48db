"""Keys of `[[testbed.team]]` in a study file."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from vnetbench.errors import BenchError
from vnetbench.study.factors import value_types
from vnetbench.study.factors.team_factors import team_policies
from vnetbench.study.factors.value_types import Json, ValueType
from vnetbench.study.file import host_value_types
from vnetbench.study.file.keys import KeyFormat, StudySection
from vnetbench.study.model import Level
from vnetbench.study.problems import WrongValue
from vnetbench.study.teams import (
    ACTIVE_BOTH,
    ACTIVE_FAR,
    ACTIVE_NEAR,
    BETWEEN_VSWITCHES,
    GUEST_LOCATIONS,
    IN_GUESTS,
    LACP_AUTO,
    LACP_FAST,
    LACP_OFF,
    LACP_SLOW,
    MAX_TEAM_LINKS,
    MIN_TEAM_LINKS,
    TeamSpec,
)

_TEAM = TeamSpec()
MIN_SPEED_BPS, MAX_SPEED_BPS = 1000, 34 * 10**9
"""As for `link_rate`: the limit is a little below what tc's 32-bit field of bytes per second can hold."""


def link_speeds() -> ValueType:
    """Make the type of the rates of links, as a text or a list; canonical is "10 Gbit/s, 1 Gbit/s"."""
    rate = value_types.bit_rates(MIN_SPEED_BPS, MAX_SPEED_BPS)
    expected = 'a rate for all links, such as "1 Gbit/s", or a list with one for each link'

    def parse(raw: object) -> Level:
        parts = raw if isinstance(raw, list) else raw.split(",") if isinstance(raw, str) else [raw]
        if not 1 <= len(parts) <= MAX_TEAM_LINKS:
            raise WrongValue(f"{len(parts)} rates are too few or too many", fix=f"write {expected}")
        try:
            return ", ".join(rate.format(rate.parse(part)) for part in parts)
        except BenchError as error:
            raise WrongValue(error.what, fix=f"write {expected}") from error

    as_list: Json = {"type": "array", "items": {"type": "string", "pattern": rf"^\s*({rate.pattern})\s*$"}}
    as_list |= {"minItems": 1, "maxItems": MAX_TEAM_LINKS}
    pattern = rf"({rate.pattern})(\s*,\s*({rate.pattern}))*"
    return ValueType(expected, parse, str, pattern, (as_list,), has_commas=True)


class TeamSection(StudySection):
    """A team: links that act as one (a bond or port channel); a policy chooses one for each packet.

    Location `vswitches`, in the lab `netns` with `vswitch = "openvswitch"`: two virtual switches, with one VM
    of each pair on each, joined by the links. With LACP, both switches bundle the links with the same policy
    (a bond of Open vSwitch). Without LACP, the second one is an ordinary switch: it sends answers over the
    link where it learned the address.

    Locations `guests` and `gateways`, in the lab `qemu`: Linux bonding bundles adapters of two guests, and
    link i joins member i of one guest with member i of the other. Modes that need a channel or LACP at the
    other end have a bond of the same mode there. `active-backup`, `balance-tlb` and `balance-alb` have a
    switch there that does not bundle the links.

    The bench creates the bonds anew for each trial and reads their state back. Each trial counts
    the bytes and packets of every link.
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
    policy: Annotated[str, KeyFormat(team_policies(), '"balance-tcp"')] = Field(
        _TEAM.policy,
        description="Policy of both ends with LACP, and of the first end without, unless the factor "
        "`team_policy` varies it. Open vSwitch runs `active-backup`, `balance-slb` and `balance-tcp`; guests "
        "run the policies of Linux bonding.",
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
        "`off`: no LACP. `auto`: `fast` for policies that need LACP, which are `balance-tcp` and those with "
        "`802.3ad/`, else `off`.",
    )
    lacp_active: Annotated[
        str, KeyFormat(value_types.keywords(ACTIVE_BOTH, ACTIVE_NEAR, ACTIVE_FAR), f'"{ACTIVE_NEAR}"')
    ] = Field(
        _TEAM.lacp_active,
        description="Ends of a team in guests that negotiate LACP actively, unless the factor "
        "`team_lacp_active` varies it: `both`, only the end at the first VM (`near`), or only the other one "
        "(`far`). The passive end sends no frame of LACP until it has received one.",
    )
