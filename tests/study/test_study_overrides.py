"""The `--set` arguments: what they change, and their problems."""

from __future__ import annotations

import pytest

from tests.study.test_study_load import SMALL, levels, only_problem, problems
from vnetbench.study.file.load import parse_study
from vnetbench.study.model import Precision


def test_an_override_replaces_levels_or_adds_a_factor() -> None:
    given = ("streams=1, 2, 4 .. 8", "direction=forward,reverse", "tso=true")
    study = parse_study(SMALL, None, given)
    assert levels(study) == {
        "streams": (1, 2, 4, 8),
        "mtu": (1500, 9000),
        "direction": ("forward", "reverse"),
        "tso": ("on",),
    }
    assert study.text == SMALL
    assert study.overrides == given


def test_an_override_can_be_a_list_of_values_with_commas() -> None:
    study = parse_study(SMALL, None, ('cpus=["0,2/1", "1 each"]', 'irq_cpus=["3", "apart"]'))
    assert levels(study)["cpus"] == ("0,2/1", "1 each")
    assert levels(study)["irq_cpus"] == ("3", "apart")


@pytest.mark.parametrize("text", ["[", "[1", "[a]", '["3" "apart"]', "[" * 5000 + "]" * 5000])
def test_an_override_with_an_invalid_list_is_reported(text: str) -> None:
    assert "irq_cpus" in only_problem(SMALL, f"irq_cpus={text}").where


def test_an_override_can_set_a_key_of_a_section() -> None:
    study = parse_study(
        SMALL,
        None,
        (
            "precision.half_width=5%",
            "precision.time_limit=60 s",
            "timing.duration=2 s",
            "testbed.uplink=true",
            "precision.min_trials=8",
        ),
    )
    assert study.precision == Precision(half_width=0.05, min_trials=8, campaign_time_limit_s=60.0)
    assert study.timing.duration_s == 2.0
    assert study.testbed.uplink is True


@pytest.mark.parametrize(
    ("override", "what", "fix"),
    [
        ("streams=1,x", 'streams: "x" is not a whole number', "write a whole number from 1 to 1024"),
        ("steams=1", '"steams" is not a factor', 'did you mean "streams"?'),
        ("streams", "--set needs a factor and its levels", "write --set streams=1,4"),
        ("streams=", "streams: no level is given", "write a whole number from 1 to 1024"),
        ("half_width=5%", "half_width is not a factor", "write --set precision.half_width=5%"),
        ("timing.durtion=3 s", '"durtion" is not a key under [timing]', 'did you mean "duration"?'),
        ("timming.duration=3 s", '"timming.duration" cannot be set', 'did you mean "timing.duration"?'),
        ("title=x", '"title" is not a factor', "title belongs at the head of the file"),
        ("precision.half_width=5", "half_width: the unit is missing", 'write one of "5 %"'),
    ],
)
def test_a_problem_of_an_override_names_the_override(override: str, what: str, fix: str) -> None:
    problem = only_problem(SMALL, override)
    assert (problem.where, problem.study_line) == (f"--set {override}", None)
    assert problem.what == what
    assert problem.fix.startswith(fix)


def test_a_repeated_override_is_reported() -> None:
    assert only_problem(SMALL, "mtu=1500", "mtu=9000").what == '"mtu" is set twice'


def test_an_exclusion_can_name_levels_that_an_override_replaced() -> None:
    text = SMALL + "[[exclude]]\nmtu = 9000\nstreams = 4\n"
    assert levels(parse_study(text, None, ("streams=1,2",)))["streams"] == (1, 2)


def test_a_contradiction_caused_by_an_override_names_the_override() -> None:
    problem = only_problem(SMALL + "[testbed]\nuplink = true\n", "vswitch=direct")
    assert (problem.where, problem.study_line) == ("--set vswitch=direct", None)


def test_problems_of_file_and_overrides_are_reported_together() -> None:
    found = problems('title = "x"\n[factors]\nmtu = 1\n', "streams=0", "mtu=9000")
    assert [p.where for p in found] == ["s.toml:3", "--set streams=0"]
