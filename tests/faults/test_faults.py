"""Tests of faults during a real campaign: kills, Ctrl-C, a full disk, a vanished interface."""

from __future__ import annotations

import os
import random
import re
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import click
import pytest

import vnetbench
from bench.redteam.target import descendants, process_name
from tests.faults import bench_process as bench
from tests.own_testbeds import list_own_testbeds
from vnetbench.lab import netlink
from vnetbench.results.file import ResultsFile

pytestmark = pytest.mark.lab
NOBODY = 65534


def test_a_bench_killed_at_random_times_resumes_without_losing_or_repeating_a_trial(tmp_path: Path) -> None:
    study, results = bench.write_study(tmp_path), tmp_path / "r.vnb"
    moments = random.Random(1)
    process = bench.start("run", study, "-o", results)
    bench.wait_for_trials(results, 1)
    kept: set[tuple[int, int]] = set()
    for _ in range(5):
        time.sleep(moments.uniform(0.05, 1.5))
        bench.kill(process)
        found = bench.trials(results)
        assert kept <= set(found)
        assert len(found) == len(set(found))
        kept = set(found)
        process = bench.start("resume", results)
    process.communicate(timeout=bench.PATIENCE_S)
    assert process.returncode == 0
    assert kept <= set(bench.trials(results))
    bench.assert_complete(results)
    assert bench.run("lab", "clean")[0] == 0


def test_agents_killed_at_random_times_cost_only_their_trial(tmp_path: Path) -> None:
    study, results = bench.write_study(tmp_path), tmp_path / "r.vnb"
    moments = random.Random(2)
    process = bench.start("run", study, "-o", results)
    for count in (1, 5, 9, 13):
        bench.wait_for_trials(results, count)
        time.sleep(moments.uniform(0, 0.3))
        for pid in moments.sample(found := bench.agents(), min(1, len(found))):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
    output = process.communicate(timeout=bench.PATIENCE_S)[0]
    assert process.returncode == 0, output
    assert "Traceback" not in output
    bench.assert_complete(results)


def test_lab_clean_removes_everything_of_a_killed_bench_and_its_agents(tmp_path: Path) -> None:
    study, results = bench.write_study(tmp_path), tmp_path / "r.vnb"
    process = bench.start("run", study, "-o", results)
    bench.wait_for_trials(results, 5)
    agents = bench.agents()
    assert agents
    bench.kill(process)
    for pid in agents:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    before = set(bench.trials(results))
    assert [n for n in netlink.list_namespaces() if n.startswith("vnb.run-")]
    code, output = bench.run("lab", "clean")
    assert (code, output.startswith("Removed run-")) == (0, True)
    assert not [n for n in netlink.list_namespaces() if n.startswith("vnb.run-")]
    assert not [e for e in list_own_testbeds() if e.name.startswith("run-")]
    assert bench.agents() == []
    code, _ = bench.run("resume", results)
    assert code == 0
    assert before <= set(bench.trials(results))
    bench.assert_complete(results)


def test_lab_clean_ends_a_stopped_agent_of_a_killed_bench(tmp_path: Path) -> None:
    study, results = bench.write_study(tmp_path, bench.ENDLESS_STUDY), tmp_path / "r.vnb"
    process = bench.start("run", study, "-o", results)
    bench.wait_for_trials(results, 1)
    (observer,) = (pid for pid in descendants(process.pid) if is_agent_of_the_machine(pid))
    os.kill(observer, signal.SIGSTOP)
    # An agent that is not stopped yet when its bench ends, ends too.
    while "State:\tT" not in Path(f"/proc/{observer}/status").read_text():
        assert process.poll() is None
    bench.kill(process)
    assert is_agent_of_the_machine(observer)
    code, output = bench.run("lab", "clean")
    # Another test run of this machine may have left a stopped agent too.
    assert code == 0 and re.match(r"Ended \d+ stopped agents? of killed campaigns\.", output), output
    assert not is_agent_of_the_machine(observer)


def is_agent_of_the_machine(pid: int) -> bool:
    """Return whether a process is an agent outside a VM: the observer, which no testbed contains."""
    with suppress(OSError):
        network = [Path(f"/proc/{each}/ns/net").readlink() for each in (pid, "self")]
        return process_name(pid).startswith("vnetbench-agent") and network[0] == network[1]
    return False


def test_lab_clean_does_not_touch_a_running_campaign(tmp_path: Path) -> None:
    study, results = bench.write_study(tmp_path, bench.ENDLESS_STUDY), tmp_path / "r.vnb"
    process = bench.start("run", study, "-o", results)
    bench.wait_for_trials(results, 2)
    code, output = bench.run("lab", "clean")
    assert code == 0
    assert "Kept the testbed run-" in output
    finished = len(bench.trials(results))
    bench.wait_for_trials(results, finished + 2)
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=bench.PATIENCE_S)
    assert process.returncode == 130
    assert bench.failures(results) == []


def test_a_vanished_interface_costs_only_its_trial(tmp_path: Path) -> None:
    study, results = bench.write_study(tmp_path), tmp_path / "r.vnb"
    process = bench.start("run", study, "-o", results)
    bench.wait_for_trials(results, 3)
    (victim,) = [n for n in netlink.list_namespaces() if n.startswith("vnb.run-") and n.endswith(".a1")]
    subprocess.run(["ip", "-n", victim, "link", "del", "eth0"], check=True)
    output = process.communicate(timeout=bench.PATIENCE_S)[0]
    assert process.returncode == 0, output
    assert "Traceback" not in output
    bench.assert_complete(results)


def test_ctrl_c_once_finishes_the_trial_and_cleans_up(tmp_path: Path) -> None:
    study, results = bench.write_study(tmp_path), tmp_path / "r.vnb"
    process = bench.start("run", study, "-o", results)
    bench.wait_for_trials(results, 3)
    process.send_signal(signal.SIGINT)
    output = process.communicate(timeout=bench.PATIENCE_S)[0]
    assert process.returncode == 130
    assert "Finishing the current trial" in output
    assert f"vnetbench resume {results}" in output
    assert bench.failures(results) == []
    assert bench.run("resume", results)[0] == 0
    bench.assert_complete(results)


@pytest.mark.parametrize("signals", [(signal.SIGINT, signal.SIGINT), (signal.SIGTERM,)])
def test_ctrl_c_twice_or_sigterm_stops_at_once_and_cleans_up(
    tmp_path: Path, signals: tuple[signal.Signals, ...]
) -> None:
    study = bench.write_study(tmp_path, bench.STUDY.replace("200 ms", "600 s"))
    results = tmp_path / "r.vnb"
    process = bench.start("run", study, "-o", results)
    bench.wait_for_load()
    first, *later = signals
    process.send_signal(first)
    for number in later:
        # A signal that comes before the bench has handled an earlier one of its kind is lost.
        bench.wait_for_line(process, "Finishing the current trial")
        process.send_signal(number)
    # The trial would take longer than this time limit, so its end shows that it was aborted.
    output = process.communicate(timeout=bench.PATIENCE_S)[0]
    assert process.returncode == 130, output
    assert "Traceback" not in output
    assert bench.trials(results) == []
    assert bench.agents() == []


def test_a_full_disk_is_reported_and_the_campaign_can_be_resumed(tmp_path: Path) -> None:
    small = tmp_path / "small"
    small.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=128k", "tmpfs", str(small)], check=True)
    try:
        study, results = bench.write_study(tmp_path), small / "r.vnb"
        code, output = bench.run("run", study, "-o", results)
        assert code == 2
        assert "the disk is full" in output
        assert f"vnetbench resume {results}" in output
        before = set(bench.trials(results))
        assert before
        assert bench.agents() == []
        subprocess.run(["mount", "-o", "remount,size=50m", "tmpfs", str(small)], check=True)
        assert bench.run("resume", results)[0] == 0
        assert before <= set(bench.trials(results))
        bench.assert_complete(results)
    finally:
        subprocess.run(["umount", str(small)], check=True)


def test_an_edited_study_is_refused_with_the_difference(tmp_path: Path) -> None:
    study, results = bench.write_study(tmp_path), tmp_path / "r.vnb"
    process = bench.start("run", study, "-o", results)
    bench.wait_for_trials(results, 1)
    bench.kill(process)
    bench.run("lab", "clean")
    study.write_text(bench.STUDY.replace("mtu = [1500, 9000]", "mtu = [1500, 3000]"))
    before = results.read_bytes()
    code, output = bench.run("resume", results)
    assert code == 2
    assert "-mtu = [1500, 9000]\n" in output
    assert "+mtu = [1500, 3000]\n" in output
    assert results.read_bytes() == before
    study.unlink()
    code, output = bench.run("resume", results)
    assert code == 0
    assert "The campaign continues with the copy in the results file" in " ".join(output.split())


@pytest.mark.parametrize("command", ["resume", "show", "report", "compare"])
def test_every_command_reports_an_unusable_file(tmp_path: Path, command: str) -> None:
    damaged = tmp_path / "damaged.vnb"
    damaged.write_bytes(b"SQLite format 3\0" + os.urandom(5000))
    for path in (damaged, tmp_path / "missing.vnb"):
        code, output = bench.run(command, path, *([path] if command == "compare" else []))
        assert code == 2, output
        assert "fix:" in output


def test_a_file_in_use_by_another_bench_is_refused(tmp_path: Path) -> None:
    study, results = bench.write_study(tmp_path, bench.ENDLESS_STUDY), tmp_path / "r.vnb"
    process = bench.start("run", study, "-o", results)
    bench.wait_for_trials(results, 1)
    try:
        code, output = bench.run("resume", results)
        assert code == 2
        assert f"process {process.pid}" in output
        assert bench.run("show", results)[0] == 0
        assert process.poll() is None
    finally:
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=bench.PATIENCE_S)


def test_an_unprivileged_user_runs_a_campaign(real_root: None) -> None:
    """Run the same command in a user namespace."""
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        os.chown(home, NOBODY, NOBODY)
        options = unprivileged_options(home)
        study = bench.write_study(home)
        code, output = bench.run(
            "run", study, "--set", "mtu=1500", "--set", "precision.half_width=50%", "-o", "r.vnb", **options
        )
        assert code == 0, output
        assert "without root, the lab runs in a user namespace" in output
        file = ResultsFile.open_to_read(home / "r.vnb")
        # The precision depends on the machine.
        assert {t.state for t in file.treatments()} <= {"precision", "trial limit"}
        assert file.facts()["bench"]["privilege"] == "user namespace"
        file.close()


def unprivileged_options(home: Path) -> dict[str, Any]:
    """Return options that start a bench as an unprivileged user; skip if that user cannot read our Python."""
    packages = [str(Path(module.__file__ or "").parents[1]) for module in (vnetbench, click)]
    for python in (sys.executable, "/usr/bin/python3"):
        options: dict[str, Any] = {
            "user": NOBODY, "group": NOBODY, "extra_groups": [], "cwd": home, "python": python,
            "env": {"HOME": str(home), "PYTHONPATH": os.pathsep.join(packages)},
        }  # fmt: skip
        with suppress(PermissionError):
            if bench.run("--version", **options)[0] == 0:
                return options
    pytest.skip("the Python of this environment is not readable for other users")
