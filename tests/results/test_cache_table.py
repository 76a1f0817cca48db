"""Cached estimates: who may read them, what invalidates them, and which files are never written."""

from __future__ import annotations

import json
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tests import fixtures
from tests.results.old_files import unpack_recorded_file
from vnetbench.commands.summaries import read_summary_without_experiments
from vnetbench.dataclass_json import to_json_value
from vnetbench.estimate import stored_summary
from vnetbench.estimate.summarize import summarize
from vnetbench.method_version import method_version
from vnetbench.process import read_own_process_identity
from vnetbench.report.text import stored_narrative
from vnetbench.report.text.narrative import build_narrative
from vnetbench.results import cache_table
from vnetbench.results.cache_table import read_cached_values, read_change_counter, store_cached_values
from vnetbench.results.file import ResultsFile
from vnetbench.results.records import INTERRUPTED, RUNNING

METHOD = "method 1"


@pytest.fixture(autouse=True)
def state_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Return a closed results file with 24 trials."""
    file, plan = fixtures.create_results_file(tmp_path / "r.vnb")
    for number in range(24):
        file.add_trial(
            fixtures.make_trial(number % len(plan.treatments), number // len(plan.treatments)), 1.0
        )
    file.close("finished")
    return tmp_path / "r.vnb"


@pytest.fixture
def computed(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """Yield a list that grows with each summary and narrative that is computed."""
    calls: list[str] = []

    def count(name: str, function: Callable[..., object]) -> Callable[..., object]:
        def counted(*arguments: object) -> object:
            calls.append(name)
            return function(*arguments)

        return counted

    monkeypatch.setattr("vnetbench.estimate.summarize.summarize", count("summary", summarize))
    monkeypatch.setattr(
        "vnetbench.report.text.narrative.build_narrative", count("narrative", build_narrative)
    )
    yield calls


def show(path: Path) -> str:
    """Return the summary and the narrative of a file as text."""
    summary = read_summary_without_experiments(path)
    narrative = stored_narrative.read_or_build_narrative(summary)
    return json.dumps([to_json_value(summary), to_json_value(narrative)])


def store(path: Path, method: str = METHOD, value: object = 5) -> bool:
    return store_cached_values(path, method, read_change_counter(path) or 0, [("x", value)])


def test_a_second_command_computes_nothing_and_shows_the_same(path: Path, computed: list[str]) -> None:
    summary = read_summary_without_experiments(path)
    narrative = stored_narrative.read_or_build_narrative(summary)
    assert computed == ["summary", "narrative"]
    again = read_summary_without_experiments(path)
    assert again == summary and again.treatments[0].trial_count == 6
    assert stored_narrative.read_or_build_narrative(again) == narrative
    assert computed == ["summary", "narrative"] and narrative.findings


def test_trials_in_several_parts_are_read_whole_or_not_at_all(
    path: Path, computed: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stored_summary, "_VALUES_OF_A_PART", 150)
    summary = read_summary_without_experiments(path)
    values = dict(read_cached_values(path, method_version()))
    assert {"summary points 0 0", "summary points 0 1", "summary points 0 2"} < values.keys()
    assert read_summary_without_experiments(path) == summary and computed == ["summary"]
    assert stored_summary._summary_from_values(values) is not None
    del values["summary points 0 2"]
    assert stored_summary._summary_from_values(values) is None


def test_a_further_trial_invalidates_the_cache(path: Path, computed: list[str]) -> None:
    show(path)
    file = ResultsFile.open_to_write(path)
    file.add_trial(fixtures.make_trial(0, 6), 2.0)
    file.close("finished")
    assert read_summary_without_experiments(path).treatments[0].trial_count == 7
    assert computed == ["summary", "narrative", "summary"]


def test_a_changed_trial_invalidates_the_cache(path: Path, computed: list[str]) -> None:
    show(path)
    with closing(sqlite3.connect(path)) as db, db:
        db.execute("UPDATE trial SET state = 'failed', failure = 'x' WHERE id = 1")
    assert read_summary_without_experiments(path).treatments[0].failures == ("x",)
    assert computed == ["summary", "narrative", "summary"]


def test_another_method_invalidates_the_cache(
    path: Path, computed: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    show(path)
    for module in (stored_summary, stored_narrative):
        monkeypatch.setattr(module, "method_version", lambda: "another")
    show(path)
    show(path)
    assert computed == ["summary", "narrative"] * 2


def test_a_copy_of_the_file_keeps_the_cache(path: Path, computed: list[str]) -> None:
    show(path)
    copy = path.with_name("copy.vnb")
    copy.write_bytes(path.read_bytes())
    assert read_summary_without_experiments(copy).path == str(copy) and computed == ["summary", "narrative"]


def test_the_cache_of_another_user_is_not_read(
    path: Path, computed: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    show(path)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state of another user"))
    show(path)
    assert computed == ["summary", "narrative"] * 2


def test_without_a_folder_for_the_key_nothing_is_stored(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "file"))
    before = path.read_bytes()
    assert show(path) and path.read_bytes() == before


@pytest.mark.parametrize("change", ["name = 'y'", "method = 'method 2'", "data = zeroblob(9)", "seal = 0"])
def test_a_forged_value_is_not_read(path: Path, change: str) -> None:
    assert store(path)
    with closing(sqlite3.connect(path)) as db, db:
        db.execute("CREATE TABLE other AS SELECT * FROM cache")
        db.execute("DROP TABLE cache")
        db.execute("ALTER TABLE other RENAME TO cache")
        counter = (read_change_counter(path) or 0) + 1
        db.execute(f"UPDATE cache SET change_counter = {counter}, {change}")
    assert read_cached_values(path, METHOD) == {} == read_cached_values(path, "method 2")
    assert store(path) and read_cached_values(path, METHOD) == {"x": 5}


def test_values_of_the_same_state_of_the_file_are_kept(path: Path) -> None:
    assert store(path)
    assert store_cached_values(path, METHOD, read_change_counter(path) or 0, [("y", [1])])
    assert read_cached_values(path, METHOD) == {"x": 5, "y": [1]}
    assert read_cached_values(path, METHOD, "y*") == {"y": [1]}
    assert read_cached_values(path, "method 2") == {}


def test_nothing_is_stored_in_a_file_that_changed_meanwhile(path: Path) -> None:
    counter = read_change_counter(path) or 0
    ResultsFile.open_to_write(path).close("finished")
    before = path.read_bytes()
    assert not store_cached_values(path, METHOD, counter, [("x", 5)]) and path.read_bytes() == before


def test_nothing_is_stored_in_a_read_only_file(path: Path) -> None:
    path.chmod(0o444)
    before = path.read_bytes()
    assert show(path) and not store(path) and path.read_bytes() == before


def test_nothing_is_stored_while_a_campaign_writes(path: Path) -> None:
    with closing(sqlite3.connect(path)) as db, db:
        db.execute("UPDATE campaign SET writer = ?", (read_own_process_identity(),))
    before = path.read_bytes()
    assert show(path) and not store(path) and path.read_bytes() == before


def test_a_campaign_that_is_killed_while_it_is_summarized_is_not_shown_as_running_for_ever(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its death changes nothing in the file, so nothing would invalidate the status."""
    with closing(sqlite3.connect(path)) as db, db:
        db.execute("UPDATE campaign SET status = 'running', writer = ?", (read_own_process_identity(),))
    monkeypatch.setattr(cache_table, "is_process_alive", lambda identity: False)
    assert read_summary_without_experiments(path).status == RUNNING
    monkeypatch.setattr("vnetbench.results.file.is_process_alive", lambda identity: False)
    assert read_summary_without_experiments(path).status == INTERRUPTED


def test_nothing_is_stored_while_another_program_uses_the_file(path: Path) -> None:
    with closing(sqlite3.connect(path)) as db:
        db.execute("BEGIN IMMEDIATE")
        assert not store(path)


@pytest.mark.parametrize(("store_first", "answer"), [(True, "read only"), (False, "write, not commit")])
def test_no_other_process_can_change_the_file_meanwhile(
    path: Path, store_first: bool, answer: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While values are stored, another process cannot write; while they are read, it cannot commit."""
    assert store(path)
    answers = []
    select = cache_table._select_valid

    def select_while_another_process_tries(*arguments: Any) -> Any:
        answers.append(try_to_write(path))
        return select(*arguments)

    monkeypatch.setattr(cache_table, "_select_valid", select_while_another_process_tries)
    assert store(path, value=6) if store_first else read_cached_values(path, METHOD) == {"x": 5}
    assert answers == [answer]


def try_to_write(path: Path) -> str:
    """Return what another process can do with the file now."""
    program = (
        "import sqlite3, sys\n"
        "db = sqlite3.connect(sys.argv[1], timeout=0, isolation_level=None)\n"
        "answer = 'read only'\n"
        "try:\n"
        "    db.execute('BEGIN IMMEDIATE')\n"
        "    answer = 'write, not commit'\n"
        "    db.execute('UPDATE campaign SET title = title')\n"
        "    db.execute('COMMIT')\n"
        "    answer = 'commit'\n"
        "except sqlite3.OperationalError:\n"
        "    pass\n"
        "db.close()\n"
        "print(answer)"
    )
    done = subprocess.run([sys.executable, "-c", program, path], capture_output=True, text=True, check=True)
    return done.stdout.strip()


def test_nothing_is_stored_in_a_file_of_an_older_version(tmp_path: Path) -> None:
    path = unpack_recorded_file("connections", tmp_path)
    before = path.read_bytes()
    assert show(path) and not store(path) and path.read_bytes() == before


def test_a_file_in_another_journal_mode_has_no_cache(path: Path) -> None:
    assert store(path)
    with closing(sqlite3.connect(path)) as db:
        db.execute("PRAGMA journal_mode = WAL")
        assert read_change_counter(path) is None and read_cached_values(path, METHOD) == {}


def test_a_value_that_no_reader_accepts_is_not_stored(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Else every command would compute it again, and write it again."""
    monkeypatch.setattr(cache_table, "MAX_JSON_BYTES", 10)
    before = path.read_bytes()
    assert not store(path, value="a long value") and path.read_bytes() == before
    assert store(path, value="short")


def test_a_table_of_another_form_is_replaced(path: Path) -> None:
    with closing(sqlite3.connect(path)) as db, db:
        db.execute("CREATE TABLE cache (name TEXT)")
    assert read_cached_values(path, METHOD) == {} and store(path)
    assert read_cached_values(path, METHOD) == {"x": 5}
