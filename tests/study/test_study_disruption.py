"""Studies of the workload `disruption`: their defaults, and what cannot be measured."""

from __future__ import annotations

import pytest

from vnetbench.study.factors.disruption_factors import shortest_trial_s
from vnetbench.study.factors.registry import complete_levels
from vnetbench.study.file.load import parse_study
from vnetbench.study.model import Level
from vnetbench.study.problems import StudyError
from vnetbench.study.workloads import choose_deciding_metric

pytestmark = pytest.mark.pure

OVS = 'vswitch = "openvswitch"'
HEAD = 'title = "x"\nworkload = "disruption"\n'


def study_text(factors: str = "", testbed: str = "", duration: str = "10 s") -> str:
    return f'{HEAD}{testbed}[factors]\n{factors}\n[timing]\nduration = "{duration}"\n'


def test_a_flow_has_a_rate_and_the_outage_decides() -> None:
    levels = complete_levels({}, "disruption")
    assert levels["rate"] == 10_000
    assert (levels["event"], levels["event_duration"]) == ("link-flap", 0.1)
    study = parse_study(study_text('event = ["none", "silent-drop"]'), None)
    assert choose_deciding_metric(study) == "outage_s"


def test_a_trial_lasts_until_after_the_outage_that_is_expected() -> None:
    assert shortest_trial_s({"event": "silent-drop", "event_duration": 0.25}) == pytest.approx(1.0)
    assert shortest_trial_s({"event": "bridge-port-stp", "event_duration": 0.25}) == pytest.approx(
        4.75 / 0.75
    )
    # A slow flow needs longer to show that its rate is back.
    slow: dict[str, Level] = {"event": "silent-drop", "event_duration": 2.0, "rate": 10.0}
    assert shortest_trial_s(slow) == pytest.approx(8.0)


@pytest.mark.parametrize(
    ("text", "what", "fix"),
    [
        (f"{HEAD}[factors]\nstreams = 1\n", "needs a duration", 'write duration = "2 s" under [timing]'),
        (
            study_text('event = "bridge-port-stp"', duration="6 s"),
            "a trial is too short for event = bridge-port-stp with event_duration = 100 ms",
            'write duration = "6.5 s" under [timing]',
        ),
        (study_text('vswitch = "direct"'), "no port before the second VM", 'write vswitch = "bridge"'),
        (
            study_text('event = "bridge-port-stp"\nvswitch = "openvswitch"'),
            "only a bridge runs the spanning tree",
            'write vswitch = "bridge"',
        ),
        (
            study_text('event = "none"\nevent_duration = "10 s"'),
            "a trial is too short for event = none with event_duration = 10 s",
            'write duration = "14 s"',
        ),
        (
            study_text('event = "silent-drop"\nrate = "50 /s"'),
            "rate = 50 /s is too low to show event = silent-drop with event_duration = 100 ms",
            'write rate = "200 /s" or more',
        ),
        (
            study_text('streams = 9\ndirection = "both"'),
            "9 forward and 9 reverse streams are too many for the workload disruption",
            "use at most 16 streams, both directions together",
        ),
        (study_text('event_duration = "19 ms"'), "event_duration", "20 ms"),
        (study_text("pairs = 2"), "each of the 2 pairs has its own", "write uplink = true under [testbed]"),
        (study_text('rate = "none"'), "needs a rate", 'write rate = "10 k/s"'),
        (
            study_text('event = "silent-drop"\nlink_rate = "1 Gbit/s"'),
            "silent-drop needs a link without link_rate",
            "use event = link-flap or team-link-down",
        ),
        (
            study_text('event = "team-link-down"'),
            "event = team-link-down happens to a team of links, and the study has no team",
            'write [[testbed.team]], and vswitch = "openvswitch"',
        ),
        (
            study_text(f'event = "team-link-silent"\n{OVS}', '[[testbed.team]]\nspeed = "1 Gbit/s"\n'),
            "event = team-link-silent needs links without a speed",
            "remove speed from [[testbed.team]]",
        ),
        (
            study_text(f'event = "team-link-silent"\nlink_rate = "1 Gbit/s"\n{OVS}', "[[testbed.team]]\n"),
            "event = team-link-silent needs a link without link_rate",
            "use event = link-flap or team-link-down",
        ),
        (
            study_text(
                'event = "link-flap"\nrole = "bridge"',
                '[testbed]\nlab = "qemu"\n[[testbed.team]]\nlocation = "gateways"\n',
            ),
            "event = link-flap is not possible with a team of gateways",
            "use one of these, remove [[testbed.team]]",
        ),
        (
            study_text('event = "team-link-down"\nrole = "bridge"', '[testbed]\nlab = "qemu"\n'),
            "event = team-link-down happens to a team of links, and the study has no team",
            'write [[testbed.team]] with location = "gateways"',
        ),
        (
            study_text(f'event = "team-lacp-stop"\n{OVS}', "[[testbed.team]]\n"),
            "event = team-lacp-stop needs a team with LACP",
            'write lacp = "fast" under [[testbed.team]]',
        ),
        (
            study_text(f'event = "team-rebalance"\n{OVS}', "[[testbed.team]]\n"),
            "event = team-rebalance needs the team policy balance-slb",
            "use the policy balance-slb",
        ),
        (
            study_text(f'event = "team-link-flap"\nevent_duration = "500 ms"\n{OVS}', "[[testbed.team]]\n"),
            "event_duration = 500 ms is too short for event = team-link-flap",
            'write event_duration = "0.8 s" or more',
        ),
        (study_text('link_loss = "1 %"'), "needs a link without link_loss", "remove link_loss"),
    ],
)
def test_what_cannot_be_measured_is_refused_with_the_fix(text: str, what: str, fix: str) -> None:
    with pytest.raises(StudyError) as caught:
        parse_study(text, "s.toml")
    (problem,) = caught.value.problems
    assert what in problem.what
    assert problem.fix is not None and fix in problem.fix


QEMU_LAB = '[testbed]\nlab = "qemu"\n'
MIGRATION = 'event = "live-migration"\nevent_duration = "5 s"\n'


@pytest.mark.parametrize(
    ("text", "what", "fix"),
    [
        (study_text(MIGRATION), "not possible in the lab netns", 'write lab = "qemu" under [testbed]'),
        (
            study_text('event = "bridge-port-stp"', QEMU_LAB),
            "event = bridge-port-stp is not possible in the lab qemu",
            'write lab = "netns" under [testbed]',
        ),
        (
            study_text('role = "guest-to-guest"', QEMU_LAB),
            "an endpoint in a guest has a clock that stands still",
            'write role = "router" or "bridge"',
        ),
        (study_text(f"{MIGRATION}guests = 2", QEMU_LAB), "concerns one pair", "write guests = 1"),
        (study_text(MIGRATION, QEMU_LAB, "7 s"), "a trial is too short", 'write duration = "7.5 s"'),
    ],
)
def test_what_a_lab_cannot_make_is_refused_with_the_fix(text: str, what: str, fix: str) -> None:
    with pytest.raises(StudyError) as caught:
        parse_study(text, "s.toml")
    (problem,) = caught.value.problems
    assert what in problem.what
    assert problem.fix is not None and fix in problem.fix


@pytest.mark.parametrize("adapter", ["vf", "macvtap"])
def test_a_guest_with_a_device_of_the_host_does_not_migrate(adapter: str) -> None:
    testbed = f'{QEMU_LAB}vf_interface = "ens1f0"\n'
    with pytest.raises(StudyError) as caught:
        parse_study(study_text(f'{MIGRATION}adapter = "{adapter}"', testbed), "s.toml")
    texts = [problem.what for problem in caught.value.problems]
    assert any(f"event = live-migration is not possible with adapter = {adapter}" in text for text in texts)


def test_the_lab_qemu_forwards_between_endpoints_on_the_host() -> None:
    study = parse_study(study_text(MIGRATION, QEMU_LAB, "8 s"), None)
    assert study.testbed.lab == "qemu"
    assert complete_levels({}, "disruption", "qemu")["role"] == "router"


def test_a_tcp_stream_may_stall_for_twice_its_outage() -> None:
    levels = complete_levels({"event": "silent-drop", "event_duration": 1.0}, "tcp_disruption")
    assert (levels["rate"], levels["message_size"]) == (10_000, 64)
    assert shortest_trial_s(levels) == pytest.approx((2 * 1.2 + 0.5) / 0.75)
    text = study_text('event_duration = "1 s"', duration="3 s").replace('"disruption"', '"tcp_disruption"')
    with pytest.raises(StudyError, match=r"a trial is too short for event = link-flap"):
        parse_study(text, "s.toml")
    study = parse_study(text.replace('"3 s"', '"4 s"'), None)
    assert choose_deciding_metric(study) == "stall_s"
    with pytest.raises(StudyError, match="a message carries its time of sending"):
        parse_study(
            text.replace('"3 s"', '"4 s"').replace("[timing]", 'message_size = "4 B"\n[timing]'), "s.toml"
        )


def test_as_many_streams_as_an_agent_records_and_slow_flows_with_long_outages_are_accepted() -> None:
    parse_study(study_text('streams = 8\ndirection = "both"'), None)
    parse_study(study_text('event = "bridge-port-stp"\nrate = "50 /s"'), None)


def test_the_link_of_a_team_fails_for_all_pairs() -> None:
    factors = f'event = ["team-link-down", "team-link-silent"]\npairs = 2\n{OVS}'
    parse_study(study_text(factors, "[[testbed.team]]\n"), None)


def test_several_pairs_share_one_uplink_and_the_control_needs_no_port() -> None:
    parse_study(study_text("pairs = 2", "[testbed]\nuplink = true\n"), None)
    parse_study(study_text('event = "none"\nvswitch = "direct"\npairs = 2', duration="1 s"), None)
