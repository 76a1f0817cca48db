"""Teams in a study: their keys and factors, and every team that cannot be is refused with its fix."""

from __future__ import annotations

import tomllib

import pytest
from jsonschema import Draft202012Validator

from vnetbench.study.factors.team_factors import teams_of_treatment
from vnetbench.study.file.load import parse_study
from vnetbench.study.file.schema import make_json_schema
from vnetbench.study.plan import generate_treatment_levels
from vnetbench.study.problems import Problem, StudyError
from vnetbench.study.teams import TeamSpec

pytestmark = pytest.mark.pure

HEAD = 'title = "x"\n'
FACTORS = '[factors]\nvswitch = "openvswitch"\n'


def problems(text: str, *overrides: str) -> tuple[Problem, ...]:
    with pytest.raises(StudyError) as caught:
        parse_study(text, "teams.toml", overrides)
    return tuple(caught.value.problems)


def problem(text: str, *overrides: str) -> str:
    (found,) = problems(text, *overrides)
    return f"{found.study_line}: {found.what}\n{found.fix}"


def test_a_team_has_its_keys_and_factors_vary_them() -> None:
    text = (
        f'{HEAD}[[testbed.team]]\nname = "core"\nlinks = 4\nspeed = "100 Mbit/s"\n'
        f'{FACTORS}team_policy = ["active-backup", "balance-tcp"]\nteam_links = [2, 3]\n'
    )
    study = parse_study(text, None)
    assert study.testbed.teams == (TeamSpec("core", links=4, speed="100 Mbit/s"),)
    teams = [
        team
        for levels in generate_treatment_levels(study)
        for team in teams_of_treatment(study.testbed, levels)
    ]
    assert [(team.policy, team.has_lacp, team.speeds_bps) for team in teams] == [
        ("active-backup", False, (10**8,) * 2),
        ("active-backup", False, (10**8,) * 3),
        ("balance-tcp", True, (10**8,) * 2),
        ("balance-tcp", True, (10**8,) * 3),
    ]
    Draft202012Validator(make_json_schema()).validate(tomllib.loads(text))


def test_lacp_has_a_timer_that_a_factor_varies() -> None:
    text = f'{HEAD}[[testbed.team]]\nlacp = "slow"\n{FACTORS}'
    assert parse_study(text, None).testbed.teams[0].lacp_timer == "slow"
    study = parse_study(f'{text}team_lacp = ["off", "fast"]\n', None)
    teams = [teams_of_treatment(study.testbed, levels)[0] for levels in generate_treatment_levels(study)]
    assert [(team.lacp_timer, team.has_lacp) for team in teams] == [("off", False), ("fast", True)]
    text = f'{HEAD}[[testbed.team]]\npolicy = "balance-tcp"\n{FACTORS}team_lacp = ["off", "fast"]\n'
    assert problem(text) == (
        "3: balance-tcp needs LACP, which team_lacp = off turns off\n"
        "leave out this level, or exclude this combination with [[exclude]]"
    )


def test_a_team_without_factors_is_the_one_that_the_study_describes() -> None:
    study = parse_study(f"{HEAD}[[testbed.team]]\n{FACTORS}", None)
    (levels,) = generate_treatment_levels(study)
    assert teams_of_treatment(study.testbed, levels) == (TeamSpec(),)
    assert TeamSpec().speeds_bps == (None, None)


def test_each_link_can_have_its_own_speed() -> None:
    text = f'{HEAD}[[testbed.team]]\nspeed = ["1 Gbit/s", "100 Mbps"]\n{FACTORS}'
    (team,) = parse_study(text, None).testbed.teams
    assert team.speed == "1 Gbit/s, 100 Mbit/s"
    assert team.speeds_bps == (10**9, 10**8)


@pytest.mark.parametrize(
    ("team", "factors", "expected"),
    [
        (
            'policy = "balance-rr"',
            "",
            '3: policy: Open vSwitch, which runs the team, has no policy "balance-rr"\n'
            'did you mean "balance-tcp"? write one of "active-backup", "balance-slb", "balance-tcp"',
        ),
        (
            "",
            'team_policy = "layer3+4"',
            '5: team_policy: Open vSwitch, which runs the team, has no policy "layer3+4"\n'
            'write one of "active-backup", "balance-slb", "balance-tcp"',
        ),
        ("links = 1", "", "3: links: 1 is out of range\nwrite a whole number from 2 to 16"),
        (
            'links = 4\nspeed = ["1 Gbit/s", "1 Gbit/s"]',
            "",
            "3: the team has 4 members, but speed lists only 2 links\n"
            "list 4 rates in speed, write one rate for all links, or use 2 links",
        ),
        (
            'speed = ["1 Gbit/s", "1 Gbit/s"]',
            "team_links = [2, 3]",
            "6: the team has 3 members, but speed lists only 2 links\n"
            "list 3 rates in speed, write one rate for all links, or use 2 links",
        ),
        (
            'speed = ["1 Gbit/s", "1 Gbit/s", "1 Gbit/s"]',
            "",
            "3: speed lists 3 links, but the team has 2\nlist 2 rates in speed, or write links = 3",
        ),
        (
            'policy = "balance-tcp"\nspeed = ["1 Gbit/s", "100 Mbit/s"]',
            "",
            "3: balance-tcp with LACP needs links of one speed, and speed lists different ones\n"
            "write one rate in speed, use a policy without LACP, or exclude this combination with "
            "[[exclude]]",
        ),
        (
            'policy = "balance-tcp"\nlacp = "off"',
            "",
            "3: balance-tcp needs LACP, which lacp = off turns off\n"
            'write lacp = "auto" under [[testbed.team]], or exclude this combination with [[exclude]]',
        ),
        (
            'speed = "1 Gbit/s"',
            'link_rate = "1 Gbit/s"',
            "6: link_rate shapes the links of the team, which already have a speed\n"
            "remove speed from [[testbed.team]], or remove link_rate",
        ),
        (
            "",
            'link_loss = "1 %"',
            "5: link_loss impairs a single link, and a team has 2\n"
            "exclude this combination with [[exclude]], or remove the team",
        ),
        (
            'policies = "balance-tcp"',
            "",
            '3: "policies" is not a key under [[testbed.team]]\ndid you mean "policy"? '
            "use one of these: name, location, policy, links, speed, lacp",
        ),
    ],
)
def test_a_team_that_cannot_be_is_refused_with_its_fix(team: str, factors: str, expected: str) -> None:
    assert problem(f"{HEAD}[[testbed.team]]\n{team}\n{FACTORS}{factors}\n".replace("\n\n", "\n")) == expected


def test_a_team_needs_open_vswitch() -> None:
    text = f'{HEAD}[[testbed.team]]\nlinks = 2\n[factors]\nvswitch = ["openvswitch", "bridge"]\n'
    assert problem(text) == (
        '5: vswitch = bridge runs no team of links\nwrite vswitch = "openvswitch" under [factors]'
    )


def test_a_factor_of_teams_needs_a_team() -> None:
    assert problem(f"{HEAD}{FACTORS}team_links = 4\n") == (
        "4: team_links varies a team, and the study has no team\n"
        'write [[testbed.team]], and lines such as links = 4 and speed = "1 Gbit/s" under it'
    )


def test_the_team_is_the_only_link_between_the_switches() -> None:
    text = f"{HEAD}[testbed]\nuplink = true\n[[testbed.team]]\n[[testbed.team]]\n{FACTORS}"
    assert [each.what for each in problems(text)] == [
        "the team already joins the two vSwitches, so there is no single uplink",
        "the study has 2 teams at the same location",
    ]


def test_only_the_lab_netns_has_teams() -> None:
    text = f'{HEAD}[testbed]\nlab = "qemu"\n[[testbed.team]]\n[factors]\nstreams = 1\n'
    assert problem(text) == (
        '4: the lab qemu has no teams\nremove it, or write lab = "netns" under [testbed]'
    )
