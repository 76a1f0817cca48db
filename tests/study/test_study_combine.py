"""Studies that change one factor at a time, and some together: their treatments and their errors."""

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


def test_each_level_after_the_first_makes_one_treatment() -> None:
    assert treatments(HEAD) == [
        {"streams": 4, "mtu": 1500, "gro": "on"},
        {"streams": 4, "mtu": 576, "gro": "on"},
        {"streams": 4, "mtu": 9000, "gro": "on"},
        {"streams": 4, "mtu": 1500, "gro": "off"},
    ]


def test_a_together_table_adds_a_treatment_with_all_other_factors_at_their_first_level() -> None:
    together = treatments(HEAD + '[[together]]\nmtu = 9000\ngro = "off"\n')
    assert together[:-1] == treatments(HEAD)
    assert together[-1] == {"streams": 4, "mtu": 9000, "gro": "off"}


def test_a_together_table_adds_no_duplicate_treatment() -> None:
    assert treatments(HEAD + "[[together]]\nmtu = 9000\n") == treatments(HEAD)


def test_exclusions_and_overrides_apply_to_one_at_a_time_studies() -> None:
    assert {"streams": 4, "mtu": 576, "gro": "on"} not in treatments(HEAD + "[[exclude]]\nmtu = 576\n")
    found_treatments = treatments(HEAD + "[[together]]\nmtu = 9000\n", "mtu=4000,5000", "tso=on,off")
    assert [each["mtu"] for each in found_treatments] == [4000, 5000, 4000, 4000, 9000]
    assert [each["tso"] for each in found_treatments] == ["on", "on", "on", "off", "on"]


@pytest.mark.parametrize(
    ("rest", "line", "what"),
    [
        ("[[together]]\nmtu = 4000\n", 8, 'mtu has no level "4000" in this study'),
        ('[[together]]\ntso = "on"\n', 8, "[[together]] names tso, which is not a factor of this study"),
        ("[[together]]\nmtu = [576, 9000]\n", 8, "mtu has 2 levels, but a [[together]] is one treatment"),
        ("[[together]]\n", 7, "this [[together]] is empty"),
        ("[together]\nmtu = 9000\n", 7, "together is not a list of tables"),
    ],
)
def test_an_invalid_together_table_is_reported_with_its_line(rest: str, line: int, what: str) -> None:
    reported = problem(HEAD + rest)
    assert (reported.study_line, reported.what) == (line, what)


def test_a_together_table_without_one_at_a_time_is_reported() -> None:
    text = HEAD.replace('combine = "one-at-a-time"\n', "") + "[[together]]\nmtu = 9000\n"
    assert "[[together]] has no effect" in problem(text).what
