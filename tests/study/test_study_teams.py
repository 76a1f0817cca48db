"""Teams in a study: their keys and factors, and every team that cannot be is refused with its fix."""

from __future__ import annotations

import tomllib
from dataclasses import replace

import pytest
from jsonschema import Draft202012Validator

from vnetbench.study.factors.team_factors import teams_of_treatment
from vnetbench.study.file.load import parse_study
from vnetbench.study.file.schema import make_json_schema
from vnetbench.study.plan import generate_treatment_levels
from vnetbench.study.problems import Problem, StudyError
from vnetbench.study.teams import BONDING_HASHES, TeamSpec
from vnetbench.teaming.policies import linux_bonding

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
            "3: vswitch = openvswitch has no team policy balance-rr\n"
            'write vswitch = "bridge", or exclude this combination with [[exclude]]',
        ),
        (
            "",
            'team_policy = "layer7"',
            '5: team_policy: no team runs the policy "layer7"\n'
            'did you mean "layer2"? write one of "active-backup", "balance-slb", "balance-tcp", "layer3+4", '
            '"ip-hash", "port-id", or another one of docs/study-reference.md',
        ),
        (
            'far_end = "switch"',
            "",
            "3: far end switch: LACP decides what is at the far end of a bond of Open vSwitch\n"
            'remove it and use lacp, write vswitch = "bridge", or exclude this combination with [[exclude]]',
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
            "use one of these: name, location, policy, far_end, links, speed, lacp, lacp_active, "
            "load_period",
        ),
    ],
)
def test_a_team_that_cannot_be_is_refused_with_its_fix(team: str, factors: str, expected: str) -> None:
    assert problem(f"{HEAD}[[testbed.team]]\n{team}\n{FACTORS}{factors}\n".replace("\n\n", "\n")) == expected


@pytest.mark.parametrize(
    ("team", "expected"),
    [
        (
            'policy = "physical-load"',
            "3: physical-load compares the load of each link with its speed, and the links have none\n"
            'write speed = "1 Gbit/s" or another rate under [[testbed.team]], or exclude this combination '
            "with [[exclude]]",
        ),
        (
            'policy = "physical-load"\nspeed = "1 Gbit/s"\nload_period = "10 ms"',
            '5: load_period: "10 ms" is out of range\nwrite a duration from "100 ms" to "1 h"',
        ),
        (
            'policy = "balance-slb"',
            "3: vswitch = bridge has no team policy balance-slb\n"
            'write vswitch = "openvswitch", or exclude this combination with [[exclude]]',
        ),
        (
            'lacp = "slow"',
            "3: the team of vswitch = bridge runs no LACP\n"
            'write lacp = "off", write vswitch = "openvswitch", or exclude this combination with [[exclude]]',
        ),
        (
            'far_end = "balance-tcp"',
            "3: the far end cannot run balance-tcp, which only Open vSwitch has\n"
            'write "same", "switch" or another policy',
        ),
        (
            'far_end = "layer2"',
            "3: active-backup opposite layer2 loses frames: active-backup takes frames of one link only\n"
            'write "same" or "switch" as the far end, or exclude this combination with [[exclude]]',
        ),
        (
            'policy = "cisco-src-mac"\nlinks = 9',
            "4: cisco-src-mac has at most 8 links, not 9\n"
            "use at most 8 links, or exclude this combination with [[exclude]]",
        ),
    ],
)
def test_a_team_that_bridges_cannot_run_is_refused_with_its_fix(team: str, expected: str) -> None:
    assert problem(f'{HEAD}[[testbed.team]]\n{team}\n[factors]\nvswitch = "bridge"\n') == expected


def test_the_far_end_follows_from_the_policy_or_is_chosen() -> None:
    far = {
        (policy, far_end): TeamSpec(policy=policy, far_end=far_end).far_policy
        for policy in ("port-id", "ip-hash")
        for far_end in ("auto", "same", "switch", "layer2")
    }
    assert [far["port-id", each] for each in ("auto", "same", "switch", "layer2")] == [
        None, "port-id", None, "layer2",
    ]  # fmt: skip
    assert [far["ip-hash", each] for each in ("auto", "same", "switch", "layer2")] == [
        "ip-hash", "ip-hash", None, "layer2",
    ]  # fmt: skip


def test_two_passive_ends_of_open_vswitch_use_one_link() -> None:
    team = TeamSpec(policy="balance-tcp", lacp_active="neither")
    assert (team.has_lacp, team.negotiates_lacp) == (True, False)
    assert (team.policy, team.effective_policy, team.effective_far_policy) == (
        "balance-tcp", "active-backup", "active-backup",
    )  # fmt: skip
    one_active = replace(team, lacp_active="far")
    assert (one_active.is_near_end_active, one_active.is_far_end_active) == (False, True)
    assert one_active.effective_policy == "balance-tcp" and one_active.negotiates_lacp


def test_a_virtual_switch_without_teams_is_refused() -> None:
    text = f'{HEAD}[[testbed.team]]\nlinks = 2\n[factors]\nvswitch = ["openvswitch", "macvlan"]\n'
    assert problem(text) == (
        "5: vswitch = macvlan runs no team of links\n"
        'write vswitch = "bridge" or "openvswitch" under [factors]'
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


IN_GUESTS = f'{HEAD}[testbed]\nlab = "qemu"\n[[testbed.team]]\nlocation = "guests"\n'
HASHES = (
    "layer2, layer2+3, layer3+4, encap2+3, encap3+4, vlan+srcmac, 802.3ad/layer2, 802.3ad/layer2+3, "
    "802.3ad/layer3+4, 802.3ad/encap2+3, 802.3ad/encap3+4, 802.3ad/vlan+srcmac"
)


def test_a_team_in_guests_has_the_policies_of_linux_bonding() -> None:
    text = (
        f'{IN_GUESTS}[factors]\nteam_policy = ["layer3+4", "802.3ad/layer3+4"]\n'
        'team_lacp = ["off", "slow"]\n[[exclude]]\nteam_policy = "layer3+4"\nteam_lacp = "slow"\n'
        '[[exclude]]\nteam_policy = "802.3ad/layer3+4"\nteam_lacp = "off"\n'
    )
    study = parse_study(text, None)
    teams = [teams_of_treatment(study.testbed, levels)[0] for levels in generate_treatment_levels(study)]
    assert [(team.policy, team.lacp_timer) for team in teams] == [
        ("layer3+4", "off"),
        ("802.3ad/layer3+4", "slow"),
    ]


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        (
            'policy = "balance-slb"\n',
            "6: Linux bonding, which runs the team, has no policy balance-slb\nwrite one of active-backup, "
            f"balance-rr, broadcast, balance-tlb, balance-alb, {HASHES}",
        ),
        (
            'policy = "layer3+4"\nlacp = "fast"\n',
            "7: Linux bonding runs no LACP with the policy layer3+4\nuse a policy with LACP, such as "
            '"802.3ad/layer3+4", or exclude this combination with [[exclude]]',
        ),
        (
            'policy = "802.3ad/layer2"\nlacp = "off"\n',
            '6: 802.3ad/layer2 needs LACP, which lacp = off turns off\nwrite lacp = "auto" under '
            "[[testbed.team]], or exclude this combination with [[exclude]]",
        ),
        (
            'policy = "layer2"\nlacp_active = "near"\n',
            "7: near as the active ends needs LACP, which layer2 does not use here\n"
            'use a policy or lacp with LACP, write "both", or exclude this combination with [[exclude]]',
        ),
        (
            'policy = "layer2"\nfar_end = "switch"\n',
            "7: far end switch: a team in guests has a bond like its own there, or one of Open vSwitch\n"
            'write "auto", or "balance-tcp" or "balance-slb"',
        ),
        (
            'policy = "layer2"\nfar_end = "balance-tcp"\n',
            "7: far end balance-tcp: without LACP, a bond of Open vSwitch drops frames of a channel\n"
            'use a policy with LACP, such as "802.3ad/layer3+4", or exclude this combination with '
            "[[exclude]]",
        ),
        (
            'policy = "802.3ad/layer2"\nlacp_active = "neither"\n',
            "7: Linux bonding sends frames of LACP even if both ends are passive\n"
            'write location = "vswitches", vswitch = "openvswitch" and lab = "netns", or leave "neither" out',
        ),
        (
            "links = 9\n",
            "6: a team in guests has at most 8 links, not 9\nwrite at most 8 links",
        ),
        (
            '[factors]\nrole = "bridge"\n',
            "7: a team at the location guests needs role = guest-to-guest\n"
            'write role = "guest-to-guest" under [factors]',
        ),
        (
            "[factors]\nguests = 2\n",
            '7: a team in guests has one pair of guests\nwrite guests = 1, or location = "gateways" under '
            "[[testbed.team]]",
        ),
        (
            '[factors]\nadapter = "macvtap"\n',
            "7: adapter = macvtap cannot be a member of a team in guests\n"
            'use another adapter, such as "virtio-net"',
        ),
        (
            "[factors]\nrx_ring = 256\n",
            "7: rx_ring sets an adapter, and the guests' adapters are members of a team\n"
            "remove rx_ring, or remove the team",
        ),
    ],
)
def test_a_team_in_guests_that_cannot_be_is_refused_with_its_fix(lines: str, expected: str) -> None:
    factors = "" if "[factors]" in lines else "[factors]\nstreams = 1\n"
    assert problem(IN_GUESTS + lines + factors) == expected


def test_a_team_at_gateways_needs_guests_that_bridge() -> None:
    text = IN_GUESTS.replace('"guests"', '"gateways"')
    (found,) = problems(f"{text}[factors]\nstreams = 1\n")
    assert found.what == "a team at the location gateways needs role = bridge"
    (levels,) = generate_treatment_levels(parse_study(f'{text}[factors]\nrole = "bridge"\n', None))
    assert levels["role"] == "bridge"


def test_the_hash_policies_are_those_that_predictions_know() -> None:
    assert BONDING_HASHES == linux_bonding.XMIT_HASH_POLICIES


def test_a_location_needs_its_lab() -> None:
    one_stream = "[factors]\nstreams = 1\n"
    assert problem(IN_GUESTS.replace('location = "guests"\n', one_stream)) == (
        "4: the lab qemu has no team at the location vswitches\n"
        'write location = "guests" or "gateways" under [[testbed.team]]'
    )
    assert problem(f'{HEAD}[[testbed.team]]\nlocation = "guests"\n{FACTORS}') == (
        "3: a team at the location guests needs guests, and the lab netns has none\n"
        'write lab = "qemu" under [testbed], or location = "vswitches"'
    )
    assert problem(f'{HEAD}[[testbed.team]]\nlocation = "uplinks"\n{FACTORS}').startswith(
        '3: location: "uplinks" is not a valid value'
    )
