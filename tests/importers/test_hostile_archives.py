"""Test that an archive bounds neither memory nor time by what it says about itself.

Each is read in a child process with a limit for memory and for CPU time.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.importers.hostile_archives import TEST_ARCHIVES
from tests.warm_process import run_module

MAX_EXTRA_MIB = 144
"""Memory on top of what the process has before it reads. An xz file may take 96 MiB."""
MAX_CPU_S = 60
"""A child that never ends, or takes quadratic time, exceeds this on any machine."""

pytestmark = pytest.mark.pure


@pytest.mark.parametrize("case", TEST_ARCHIVES)
def test_memory_and_time_of_an_archive_are_bounded(case: str, tmp_path: Path) -> None:
    archive = tmp_path / "archive"
    archive.write_bytes(TEST_ARCHIVES[case]())
    done = run_module("tests.importers.archive_process", archive, str(MAX_EXTRA_MIB), str(MAX_CPU_S))

    assert done.returncode == 0, done.stderr
    outcome, *details = done.stdout.splitlines()
    assert outcome in ("found", "refused")
    assert details
