"""Test files that `-m` may select: the import of all files takes ten seconds of CPU time in each process."""

from __future__ import annotations

import inspect
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parent
PURE = ("check", "docs", "estimate", "published", "report", "results", "search", "statements", "study")
"""Folders whose tests only compute: `make test` runs them in parallel with the others."""
_ALL_PURE = "\npytestmark = pytest.mark.pure\n"
_NEEDS_QUIET_MACHINE = "quiet_machine_required"
_TEXTS_OF_MARK = {
    "pure": ("mark.pure",),
    "alone": ("mark.alone", _NEEDS_QUIET_MACHINE),
    "long": ("mark.long", "quick_and_long"),
}


def can_select(path: Path, mark_expression: str) -> bool:
    """Return whether a file of tests may have a test that the expression of `-m` selects.

    The answer is always True for a folder and for an expression that does more than join marks with `and`.
    """
    if not path.name.startswith("test_") or not path.is_relative_to(ROOT):
        return True
    terms = mark_expression.split(" and ")
    return all(_can_hold(path, term) for term in terms)


def needs_quiet_machine(item: pytest.Item) -> bool:
    """Return whether a test with real traffic skips on a busy machine, so that it must run alone."""
    if not isinstance(item, pytest.Function) or item.get_closest_marker("pure"):
        return False
    return _NEEDS_QUIET_MACHINE in inspect.getsource(item.function)


def check_marks_are_visible(item: pytest.Item) -> None:
    """Fail if a file holds a test of a mark that its text does not name: `-m` would miss the test."""
    for mark in _TEXTS_OF_MARK:
        if item.get_closest_marker(mark) and not _can_hold(item.path, mark):
            raise pytest.UsageError(
                f"{item.path} gets the mark {mark} elsewhere: name pytest.mark.{mark} in it"
            )


@cache
def _can_hold(path: Path, term: str) -> bool:
    is_pure_folder = path.relative_to(ROOT).parts[0] in PURE
    if term == "not pure":
        return not is_pure_folder and _ALL_PURE not in path.read_text(encoding="utf-8")
    if term not in _TEXTS_OF_MARK or (term == "pure" and is_pure_folder):
        return True
    text = path.read_text(encoding="utf-8")
    return any(each in text for each in _TEXTS_OF_MARK[term])
