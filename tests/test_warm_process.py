"""Programs in forked processes: true exit codes and outputs, limits, and the environment of the test."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.warm_process import run_module

pytestmark = pytest.mark.pure


def test_exit_codes_and_both_outputs_are_those_of_the_program(tmp_path: Path) -> None:
    good = run_module("vnetbench", "--version")
    assert (good.returncode, good.stderr) == (0, "") and "version" in good.stdout
    bad = run_module("vnetbench", "show", tmp_path / "none.vnb")
    assert bad.returncode == 2 and "fix: " in bad.stderr and bad.stdout == ""


def test_a_program_that_raises_fails_with_its_traceback() -> None:
    failed = run_module("tests.importers.archive_process")
    assert failed.returncode == 1 and "IndexError" in failed.stderr


def test_a_limit_of_memory_counts_from_the_start_of_the_program(tmp_path: Path) -> None:
    log = tmp_path / "long.log"
    log.write_bytes(b"x" * 40 * 2**20)
    refused = run_module("tests.importers.hostile_log_process", log, "1", "60")
    assert refused.returncode == 1 and "MemoryError" in refused.stderr
    assert run_module("tests.importers.hostile_log_process", log, "256", "60").returncode == 0


def test_folder_and_environment_are_those_of_the_call(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    base = tmp_path / "user base"
    monkeypatch.setenv("PYTHONUSERBASE", str(base))
    assert f"USER_BASE: {str(base)!r}" in run_module("site").stdout
    (tmp_path / "study.toml").write_text("")
    refused = run_module("vnetbench", "run", "study.toml", folder=tmp_path)
    assert refused.returncode == 2 and "no such file" not in refused.stderr.lower()
