"""Checks of a study's team of links: what its lab, its virtual switch and its policies cannot do."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from vnetbench.study.bonding_policies import BONDING_POLICIES
from vnetbench.study.factors.disruption_factors import EVENT, TEAM_EVENTS
from vnetbench.study.factors.registry import complete_levels
from vnetbench.study.factors.team_factors import (
    FACTOR_BY_TEAM_KEY,
    TEAM_LACP,
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
    ACTIVE_BACKUP,
    ACTIVE_BOTH,
    ACTIVE_NEITHER,
    BETWEEN_VSWITCHES,
    BPF_POLICIES,
    CISCO_PREFIX,
    FAR_AUTO,
    FAR_OPEN_VSWITCH_POLICIES,
    FAR_SAME,
    FAR_SWITCH,
    IN_GATEWAYS,
    IN_GUESTS,
    LACP_OFF,
    LACP_POLICY_PREFIX,
    MAX_CISCO_LINKS,
    PHYSICAL_LOAD,
    POLICIES_BY_VSWITCH,
    TeamSpec,
)

_TEAM = ("testbed", "team", 0)
_OPEN_VSWITCH_FAR_ENDS = " or ".join(f'"{name}"' for name in FAR_OPEN_VSWITCH_POLICIES)
_OPEN_VSWITCH, _BRIDGE = "openvswitch", "bridge"


def check_teams(study: Study, treatments: Iterable[TreatmentLevels], locate: KeyLocator) -> Iterator[Problem]:
    """Yield the problems of a study's team, each once."""
    testbed = study.testbed
    varied = [
        factor
        for factor in FACTOR_BY_TEAM_KEY.values()
        if any(each.name == factor.name for each in study.factors)
    ]
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
    if team.is_in_guests:
        yield from _guest_policy_problems(study, team, levels, locate)
    elif (vswitch := str(levels[VSWITCH.name])) not in POLICIES_BY_VSWITCH:
        yield locate("factors", VSWITCH.name).make_problem(
            f"{VSWITCH.format_as_assignment(vswitch)} runs no team of links",
            fix=f'write {VSWITCH.name} = "{_BRIDGE}" or "{_OPEN_VSWITCH}" under [factors]',
        )
    else:
        yield from _policy_problems(team, vswitch, levels, locate)
    if team.needs_lacp and team.lacp == LACP_OFF:
        is_lacp_varied = TEAM_LACP.is_present_in(levels)
        setting = TEAM_LACP.name if is_lacp_varied else "lacp"
        better = "leave out this level" if is_lacp_varied else 'write lacp = "auto" under [[testbed.team]]'
        yield _locate_setting(levels, locate, "policy").make_problem(
            f"{team.policy} needs LACP, which {setting} = {team.lacp} turns off",
            fix=f"{better}, or {EXCLUDE_FIX}",
        )
    if team.lacp_active != ACTIVE_BOTH and not team.has_lacp:
        yield _locate_setting(levels, locate, "lacp_active").make_problem(
            f"{team.lacp_active} as the active ends needs LACP, which {team.policy} does not use here",
            fix=f'use a policy or lacp with LACP, write "{ACTIVE_BOTH}", or {EXCLUDE_FIX}',
        )
    yield from _speed_problems(team, levels, locate)
    for impairment in LINK_IMPAIRMENT_FACTORS:
        if impairment.has_non_default_level(levels):
            yield locate("factors", impairment.name).make_problem(
                f"{impairment.name} impairs a single link, and a team has {team.links}",
                fix=f"{EXCLUDE_FIX}, or remove the team",
            )


def _guest_policy_problems(
    study: Study, team: TeamSpec, levels: TreatmentLevels, locate: KeyLocator
) -> Iterator[Problem]:
    """Yield what a team in guests cannot run."""
    if team.policy not in BONDING_POLICIES:
        yield _locate_setting(levels, locate, "policy").make_problem(
            f"Linux bonding, which runs the team, has no policy {team.policy}",
            fix=f"write one of {', '.join(BONDING_POLICIES)}",
        )
        return
    if team.far_end != FAR_AUTO and not team.has_open_vswitch_far_end:
        yield _locate_setting(levels, locate, "far_end").make_problem(
            f"far end {team.far_end}: a team in guests has a bond like its own there, or one of Open vSwitch",
            fix=f'write "{FAR_AUTO}", or {_OPEN_VSWITCH_FAR_ENDS}',
        )
    elif team.has_open_vswitch_far_end and not team.needs_lacp:
        yield _locate_setting(levels, locate, "far_end").make_problem(
            f"far end {team.far_end}: without LACP, a bond of Open vSwitch drops frames of a channel",
            fix=f'use a policy with LACP, such as "{LACP_POLICY_PREFIX}layer3+4", or {EXCLUDE_FIX}',
        )
    if team.lacp_active == ACTIVE_NEITHER:
        # ad_initialize_port() takes the unknown partner for an active one, and so the port sends frames.
        yield _locate_setting(levels, locate, "lacp_active").make_problem(
            "Linux bonding sends frames of LACP even if both ends are passive",
            fix=f'write location = "{BETWEEN_VSWITCHES}", {VSWITCH.name} = "{_OPEN_VSWITCH}" and '
            f'lab = "{NETNS}", or leave "{ACTIVE_NEITHER}" out',
        )
    yield from guest_team_problems(study, team, levels, locate)


def _policy_problems(
    team: TeamSpec, vswitch: str, levels: TreatmentLevels, locate: KeyLocator
) -> Iterator[Problem]:
    """Yield what the teams of a virtual switch cannot run."""
    if team.policy not in POLICIES_BY_VSWITCH[vswitch]:
        other = _OPEN_VSWITCH if vswitch == _BRIDGE else _BRIDGE
        yield _locate_setting(levels, locate, "policy").make_problem(
            f"{VSWITCH.format_as_assignment(vswitch)} has no team policy {team.policy}",
            fix=f'write {VSWITCH.name} = "{other}", or {EXCLUDE_FIX}',
        )
        return
    if vswitch == _OPEN_VSWITCH:
        if team.far_end != FAR_AUTO:
            yield _locate_setting(levels, locate, "far_end").make_problem(
                f"far end {team.far_end}: LACP decides what is at the far end of a bond of Open vSwitch",
                fix=f'remove it and use lacp, write {VSWITCH.name} = "{_BRIDGE}", or {EXCLUDE_FIX}',
            )
        return
    if team.has_lacp:
        yield _locate_setting(levels, locate, "lacp").make_problem(
            f"the team of {VSWITCH.format_as_assignment(vswitch)} runs no LACP",
            fix=f'write lacp = "{LACP_OFF}", write {VSWITCH.name} = "{_OPEN_VSWITCH}", or {EXCLUDE_FIX}',
        )
    yield from _far_end_problems(team, levels, locate)
    if EVENT.is_at(levels, *TEAM_EVENTS):
        yield locate("factors", EVENT.name).make_problem(
            f"{EVENT.format_as_assignment(levels[EVENT.name])} needs a team that notices a lost link",
            fix=f'write {VSWITCH.name} = "{_OPEN_VSWITCH}" under [factors]',
        )


def _far_end_problems(team: TeamSpec, levels: TreatmentLevels, locate: KeyLocator) -> Iterator[Problem]:
    far = team.far_policy
    if far is not None and far not in BPF_POLICIES:
        yield _locate_setting(levels, locate, "far_end").make_problem(
            f"the far end cannot run {far}, which only Open vSwitch has",
            fix=f'write "{FAR_SAME}", "{FAR_SWITCH}" or another policy',
        )
    elif far not in (None, team.policy) and ACTIVE_BACKUP in (far, team.policy):
        yield _locate_setting(levels, locate, "far_end").make_problem(
            f"{team.policy} opposite {far} loses frames: {ACTIVE_BACKUP} takes frames of one link only",
            fix=f'write "{FAR_SAME}" or "{FAR_SWITCH}" as the far end, or {EXCLUDE_FIX}',
        )
    for name in dict.fromkeys((team.policy, far)):
        if name is not None and name.startswith(CISCO_PREFIX) and team.links > MAX_CISCO_LINKS:
            yield _locate_setting(levels, locate, "links").make_problem(
                f"{name} has at most {MAX_CISCO_LINKS} links, not {team.links}",
                fix=f"use at most {MAX_CISCO_LINKS} links, or {EXCLUDE_FIX}",
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
        if PHYSICAL_LOAD in (team.policy, team.far_policy):
            yield _locate_setting(levels, locate, "policy").make_problem(
                f"{PHYSICAL_LOAD} compares the load of each link with its speed, and the links have none",
                fix=f'write speed = "1 Gbit/s" or another rate under [[testbed.team]], or {EXCLUDE_FIX}',
            )
        return
    for factor in (LINK_RATE, LINK_QUEUE):
        if factor.has_non_default_level(levels):
            yield locate("factors", factor.name).make_problem(
                f"{factor.name} shapes the links of the team, which already have a speed",
                fix=f"remove speed from [[testbed.team]], or remove {factor.name}",
            )


def _locate_setting(levels: TreatmentLevels, locate: KeyLocator, key: str) -> StudyLocation:
    """Return the location of the factor that varies a key of the team, or else of the key."""
    factor = FACTOR_BY_TEAM_KEY[key]
    return locate("factors", factor.name) if factor.is_present_in(levels) else locate(*_TEAM, key)
