"""Quotas of CPU time: they hold, can be changed and are read back, and their groups go with the testbed."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest
from click.testing import CliRunner

from tests.lab.test_requests import measured
from vnetbench.campaign.instrument import LabInstrument
from vnetbench.campaign.trial import TrialLoad
from vnetbench.commands.lab import lab
from vnetbench.lab import cpu_quota, privilege, registry
from vnetbench.lab.cpu_quota import CgroupHierarchy
from vnetbench.lab.errors import TreatmentRefused
from vnetbench.lab.netns.testbed import NetnsLab, NetnsTestbed, create_testbed
from vnetbench.lab.netns.topology import NetnsShape
from vnetbench.lab.testbed import Testbed
from vnetbench.process import current_process_identity
from vnetbench.results.file import ResultsFile
from vnetbench.study.factors.registry import complete_levels
from vnetbench.study.model import Level, TestbedSpec


@pytest.fixture
def hierarchy(real_root: None) -> CgroupHierarchy:
    """Where this system limits CPU time; without that nothing can be tried out here."""
    found = cpu_quota.find_hierarchy()
    if found is None:
        pytest.skip("this system offers no control groups that limit CPU time")
    return found


def groups(hierarchy: CgroupHierarchy, testbed: str) -> list[Path]:
    return list(hierarchy.mount_point.rglob(f"vnb.{testbed}.*"))


@pytest.mark.lab
def test_who_wants_more_than_the_quota_stands_still_and_its_counters_say_so(
    tmp_path: Path, hierarchy: CgroupHierarchy
) -> None:
    summary = measured(tmp_path, "tcp_stream", 'streams = 4\ncpu_quota = ["none", "5 %"]')
    found = {t.effective["cpu_quota"]: t.stopped_by for t in summary.treatments}
    assert found == {"none": "most trials", 0.05: "most trials"}, [t.failures for t in summary.treatments]
    limited = 0
    for trial in ResultsFile.open_to_read(tmp_path / "r.vnb").trials():
        (sender,) = (side for side in trial.endpoints if side.role == "source")
        counters = sender.totals["counters"]
        assert isinstance(counters, dict)
        if trial.effective["cpu_quota"] != "none":
            assert 0 < counters["cgroup_throttled_periods"] <= counters["cgroup_periods"]
            assert counters["cgroup_throttled_s"] > 0
            limited += 1
    assert limited == 2
    assert groups(hierarchy, "t-requests*") == []


@pytest.mark.lab
def test_a_quota_changes_from_treatment_to_treatment_and_can_be_taken_away(
    hierarchy: CgroupHierarchy,
) -> None:
    bed = create_testbed("t-quota", NetnsShape(), "a test")
    try:
        for level in ("none", 0.5, 0.01, 0.25, "none"):
            factors = complete_levels({"cpu_quota": level})
            assert bed.apply(factors, TestbedSpec())["cpu_quota"] == level
            limited = [(group / cpu_quota.PROCS_FILE).read_text() for group in groups(hierarchy, "t-quota")]
            assert [text.count("\n") for text in limited] == ([] if level == "none" else [1, 1])
    finally:
        bed.close()
    assert groups(hierarchy, "t-quota") == []


@pytest.mark.lab
def test_what_a_killed_bench_left_limited_is_found_and_removed(hierarchy: CgroupHierarchy) -> None:
    program = (
        "from vnetbench.lab.netns.testbed import raise_bed; from vnetbench.lab.netns.topology import Shape\n"
        "from vnetbench.study.factors.registry import complete_levels; from vnetbench.study.model import TestbedSpec\n"
        "import time\n"
        "bed = raise_bed('t-limited', Shape(), 'a test')\n"
        "bed.apply(complete_levels({'cpu_quota': 0.5}), TestbedSpec())\n"
        "print('limited', flush=True); time.sleep(300)\n"
    )
    bench = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True)
    assert bench.stdout is not None
    assert bench.stdout.readline() == "limited\n"
    assert "t-limited" not in cpu_quota.leftover_testbeds()
    bench.kill()
    bench.wait()
    assert len(groups(hierarchy, "t-limited")) == 2
    # As after a kill of all that has seen this /run: nothing but the groups tells of the testbed.
    (registry.REGISTRY_DIR / "t-limited.json").unlink()
    assert "t-limited" in cpu_quota.leftover_testbeds()
    registry.remove_testbed("t-limited")
    assert groups(hierarchy, "t-limited") == []


def test_the_controller_is_found_in_either_version_and_only_where_groups_can_have_it(tmp_path: Path) -> None:
    first, second = tmp_path / "cpu", tmp_path / "unified"
    second.mkdir()
    mounts = (
        f"31 23 0:28 / {tmp_path} rw - tmpfs tmpfs rw,mode=755\n"
        f"33 31 0:30 / {tmp_path}/memory rw,relatime shared:9 - cgroup cgroup rw,memory\n"
        f"41 31 0:38 / {second} rw,relatime - cgroup2 cgroup2 rw\n"
    )
    of_second = "1:memory:/\n0::/user/shell\n"
    assert list(cpu_quota.parse_hierarchies(mounts, of_second)) == []
    (second / "cgroup.subtree_control").write_text("memory pids\n")
    assert list(cpu_quota.parse_hierarchies(mounts, of_second)) == []
    (second / "cgroup.subtree_control").write_text("cpuset cpu memory\n")
    found = CgroupHierarchy(second, second / "user/shell", 2)
    assert list(cpu_quota.parse_hierarchies(mounts, of_second)) == [found]
    # In a container the mount begins at its own group.
    mounts = f"32 31 0:29 /box {first} rw,relatime - cgroup cgroup rw,cpu,cpuacct\n" + mounts
    of_first = "4:cpu,cpuacct:/box/shell\n" + of_second
    assert next(cpu_quota.parse_hierarchies(mounts, of_first)) == CgroupHierarchy(first, first / "shell", 1)


def test_version_2_is_told_the_quota_and_its_period(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cpu_quota, "mounted", lambda: CgroupHierarchy(tmp_path, tmp_path, 2))
    assert cpu_quota.set_quota("t-two", {"a1": 71, "b1": 72}, 0.5) == 0.5
    of_b1 = tmp_path / f"vnb.t-two.b1.{current_process_identity()}"
    assert (of_b1 / "cpu.max").read_text() == "50000 100000"
    assert (of_b1 / cpu_quota.PROCS_FILE).read_text() == "72"


@pytest.mark.lab
def test_a_quota_that_something_else_sets_is_told(hierarchy: CgroupHierarchy) -> None:
    def meddle(bed: Testbed) -> None:
        assert isinstance(bed, NetnsTestbed)
        (of_b1,) = (group for group in groups(hierarchy, bed.topology.name) if ".b1." in group.name)
        (of_b1 / hierarchy.quota_file).write_text("25000 100000" if hierarchy.version == 2 else "25000")
        pid = str(cpu_quota.agent_pids(bed.endpoints, bed.agents)["a1"])
        (hierarchy.current_group / cpu_quota.PROCS_FILE).write_text(pid)

    @contextmanager
    def meddled(bed: Testbed, load: TrialLoad) -> Iterator[Testbed]:
        if load.duration_s < 0.3:
            meddle(bed)
        yield bed

    asked = TestbedSpec()
    with closing(LabInstrument(NetnsLab(asked, "a test"), asked, meddled)) as instrument:
        untouched, touched = (
            instrument.measure(
                TrialLoad(complete_levels({"cpu_quota": 0.5}), seconds, 0.1), lambda: False
            ).measurement
            for seconds in (0.4, 0.2)
        )
    note = "cpu_quota was set by something else while this was measured"
    assert untouched.effective["cpu_quota"] == 0.5 and note not in untouched.notes
    assert touched.effective["cpu_quota"] == {"a1": "none", "b1": 0.25} and note in touched.notes


@pytest.mark.parametrize(
    ("version", "files", "level"),
    [
        (2, {"cpu.max": "25000 50000\n"}, 0.5),
        (2, {"cpu.max": "max 100000\n"}, "none"),
        (2, {}, "none"),
        (1, {"cpu.cfs_quota_us": "20000\n", "cpu.cfs_period_us": "100000\n"}, 0.2),
        (1, {"cpu.cfs_quota_us": "-1\n", "cpu.cfs_period_us": "100000\n"}, "none"),
    ],
)
def test_a_quota_is_read_back_of_the_group_that_a_process_is_in_now(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: int, files: dict[str, str], level: Level
) -> None:
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    found = {"self": tmp_path / "bench", 71: tmp_path, 72: tmp_path / "bench"}

    def mounted(process: int | str = "self") -> CgroupHierarchy | None:
        return CgroupHierarchy(tmp_path, found[process], version) if process in found else None

    monkeypatch.setattr(cpu_quota, "mounted", mounted)
    assert cpu_quota.changed_quota({"cpu_quota": level}, {"a1": 71}) == {}
    assert cpu_quota.changed_quota({"cpu_quota": 0.1}, {"a1": 71}) == {"cpu_quota": level}
    # The bench's own group stands for none, and a process that is gone for nothing.
    assert cpu_quota.changed_quota({"cpu_quota": "none"}, {"a1": 72, "b1": 73}) == {}


def test_a_quota_that_cannot_be_had_is_refused_and_none_is_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cpu_quota, "mounted", lambda: None)
    assert cpu_quota.set_quota("t-no", {"a1": 71}, "none") == "none"
    with pytest.raises(TreatmentRefused, match="cpu_quota = 50 %: this system offers no control groups"):
        cpu_quota.set_quota("t-no", {"a1": 71}, 0.5)
    monkeypatch.setattr(cpu_quota, "mounted", lambda: CgroupHierarchy(tmp_path / "absent", tmp_path, 2))
    with pytest.raises(TreatmentRefused, match="run with sudo"):
        cpu_quota.set_quota("t-no", {"a1": 71}, 0.5)
    with pytest.raises(TreatmentRefused, match="CPUs that would limit nothing"):
        cpu_quota.set_quota("t-no", {"a1": 71}, 1024.0)


def test_groups_of_others_may_go_while_a_bench_looks_for_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own, others = (
        tmp_path / "bench" / f"vnb.{name}.a1.{current_process_identity()}" for name in ("t-own", "t-other")
    )
    others.mkdir(parents=True)
    own.mkdir()
    scandir = os.scandir

    def gone_meanwhile(path: str) -> object:
        if os.fspath(path) == str(others):
            raise FileNotFoundError(path)
        return scandir(path)

    monkeypatch.setattr(os, "scandir", gone_meanwhile)
    monkeypatch.setattr(cpu_quota, "mounted", lambda: CgroupHierarchy(tmp_path, tmp_path, 1))
    cpu_quota.remove_groups("t-own")
    assert not own.exists() and others.exists()


def test_a_bench_that_is_gone_is_told_from_a_process_with_its_id(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own, boot, _ = current_process_identity().split(":")
    for name, bench in (
        ("t-own", current_process_identity()),
        ("t-gone", f"{os.getppid()}:{boot}:1"),
        ("t-gone-too", f"{own}:{boot}:1"),
    ):
        (tmp_path / f"vnb.{name}.a1.{bench}").mkdir()
    monkeypatch.setattr(cpu_quota, "mounted", lambda: CgroupHierarchy(tmp_path, tmp_path, 1))
    assert cpu_quota.leftover_testbeds() == {"t-gone", "t-gone-too"}
    cpu_quota.remove_groups("t-gone")
    assert cpu_quota.leftover_testbeds() == {"t-gone-too"}


def test_a_group_whose_process_does_not_end_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    group = tmp_path / f"vnb.t-stuck.a1.{current_process_identity()}"
    (group / "process").mkdir(parents=True)  # as for a process in it, the group cannot be removed
    monkeypatch.setattr(cpu_quota, "mounted", lambda: CgroupHierarchy(tmp_path, tmp_path, 1))
    monkeypatch.setattr(cpu_quota, "EMPTYING_TIMEOUT_S", 0.1)
    monkeypatch.setattr(registry, "remove", cpu_quota.remove_groups)
    monkeypatch.setattr(registry, "entries", lambda: [registry.TestbedEntry("t-stuck", "a test", "", {})])
    monkeypatch.setattr(privilege, "has_root", lambda: True)
    for command in (["down", "t-stuck"], ["down", "--all"]):
        said = CliRunner().invoke(lab, command, standalone_mode=False)
        assert said.return_value == 1
        assert f"not removed: {group} of t-stuck: a process in it does not end" in said.output
        assert "removed: t-stuck" not in said.output and "t-stuck removed" not in said.output
    (group / "process").rmdir()
    said = CliRunner().invoke(lab, ["down", "t-stuck"], standalone_mode=False)
    assert (said.return_value, said.output) == (0, "t-stuck removed\n")


def test_a_process_that_ends_while_its_quota_is_taken_away_refuses_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    group = tmp_path / f"vnb.t-ended.a1.{current_process_identity()}"
    group.mkdir()
    (group / cpu_quota.PROCS_FILE).write_text("71\n")

    def ended(path: Path, text: str) -> int:
        raise ProcessLookupError(3, "No such process")

    removed: list[Path] = []
    monkeypatch.setattr(Path, "write_text", ended)
    monkeypatch.setattr(Path, "rmdir", lambda path: removed.append(path))
    monkeypatch.setattr(cpu_quota, "mounted", lambda: CgroupHierarchy(tmp_path, tmp_path, 1))
    assert cpu_quota.set_quota("t-ended", {"a1": 71}, cpu_quota.NONE) == cpu_quota.NONE
    assert removed == [group]
