"""The order of the stages is the one that docs/architecture.md draws: what each of them imports."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path

import pytest

from tests.docs.pages import ROOT

pytestmark = pytest.mark.pure

PACKAGE = ROOT / "src" / "vnetbench"
STAGES = ("study", "campaign", "importers", "results", "estimate", "explain", "statements", "report")
"""In the order of the page, from left to right."""
TO_THE_RIGHT = {
    ("campaign", "results"), ("importers", "results"), ("campaign", "estimate"),
    ("importers/table/mapping.py", "estimate/metrics.py"),
}  # fmt: skip
"""What the page names as exceptions: a stage or a file, and what of a later stage it imports."""


def imported(file: Path) -> Iterator[Path]:
    """The modules of this package that a file imports; of a folder's `__init__.py` the folder."""
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("vnetbench."):
            parts = PACKAGE.joinpath(*node.module.split(".")[1:])
            for name in node.names:
                inner = parts / f"{name.name}.py"
                yield inner if inner.exists() else parts if parts.is_dir() else parts.with_suffix(".py")


@lru_cache
def imports() -> set[tuple[str, str]]:
    """Of every module: itself and each that it imports, as paths below the package."""
    return {
        (str(file.relative_to(PACKAGE)), str(found.relative_to(PACKAGE)))
        for file in PACKAGE.rglob("*.py")
        for found in imported(file)
    }


def stage_of(path: str) -> str:
    return path.partition("/")[0]


def test_a_stage_imports_no_later_one_but_for_what_the_page_names() -> None:
    found = [(one, other) for one, other in imports() if {stage_of(one), stage_of(other)} <= set(STAGES)]
    assert len(found) > 500
    backwards = {
        (one, other)
        for one, other in found
        if STAGES.index(stage_of(one)) < STAGES.index(stage_of(other))
        and not {(one, other), (stage_of(one), stage_of(other))} & TO_THE_RIGHT
    }
    assert backwards == set()
    # Each exception is one still.
    used = {pair for one, other in found for pair in ((one, other), (stage_of(one), stage_of(other)))}
    assert used >= TO_THE_RIGHT


@pytest.mark.parametrize(
    ("folder", "known"),
    [
        ("search", {"search", "errors.py"}),
        ("agents", {"agents", "errors.py", "process.py"}),
        ("study", {"study", "published", "quantity.py", "printable.py", "errors.py"}),
    ],
)
def test_a_folder_that_knows_nothing_of_others_imports_nothing_of_them(folder: str, known: set[str]) -> None:
    found = {stage_of(other) for one, other in imports() if stage_of(one) == folder}
    assert found and found <= known


def test_a_study_knows_the_names_of_published_tables_and_nothing_else_of_them() -> None:
    found = {other for one, other in imports() if stage_of(one) == "study"}
    assert {other for other in found if stage_of(other) == "published"} == {"published/catalog.py"}
