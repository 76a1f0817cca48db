"""Peers and paths that break in mid-trial, and limits of the system: said in words, the figures kept."""

from __future__ import annotations

import os
import re
import resource
import signal
import subprocess
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from tests.faults import bench_process as bench
from vnetbench.lab import netlink, registry
from vnetbench.results.file import ResultsFile
from vnetbench.results.records import EndpointRecord, TrialRecord

pytestmark = pytest.mark.lab

STUDY = """\
title = "Broken"
question = "What is left of a trial that breaks?"
workload = "tcp_stream"

[factors]
streams = 3

[timing]
duration = "3 s"

[precision]
fewest_trials = 2
most_trials = 2
"""
SAMPLE_S = 0.05
FEW_FILES, MANY_FILES = 512, 8192


def broken_by(tmp_path: Path, harm: Callable[[str], None]) -> tuple[str, TrialRecord]:
    """What the bench says, and what it kept, of a trial under load to one testbed of which harm was done."""
    study, results = bench.write_study(tmp_path, STUDY), tmp_path / "r.vnb"
    process = bench.start("run", study, "-o", results)
    name = wait_for_load()
    time.sleep(10 * SAMPLE_S)
    harm(name)
    output = process.communicate(timeout=bench.PATIENCE_S)[0]
    assert process.returncode == 0, output
    assert "Traceback" not in output
    assert len(bench.trials(results)) == 2
    assert bench.agents() == []
    file = ResultsFile.open_to_read(results)
    (broken,) = [trial for trial in file.trials() if trial.failure]
    file.close()
    return output, broken


def wait_for_load() -> str:
    """Until data flows between two VMs; returns the testbed's name."""
    deadline = time.monotonic() + bench.PATIENCE_S
    while time.monotonic() < deadline:
        for entry in registry.list_testbeds():
            with suppress(Exception):  # it may only just be coming up
                if entry.name.startswith("run-") and received(entry.name) > 50_000_000:
                    return entry.name
        time.sleep(0.02)
    raise AssertionError("no load came")


def received(testbed: str) -> int:
    with netlink.open_in_namespace(f"vnb.{testbed}.b1") as ipr:
        (link,) = ipr.get_links(netlink.interface_index(ipr, "eth0"))
        return int(link.get_attr("IFLA_STATS64")["rx_bytes"])


def agent_of(testbed: str, endpoint: str) -> int:
    inode = (netlink.NETNS_DIR / f"vnb.{testbed}.{endpoint}").stat().st_ino
    (pid,) = [
        pid
        for pid in registry.testbed_processes(testbed)
        if Path(f"/proc/{pid}/ns/net").stat().st_ino == inode
    ]
    return pid


def assert_all_streams_were_kept(trial: TrialRecord, *, but: str = "") -> None:
    """Those of every side that could still say something: samples, and the totals with each stream's end."""
    assert [side.name for side in trial.endpoints] == ["a1", "b1", "host"]
    for side in trial.endpoints[:2]:
        assert side.samples
        assert all(len(sample.streams) == 3 for sample in side.samples)
        if side.name != but:
            streams = streams_of(side)
            assert len(streams) == 3
            assert all(stream["bytes"] > 0 and "state" in stream for stream in streams)


def streams_of(side: EndpointRecord) -> list[dict[str, Any]]:
    streams: Any = side.totals["streams"]
    return list(streams)


def test_a_peer_that_is_killed_is_named_and_the_figures_until_then_are_kept(tmp_path: Path) -> None:
    output, trial = broken_by(tmp_path, lambda name: os.kill(agent_of(name, "b1"), signal.SIGKILL))
    assert trial.failure.startswith("b1: the agent ended (killed by SIGKILL)")
    assert "a trial failed: b1: the agent ended (killed by SIGKILL)" in output
    assert_all_streams_were_kept(trial, but="b1")


def test_a_peer_that_stands_still_is_named_and_leaves_nothing_behind(tmp_path: Path) -> None:
    _, trial = broken_by(tmp_path, lambda name: os.kill(agent_of(name, "b1"), signal.SIGSTOP))
    assert "b1: the agent did not end the trial" in trial.failure
    assert_all_streams_were_kept(trial, but="b1")


@pytest.mark.parametrize(("place", "interface"), [("b1", "eth0"), ("sw", "b1")])
def test_an_interface_that_goes_down_is_named_and_the_figures_until_then_are_kept(
    tmp_path: Path, place: str, interface: str
) -> None:
    def take_down(name: str) -> None:
        subprocess.run(["ip", "-n", f"vnb.{name}.{place}", "link", "set", interface, "down"], check=True)

    _, trial = broken_by(tmp_path, take_down)
    assert trial.failure == "b1: interface eth0 went down or lost its carrier"
    assert_all_streams_were_kept(trial)


def test_a_path_that_carries_no_more_is_told_from_a_slow_one(tmp_path: Path) -> None:
    def unplug(name: str) -> None:
        switch = f"vnb.{name}.sw"
        subprocess.run(["ip", "-n", switch, "link", "set", "b1", "nomaster"], check=True)

    _, trial = broken_by(tmp_path, unplug)
    assert trial.failure.startswith("b1: nothing arrived after")
    assert_all_streams_were_kept(trial)


def test_one_stream_that_is_cut_is_named_and_the_others_figures_are_kept(tmp_path: Path) -> None:
    def cut_one(name: str) -> None:
        there = ["ip", "netns", "exec", f"vnb.{name}.a1"]
        listed = subprocess.run(
            [*there, "ss", "-Htn", "state", "established"], check=True, capture_output=True, text=True
        ).stdout.splitlines()
        # The streams connected in the order of their ids, each from the next port that was free.
        port = sorted(int(line.split()[2].rpartition(":")[2]) for line in listed)[1]
        subprocess.run([*there, "ss", "-K", "sport", "=", f":{port}"], check=True, capture_output=True)

    _, trial = broken_by(tmp_path, cut_one)
    assert_all_streams_were_kept(trial)
    # The other side tears down its streams then, and on a busy machine either may hear of another one first.
    named = re.findall(r"(a1|b1): stream (\d) broke: ", trial.failure)
    assert named, trial.failure
    states = {side.name: [stream["state"] for stream in streams_of(side)] for side in trial.endpoints[:2]}
    assert all(states[endpoint][int(stream)] == "broken" for endpoint, stream in named)


def test_a_thousand_streams_run_where_the_limit_of_files_allows_and_are_refused_with_the_fix_where_not(
    tmp_path: Path,
) -> None:
    text = STUDY.replace("streams = 3", "streams = [1, 1000]\nthreads = 1").replace("3 s", "300 ms")
    study = bench.write_study(tmp_path, text)

    def limited(files: int) -> tuple[int, str]:
        def set_limit() -> None:
            resource.setrlimit(resource.RLIMIT_NOFILE, (files, files))

        return bench.run("run", study, "-o", tmp_path / f"{files}.vnb", preexec_fn=set_limit)

    code, output = limited(FEW_FILES)
    assert code == 0
    assert "1000 streams, 1 thread: refused" in output
    assert "the limit of open files is too low for so many streams" in output
    assert "ulimit -n" in output
    assert {treatment for treatment, _ in bench.trials(tmp_path / f"{FEW_FILES}.vnb")} == {0}
    assert bench.agents() == []
    assert limited(MANY_FILES)[0] == 0
    assert {treatment for treatment, _ in bench.trials(tmp_path / f"{MANY_FILES}.vnb")} == {0, 1}
