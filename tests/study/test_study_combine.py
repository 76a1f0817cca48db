"""One change at a time, and some together: which treatments there are, and how it is written wrongly."""

from __future__ import annotations

import pytest

from vnetbench.study.file.load import parse_study
from vnetbench.study.model import Level
from vnetbench.study.plan import make_plan
from vnetbench.study.problems import Problem, StudyError

HEAD = """\
title = "x"
combine = "one-at-a-time"
[factors]
streams = 4
mtu = [1500, 576, 9000]
gro = ["on", "off"]
"""


def treatments(text: str, *overrides: str) -> list[dict[str, Level]]:
    return [dict(t.factors) for t in make_plan(parse_study(text, None, overrides), 1).treatments]


def problem(text: str) -> Problem:
    with pytest.raises(StudyError) as raised:
        parse_study(text, None)
    (only,) = raised.value.problems
    return only


def test_each_level_that_is_not_the_first_is_changed_by_itself() -> None:
    assert treatments(HEAD) == [
        {"streams": 4, "mtu": 1500, "gro": "on"},
        {"streams": 4, "mtu": 576, "gro": "on"},
        {"streams": 4, "mtu": 9000, "gro": "on"},
        {"streams": 4, "mtu": 1500, "gro": "off"},
    ]


def test_changes_that_are_made_together_come_last_and_the_rest_stays_at_its_first_level() -> None:
    together = treatments(HEAD + '[[together]]\nmtu = 9000\ngro = "off"\n')
    assert together[:-1] == treatments(HEAD)
    assert together[-1] == {"streams": 4, "mtu": 9000, "gro": "off"}


def test_what_is_there_already_is_not_there_twice() -> None:
    assert treatments(HEAD + "[[together]]\nmtu = 9000\n") == treatments(HEAD)


def test_exclusions_and_other_levels_hold_here_too() -> None:
    assert {"streams": 4, "mtu": 576, "gro": "on"} not in treatments(HEAD + "[[exclude]]\nmtu = 576\n")
    found = treatments(HEAD + "[[together]]\nmtu = 9000\n", "mtu=4000,5000", "tso=on,off")
    assert [each["mtu"] for each in found] == [4000, 5000, 4000, 4000, 9000]
    assert [each["tso"] for each in found] == ["on", "on", "on", "off", "on"]


@pytest.mark.parametrize(
    ("rest", "line", "what"),
    [
        ("[[together]]\nmtu = 4000\n", 8, 'mtu has no level "4000" here'),
        ('[[together]]\ntso = "on"\n', 8, "tso stands below [[together]], but is no factor of this study"),
        ("[[together]]\nmtu = [576, 9000]\n", 8, "mtu has 2 levels, and a [[together]] is one treatment"),
        ("[[together]]\n", 7, "this [[together]] names no factor"),
        ("[together]\nmtu = 9000\n", 7, "together is a list of tables"),
    ],
)
def test_what_cannot_be_made_together_is_told_by_its_line(rest: str, line: int, what: str) -> None:
    found = problem(HEAD + rest)
    assert (found.line, found.what) == (line, what)


def test_together_without_one_at_a_time_adds_nothing_and_is_told() -> None:
    text = HEAD.replace('combine = "one-at-a-time"\n', "") + "[[together]]\nmtu = 9000\n"
    assert "[[together]] adds nothing" in problem(text).what
