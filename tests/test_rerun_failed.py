"""Rerun of failed tests: broken tests stay failed, and flaky tests are listed."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.pure

RERUN_FAILED = ("-m", "tools.rerun_failed")
HERE = Path(__file__).parents[1]

SOUND = "def test_sound():\n    pass\n"
BROKEN = "def test_broken():\n    assert False\n"
ONCE = """
from pathlib import Path

def test_once():
    seen = Path("seen")
    first = not seen.exists()
    seen.touch()
    assert not first
"""
EVERY_OTHER_TIME = """
from pathlib import Path

def test_every_other_time():
    seen = Path("runs")
    runs = int(seen.read_text()) if seen.exists() else 0
    seen.write_text(str(runs + 1))
    assert runs % 2
"""
FAILED_AT_FIRST = re.compile(
    r"Failed at first, then passed 2 times \(the host took \d+% of the requested CPU"
)

CRATE = """[package]
name = "looked-at"
version = "0.1.0"
edition = "2021"
"""
RUST_SOUND = "#[test]\nfn sound() {}\n"
RUST_BROKEN = '#[test]\nfn broken() { panic!("as it must") }\n'
RUST_ONCE = """
#[test]
fn once() {
    let first = !std::path::Path::new("seen").exists();
    std::fs::write("seen", "").unwrap();
    assert!(!first);
}
"""


def looked_at(where: Path, runner: str, *command: str) -> tuple[int, str]:
    ran = subprocess.run(
        [sys.executable, *RERUN_FAILED, runner, *command],
        cwd=where,
        env={**os.environ, "PYTHONPATH": str(HERE)},
        capture_output=True,
        text=True,
        check=False,
    )
    return ran.returncode, ran.stdout


def python_tests(where: Path, *tests: str) -> tuple[int, str]:
    (where / "pytest.ini").write_text("[pytest]\n")
    (where / "test_it.py").write_text("\n".join(tests))
    return looked_at(where, "pytest", sys.executable, "-m", "pytest", "-q")


def rust_tests(where: Path, *tests: str) -> tuple[int, str]:
    (where / "src").mkdir()
    (where / "Cargo.toml").write_text(CRATE)
    (where / "src/lib.rs").write_text("\n".join(tests))
    return looked_at(where, "cargo", "cargo", "test", "--offline", "--quiet")


def test_passing_tests_run_once(tmp_path: Path) -> None:
    status, said = python_tests(tmp_path, SOUND)
    assert status == 0
    assert "1 passed" in said
    assert "Again" not in said


def test_a_test_that_fails_once_passes_and_is_listed(tmp_path: Path) -> None:
    status, said = python_tests(tmp_path, SOUND, ONCE)
    assert status == 0
    assert "1 failed, 1 passed" in said
    assert len(re.findall("^1 passed in ", said, re.MULTILINE)) == 2
    assert FAILED_AT_FIRST.search(said) and said.endswith("requested CPU time): test_it.py::test_once\n")


def test_a_broken_test_fails_together_with_one_that_fails_once(tmp_path: Path) -> None:
    status, said = python_tests(tmp_path, BROKEN, ONCE)
    assert status == 1
    assert "At least one failed again" in said


def test_a_test_that_passes_every_other_time_fails(tmp_path: Path) -> None:
    status, said = python_tests(tmp_path, SOUND, EVERY_OTHER_TIME)
    assert status == 1
    assert "At least one failed again" in said


def test_tests_that_cannot_run_are_not_rerun(tmp_path: Path) -> None:
    status, said = python_tests(tmp_path, "import no_such_module\n")
    assert status == 2
    assert "Again" not in said


@pytest.mark.parametrize(
    ("tests", "status", "summary"),
    [
        ((RUST_SOUND,), 0, None),
        ((RUST_SOUND, RUST_ONCE), 0, "CPU time): once\n"),
        ((RUST_SOUND, RUST_BROKEN), 101, "CPU time): broken\n"),
        (("this does not compile",), 101, None),
    ],
)
def test_cargo_tests_are_rerun_likewise(
    tmp_path: Path, tests: tuple[str, ...], status: int, summary: str | None
) -> None:
    ended, said = rust_tests(tmp_path, *tests)
    assert ended == status
    assert said.endswith(summary) if summary else "Again" not in said
