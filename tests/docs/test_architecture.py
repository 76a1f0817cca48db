"""Imports follow the order of the stages in docs/architecture.md."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path

import pytest

from tests.docs.pages import ROOT

pytestmark = pytest.mark.pure

PACKAGE = ROOT / "src" / "vnetbench"
STAGES = ("study", "campaign", "importers", "results", "estimate", "explain", "statements", "report", "check")
"""Stages in the order of the page, from left to right."""
LATER_STAGE_IMPORTS = {
    ("campaign", "results"), ("importers", "results"), ("campaign", "estimate"),
    ("importers/table/mapping.py", "estimate/metrics.py"),
}  # fmt: skip
"""Exceptions that the page lists: a stage or a file, and what it imports of a later stage."""


def imported_modules(file: Path) -> Iterator[Path]:
    """Yield the modules of this package that a file imports; a folder stands for its `__init__.py`."""
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("vnetbench."):
            parts = PACKAGE.joinpath(*node.module.split(".")[1:])
            for name in node.names:
                inner = parts / f"{name.name}.py"
                yield inner if inner.exists() else parts if parts.is_dir() else parts.with_suffix(".py")


@lru_cache
def all_imports() -> set[tuple[str, str]]:
    """Return pairs of a module and a module that it imports, as paths in the package."""
    return {
        (str(file.relative_to(PACKAGE)), str(found.relative_to(PACKAGE)))
        for file in PACKAGE.rglob("*.py")
        for found in imported_modules(file)
    }


def stage(path: str) -> str:
    return path.partition("/")[0]


def test_a_stage_imports_no_later_stage_except_those_that_the_page_lists() -> None:
    found = [
        (importer, module)
        for importer, module in all_imports()
        if {stage(importer), stage(module)} <= set(STAGES)
    ]
    assert len(found) > 500
    backwards = {
        (importer, module)
        for importer, module in found
        if STAGES.index(stage(importer)) < STAGES.index(stage(module))
        and not {(importer, module), (stage(importer), stage(module))} & LATER_STAGE_IMPORTS
    }
    assert backwards == set()
    # Each exception is still necessary.
    used = {
        pair for importer, module in found for pair in ((importer, module), (stage(importer), stage(module)))
    }
    assert used >= LATER_STAGE_IMPORTS


@pytest.mark.parametrize(
    ("folder", "allowed"),
    [
        ("search", {"search", "errors.py"}),
        ("agents", {"agents", "errors.py", "process.py", "printable.py"}),
        (
            "teaming",
            {"teaming", "quantity.py", "printable.py", "errors.py", "deferred_module.py", "regular_file.py"},
        ),
        (
            "audit",
            {
                "audit",
                "lab",
                "quantity.py",
                "printable.py",
                "errors.py",
                "regular_file.py",
                "libvirt_connection.py",
                "netrc_file.py",
            },
        ),
        ("study", {"study", "published", "quantity.py", "printable.py", "errors.py"}),
    ],
)
def test_a_folder_imports_only_its_allowed_folders(folder: str, allowed: set[str]) -> None:
    found = {stage(module) for importer, module in all_imports() if stage(importer) == folder}
    assert found and found <= allowed


def test_the_audit_reaches_hosts_through_ssh_and_vsphere_only() -> None:
    found = {module for importer, module in all_imports() if stage(importer) == "audit"}
    assert {module for module in found if stage(module) == "lab"} == {
        "lab/hosts/ssh.py",
        "lab/vsphere/address.py",
        "lab/vsphere/api_json.py",
        "lab/vsphere/session.py",
    }


def test_a_study_imports_only_the_catalog_of_published_tables() -> None:
    found = {module for importer, module in all_imports() if stage(importer) == "study"}
    assert {module for module in found if stage(module) == "published"} == {"published/catalog.py"}


def test_the_folders_of_a_study_depend_on_each_other_in_one_direction() -> None:
    order = ("study", "study/factors", "study/rules", "study/file")
    folders = {(str(Path(a).parent), str(Path(b).parent)) for a, b in all_imports()}
    found = {(importer, module) for importer, module in folders if {importer, module} <= set(order)}
    assert len(found) > 4
    assert {pair for pair in found if order.index(pair[0]) < order.index(pair[1])} == set()
