"""Tests of the soak test: it notices what a bench loses, leaves behind or lets grow."""

from __future__ import annotations

import json
import os
import sqlite3
import subprocess
import sys
from pathlib import Path
from random import Random

import pytest

from bench.soak.campaign import Soak, count_finished_trials, read_finished_trials
from bench.soak.faults import FAULTS, RunningBench
from bench.soak.leftovers import MachineState, read_machine_state
from bench.soak.usage import UsageSamples
from tests import fixtures


def write_results(path: Path, blocks: int) -> None:
    file, _ = fixtures.create_results_file(path)
    for block in range(blocks):
        file.add_trial(fixtures.make_trial(0, block), 1.0)
    file.close()


def execute(path: Path, statement: str) -> None:
    with sqlite3.connect(path) as db:
        db.execute(statement)


@pytest.mark.pure
@pytest.mark.parametrize(
    ("statement", "violation"),
    [
        ("DELETE FROM trial WHERE block = 1", "the finished trial (0, 1) is lost"),
        ("UPDATE trial SET setup_s = 9 WHERE block = 1", "the finished trial (0, 1) has changed"),
    ],
)
def test_a_lost_or_changed_trial_is_a_violation(tmp_path: Path, statement: str, violation: str) -> None:
    soak = Soak(tmp_path, "netns", 4, 100, seed=1)
    write_results(soak.results, 3)
    soak.check_trials()
    assert soak.record.violations == []
    assert count_finished_trials(soak.results) == len(read_finished_trials(soak.results)) == 3
    execute(soak.results, statement)
    soak.check_trials()
    assert soak.record.violations == [violation]


@pytest.mark.pure
@pytest.mark.parametrize(
    ("code", "fault_name", "finished", "violations"),
    [
        (0, "", 4, []),
        (0, "", 3, ["exit code 0 without the last trial, after no fault"]),
        (130, "bench ended by SIGTERM", 3, []),
        (0, "bench ended by SIGTERM", 4, []),
        (
            0,
            "bench ended by SIGTERM",
            3,
            ["exit code 0 without the last trial, after bench ended by SIGTERM"],
        ),
        (1, "bench ended by SIGTERM", 4, ["exit code 1 after bench ended by SIGTERM: 'output'"]),
    ],
)
def test_exit_code_0_stands_for_a_complete_campaign(
    tmp_path: Path, code: int, fault_name: str, finished: int, violations: list[str]
) -> None:
    soak = Soak(tmp_path, "netns", 4, 100, seed=1)
    write_results(soak.results, finished)
    fault = next((each for each in FAULTS if each.name == fault_name), None)
    soak.check_exit_code(code, fault, "output")
    assert soak.record.violations == violations


@pytest.mark.pure
def test_a_fault_without_a_target_disturbs_nothing(tmp_path: Path) -> None:
    faults = {each.name: each for each in FAULTS}
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE, text=True) as process:
        bench = RunningBench(process, tmp_path, tmp_path / "clock")
        names = ("agent killed", "agent paused", "agent stopped", "guest killed")
        assert not any(faults[name].inject(bench, Random(1)) for name in names)
        assert faults["bench killed"].inject(bench, Random(1))


@pytest.mark.pure
def test_a_growing_figure_is_not_flat() -> None:
    growing = [(1000 + 10 * second, 12) for second in range(100)]
    steady = [(1000 + second % 3, 12 if second % 2 else 3) for second in range(100)]
    growths = UsageSamples({("agent", 1): growing, ("bench", 2): steady, ("short", 3): steady[:5]}).growths()
    flat = {(each.process, each.figure): each.is_flat for each in growths}
    assert flat == {
        ("agent (1)", "memory"): False,
        ("agent (1)", "open files"): True,
        ("bench (2)", "memory"): True,
        ("bench (2)", "open files"): True,
    }


@pytest.mark.pure
def test_a_bench_counts_only_while_it_has_agents() -> None:
    usage = UsageSamples()
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as bench:
        usage.add(bench.pid)
        assert not usage.figures
        assert bench.stdin is not None
        bench.stdin.close()
    start_agent = "import subprocess; subprocess.run(['sh', '-c', 'echo ready; read line'])"
    with subprocess.Popen(
        [sys.executable, "-c", start_agent], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as bench:
        assert bench.stdin is not None and bench.stdout is not None
        bench.stdout.readline()
        usage.add(bench.pid)
        assert [name for name, _ in usage.figures] == ["bench", "sh"]
        bench.stdin.close()


@pytest.mark.pure
def test_what_is_new_on_the_machine_is_named() -> None:
    before = MachineState({"namespace": frozenset({"a"}), "mount": frozenset({"/x"})})
    after = MachineState({"namespace": frozenset({"a", "b"}), "mount": frozenset()})
    assert after.added_since(before) == ["namespace: b"]


@pytest.mark.lab
def test_a_process_with_the_label_and_a_temporary_file_are_found(tmp_path: Path) -> None:
    before = read_machine_state("SOAK=label", tmp_path)
    (tmp_path / "left").touch()
    code = "import sys; print('ready', flush=True); sys.stdin.read()  # vnetbench"
    process = subprocess.Popen(
        [sys.executable, "-c", code],
        env={**os.environ, "SOAK": "label"},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    try:
        # Popen returns when exec begins. Until it ends, the process has no environment in /proc.
        assert process.stdout is not None
        process.stdout.readline()
        added = read_machine_state("SOAK=label", tmp_path).added_since(before)
    finally:
        process.communicate()
    assert [each.split(" ")[0] for each in added] == ["process:", "temporary"]
    assert f"({process.pid})" in added[0]


@pytest.mark.lab
@pytest.mark.alone  # It looks for control groups of any bench on the machine.
def test_a_short_soak_loses_and_leaves_nothing(tmp_path: Path) -> None:
    words = [sys.executable, "-m", "bench.soak", "--trials", "16", "--seed", "3", "--output", str(tmp_path)]
    done = subprocess.run(words, capture_output=True, text=True)
    (record,) = tmp_path.glob("*-soak.json")
    netns = json.loads(record.read_text())["labs"]["netns"]
    assert netns["violations"] == []
    assert sum(netns["faults"].values()) >= 1
    assert done.returncode == 0, done.stdout
