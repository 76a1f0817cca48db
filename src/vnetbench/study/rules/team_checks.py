"""Checks of a study's team of links: what its lab, its virtual switch and its policies cannot do."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from vnetbench.study.bonding_policies import BONDING_POLICIES
from vnetbench.study.factors.registry import complete_levels
from vnetbench.study.factors.team_factors import (
    TEAM_FACTORS,
    TEAM_LACP,
    TEAM_LACP_ACTIVE,
    TEAM_LINKS,
    TEAM_POLICY,
    teams_of_treatment,
)
from vnetbench.study.factors.testbed_factors import (
    LINK_IMPAIRMENT_FACTORS,
    LINK_QUEUE,
    LINK_RATE,
    VSWITCH,
)
from vnetbench.study.labs import NETNS, QEMU
from vnetbench.study.model import Study, TestbedSpec
from vnetbench.study.problems import KeyLocator, Problem, StudyLocation
from vnetbench.study.rules.guest_team_checks import guest_team_problems
from vnetbench.study.rules.rule import EXCLUDE_FIX, TreatmentLevels
from vnetbench.study.teams import (
    ACTIVE_BOTH,
    BETWEEN_VSWITCHES,
    IN_GATEWAYS,
    IN_GUESTS,
    LACP_OFF,
    OPEN_VSWITCH_POLICIES,
    TeamSpec,
)

_TEAM = ("testbed", "team", 0)
_OPEN_VSWITCH = "openvswitch"


def check_teams(study: Study, treatments: Iterable[TreatmentLevels], locate: KeyLocator) -> Iterator[Problem]:
    """Yield the problems of a study's team, each once."""
    testbed = study.testbed
    varied = [factor for factor in TEAM_FACTORS if any(each.name == factor.name for each in study.factors)]
    if not testbed.teams:
        for factor in varied:
            yield locate("factors", factor.name).make_problem(
                f"{factor.name} varies a team, and the study has no team",
                fix='write [[testbed.team]], and lines such as links = 4 and speed = "1 Gbit/s" under it',
            )
        return
    if testbed.lab not in (NETNS, QEMU):
        yield locate(*_TEAM).make_problem(
            f"the lab {testbed.lab} has no teams", fix=f'remove it, or write lab = "{NETNS}" under [testbed]'
        )
        return
    if testbed.teams[0].is_in_guests != (testbed.lab == QEMU):
        yield _locate_location_problem(testbed, locate)
        return
    if len(testbed.teams) > 1:
        yield locate("testbed", "team", 1).make_problem(
            f"the study has {len(testbed.teams)} teams at the same location", fix="remove all but one"
        )
    if testbed.uplink:
        yield locate("testbed", "uplink").make_problem(
            "the team already joins the two vSwitches, so there is no single uplink", fix="remove uplink"
        )
    yield from _check_treatments(study, treatments, locate)


def _locate_location_problem(testbed: TestbedSpec, locate: KeyLocator) -> Problem:
    location = testbed.teams[0].location
    if testbed.lab == QEMU:
        return locate(*_TEAM).make_problem(
            f"the lab {QEMU} has no team at the location {location}",
            fix=f'write location = "{IN_GUESTS}" or "{IN_GATEWAYS}" under [[testbed.team]]',
        )
    return locate(*_TEAM, "location").make_problem(
        f"a team at the location {location} needs guests, and the lab {testbed.lab} has none",
        fix=f'write lab = "{QEMU}" under [testbed], or location = "{BETWEEN_VSWITCHES}"',
    )


def _check_treatments(
    study: Study, treatments: Iterable[TreatmentLevels], locate: KeyLocator
) -> Iterator[Problem]:
    found: set[str] = set()
    most_links = 0
    for treatment in treatments:
        levels = complete_levels(treatment, study.workload, study.testbed.backend)
        most_links = max(most_links, teams_of_treatment(study.testbed, levels)[0].links)
        for problem in _treatment_problems(study, levels, locate):
            if problem.what not in found:
                found.add(problem.what)
                yield problem
    # A treatment with fewer links than another one uses the first rates.
    listed_count = len(study.testbed.teams[0].listed_speeds_bps)
    if 0 < most_links < listed_count:
        yield locate(*_TEAM, "speed").make_problem(
            f"speed lists {listed_count} links, but the team has {most_links}",
            fix=f"list {most_links} rates in speed, or write links = {listed_count}",
        )


def _treatment_problems(study: Study, levels: TreatmentLevels, locate: KeyLocator) -> Iterator[Problem]:
    (team,) = teams_of_treatment(study.testbed, levels)[:1]
    policies = BONDING_POLICIES if team.is_in_guests else OPEN_VSWITCH_POLICIES
    if team.policy not in policies:
        runner = "Linux bonding" if team.is_in_guests else "Open vSwitch"
        yield _locate_setting(levels, locate, "policy").make_problem(
            f"{runner}, which runs the team, has no policy {team.policy}",
            fix=f"write one of {', '.join(policies)}",
        )
        return
    if team.is_in_guests:
        yield from guest_team_problems(study, team, levels, locate)
    elif not VSWITCH.is_at(levels, _OPEN_VSWITCH):
        yield locate("factors", VSWITCH.name).make_problem(
            f"{VSWITCH.format_as_assignment(levels[VSWITCH.name])} runs no team of links",
            fix=f'write {VSWITCH.name} = "{_OPEN_VSWITCH}" under [factors]',
        )
    if team.needs_lacp and team.lacp == LACP_OFF:
        is_lacp_varied = TEAM_LACP.is_present_in(levels)
        setting = TEAM_LACP.name if is_lacp_varied else "lacp"
        better = "leave out this level" if is_lacp_varied else 'write lacp = "auto" under [[testbed.team]]'
        yield _locate_setting(levels, locate, "policy").make_problem(
            f"{team.policy} needs LACP, which {setting} = {team.lacp} turns off",
            fix=f"{better}, or {EXCLUDE_FIX}",
        )
    if team.lacp_active != ACTIVE_BOTH and not (team.is_in_guests and team.has_lacp):
        is_varied = TEAM_LACP_ACTIVE.is_present_in(levels)
        key = locate("factors", TEAM_LACP_ACTIVE.name) if is_varied else locate(*_TEAM, "lacp_active")
        yield key.make_problem(
            f"the {team.lacp_active} end cannot be the only active one: only LACP of teams in guests has a "
            "passive end",
            fix=f'write "{ACTIVE_BOTH}", or {EXCLUDE_FIX}',
        )
    yield from _speed_problems(team, levels, locate)
    for impairment in LINK_IMPAIRMENT_FACTORS:
        if impairment.has_non_default_level(levels):
            yield locate("factors", impairment.name).make_problem(
                f"{impairment.name} impairs a single link, and a team has {team.links}",
                fix=f"{EXCLUDE_FIX}, or remove the team",
            )


def _speed_problems(team: TeamSpec, levels: TreatmentLevels, locate: KeyLocator) -> Iterator[Problem]:
    listed = team.listed_speeds_bps
    if 1 < len(listed) < team.links:
        yield _locate_setting(levels, locate, "links").make_problem(
            f"the team has {team.links} members, but speed lists only {len(listed)} links",
            fix=f"list {team.links} rates in speed, write one rate for all links, or use {len(listed)} links",
        )
        return
    if team.has_lacp and len(set(team.speeds_bps)) > 1:
        # IEEE 802.1AX-2008, 5.1.2: operation across multiple data rates is not supported.
        yield _locate_setting(levels, locate, "policy").make_problem(
            f"{team.policy} with LACP needs links of one speed, and speed lists different ones",
            fix=f"write one rate in speed, use a policy without LACP, or {EXCLUDE_FIX}",
        )
    if not listed:
        return
    for factor in (LINK_RATE, LINK_QUEUE):
        if factor.has_non_default_level(levels):
            yield locate("factors", factor.name).make_problem(
                f"{factor.name} shapes the links of the team, which already have a speed",
                fix=f"remove speed from [[testbed.team]], or remove {factor.name}",
            )


def _locate_setting(levels: TreatmentLevels, locate: KeyLocator, key: str) -> StudyLocation:
    """Return the location of the factor that varies a key of the team, or else of the key."""
    factor = {"policy": TEAM_POLICY, "links": TEAM_LINKS}[key]
    return locate("factors", factor.name) if factor.is_present_in(levels) else locate(*_TEAM, key)
