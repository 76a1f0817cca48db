"""Tests of peers and paths that fail during a trial: they are named, and the counts are kept."""

from __future__ import annotations

import os
import re
import resource
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.faults import bench_process as bench
from vnetbench.lab import netlink, registry
from vnetbench.results.file import ResultsFile
from vnetbench.results.records import EndpointRecord, TrialRecord

pytestmark = pytest.mark.lab

STUDY = """\
title = "Broken streams"
question = "What is kept of a trial that fails?"
workload = "tcp_stream"

[factors]
streams = 3

[timing]
duration = "5 s"

[precision]
min_trials = 1
max_trials = 1
"""
"""The load is long enough to be broken in its first half, also on a busy machine: a path that carries data
in the second half counts as a slow one."""
SAMPLE_S = 0.05
FEW_FILES, MANY_FILES = 512, 8192


def break_trial(tmp_path: Path, break_testbed: Callable[[str], None]) -> tuple[str, TrialRecord]:
    """Return the bench's output and the failed trial after breaking a testbed under load."""
    study, results = bench.write_study(tmp_path, STUDY), tmp_path / "r.vnb"
    process = bench.start("run", study, "-o", results)
    name = bench.wait_for_load()
    time.sleep(10 * SAMPLE_S)
    break_testbed(name)
    output = process.communicate(timeout=bench.PATIENCE_S)[0]
    assert process.returncode == 0, output
    assert "Traceback" not in output
    assert len(bench.trials(results)) == 1
    assert bench.agents() == []
    file = ResultsFile.open_to_read(results)
    (broken,) = [trial for trial in file.trials() if trial.failure]
    file.close()
    return output, broken


def agent_pid(testbed: str, endpoint: str) -> int:
    inode = (netlink.NETNS_DIR / f"vnb.{testbed}.{endpoint}").stat().st_ino
    (pid,) = [
        pid for pid in registry.testbed_pids(testbed) if Path(f"/proc/{pid}/ns/net").stat().st_ino == inode
    ]
    return pid


def assert_all_streams_are_kept(trial: TrialRecord, *, except_totals_of: str = "") -> None:
    """Check the samples of each endpoint, and its totals of each stream unless it was killed."""
    assert [endpoint.name for endpoint in trial.endpoints] == ["a1", "b1", "host"]
    for endpoint in trial.endpoints[:2]:
        assert endpoint.samples
        assert all(len(sample.streams) == 3 for sample in endpoint.samples)
        if endpoint.name != except_totals_of:
            streams = stream_totals(endpoint)
            assert len(streams) == 3
            assert all(stream["bytes"] > 0 and "state" in stream for stream in streams)


def stream_totals(endpoint: EndpointRecord) -> list[dict[str, Any]]:
    streams: Any = endpoint.totals["streams"]
    return list(streams)


def test_a_killed_peer_is_named_and_the_counts_until_then_are_kept(tmp_path: Path) -> None:
    output, trial = break_trial(tmp_path, lambda name: os.kill(agent_pid(name, "b1"), signal.SIGKILL))
    assert trial.failure.startswith("b1: the agent ended (killed by SIGKILL)")
    assert "a trial failed: b1: the agent ended (killed by SIGKILL)" in output
    assert_all_streams_are_kept(trial, except_totals_of="b1")


def test_a_stopped_peer_is_named_and_leaves_nothing_behind(tmp_path: Path) -> None:
    _, trial = break_trial(tmp_path, lambda name: os.kill(agent_pid(name, "b1"), signal.SIGSTOP))
    assert "b1: the agent did not end the trial" in trial.failure
    assert_all_streams_are_kept(trial, except_totals_of="b1")


@pytest.mark.parametrize(("place", "interface"), [("b1", "eth0"), ("sw", "b1")])
def test_an_interface_that_goes_down_is_named_and_the_counts_until_then_are_kept(
    tmp_path: Path, place: str, interface: str
) -> None:
    def take_down(name: str) -> None:
        subprocess.run(["ip", "-n", f"vnb.{name}.{place}", "link", "set", interface, "down"], check=True)

    _, trial = break_trial(tmp_path, take_down)
    assert trial.failure == "b1: interface eth0 went down or lost its carrier"
    assert_all_streams_are_kept(trial)


def test_an_interrupted_path_is_distinguished_from_a_slow_one(tmp_path: Path) -> None:
    def unplug(name: str) -> None:
        switch = f"vnb.{name}.sw"
        subprocess.run(["ip", "-n", switch, "link", "set", "b1", "nomaster"], check=True)

    _, trial = break_trial(tmp_path, unplug)
    assert trial.failure.startswith("no data arrived at b1 after")
    assert_all_streams_are_kept(trial)


def test_one_cut_stream_is_named_and_the_counts_of_the_others_are_kept(tmp_path: Path) -> None:
    def cut_one(name: str) -> None:
        prefix = ["ip", "netns", "exec", f"vnb.{name}.a1"]
        listed = subprocess.run(
            [*prefix, "ss", "-Htn", "state", "established"], check=True, capture_output=True, text=True
        ).stdout.splitlines()
        # The streams connect in the order of their ids, each from the next free port.
        port = sorted(int(line.split()[2].rpartition(":")[2]) for line in listed)[1]
        subprocess.run([*prefix, "ss", "-K", "sport", "=", f":{port}"], check=True, capture_output=True)

    _, trial = break_trial(tmp_path, cut_one)
    assert_all_streams_are_kept(trial)
    # Its peer then closes its streams, and on a busy machine either may notice another stream first.
    reported = re.findall(r"(a1|b1): stream (\d) broke: ", trial.failure)
    assert reported, trial.failure
    states = {each.name: [stream["state"] for stream in stream_totals(each)] for each in trial.endpoints[:2]}
    assert all(states[endpoint][int(stream)] == "broken" for endpoint, stream in reported)


def test_a_thousand_streams_run_or_are_refused_by_the_limit_of_open_files(
    tmp_path: Path,
) -> None:
    text = STUDY.replace("streams = 3", "streams = [1, 1000]\nthreads = 1").replace("5 s", "300 ms")
    study = bench.write_study(tmp_path, text)

    def limited(files: int) -> tuple[int, str]:
        def set_limit() -> None:
            resource.setrlimit(resource.RLIMIT_NOFILE, (files, files))

        return bench.run("run", study, "-o", tmp_path / f"{files}.vnb", preexec_fn=set_limit)

    code, output = limited(FEW_FILES)
    assert code == 0
    assert "1000 streams, 1 thread: refused" in output
    assert "the limit of open files is too low for this number of streams" in output
    assert "ulimit -n" in output
    assert {treatment for treatment, _ in bench.trials(tmp_path / f"{FEW_FILES}.vnb")} == {0}
    assert bench.agents() == []
    assert limited(MANY_FILES)[0] == 0
    assert {treatment for treatment, _ in bench.trials(tmp_path / f"{MANY_FILES}.vnb")} == {0, 1}
