"""Disturbed runs are detected by CPU time and repeated."""

from __future__ import annotations

import fcntl
import os
import random
from collections import defaultdict
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from bench.corpus.cgroup_priority import run_with_cgroup_priority
from bench.corpus.disturbance import DisturbanceTarget
from bench.corpus.disturbances.cpu_quota import EXTERNAL_USER_S, THROTTLED_S, vm_cpu_quota
from bench.corpus.interference import (
    MAX_MEASUREMENT_ATTEMPTS,
    CpuTimeUsage,
    RunDisturbed,
    cpu_time_usage,
    describe_disturbance,
    repeat_until_undisturbed,
)
from vnetbench.errors import BenchError
from vnetbench.lab import control_groups
from vnetbench.lab.control_groups import CgroupHierarchy
from vnetbench.lab.netns.testbed import NetnsTestbed

pytestmark = pytest.mark.pure


def test_steal_and_other_programs_disturb_a_run() -> None:
    alone = CpuTimeUsage(whole=8.0, stolen=0.1, user=3.0, own=2.9)
    assert describe_disturbance(alone, cpus=4) == ""
    assert "20%" in describe_disturbance(CpuTimeUsage(8.0, 1.6, 3.0, 2.9), cpus=4)
    # Two of eight CPU seconds are one of four CPUs.
    assert describe_disturbance(CpuTimeUsage(8.0, 0.1, 4.9, 2.9), cpus=4) == "other programs used 1.0 CPUs"


def test_without_cgroup_accounting_only_steal_counts() -> None:
    assert describe_disturbance(CpuTimeUsage(8.0, 0.1, 8.0, None), cpus=4) == ""
    assert CpuTimeUsage(8.0, 0.1, 8.0, 1.0) - CpuTimeUsage(4.0, 0.0, 1.0, None) == CpuTimeUsage(
        4.0, 0.1, 7.0, None
    )


def test_cpu_time_usage_is_read_from_the_machine() -> None:
    before = cpu_time_usage()
    assert sum(range(3_000_000)) > 0
    assert (cpu_time_usage() - before).user > 0


def test_a_disturbed_run_is_repeated(monkeypatch: pytest.MonkeyPatch) -> None:
    steps = iter(CpuTimeUsage(each, stolen, 0.0, 0.0) for each, stolen in ((0, 0), (1, 1), (1, 1), (2, 1)))
    monkeypatch.setattr("bench.corpus.interference.cpu_time_usage", lambda: next(steps))
    made = iter("abc")
    assert repeat_until_undisturbed(lambda: next(made)) == "b"


def test_uncounted_user_time_of_a_run_is_not_other_work(monkeypatch: pytest.MonkeyPatch) -> None:
    steps = iter(CpuTimeUsage(8.0 * each, 0.0, 4.0 * each, each) for each in range(4))
    monkeypatch.setattr("bench.corpus.interference.cpu_time_usage", lambda: next(steps))
    monkeypatch.setattr(os, "cpu_count", lambda: 4)
    made = iter((0.5, 2.5))
    assert repeat_until_undisturbed(lambda: next(made), lambda apart_s: apart_s) == 2.5


@pytest.mark.parametrize(("own", "apart_s"), [("user/maker", {EXTERNAL_USER_S: 2.5}), ("", {})])
def test_a_cpu_quota_reports_the_user_time_of_its_group(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, own: str, apart_s: dict[str, float]
) -> None:
    hierarchy = CgroupHierarchy(tmp_path, tmp_path / own, 2)
    monkeypatch.setattr(control_groups, "find_cpu_hierarchy", lambda: hierarchy)
    monkeypatch.setattr("bench.corpus.disturbances.cpu_quota._find_pid", lambda target, endpoint: 71)
    monkeypatch.setattr(control_groups, "_release_group", lambda hierarchy, group: None)
    testbed = cast(NetnsTestbed, SimpleNamespace(topology=SimpleNamespace(testbed_name="t-two")))
    target = DisturbanceTarget(testbed, 0, random.Random(0), defaultdict(float))
    with vm_cpu_quota("a1", 0.5)(target):
        (group,) = control_groups.find_groups(hierarchy, "t-two", "a1.*")
        (group / "cpu.stat").write_text("usage_usec 4000000\nuser_usec 2500000\nthrottled_usec 900000\n")
    assert target.measurements == {THROTTLED_S: 0.9, **apart_s}


def test_repetitions_of_disturbed_runs_are_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = iter(range(1000))
    monkeypatch.setattr(
        "bench.corpus.interference.cpu_time_usage", lambda: CpuTimeUsage(t := next(clock), t, 0.0, 0.0)
    )
    made: list[int] = []
    with pytest.raises(RunDisturbed, match="steal"):
        repeat_until_undisturbed(lambda: made.append(1))
    assert len(made) == MAX_MEASUREMENT_ATTEMPTS


@pytest.mark.parametrize(
    ("groups", "tree", "weight"),
    [("4:cpu,cpuacct:/user\n0::/\n", "cpu", "cpu.shares"), ("1:pids:/\n0::/user\n", "", "cpu.weight")],
)
def test_the_process_returns_to_its_original_group(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, groups: str, tree: str, weight: str
) -> None:
    own_group, parent_group = tmp_path / "user" / "cgroup.procs", tmp_path / "cgroup.procs"
    own_group.parent.mkdir()
    for processes in (own_group, parent_group):
        processes.write_text("")
    (tmp_path / "groups").write_text(groups)
    monkeypatch.setattr("bench.corpus.cgroup_priority._LOCK", tmp_path / "lock")
    monkeypatch.setattr("bench.corpus.cgroup_priority._PROC_CGROUP", tmp_path / "groups")
    monkeypatch.setattr(
        "bench.corpus.cgroup_priority._WEIGHTED_CGROUP_TREES", ((tmp_path, tree, weight, "9"),)
    )
    monkeypatch.setattr(
        "bench.corpus.cgroup_priority._ACCOUNTING_TREE", (tmp_path / "absent", "cpuacct", "", "")
    )
    with run_with_cgroup_priority() as is_first:
        assert is_first
        assert (tmp_path / "vnetbench-corpus" / "cgroup.procs").read_text() == str(os.getpid())
    assert (own_group.read_text(), parent_group.read_text()) == (str(os.getpid()), "")


def test_only_one_process_makes_runs_at_a_time(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("bench.corpus.cgroup_priority._LOCK", tmp_path / "lock")
    with (tmp_path / "lock").open("w") as others:
        fcntl.flock(others, fcntl.LOCK_EX)
        with pytest.raises(BenchError, match="already"), run_with_cgroup_priority():
            pass
