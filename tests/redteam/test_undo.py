"""Clean-up of the red team: files and control groups of killed runs."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from bench.redteam import journal
from bench.redteam.causes import BY_ID
from bench.redteam.model import Run, Shape, udp
from bench.redteam.runner import write_study
from vnetbench.study.file.load import load_study


@pytest.fixture(autouse=True)
def _own_journal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(journal, "FOLDER", tmp_path / "journal")


def test_a_changed_file_gets_its_value_back(tmp_path: Path) -> None:
    file = tmp_path / "setting"
    file.write_text("1000\n")
    with journal.changed_file(file, "3"):
        assert file.read_text() == "3"
        assert journal.restore_leftovers() == []  # This process still runs.
        assert file.read_text() == "3"
    assert file.read_text() == "1000"
    assert list(journal.FOLDER.iterdir()) == []


def test_clean_restores_the_file_of_a_process_that_ended(tmp_path: Path) -> None:
    file = tmp_path / "setting"
    file.write_text("3")
    ended = subprocess.Popen(["true"])
    ended.wait()
    journal.FOLDER.mkdir()
    entry = journal.FOLDER / "1-setting.json"
    entry.write_text(json.dumps({"path": str(file), "value": "1000", "pid": ended.pid}))
    assert journal.restore_leftovers() == [f"{file} = 1000"]
    assert file.read_text() == "1000"
    assert not entry.exists()


@pytest.mark.parametrize("cause", ["hog-unpinned", "police-udp", "control-mixed-8", "guest-hogs"])
def test_a_study_is_valid(cause: str, tmp_path: Path) -> None:
    chosen = BY_ID[cause]
    path = tmp_path / "run.toml"
    write_study(path, Run(chosen, 0, Shape(1), chosen.loads[0], chosen.vswitches[0]))
    assert chosen.id not in path.read_text()
    load_study(path)


def test_load_names_are_valid_in_file_names() -> None:
    assert "/" not in udp(2).id
    assert " " not in udp(2).id
