"""The diff of a study that is edited between run and resume."""

from __future__ import annotations

from vnetbench.study.study_diff import diff_study_texts


def test_equal_texts_have_an_empty_diff() -> None:
    assert diff_study_texts("a = 1\n", "a = 1\n", "s.toml") == ""


def test_a_changed_line_appears_in_its_old_and_new_form() -> None:
    shown = diff_study_texts('title = "x"\nmtu = 1500\n', 'title = "x"\nmtu = 9000\n', "s.toml").splitlines()
    assert shown[:2] == ["--- the study recorded with the campaign", "+++ s.toml"]
    assert shown[-3:] == [' title = "x"', "-mtu = 1500", "+mtu = 9000"]


def test_line_endings_are_not_a_difference() -> None:
    assert diff_study_texts("a = 1\nb = 2\n", "a = 1\r\nb = 2", "s.toml") == ""
