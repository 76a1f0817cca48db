"""Factors of a team of links: its policy, its number of links, and its LACP."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from vnetbench.study.bonding_policies import BONDING_POLICIES
from vnetbench.study.factors import value_types
from vnetbench.study.factors.factor import Factor
from vnetbench.study.labs import HOSTS, NETNS, QEMU
from vnetbench.study.model import Level, TestbedSpec
from vnetbench.study.problems import WrongValue, format_raw_value
from vnetbench.study.teams import (
    ACTIVE_BACKUP,
    ACTIVE_ENDS,
    BONDING_HASHES,
    FAR_AUTO,
    FAR_SAME,
    FAR_SWITCH,
    LACP_FAST,
    LACP_OFF,
    LACP_SLOW,
    MAX_TEAM_LINKS,
    MIN_TEAM_LINKS,
    VSWITCH_POLICIES,
    TeamSpec,
)


def team_policies(policies: Sequence[str], *others: str) -> value_types.ValueType:
    """Make the type of a team's policies, and of other keywords.

    `vnetbench team policies` explains all of them, so an error does not list them.
    """
    known = value_types.keywords(*others, *policies)
    some = ", ".join(f'"{name}"' for name in (*others, *_COMMON_POLICIES))

    def parse(raw: object) -> Level:
        try:
            return known.parse(raw)
        except WrongValue as wrong:
            known_fix = wrong.fix or ""
            suggestion = known_fix.split("? ")[0] + "? " if "? " in known_fix else ""
            what = f"no team runs the policy {format_raw_value(raw)}"
            fix = f"{suggestion}write one of {some}, or another one of docs/study-reference.md"
            raise WrongValue(what, fix=fix) from wrong

    return replace(known, parse=parse)


_COMMON_POLICIES = (ACTIVE_BACKUP, "balance-slb", "balance-tcp", "layer3+4", "ip-hash", "port-id")
TEAM_POLICIES = tuple(dict.fromkeys((*VSWITCH_POLICIES, *BONDING_POLICIES)))
"""Policies that a team of some location runs."""

TEAM_POLICY = Factor(
    "team_policy",
    team_policies(TEAM_POLICIES),
    unit="",
    default=None,
    description="Policy by which the team of `[[testbed.team]]` chooses the link of a packet. "
    '`vswitch = "openvswitch"` runs `active-backup` (one link carries everything), `balance-slb` (the source '
    "MAC address and VLAN decide) and `balance-tcp` (addresses and ports decide; it needs LACP). "
    '`vswitch = "bridge"` runs the deterministic policies of [`vnetbench team policies`](team-predict.md): '
    "those of ESXi, Linux bonding, the team driver and physical switches. `ip-hash` XORs the last octets and "
    "`ip-hash-whole` the whole addresses, as the two published descriptions of ESXi say. `physical-load` "
    "starts as `port-id`, and moves a port off a link that sends at more than 75 % of its `speed` over "
    "`load_period`. Teams in guests run the policies of Linux bonding "
    "([policies](team-predict.md#policies)): a hash policy alone is the mode balance-xor, and "
    "`802.3ad/layer3+4` is LACP with this hash policy. Without the factor, the team's own `policy` applies.",
    examples=('["active-backup", "port-id", "ip-hash", "layer3+4"]', '"ip-hash"'),
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
    value_types.keywords(*ACTIVE_ENDS),
    unit="",
    default=None,
    description="Ends of the team that negotiate LACP actively: `both`, only the end at the first VM "
    "(`near`), only the other one (`far`), or `neither`. A passive end sends no frame of LACP until it has "
    "received one. So with `neither` LACP finds no partner, and a team of Open vSwitch uses one link. Linux "
    "bonding (teams in guests) has no `neither`: it sends frames of LACP even if both ends are passive. "
    "Without the factor, the team's own `lacp_active` applies.",
    examples=('["both", "near", "far", "neither"]', '"near"'),
    labs=(NETNS, QEMU),
    label="Active ends of LACP",
    phrase_template="LACP active: {}",
)

TEAM_FAR_END = Factor(
    "team_far_end",
    team_policies(VSWITCH_POLICIES, FAR_AUTO, FAR_SAME, FAR_SWITCH),
    unit="",
    default=None,
    description='What is at the far end of the links of `[[testbed.team]]`. With `vswitch = "bridge"`: '
    "`same`: a channel with the same policy. `switch`: an ordinary switch without a channel, which sends "
    "answers over the link where it last saw the address. Another policy: a channel with that policy. "
    "`auto`: `switch` for `active-backup`, `port-id`, `source-mac` and `physical-load`, else `same`. "
    "For teams in guests with LACP: `auto` (a bond of Linux in a guest), or a bond of Open vSwitch on the "
    "host with `balance-tcp` or `balance-slb`. Without the factor, the team's own `far_end` applies.",
    examples=('["same", "switch"]', '"layer2"'),
    labs=(NETNS, QEMU),
    label="Team far end",
    phrase_template="far end {}",
)

TEAM_HASH_POLICY = Factor(
    "team_hash_policy",
    value_types.keywords(*BONDING_HASHES),
    unit="",
    default=None,
    description="Hash policy (`xmit_hash_policy`) of the Linux bond that the interface of a host runs over, "
    "also below a VLAN interface or a bridge. The bench sets it on each host that has such a bond, reads it "
    "back, and restores it at the end. Without the factor, the bench only reads teams of hosts "
    "([how to](how-to/measure-a-host-team.md)).",
    examples=('["layer2", "layer2+3", "layer3+4"]', '"layer3+4"'),
    labs=(HOSTS,),
    label="Team hash policy",
    phrase_template="hash policy {}",
    needs_root=True,
    knobs=("team_hash_policy",),
    knob_fix="log in as root to a host whose interface runs over a Linux bond, or remove team_hash_policy",
)

FACTOR_BY_TEAM_KEY = {
    "policy": TEAM_POLICY,
    "links": TEAM_LINKS,
    "lacp": TEAM_LACP,
    "lacp_active": TEAM_LACP_ACTIVE,
    "far_end": TEAM_FAR_END,
}
"""The factor that varies a key of `[[testbed.team]]`, which is also a field of `TeamSpec`."""


def teams_of_treatment(spec: TestbedSpec, levels: Mapping[str, Level]) -> tuple[TeamSpec, ...]:
    """Return the teams of a testbed with the levels of a treatment."""
    changes: dict[str, Level] = {
        key: levels[factor.name] for key, factor in FACTOR_BY_TEAM_KEY.items() if factor.is_present_in(levels)
    }
    return tuple(replace(team, **changes) for team in spec.teams)  # type: ignore[arg-type]
