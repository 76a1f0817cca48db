"""Test that neither memory nor time of an import is far beyond the size of a log or workbook.

Each is read in a child process with a limit for memory and for CPU time.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.importers.hostile_logs import TEST_LOGS
from tests.importers.hostile_workbooks import TEST_WORKBOOKS
from tests.warm_process import run_module

MAX_LOG_MIB, MAX_WORKBOOK_MIB = 256, 160
"""Memory on top of what the process has before it reads."""
MAX_CPU_S = 60
"""A child that never ends, or takes quadratic time, exceeds this on any machine."""

pytestmark = pytest.mark.pure


@pytest.mark.parametrize("case", TEST_LOGS)
def test_memory_and_time_of_a_log_are_bounded(case: str, tmp_path: Path) -> None:
    _read_in_child(tmp_path / "hostile.log", TEST_LOGS[case](), MAX_LOG_MIB)


@pytest.mark.parametrize("case", TEST_WORKBOOKS)
def test_memory_and_time_of_a_workbook_are_bounded(case: str, tmp_path: Path) -> None:
    _read_in_child(tmp_path / "hostile.xlsx", TEST_WORKBOOKS[case](), MAX_WORKBOOK_MIB)


def _read_in_child(path: Path, content: bytes, extra_mib: int) -> None:
    path.write_bytes(content)
    done = run_module("tests.importers.hostile_log_process", path, str(extra_mib), str(MAX_CPU_S))

    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(("read ", "refused "))
