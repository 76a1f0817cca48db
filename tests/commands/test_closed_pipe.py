"""The reader of the output exits (`| head`): commands finish their work and keep their exit code."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests import fixtures
from tests.faults import bench_process as bench
from vnetbench.results.file import ResultsFile
from vnetbench.results.records import FINISHED


def run_without_reader(*command: str) -> tuple[int, str]:
    """Run a command whose standard output nobody reads; return its exit status and its errors."""
    reader, writer = os.pipe()
    os.close(reader)
    try:
        done = subprocess.run(
            [sys.executable, *command],
            stdout=writer,
            stderr=subprocess.PIPE,
            text=True,
            timeout=bench.PATIENCE_S,
        )
    finally:
        os.close(writer)
    return done.returncode, done.stderr


def create_results(path: Path, rate: float = 1e10) -> Path:
    file, _ = fixtures.create_results_file(path)
    for block in range(8):
        for treatment in range(4):
            trial = fixtures.make_trial(treatment, block, rates=[rate * (1 + block / 1000)] * 20)
            file.add_trial(trial, float(block))
    file.close(FINISHED)
    return path


@pytest.mark.parametrize("option", [(), ("--json",), ("--markdown",)])
def test_show_without_a_reader_is_no_error(tmp_path: Path, option: tuple[str, ...]) -> None:
    path = create_results(tmp_path / "r.vnb")
    assert run_without_reader("-m", "vnetbench", "show", *option, str(path)) == (0, "")


def test_help_without_a_reader_is_no_error() -> None:
    assert run_without_reader("-m", "vnetbench", "--help") == (0, "")


def test_the_exit_code_of_a_comparison_does_not_depend_on_the_reader(tmp_path: Path) -> None:
    before, after = create_results(tmp_path / "a.vnb"), create_results(tmp_path / "b.vnb", 5e9)
    arguments = ("-m", "vnetbench", "compare", str(before), str(after), "--fail-if-worse", "5%")
    assert run_without_reader(*arguments) == (3, "")


@pytest.mark.lab
def test_a_campaign_without_a_reader_runs_to_its_end(tmp_path: Path) -> None:
    results = tmp_path / "r.vnb"
    arguments = (
        "run",
        str(bench.write_study(tmp_path)),
        "-o",
        str(results),
        "--set",
        "precision.max_trials=2",
    )
    more = ("--set", "precision.min_trials=2", "--set", "mtu=1500", "--set", "streams=1")
    code, errors = run_without_reader("-m", "vnetbench", *arguments, *more)
    file = ResultsFile.open_to_read(results)
    assert file.campaign().status == FINISHED and len(list(file.trials())) == 2
    file.close()
    assert (code, errors) == (0, "")


FULL_DISK = Path("/dev/full")


def test_a_full_disk_behind_the_output_is_an_error(tmp_path: Path) -> None:
    path = create_results(tmp_path / "r.vnb")
    with FULL_DISK.open("w") as output:
        done = subprocess.run(
            [sys.executable, "-m", "vnetbench", "show", "--json", str(path)],
            stdout=output,
            stderr=subprocess.PIPE,
            text=True,
        )
    assert done.returncode == 2 and "free disk space" in done.stderr


def test_a_page_in_a_missing_folder_gives_no_advice_about_disk_space(tmp_path: Path) -> None:
    path = create_results(tmp_path / "r.vnb")
    code, output = bench.run("report", str(path), "--png", "/proc/no-such-folder")
    assert code == 2 and "free disk space" not in output
