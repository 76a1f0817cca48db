"""Tests of CPU quotas: they limit, can be changed, are read back, and are removed with the testbed."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest
from click.testing import CliRunner

from tests.lab.test_requests import run_campaign
from tests.quiet import quiet_machine_required
from vnetbench.campaign.instrument import LabInstrument
from vnetbench.campaign.trial import TrialLoad
from vnetbench.commands.lab import lab_group
from vnetbench.errors import BenchError
from vnetbench.lab import control_groups, privilege, registry
from vnetbench.lab.control_groups import CgroupHierarchy
from vnetbench.lab.errors import TreatmentRefused
from vnetbench.lab.netns.testbed import NetnsLab, NetnsTestbed, create_testbed
from vnetbench.lab.netns.topology import NetnsShape
from vnetbench.lab.testbed import Testbed
from vnetbench.process import read_own_process_identity
from vnetbench.results.file import ResultsFile
from vnetbench.results.records import TrialRecord
from vnetbench.study.factors.registry import complete_levels, format_level, parse_level
from vnetbench.study.model import Level, TestbedSpec


@pytest.fixture
def hierarchy(real_root: None) -> CgroupHierarchy:
    """Return the hierarchy that limits CPU time, or skip the test."""
    found = control_groups.find_cpu_hierarchy()
    if found is None:
        pytest.skip("this system has no control groups that limit CPU time")
    return found


def groups(hierarchy: CgroupHierarchy, testbed: str) -> list[Path]:
    """Return the groups of a testbed, but not those of another test run on this machine."""
    found = control_groups.find_groups(hierarchy, testbed, "*")
    return [group for group in found if control_groups._is_own_or_abandoned(group)]


def limited_trials(path: Path) -> list[TrialRecord]:
    return [t for t in ResultsFile.open_to_read(path).trials() if t.effective["cpu_quota"] != "none"]


def sender_counters(trial: TrialRecord) -> dict[str, float]:
    (sender,) = (endpoint for endpoint in trial.endpoints if endpoint.role == "source")
    counters = sender.totals["counters"]
    assert isinstance(counters, dict)
    return counters


@pytest.mark.lab
def test_a_vm_above_its_quota_is_throttled_and_its_counters_show_it(
    tmp_path: Path, hierarchy: CgroupHierarchy
) -> None:
    # A VM that gets less CPU time than its quota is not throttled.
    with quiet_machine_required():
        summary = run_campaign(tmp_path, "tcp_stream", 'streams = 4\ncpu_quota = ["none", "5 %"]')
        limited = [sender_counters(trial) for trial in limited_trials(tmp_path / "r.vnb")]
        assert all(counters["cgroup_throttled_periods"] > 0 for counters in limited)
    found = {t.effective["cpu_quota"]: t.stop_reason for t in summary.treatments}
    assert found == {"none": "trial limit", 0.05: "trial limit"}, [t.failures for t in summary.treatments]
    assert len(limited) == 2
    for counters in limited:
        assert counters["cgroup_throttled_periods"] <= counters["cgroup_periods"]
        assert counters["cgroup_throttled_s"] > 0
    assert groups(hierarchy, "t-requests*") == []


@pytest.mark.lab
def test_a_quota_changes_with_each_treatment_and_can_be_removed(
    hierarchy: CgroupHierarchy,
) -> None:
    testbed = create_testbed("t-quota", NetnsShape(), "a test")
    try:
        for level in ("none", 0.5, 0.01, 0.25, "none"):
            factors = complete_levels({"cpu_quota": level})
            assert testbed.set_knobs_and_prove_paths(factors, TestbedSpec())["cpu_quota"] == level
            limited = [
                (group / control_groups.PROCS_FILE_NAME).read_text() for group in groups(hierarchy, "t-quota")
            ]
            assert [text.count("\n") for text in limited] == ([] if level == "none" else [1, 1])
    finally:
        testbed.close()
    assert groups(hierarchy, "t-quota") == []


@pytest.mark.lab
@pytest.mark.alone  # All benches share the groups: `lab clean` of another test would remove them.
def test_groups_of_a_killed_bench_are_found_and_removed(hierarchy: CgroupHierarchy) -> None:
    program = (
        "from vnetbench.lab.netns.testbed import create_testbed\n"
        "from vnetbench.lab.netns.topology import NetnsShape\n"
        "from vnetbench.study.factors.registry import complete_levels\n"
        "from vnetbench.study.model import TestbedSpec\n"
        "import time\n"
        "testbed = create_testbed('t-limited', NetnsShape(), 'a test')\n"
        "testbed.set_knobs_and_prove_paths(complete_levels({'cpu_quota': 0.5}), TestbedSpec())\n"
        "print('limited', flush=True); time.sleep(300)\n"
    )
    bench = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True)
    assert bench.stdout is not None
    assert bench.stdout.readline() == "limited\n"
    assert "t-limited" not in control_groups.testbeds_with_leftover_groups()
    bench.kill()
    bench.wait()
    assert len(groups(hierarchy, "t-limited")) == 2
    # As if everything with this /run had been killed: only the groups are left of the testbed.
    (registry.REGISTRY_FOLDER / "t-limited.json").unlink()
    assert "t-limited" in control_groups.testbeds_with_leftover_groups()
    registry.remove_testbed_and_list_remaining_groups("t-limited")
    assert groups(hierarchy, "t-limited") == []


def test_the_controller_is_found_in_both_versions_only_where_groups_can_use_it(tmp_path: Path) -> None:
    first, second = tmp_path / "cpu", tmp_path / "unified"
    second.mkdir()
    mounts = (
        f"31 23 0:28 / {tmp_path} rw - tmpfs tmpfs rw,mode=755\n"
        f"33 31 0:30 / {tmp_path}/memory rw,relatime shared:9 - cgroup cgroup rw,memory\n"
        f"41 31 0:38 / {second} rw,relatime - cgroup2 cgroup2 rw\n"
    )
    second_groups = "1:memory:/\n0::/user/shell\n"
    assert list(control_groups.parse_hierarchies(mounts, second_groups)) == []
    (second / "cgroup.subtree_control").write_text("memory pids\n")
    assert list(control_groups.parse_hierarchies(mounts, second_groups)) == []
    (second / "cgroup.subtree_control").write_text("cpuset cpu memory\n")
    found = CgroupHierarchy(second, second / "user/shell", 2)
    assert list(control_groups.parse_hierarchies(mounts, second_groups)) == [found]
    # In a container the mount starts at the container's group.
    mounts = f"32 31 0:29 /box {first} rw,relatime - cgroup cgroup rw,cpu,cpuacct\n" + mounts
    first_groups = "4:cpu,cpuacct:/box/shell\n" + second_groups
    assert next(control_groups.parse_hierarchies(mounts, first_groups)) == CgroupHierarchy(
        first, first / "shell", 1
    )


def test_version_2_gets_the_quota_and_its_period(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(control_groups, "find_cpu_hierarchy", lambda: CgroupHierarchy(tmp_path, tmp_path, 2))
    assert control_groups.set_cpu_quotas("t-two", {"a1": 71, "b1": 72}, 0.5) == 0.5
    b1_group = tmp_path / f"vnb.t-two.b1.{read_own_process_identity()}"
    assert (b1_group / "cpu.max").read_text() == "50000 100000"
    assert (b1_group / control_groups.PROCS_FILE_NAME).read_text() == "72"


@pytest.mark.lab
def test_a_quota_that_another_program_changes_is_noted(hierarchy: CgroupHierarchy) -> None:
    def change_quota(testbed: Testbed) -> None:
        assert isinstance(testbed, NetnsTestbed)
        (b1_group,) = (
            group for group in groups(hierarchy, testbed.topology.testbed_name) if ".b1." in group.name
        )
        (b1_group / hierarchy.quota_file_name).write_text(
            "25000 100000" if hierarchy.version == 2 else "25000"
        )
        pid = str(control_groups.agent_pids(testbed.endpoints, testbed.agents)["a1"])
        (hierarchy.current_group / control_groups.PROCS_FILE_NAME).write_text(pid)

    @contextmanager
    def change_quota_of_short_trials(testbed: Testbed, load: TrialLoad) -> Iterator[Testbed]:
        if load.duration_s < 0.3:
            change_quota(testbed)
        yield testbed

    spec = TestbedSpec()
    with closing(LabInstrument(NetnsLab(spec, "a test"), spec, change_quota_of_short_trials)) as instrument:
        untouched, touched = (
            instrument.measure(
                TrialLoad(complete_levels({"cpu_quota": 0.5}), seconds, 0.1), lambda: False
            ).measurement
            for seconds in (0.4, 0.2)
        )
    note = "another program changed cpu_quota during the trial"
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
def test_a_quota_is_read_from_the_current_group_of_a_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: int, files: dict[str, str], level: Level
) -> None:
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    found = {"self": tmp_path / "bench", 71: tmp_path, 72: tmp_path / "bench"}

    def mounted(process: int | str = "self") -> CgroupHierarchy | None:
        return CgroupHierarchy(tmp_path, found[process], version) if process in found else None

    monkeypatch.setattr(control_groups, "find_cpu_hierarchy", mounted)
    assert control_groups.quota_if_changed({"cpu_quota": level}, {"a1": 71}) == {}
    assert control_groups.quota_if_changed({"cpu_quota": 0.1}, {"a1": 71}) == {"cpu_quota": level}
    # The bench's own group means none, and an ended process has no value.
    assert control_groups.quota_if_changed({"cpu_quota": "none"}, {"a1": 72, "b1": 73}) == {}


@pytest.mark.lab
def test_each_vm_of_a_pair_can_have_its_own_quota(tmp_path: Path, hierarchy: CgroupHierarchy) -> None:
    summary = run_campaign(tmp_path, "tcp_stream", 'cpu_quota = ["none", "5 %/none", "none/10 %"]')
    found = [t.effective["cpu_quota"] for t in summary.treatments]
    assert found == ["none", {"a1": 0.05, "b1": "none"}, {"a1": "none", "b1": 0.1}]
    assert all(t.stop_reason == "trial limit" for t in summary.treatments), [
        t.failures for t in summary.treatments
    ]
    assert not any("another program changed" in note for t in summary.treatments for note in t.notes)


def test_a_quota_changed_by_another_program_is_found_for_each_vm(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(control_groups, "_read_quota_cpus", {71: 0.5, 72: "none"}.get)
    pids = {"a1": 71, "b1": 72}
    assert control_groups.quota_if_changed({"cpu_quota": {"a1": 0.5, "b1": "none"}}, pids) == {}
    changed = control_groups.quota_if_changed({"cpu_quota": {"a1": 0.5, "b1": 0.5}}, pids)
    assert changed == {"cpu_quota": {"a1": 0.5, "b1": "none"}}


@pytest.mark.parametrize(
    ("text", "level"),
    [("85 %", 0.85), ("85 %/none", "85 %/none"), ("none / 200%", "none/200 %"), ("50 %/50 %", 0.5)],
)
def test_a_quota_can_be_one_for_all_vms_or_one_for_each_of_a_pair(text: str, level: Level) -> None:
    assert parse_level("cpu_quota", text) == level
    assert parse_level("cpu_quota", format_level("cpu_quota", level)) == level


@pytest.mark.parametrize("text", ["85 %/none/none", "85", "85 %/much", "/"])
def test_a_quota_for_no_pair_is_an_error_with_a_fix(text: str) -> None:
    with pytest.raises(BenchError) as error:
        parse_level("cpu_quota", text)
    assert error.value.fix


def test_an_impossible_quota_is_refused_but_none_is_accepted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(control_groups, "find_cpu_hierarchy", lambda: None)
    assert control_groups.set_cpu_quotas("t-no", {"a1": 71}, "none") == "none"
    with pytest.raises(TreatmentRefused, match="cpu_quota = 50 %: this system has no control groups"):
        control_groups.set_cpu_quotas("t-no", {"a1": 71}, 0.5)
    monkeypatch.setattr(
        control_groups, "find_cpu_hierarchy", lambda: CgroupHierarchy(tmp_path / "absent", tmp_path, 2)
    )
    with pytest.raises(TreatmentRefused, match="run with sudo"):
        control_groups.set_cpu_quotas("t-no", {"a1": 71}, 0.5)
    with pytest.raises(TreatmentRefused, match="limits nothing: this machine has only"):
        control_groups.set_cpu_quotas("t-no", {"a1": 71}, 1024.0)


def test_groups_of_others_may_vanish_during_the_search(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own, others = (
        tmp_path / "bench" / f"vnb.{name}.a1.{read_own_process_identity()}" for name in ("t-own", "t-other")
    )
    others.mkdir(parents=True)
    own.mkdir()
    scandir = os.scandir

    def vanish(path: str) -> object:
        if os.fspath(path) == str(others):
            raise FileNotFoundError(path)
        return scandir(path)

    monkeypatch.setattr(os, "scandir", vanish)
    monkeypatch.setattr(control_groups, "find_cpu_hierarchy", lambda: CgroupHierarchy(tmp_path, tmp_path, 1))
    control_groups.remove_groups_and_list_remaining("t-own")
    assert not own.exists() and others.exists()


def test_an_ended_bench_is_distinguished_from_a_process_with_its_id(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own, boot, _ = read_own_process_identity().split(":")
    for name, bench in (
        ("t-own", read_own_process_identity()),
        ("t-gone", f"{os.getppid()}:{boot}:1"),
        ("t-gone-too", f"{own}:{boot}:1"),
    ):
        (tmp_path / f"vnb.{name}.a1.{bench}").mkdir()
    monkeypatch.setattr(control_groups, "find_cpu_hierarchy", lambda: CgroupHierarchy(tmp_path, tmp_path, 1))
    assert control_groups.testbeds_with_leftover_groups() == {"t-gone", "t-gone-too"}
    control_groups.remove_groups_and_list_remaining("t-gone")
    assert control_groups.testbeds_with_leftover_groups() == {"t-gone-too"}


def test_a_group_whose_process_does_not_end_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    group = tmp_path / f"vnb.t-stuck.a1.{read_own_process_identity()}"
    (group / "process").mkdir(parents=True)  # Like a process in it, this prevents the removal.
    monkeypatch.setattr(control_groups, "find_cpu_hierarchy", lambda: CgroupHierarchy(tmp_path, tmp_path, 1))
    monkeypatch.setattr(control_groups, "REMOVAL_TIMEOUT_S", 0.1)
    remove = control_groups.remove_groups_and_list_remaining
    monkeypatch.setattr(registry, "remove_testbed_and_list_remaining_groups", remove)
    monkeypatch.setattr(
        registry,
        "list_registered_and_leftover_testbeds",
        lambda: [registry.RegisteredTestbed("t-stuck", "a test", "", {})],
    )
    monkeypatch.setattr(privilege, "has_root_outside_user_namespace", lambda: True)
    for command in (["down", "t-stuck"], ["down", "--all"]):
        result = CliRunner().invoke(lab_group, command, standalone_mode=False)
        assert result.return_value == 1
        assert (
            f"Cannot remove the control group {group} of the testbed t-stuck: a process in it does not end"
            in result.output
        )
        assert "Removed t-stuck" not in result.output
    (group / "process").rmdir()
    result = CliRunner().invoke(lab_group, ["down", "t-stuck"], standalone_mode=False)
    assert (result.return_value, result.output) == (0, "Removed t-stuck.\n")


def test_a_process_that_ends_during_the_removal_of_its_quota_causes_no_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    group = tmp_path / f"vnb.t-ended.a1.{read_own_process_identity()}"
    group.mkdir()
    (group / control_groups.PROCS_FILE_NAME).write_text("71\n")

    def ended(path: Path, text: str) -> int:
        raise ProcessLookupError(3, "No such process")

    removed: list[Path] = []
    monkeypatch.setattr(Path, "write_text", ended)
    monkeypatch.setattr(Path, "rmdir", lambda path: removed.append(path))
    monkeypatch.setattr(control_groups, "find_cpu_hierarchy", lambda: CgroupHierarchy(tmp_path, tmp_path, 1))
    assert (
        control_groups.set_cpu_quotas("t-ended", {"a1": 71}, control_groups.NO_QUOTA)
        == control_groups.NO_QUOTA
    )
    assert removed == [group]
