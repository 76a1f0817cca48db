"""Summaries of results files: states, failures, warnings and files of running campaigns."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests import fixtures
from vnetbench.estimate import summarize as module
from vnetbench.results.file import ResultsFile


def test_the_summary_has_the_states_failures_and_trials_of_the_file(tmp_path: Path) -> None:
    path = tmp_path / "r.vnb"
    file, _ = fixtures.create_results_file(path)
    for block in range(6):
        file.add_trial(fixtures.make_trial(0, block), block)
    file.add_trial(fixtures.make_trial(1, 0, failure="a1: the agent ended"), 7)
    file.set_treatment_state(0, "precision")
    file.set_treatment_state(2, "refused", "port a1: packets of 9000 bytes do not pass")
    file.close("interrupted")
    first, second, third, fourth = fixtures.read_summary(path).treatments
    assert (first.stop_reason, first.trial_count) == ("precision", 6)
    assert first.effective == {"mtu": 1500}
    assert first.metrics["goodput_bps"].low is not None
    assert (second.stop_reason, second.trial_count, second.failures) == (
        "interrupted",
        0,
        ("a1: the agent ended",),
    )
    assert (third.stop_reason, third.failures) == (
        "refused",
        ("port a1: packets of 9000 bytes do not pass",),
    )
    assert (fourth.stop_reason, fourth.metrics) == ("interrupted", {})


def test_a_killed_campaign_is_interrupted_and_an_active_one_is_running(tmp_path: Path) -> None:
    path = tmp_path / "r.vnb"
    file, _ = fixtures.create_results_file(path)
    file.add_trial(fixtures.make_trial(0, 0), 1)
    assert fixtures.read_summary(path).status == "running"
    assert fixtures.read_summary(path).treatments[0].stop_reason == "running"
    file._db.execute("UPDATE campaign SET writer = '4194300:gone:1'")
    file._db.commit()
    assert fixtures.read_summary(path).status == "running"
    assert file._lock is not None
    file._lock.close()  # The kernel does this when a process ends.
    file._lock = None
    assert fixtures.read_summary(path).status == "interrupted"
    file.close()


def test_a_trial_added_during_the_reading_is_ignored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "r.vnb"
    file, _ = fixtures.create_results_file(path)
    file.add_trial(fixtures.make_trial(0, 0), 1)
    found = module._find_warmups

    def summarize_and_add_trial(*arguments: object) -> object:
        cuts = found(*arguments)  # type: ignore[arg-type]
        file.add_trial(fixtures.make_trial(0, 1), 2)
        return cuts

    monkeypatch.setattr(module, "_find_warmups", summarize_and_add_trial)
    assert fixtures.read_summary(path).treatments[0].trial_count == 1
    monkeypatch.undo()
    assert fixtures.read_summary(path).treatments[0].trial_count == 2
    file.close()


def test_a_changed_environment_gives_a_warning(tmp_path: Path) -> None:
    path = tmp_path / "r.vnb"
    file, _ = fixtures.create_results_file(path)
    file.add_facts("host", {"kernel": {"release": "6.1"}, "perf": {"system_cycles": "hardware"}})
    file.close("interrupted")
    file = ResultsFile.open_to_write(path)
    file.add_facts(
        "host", {"kernel": {"release": "6.18"}, "perf": {"system_cycles": "estimated", "reason": "no PMU"}}
    )
    file.close("interrupted")
    warnings = " / ".join(fixtures.read_summary(path).warnings)
    assert "host: kernel release was 6.1, then 6.18" in warnings
    assert "host: perf system_cycles was hardware, then estimated" in warnings
    assert "CPU cycles are estimated from CPU time and clock rate (no PMU)" in warnings
