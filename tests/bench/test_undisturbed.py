"""Runs that something else disturbed are told by CPU time alone, and made again."""

from __future__ import annotations

import fcntl
import os
import random
from collections import defaultdict
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from bench.corpus.before_others import before_others
from bench.corpus.disturb.quota import APART, THROTTLED, quota
from bench.corpus.scene import Scene
from bench.corpus.undisturbed import TRIES, Disturbed, Spent, disturbance, spent, undisturbed
from vnetbench.errors import BenchError
from vnetbench.lab import cpu_quota
from vnetbench.lab.cpu_quota import Hierarchy
from vnetbench.lab.netns_bed import NetnsBed

pytestmark = pytest.mark.pure


def test_a_host_that_takes_cpu_time_and_programs_beside_a_run_disturb_it() -> None:
    alone = Spent(whole=8.0, stolen=0.1, user=3.0, own=2.9)
    assert disturbance(alone, cpus=4) == ""
    assert "20%" in disturbance(Spent(8.0, 1.6, 3.0, 2.9), cpus=4)
    # Two of eight CPU seconds are one of four CPUs.
    assert disturbance(Spent(8.0, 0.1, 4.9, 2.9), cpus=4) == "other programs used 1.0 CPUs"


def test_where_no_group_counts_what_is_its_own_only_the_host_is_looked_at() -> None:
    assert disturbance(Spent(8.0, 0.1, 8.0, None), cpus=4) == ""
    assert Spent(8.0, 0.1, 8.0, 1.0) - Spent(4.0, 0.0, 1.0, None) == Spent(4.0, 0.1, 7.0, None)


def test_the_machine_tells_what_was_spent() -> None:
    before = spent()
    assert sum(range(3_000_000)) > 0
    assert (spent() - before).user > 0


def test_what_was_disturbed_is_made_again_until_it_is_not(monkeypatch: pytest.MonkeyPatch) -> None:
    steps = iter(Spent(each, stolen, 0.0, 0.0) for each, stolen in ((0, 0), (1, 1), (1, 1), (2, 1)))
    monkeypatch.setattr("bench.corpus.undisturbed.spent", lambda: next(steps))
    made = iter("abc")
    assert undisturbed(lambda: next(made)) == "b"


def test_what_its_own_group_does_not_count_is_not_other_programs(monkeypatch: pytest.MonkeyPatch) -> None:
    steps = iter(Spent(8.0 * each, 0.0, 4.0 * each, each) for each in range(4))
    monkeypatch.setattr("bench.corpus.undisturbed.spent", lambda: next(steps))
    monkeypatch.setattr(os, "cpu_count", lambda: 4)
    made = iter((0.5, 2.5))
    assert undisturbed(lambda: next(made), lambda apart_s: apart_s) == 2.5


@pytest.mark.parametrize(("own", "apart_s"), [("user/maker", {APART: 2.5}), ("", {})])
def test_a_quota_tells_what_its_group_used_beside_the_makers(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, own: str, apart_s: dict[str, float]
) -> None:
    hierarchy = Hierarchy(tmp_path, tmp_path / own, 2)
    monkeypatch.setattr(cpu_quota, "mounted", lambda: hierarchy)
    monkeypatch.setattr("bench.corpus.disturb.quota._process_of", lambda scene, endpoint: 71)
    monkeypatch.setattr(cpu_quota, "_release", lambda hierarchy, group: None)
    bed = cast(NetnsBed, SimpleNamespace(testbed=SimpleNamespace(name="t-two")))
    scene = Scene(bed, 0, random.Random(0), defaultdict(float))
    with quota("a1", 0.5)(scene):
        (group,) = cpu_quota.groups_of(hierarchy, "t-two", "a1.*")
        (group / "cpu.stat").write_text("usage_usec 4000000\nuser_usec 2500000\nthrottled_usec 900000\n")
    assert scene.told == {THROTTLED: 0.9, **apart_s}


def test_it_is_not_made_again_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = iter(range(1000))
    monkeypatch.setattr("bench.corpus.undisturbed.spent", lambda: Spent(t := next(clock), t, 0.0, 0.0))
    made: list[int] = []
    with pytest.raises(Disturbed, match="steal"):
        undisturbed(lambda: made.append(1))
    assert len(made) == TRIES


@pytest.mark.parametrize(
    ("groups", "tree", "weight"),
    [("4:cpu,cpuacct:/user\n0::/\n", "cpu", "cpu.shares"), ("1:pids:/\n0::/user\n", "", "cpu.weight")],
)
def test_the_maker_goes_back_to_the_group_that_it_came_from(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, groups: str, tree: str, weight: str
) -> None:
    own, place = tmp_path / "user" / "cgroup.procs", tmp_path / "cgroup.procs"
    own.parent.mkdir()
    for processes in (own, place):
        processes.write_text("")
    (tmp_path / "groups").write_text(groups)
    monkeypatch.setattr("bench.corpus.before_others._LOCK", tmp_path / "lock")
    monkeypatch.setattr("bench.corpus.before_others._GROUPS", tmp_path / "groups")
    monkeypatch.setattr("bench.corpus.before_others._TREES", ((tmp_path, tree, weight, "9"),))
    monkeypatch.setattr("bench.corpus.before_others._ACCOUNTS", (tmp_path / "absent", "cpuacct", "", ""))
    with before_others() as is_first:
        assert is_first
        assert (tmp_path / "vnetbench-corpus" / "cgroup.procs").read_text() == str(os.getpid())
    assert (own.read_text(), place.read_text()) == (str(os.getpid()), "")


def test_nobody_makes_runs_while_another_one_does(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("bench.corpus.before_others._LOCK", tmp_path / "lock")
    with (tmp_path / "lock").open("w") as others:
        fcntl.flock(others, fcntl.LOCK_EX)
        with pytest.raises(BenchError, match="already"), before_others():
            pass
