"""Which files of tests a run imports: none with a selected test is left out."""

from __future__ import annotations

import re
from collections import defaultdict
from pathlib import Path

import pytest

from tests import file_selection
from tests.file_selection import can_select

pytestmark = pytest.mark.pure

CREATED_TESTBED = re.compile(r"""create_testbed\(\s*f?["']([a-z0-9-]+)""")

FILES = {
    "estimate/test_a.py": "def test_x(): ...",
    "lab/test_pure.py": "import pytest\n\npytestmark = pytest.mark.pure\n",
    "lab/test_some_pure.py": "@pytest.mark.pure\ndef test_x(): ...\ndef test_y(): ...",
    "lab/test_alone.py": "pytestmark = [pytest.mark.lab, pytest.mark.alone]\n",
    "lab/test_real.py": "pytestmark = pytest.mark.lab\n",
    "search/test_long.py": "@quick_and_long(500)\ndef test_x(size): ...",
    "lab/conftest.py": "",
}


@pytest.mark.parametrize(
    ("expression", "selected"),
    [
        ("", set(FILES)),
        ("not (pure or alone)", set(FILES)),
        ("pure", {"estimate/test_a.py", "lab/test_pure.py", "lab/test_some_pure.py", "search/test_long.py"}),
        ("not pure", {"lab/test_some_pure.py", "lab/test_alone.py", "lab/test_real.py"}),
        ("alone and not pure", {"lab/test_alone.py"}),
        ("not alone and not pure", {"lab/test_some_pure.py", "lab/test_alone.py", "lab/test_real.py"}),
        ("long", {"search/test_long.py"}),
    ],
)
def test_a_file_is_imported_if_it_may_have_a_selected_test(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, expression: str, selected: set[str]
) -> None:
    monkeypatch.setattr(file_selection, "ROOT", tmp_path)
    for name, text in FILES.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    found = {name for name in FILES if can_select(tmp_path / name, expression)}
    assert found == selected | {"lab/conftest.py"}


def test_no_two_files_create_testbeds_of_one_name() -> None:
    """Files run at the same time, and the removal of a testbed ends all processes with its name."""
    files = defaultdict(set)
    for file in Path(__file__).parent.rglob("*.py"):
        for name in CREATED_TESTBED.findall(file.read_text(encoding="utf-8")):
            files[name].add(file.name)
    assert len(files) > 10
    assert {name: found for name, found in files.items() if len(found) > 1} == {}
