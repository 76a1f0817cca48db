"""Checks of a team in guests: what the guests, their adapters and Linux bonding cannot do."""

from __future__ import annotations

from collections.abc import Iterator

from vnetbench.study.factors.guest_factors import (
    ADAPTER,
    COALESCE,
    GUEST_PAIRS,
    GUEST_ROLE,
    IRQ_PIN,
    LRO,
    RX_RING,
    TX_RING,
)
from vnetbench.study.factors.team_factors import TEAM_LACP, TEAM_LINKS
from vnetbench.study.factors.testbed_factors import QUEUES
from vnetbench.study.model import Study
from vnetbench.study.problems import KeyLocator, Problem
from vnetbench.study.rules.rule import EXCLUDE_FIX, TreatmentLevels
from vnetbench.study.teams import IN_GATEWAYS, IN_GUESTS, LACP_POLICY_PREFIX, TeamSpec
from vnetbench.study.workloads import WORKLOADS

MAX_GUEST_TEAM_LINKS = 8
"""Most adapters that a team of a guest has."""
_ROLE_BY_LOCATION = {IN_GUESTS: "guest-to-guest", IN_GATEWAYS: "bridge"}
_ADAPTERS_WITHOUT_TAP = ("macvtap", "vf")
"""Adapters that have no tap, which a link could be joined with."""
_ADAPTER_FACTORS = (RX_RING, TX_RING, COALESCE, IRQ_PIN, LRO, QUEUES)


def guest_team_problems(
    study: Study, team: TeamSpec, levels: TreatmentLevels, locate: KeyLocator
) -> Iterator[Problem]:
    """Yield the problems of a treatment with its team in guests."""
    if WORKLOADS[study.workload].carries_frames:
        yield locate("workload").make_problem(
            f"the workload {study.workload} sends frames, and a team in guests carries sockets only",
            fix='write a workload of sockets, such as workload = "tcp_stream"',
        )
        return
    role = _ROLE_BY_LOCATION[team.location]
    if not GUEST_ROLE.is_at(levels, role):
        yield locate("factors", GUEST_ROLE.name).make_problem(
            f"a team at the location {team.location} needs {GUEST_ROLE.name} = {role}",
            fix=f'write {GUEST_ROLE.name} = "{role}" under [factors]',
        )
    if team.location == IN_GUESTS and int(levels.get(GUEST_PAIRS.name, 1)) > 1:
        yield locate("factors", GUEST_PAIRS.name).make_problem(
            "a team in guests has one pair of guests",
            fix=f'write guests = 1, or location = "{IN_GATEWAYS}" under [[testbed.team]]',
        )
    if ADAPTER.is_at(levels, *_ADAPTERS_WITHOUT_TAP):
        yield locate("factors", ADAPTER.name).make_problem(
            f"{ADAPTER.format_as_assignment(levels[ADAPTER.name])} cannot be a member of a team in guests",
            fix='use another adapter, such as "virtio-net"',
        )
    for factor in _ADAPTER_FACTORS:
        if factor.is_present_in(levels):
            yield locate("factors", factor.name).make_problem(
                f"{factor.name} sets an adapter, and the guests' adapters are members of a team",
                fix=f"remove {factor.name}, or remove the team",
            )
    if team.links > MAX_GUEST_TEAM_LINKS:
        key = locate("factors", TEAM_LINKS.name) if TEAM_LINKS.is_present_in(levels) else None
        yield (key or locate("testbed", "team", 0, "links")).make_problem(
            f"a team in guests has at most {MAX_GUEST_TEAM_LINKS} links, not {team.links}",
            fix=f"write at most {MAX_GUEST_TEAM_LINKS} links",
        )
    if team.has_lacp and not team.needs_lacp:
        is_varied = TEAM_LACP.is_present_in(levels)
        key = locate("factors", TEAM_LACP.name) if is_varied else locate("testbed", "team", 0, "lacp")
        yield key.make_problem(
            f"Linux bonding runs no LACP with the policy {team.policy}",
            fix=f'use a policy with LACP, such as "{LACP_POLICY_PREFIX}layer3+4", or {EXCLUDE_FIX}',
        )
