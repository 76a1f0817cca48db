"""What a red-team run does if the bench, a helper program or a command that reads its file fails."""

from __future__ import annotations

import subprocess
import sys
import threading
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from bench.redteam import campaign, effects, runner, scoring, target
from bench.redteam.causes.controls import make_control
from bench.redteam.model import Label, Run, Shape, tcp

CONTROL = make_control(tcp(1))
QUIET = Run(CONTROL, 0, Shape(1), tcp(1), "bridge")
BUSY = Run(CONTROL, 0, Shape(1, is_busy=True), tcp(1), "bridge")
TIMEOUT_S = 60.0


def _fake_vnetbench(monkeypatch: pytest.MonkeyPatch, **script_by_command: str) -> None:
    """Replace vnetbench by a script for each command. Other commands do nothing."""
    lines = "import sys, time\n" + "".join(
        f"if sys.argv[1] == {name!r}:\n    {script}\n" for name, script in script_by_command.items()
    )
    monkeypatch.setattr(runner, "VNETBENCH", (sys.executable, "-c", lines))


def _fake_helper(monkeypatch: pytest.MonkeyPatch, folder: Path, script: str) -> None:
    path = folder / "programs.py"
    path.write_text(f"import time\n{script}\n")
    monkeypatch.setattr(target, "PROGRAMS", path)


END_WITH_BENCH = """\
import os, pathlib
pathlib.Path("{pids}", str(os.getpid())).touch()
while not os.path.exists("{started}"):
    time.sleep(0.01)
"""
"""A helper that ends once the bench has started."""

WAIT_FOR_END = """\
import pathlib
def has_ended(pid):
    try:
        return pathlib.Path("/proc", pid, "stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True
pathlib.Path("{started}").touch()
while not any(has_ended(path.name) for path in pathlib.Path("{pids}").iterdir()):
    time.sleep(0.01)
"""
"""A bench that starts, and ends after a helper."""


def _store_run(folder: Path) -> Label:
    label = runner.make_label(QUIET, is_control=True)
    label.results = "run.vnb"
    (folder / label.results).write_text("results")
    return label


@pytest.mark.parametrize(
    ("script", "message"),
    [
        ("sys.exit('a defect')", "exit code 1: a defect"),
        ("print('{')", "no valid JSON"),
        ("print('[]')", "no JSON object"),
        ("print('{}'); sys.exit(3)", "exit code 3"),
    ],
)
def test_a_failure_to_read_a_file_is_stored_and_leaves_the_run_out(
    script: str, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    label = _store_run(tmp_path)
    _fake_vnetbench(monkeypatch, show=script, explain=script)
    runner.judge(label, tmp_path, None)
    assert label.error.startswith("show: ")
    assert message in label.error
    stored = _store_run(tmp_path)
    stored.effect = "nothing wrong"
    (verdict,) = scoring.judge_runs(tmp_path, [stored])
    assert not verdict.is_scored_control
    lines = "\n".join(scoring.format_scores([verdict], with_details=False))
    assert "1 runs: 1 not explained because of an error" in lines
    assert "not scored: run.vnb: explain: " in lines
    assert message in lines


def test_a_fault_whose_explanation_crashes_is_not_silent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stored = _store_run(tmp_path)
    stored.is_control, stored.effect = False, effects.EFFECT
    _fake_vnetbench(monkeypatch, explain="sys.exit(1)")
    (verdict,) = scoring.judge_runs(tmp_path, [stored])
    assert not verdict.is_scored_fault


def test_a_run_without_a_file_has_no_explanation(tmp_path: Path) -> None:
    assert runner.show(tmp_path / "none.vnb") == {}
    assert runner.explain(tmp_path / "none.vnb") == {}


def test_a_control_that_does_not_end_has_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _fake_vnetbench(monkeypatch, run="time.sleep(60)")
    monkeypatch.setattr(runner, "RUN_TIMEOUT_S", 0.3)
    label = runner.perform(QUIET, tmp_path, "run", [0], None)
    assert label.error == "the bench did not end within 0 s"
    assert label.exit_code is not None


def test_other_load_that_does_not_start_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _fake_vnetbench(monkeypatch, run="sys.stdout.write('started')")
    _fake_helper(monkeypatch, tmp_path, "raise SystemExit(3)")
    spawn = target.Target.spawn

    def spawn_and_wait(*arguments: Any) -> subprocess.Popen[bytes]:
        process = spawn(*arguments)
        process.wait(60)  # A busy machine may take long to start it, and thus to end it.
        return process

    monkeypatch.setattr(target.Target, "spawn", spawn_and_wait)
    label = runner.perform(BUSY, tmp_path, "run", [0], None)
    assert label.error.startswith("other load: ended with 3")
    assert not (tmp_path / "run.txt").exists()


def test_other_load_that_ends_during_the_run_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench_started, helper_pids = tmp_path / "bench-started", tmp_path / "helpers"
    helper_pids.mkdir()
    wait_for_end = WAIT_FOR_END.format(started=bench_started, pids=helper_pids)
    _fake_vnetbench(monkeypatch, run=f"exec({wait_for_end!r})")
    _fake_helper(monkeypatch, tmp_path, END_WITH_BENCH.format(started=bench_started, pids=helper_pids))
    label = runner.perform(BUSY, tmp_path, "run", [0], None)
    assert label.error.startswith("other load: ended with 0")


def test_a_control_with_an_error_is_no_reference(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _fake_vnetbench(monkeypatch, run="time.sleep(60)")
    monkeypatch.setattr(runner, "RUN_TIMEOUT_S", 0.3)

    def judge(label: Label, folder: Path, control: Path | None) -> None:
        label.effect = "nothing wrong"

    monkeypatch.setattr(runner, "judge", judge)
    runs = campaign.Campaign(tmp_path, "check", lambda line: None, 0.0)
    assert runs._run_control(QUIET, [0], None) is None


def _target() -> target.Target:
    return target.Target({}, {"a1": 1, "b1": 2}, 0, (0, 1), tcp(1), "bridge")


def test_a_repeated_action_that_never_works_is_an_error() -> None:
    def fail() -> float:
        raise target.InjectionError("no such device")

    with ExitStack() as stack, pytest.raises(target.InjectionError, match="no such device"):
        _target().repeat(stack, fail)


def test_a_repeated_action_continues_after_an_error() -> None:
    calls: list[int] = []
    has_continued = threading.Event()

    def act() -> float:
        calls.append(len(calls))
        if len(calls) == 2:
            raise target.InjectionError("the testbed is being removed")
        if len(calls) > 3:
            has_continued.set()
        return 0.01

    with ExitStack() as stack:
        _target().repeat(stack, act)
        assert calls[0] == 0
        assert has_continued.wait(TIMEOUT_S)
