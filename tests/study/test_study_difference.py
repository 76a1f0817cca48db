"""A study edited between run and resume: what differs, as text."""

from __future__ import annotations

from vnetbench.study.difference import diff_study


def test_the_same_text_has_no_difference() -> None:
    assert diff_study("a = 1\n", "a = 1\n", "s.toml") == ""


def test_a_changed_line_is_shown_as_it_was_and_as_it_is() -> None:
    shown = diff_study('title = "x"\nmtu = 1500\n', 'title = "x"\nmtu = 9000\n', "s.toml").splitlines()
    assert shown[:2] == ["--- recorded with the campaign", "+++ s.toml"]
    assert shown[-3:] == [' title = "x"', "-mtu = 1500", "+mtu = 9000"]


def test_line_ends_are_no_difference() -> None:
    assert diff_study("a = 1\nb = 2\n", "a = 1\r\nb = 2", "s.toml") == ""
