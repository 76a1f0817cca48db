"""Migration of results files with earlier schema versions."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from tests import fixtures
from tests.results.old_files import (
    RECORDED,
    SCHEMA_2_FILES,
    UNSPECIFIED_2,
    convert_to_schema_2,
    set_json,
    unpack_recorded_file,
)
from vnetbench.errors import BenchError
from vnetbench.estimate.summarize import summarize
from vnetbench.process import read_own_process_identity
from vnetbench.results.connection import SCHEMA_VERSION
from vnetbench.results.file import ResultsFile
from vnetbench.results.records import SEARCH_STEP, StepRecord, TrialRecord
from vnetbench.results.schema_changes import version_3


def read_trials(path: Path) -> list[TrialRecord]:
    with closing(ResultsFile.open_to_read(path)) as file:
        return list(file.trials())


def resume_and_close(path: Path) -> None:
    ResultsFile.open_to_write(path).close()


def schema_version(path: Path) -> int:
    with closing(sqlite3.connect(path)) as db:
        return int(db.execute("PRAGMA user_version").fetchone()[0])


def columns(path: Path) -> dict[str, list[tuple[object, ...]]]:
    """Return name, type, NOT NULL and primary key of each column by table."""
    with closing(sqlite3.connect(path)) as db:
        tables = [name for (name,) in db.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")]
        return {
            table: [(row[1], row[2], row[3], row[5]) for row in db.execute(f"PRAGMA table_info({table})")]
            for table in sorted(tables)
        }


def create_schema_2_file(path: Path) -> None:
    file, _ = fixtures.create_results_file(path)
    file.add_testbed("bridge pairs=1", {"name": "t"})
    step = StepRecord(0, SEARCH_STEP, 1000.0, None, 1.0, 0.0, 1.2, 10, 9, {})
    trial = fixtures.make_trial(0, 0)
    file.add_step(trial.treatment, trial.block, step, 1.0)
    file.add_trial(trial, 1.0)
    file.close("interrupted")
    convert_to_schema_2(path)


@pytest.mark.parametrize("name", RECORDED)
def test_opening_a_recorded_file_to_read_does_not_change_it(tmp_path: Path, name: str) -> None:
    path = unpack_recorded_file(name, tmp_path)
    before = path.read_bytes()
    with closing(ResultsFile.open_to_read(path)) as file:
        assert list(file.trials()) and file.facts() and file.testbed_descriptions_by_shape()
        assert summarize(file).treatments
    assert path.read_bytes() == before and schema_version(path) == RECORDED[name]
    assert [each.name for each in tmp_path.iterdir()] == [path.name]


@pytest.mark.parametrize("name", RECORDED)
def test_a_private_copy_and_a_file_migrated_in_place_contain_the_same_data(tmp_path: Path, name: str) -> None:
    path = unpack_recorded_file(name, tmp_path)
    trials = read_trials(path)
    with closing(ResultsFile.open_to_read(path)) as file:
        estimates = [treatment.metrics for treatment in summarize(file).treatments]
        facts, testbeds = file.facts(), file.testbed_descriptions_by_shape()
    resume_and_close(path)
    assert schema_version(path) == SCHEMA_VERSION
    assert read_trials(path) == trials
    with closing(ResultsFile.open_to_read(path)) as file:
        assert [treatment.metrics for treatment in summarize(file).treatments] == estimates
        assert (file.facts(), file.testbed_descriptions_by_shape()) == (facts, testbeds)


@pytest.mark.parametrize("name", RECORDED)
def test_migration_keeps_every_row(tmp_path: Path, name: str) -> None:
    path = unpack_recorded_file(name, tmp_path)
    tables = ("step", "trial", "treatment", "fact", "testbed")
    endpoints = "side" if RECORDED[name] == 2 else "endpoint"
    with closing(sqlite3.connect(path)) as db:
        before = {table: count_rows(db, table) for table in (*tables, "sample", "stream_sample", "histogram")}
        before["endpoint"] = count_rows(db, endpoints)
    resume_and_close(path)
    with closing(sqlite3.connect(path)) as db:
        after = {table: count_rows(db, table) for table in (*tables, "endpoint")}
    samples = [x for trial in read_trials(path) for each in trial.endpoints for x in each.samples]
    after["sample"] = len(samples)
    after["stream_sample"] = sum(len(x.streams) for x in samples)
    after["histogram"] = sum(len(x.histograms) for x in samples)
    assert after == before


def count_rows(db: sqlite3.Connection, table: str) -> int:
    (count,) = db.execute(f"SELECT count(*) FROM {table}").fetchone()
    return int(count)


def test_a_migrated_file_has_the_columns_of_a_new_file(tmp_path: Path) -> None:
    fixtures.create_results_file(tmp_path / "new.vnb")[0].close()
    path = unpack_recorded_file(SCHEMA_2_FILES[0], tmp_path)
    resume_and_close(path)
    assert columns(path) == columns(tmp_path / "new.vnb")


def test_a_resumed_file_takes_further_trials_and_steps(tmp_path: Path) -> None:
    path = tmp_path / "r.vnb"
    create_schema_2_file(path)
    (first,) = read_trials(path)
    file = ResultsFile.open_to_write(path)
    trial = fixtures.make_trial(1, 0)
    step = StepRecord(0, SEARCH_STEP, 2000.0, None, 1.0, 0.0, 1.2, 10, 9, {"direction_count": 1})
    file.add_step(trial.treatment, trial.block, step, 2.0)
    file.add_trial(trial, 3.0)
    file.close("finished")
    assert read_trials(path)[0] == first
    assert read_trials(path)[1].endpoints == trial.endpoints and read_trials(path)[1].steps == (step,)


def test_a_file_without_a_table_of_steps_is_migrated_too(tmp_path: Path) -> None:
    path = tmp_path / "r.vnb"
    create_schema_2_file(path)
    with closing(sqlite3.connect(path)) as db:
        db.executescript("DROP TABLE step; PRAGMA user_version = 1;")
    assert [trial.steps for trial in read_trials(path)] == [()]
    resume_and_close(path)
    assert [trial.steps for trial in read_trials(path)] == [()]
    assert schema_version(path) == SCHEMA_VERSION


SEARCH_2 = {
    "method": "vnetbench",
    "asked": {  # codespell:ignore asked
        "goals": [0.0], "least_fps": 10.0, "most_fps": 20.0, "width": 0.01, "step_s": 1.0,
    },
    "answers": [{"goal": 0.0}], "ways": 2, "frame_bytes": 64, "run_fps": 15.0,
}  # fmt: skip
SEARCH_3 = {
    "method": "vnetbench",
    "parameters": {
        "goals": [0.0], "min_load_fps": 10.0, "max_load_fps": 20.0, "relative_width": 0.01, "step_s": 1.0,
    },
    "goal_results": [{"goal": 0.0}], "direction_count": 2, "frame_bytes": 64, "final_load_fps": 15.0,
}  # fmt: skip


def only_trial(path: Path) -> TrialRecord:
    (trial,) = read_trials(path)
    return trial


def only_testbed(path: Path) -> dict[str, object]:
    with closing(ResultsFile.open_to_read(path)) as file:
        return file.testbed_descriptions_by_shape()["bridge pairs=1"]


IMPORTED_2 = {
    "tool": "iperf3",
    "told_by": "sender",  # codespell:ignore told
    "figures": {},
    "also": {},
}
IMPORTED_3 = {"tool": "iperf3", "reported_by": "sender", "metrics": {}, "other_results": {}}
TESTBED_2 = {"watched": [{"name": "p1"}], "endpoints": [{"speaks": "iperf3"}, {"name": "a1"}]}
TESTBED_3 = {"observed_interfaces": [{"name": "p1"}], "endpoints": [{"protocol": "iperf3"}, {"name": "a1"}]}


def effective(path: Path) -> object:
    return only_trial(path).effective


@pytest.mark.parametrize(
    ("table", "column", "old", "read", "new"),
    [
        ("trial", "effective", {"mtu": 1, "search": SEARCH_2}, effective, {"mtu": 1, "search": SEARCH_3}),
        ("trial", "effective", {"lent": {"copied": 1}}, effective, {"zero_copy_sends": {"copied": 1}}),
        ("trial", "effective", {"frames_why": "no XDP"}, effective, {"fallback_reason": "no XDP"}),
        ("trial", "effective", {"imported": IMPORTED_2}, effective, {"imported": IMPORTED_3}),
        ("step", "details", {"ways": 2, "counted": {"host": 1}, "sent": {"forward": 3}},
         lambda path: only_trial(path).steps[0].details,
         {"direction_count": 2, "path_counters": {"host": 1}, "sent": {"forward": 3}}),
        ("side", "totals", {"speaks": "iperf3", "bytes_sent": 1},
         lambda path: only_trial(path).endpoints[0].totals, {"protocol": "iperf3", "bytes_sent": 1}),
        ("side", "totals",
         {"delay_lines": [{"line": "l1", "forward": {"asked": {}}}]},  # codespell:ignore asked
         lambda path: only_trial(path).endpoints[0].totals,
         {"delay_lines": [{"line": "l1", "forward": {"requested": {}}}]}),
        ("testbed", "description", TESTBED_2, only_testbed, TESTBED_3),
    ],
)  # fmt: skip
def test_keys_of_stored_json_get_their_new_names(
    tmp_path: Path, table: str, column: str, old: object, read: Callable[[Path], object], new: object
) -> None:
    path = tmp_path / "r.vnb"
    create_schema_2_file(path)
    set_json(path, table, column, old)
    assert read(path) == new
    resume_and_close(path)
    assert read(path) == new


IMPORTED_STUDY = f"""\
title = "{UNSPECIFIED_2}"
workload = "tcp_stream"

[testbed]
lab = "imported"

[factors]
mtu = ["1500", "unspecified"]
label_host = ["an \\"{UNSPECIFIED_2}\\" host", "unspecified"]
label_site = ["unspecified"]
"""
SKIPPED_LOG = {"log": "b.log", "first_line": 1, "last_line": 2, "is_run": False}
IMPORT_FACTS_2 = {
    "set": {"vcpus": 2},
    "read": {
        "logs": ["a.log", "b.log"],
        "copies": [{"name": "b.log", "of": "a.log"}],
        "runs": 4,
        "not_whole": 1,
        "not_read": [{**SKIPPED_LOG, "why": "cut off", "text": "hello"}],
        "lines_of_no_tool": 7,
        "other_workloads": {"udp_stream": 1},
    },
}
IMPORT_FACTS_3 = {
    "fixed_factors": {"vcpus": 2},
    "read": {
        "logs": ["a.log", "b.log"],
        "duplicate_logs": [{"name": "b.log", "original": "a.log"}],
        "runs": 4,
        "incomplete_runs": 1,
        "skipped": [{**SKIPPED_LOG, "reason": "cut off", "first_text": "hello"}],
        "unrecognized_lines": 7,
        "other_workloads": {"udp_stream": 1},
    },
}


def create_schema_2_import(path: Path) -> None:
    """Create a file as an import wrote it with schema version 2."""
    file, _ = fixtures.create_results_file(path, fixtures.make_study(IMPORTED_STUDY))
    file.add_facts("imported", IMPORT_FACTS_2)
    file.add_facts("host", {"set": 1, "read": {"not_whole": 1}})
    file.close("finished")
    convert_to_schema_2(path)
    with closing(sqlite3.connect(path)) as db, db:
        for table, column in (("campaign", "study_text"), ("treatment", "factors")):
            db.execute(f"UPDATE {table} SET {column} = replace({column}, 'unspecified', ?)", (UNSPECIFIED_2,))


def test_the_level_of_an_unspecified_factor_gets_its_new_name(tmp_path: Path) -> None:
    path = tmp_path / "r.vnb"
    create_schema_2_import(path)
    for _ in range(2):
        with closing(ResultsFile.open_to_read(path)) as file:
            assert file.campaign().study_text == IMPORTED_STUDY
            levels = [dict(treatment.factors) for treatment in file.treatments()]
            assert len(summarize(file).treatments) == 4
        assert [each["mtu"] for each in levels] == [1500, 1500, "unspecified", "unspecified"]
        assert [each["label_host"] for each in levels] == [f'an "{UNSPECIFIED_2}" host', "unspecified"] * 2
        assert {each["label_site"] for each in levels} == {"unspecified"}
        resume_and_close(path)


def test_the_facts_of_an_import_get_their_new_names(tmp_path: Path) -> None:
    path = tmp_path / "r.vnb"
    create_schema_2_import(path)
    for _ in range(2):
        with closing(ResultsFile.open_to_read(path)) as file:
            assert file.facts() == {
                "imported": IMPORT_FACTS_3,
                "host": {"set": 1, "read": {"not_whole": 1}},
            }
        resume_and_close(path)


def test_an_observers_data_get_their_new_names(tmp_path: Path) -> None:
    path = tmp_path / "r.vnb"
    create_schema_2_file(path)
    watched = {"threads": {"a1": 0.1}, "interfaces": {"p1": {}}, "kvm_exits": None, "waited": {"a1": 0.2}}
    set_json(path, "sample", "counters", {"interrupts": 3, "watched": watched})
    sample = only_trial(path).endpoints[0].samples[0]
    assert sample.counters == {"interrupts": 3} and sample.observation is not None
    assert sample.observation.thread_cpu_s == {"a1": 0.1} and sample.observation.thread_wait_s == {"a1": 0.2}
    assert sample.observation.interface_counters == {"p1": {}}


def test_a_failed_migration_leaves_the_file_unchanged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "r.vnb"
    create_schema_2_file(path)
    before = path.read_bytes()
    with monkeypatch.context() as patch, pytest.raises(BenchError):
        patch.setattr(
            version_3,
            "_RENAME_STATEMENTS",
            (*version_3._RENAME_STATEMENTS, "ALTER TABLE absent RENAME TO other"),
        )
        ResultsFile.open_to_write(path)
    assert schema_version(path) == 2 and path.read_bytes() == before
    assert len(read_trials(path)) == 1


def test_a_file_with_a_running_campaign_is_not_migrated_in_place(tmp_path: Path) -> None:
    path = tmp_path / "r.vnb"
    create_schema_2_file(path)
    with closing(sqlite3.connect(path)) as db, db:
        db.execute("UPDATE campaign SET writer = ?", (read_own_process_identity(),))
    with pytest.raises(BenchError, match="a campaign is running on this file"):
        ResultsFile.open_to_write(path)
    assert schema_version(path) == 2
    assert len(read_trials(path)) == 1


def test_text_that_is_no_json_object_is_kept(tmp_path: Path) -> None:
    path = tmp_path / "r.vnb"
    create_schema_2_file(path)
    with closing(sqlite3.connect(path)) as db, db:
        db.execute("UPDATE testbed SET description = '[1, 2]'")
        db.execute("UPDATE trial SET notes = '[]'")
    with closing(ResultsFile.open_to_read(path)) as file, pytest.raises(BenchError, match="not an object"):
        file.testbed_descriptions_by_shape()
    resume_and_close(path)
    with closing(sqlite3.connect(path)) as db:
        assert db.execute("SELECT description FROM testbed").fetchone() == ("[1, 2]",)
