"""Skips: only a busy machine excuses a failure, and a run with many skips fails."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests import quiet
from tests.quiet import LostCpuMeter, LostCpuTime, quiet_machine_required
from tests.skip_limit import NEEDS_ROOT
from tests.warm_process import run_module

pytestmark = pytest.mark.pure

ROOT = Path(__file__).parents[1]
PASSES = "def test_{}():\n    pass\n"
SKIPS = "def test_{}():\n    pytest.skip('the host took 40 %')\n"
FAILS = "def test_{}():\n    assert False\n"
SPIN_CPU_S = 0.5
SPIN = f"import time\nwhile time.process_time() < {SPIN_CPU_S} + 0.1: pass\nprint(flush=True); input()"


def run_tests(
    folder: Path, *tests: str, options: tuple[str, ...] = (), file_name: str = "test_it.py"
) -> tuple[int, str]:
    """Run tests with the limit of `make test`, and return the exit status and the output."""
    numbered = [test.format(number) for number, test in enumerate(tests)]
    (folder / "pytest.ini").write_text("[pytest]\n")
    (folder / file_name).write_text("import pytest\n" + "".join(numbered))
    completed = run_module("pytest", "-q", "-p", "tests.skip_limit", *options, folder=folder)
    return completed.returncode, completed.stdout


def simulate_lost_time(monkeypatch: pytest.MonkeyPatch, foreign: float, stolen: float) -> None:
    monkeypatch.setattr(LostCpuMeter, "read", lambda meter: LostCpuTime(foreign, stolen))


@contextmanager
def outcome_of_a_failure() -> Iterator[None]:
    with quiet_machine_required():
        yield
        assert 1 + 1 == 3, "the claim"


def test_a_failure_on_a_quiet_machine_is_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    simulate_lost_time(monkeypatch, foreign=0.06, stolen=0.03)
    with pytest.raises(AssertionError, match="the claim"), outcome_of_a_failure():
        pass


def test_a_failure_on_a_busy_machine_skips_with_the_measured_shares(monkeypatch: pytest.MonkeyPatch) -> None:
    simulate_lost_time(monkeypatch, foreign=0.06, stolen=0.25)
    with pytest.raises(pytest.skip.Exception) as skipped, outcome_of_a_failure():
        pass
    reason = str(skipped.value)
    assert "other processes used 6% of the CPU time and the host took 25%" in reason
    assert "the claim" in reason


def test_a_busy_machine_does_not_hide_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    simulate_lost_time(monkeypatch, foreign=0.9, stolen=0.0)
    with pytest.raises(ZeroDivisionError), quiet_machine_required():
        raise ZeroDivisionError


def test_cpu_time_of_other_programs_is_lost_and_own_time_is_not(monkeypatch: pytest.MonkeyPatch) -> None:
    command = [sys.executable, "-c", SPIN]
    with (
        subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as spinning,
        subprocess.Popen(["sleep", "600"]) as sibling,
    ):
        assert spinning.stdout is not None
        spinning.stdout.readline()
        as_parent = quiet.foreign_cpu_s_by_pid()
        monkeypatch.setattr(os, "getpid", lambda: sibling.pid)
        as_sibling = quiet.foreign_cpu_s_by_pid()
        monkeypatch.undo()
        sibling.kill()
    # Other programs of this machine come and go, so the sums of both times cannot be compared.
    assert spinning.pid not in as_parent
    assert as_sibling[spinning.pid] >= SPIN_CPU_S


def test_a_run_with_few_skips_passes_and_lists_them(tmp_path: Path) -> None:
    status, output = run_tests(tmp_path, *[PASSES] * 49, SKIPS, options=("--max-skipped-percent=2",))
    assert status == 0
    assert "skipped: test_it.py::test_49: Skipped: the host took 40 %" in output


def test_a_run_with_many_skips_fails(tmp_path: Path) -> None:
    status, output = run_tests(tmp_path, *[PASSES] * 48, SKIPS, options=("--max-skipped-percent=2",))
    assert status == 1
    assert "1 of 49 tests were skipped, more than 2 %" in output


def test_a_failed_test_fails_the_run_and_does_not_run_again(tmp_path: Path) -> None:
    status, output = run_tests(tmp_path, PASSES, FAILS, options=("--max-skipped-percent=2",))
    assert status == 1
    assert output.count("1 failed, 1 passed") == 1


def test_runs_with_one_record_have_one_limit(tmp_path: Path) -> None:
    record = f"--skip-record={tmp_path / 'skips.json'}"
    status, output = run_tests(tmp_path, *[PASSES] * 8, SKIPS, options=(record,))
    assert status == 0
    # Parallel workers report to the process that counts.
    options = (record, "--max-skipped-percent=2", "-n", "2")
    (tmp_path / "test_it.py").unlink()
    status, output = run_tests(tmp_path, *[PASSES] * 30, options=options, file_name="test_others.py")
    assert status == 1
    assert "1 of 39 tests were skipped, more than 2 %" in output


def test_a_test_that_needs_root_does_not_count_without_root(tmp_path: Path) -> None:
    needs_root = SKIPS.replace("the host took 40 %", NEEDS_ROOT)
    status, _ = run_tests(tmp_path, PASSES, needs_root, options=("--max-skipped-percent=2",))
    assert status == 0


def test_make_test_reruns_no_test_and_limits_skips() -> None:
    recipe = subprocess.run(
        ["make", "-n", "-C", str(ROOT), "-o", "install", "-o", "test-peers", "test-real", "test-agent"],
        capture_output=True, text=True, check=True,
    ).stdout  # fmt: skip
    assert "--max-skipped-percent=2" in recipe and "cargo test" in recipe
    assert "rerun" not in recipe and "||" not in recipe
