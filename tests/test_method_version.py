"""The method's version changes with every file from which estimates and explanations follow."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.docs.test_architecture import all_imports
from vnetbench import method_version as module
from vnetbench.method_version import FOLDERS_WITHOUT_ESTIMATES

pytestmark = pytest.mark.pure

CACHED = ("estimate/summarize.py", "report/text/narrative.py")
"""Modules that compute what is kept in a results file."""


def needed_files(files: tuple[str, ...]) -> set[str]:
    """Return these files and all files of the package that they import, directly or not."""
    needed: set[str] = set()
    waiting = list(files)
    while waiting:
        file = waiting.pop()
        if file not in needed:
            needed.add(file)
            found = {imported for importer, imported in all_imports() if importer == file}
            waiting += (each if each.endswith(".py") else f"{each}/__init__.py" for each in found)
    return needed


def test_every_file_that_estimates_and_explanations_need_is_part_of_the_version() -> None:
    needed = needed_files(CACHED)
    assert {"estimate/median.py", "explain/scoring.py", "published/tables.py"} <= needed
    assert [file for file in sorted(needed) if file.split("/")[0] in FOLDERS_WITHOUT_ESTIMATES] == []


def test_without_source_files_the_release_is_the_version(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_PACKAGE", tmp_path / "archive.zip")
    versions = set()
    for release in ("1.0", "1.1"):
        monkeypatch.setattr(module, "__version__", release)
        module.method_version.cache_clear()
        versions.add(module.method_version())
    module.method_version.cache_clear()
    assert len(versions) == 2
