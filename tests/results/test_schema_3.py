"""Migration of results files with schema version 3: every renamed key gets its new name."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from tests import fixtures
from tests.results.old_files import SCHEMA_3_FILES, convert_to_schema_4, set_json, unpack_recorded_file
from vnetbench.campaign.frame_counts import sum_step_counts
from vnetbench.campaign.load_checks import sum_zero_copy_counts
from vnetbench.results.file import ResultsFile
from vnetbench.results.records import TrialRecord
from vnetbench.study.file.load import parse_study

LATENESS = {"late_mean_us", "late_p50_us", "late_p99_us", "late_max_us"}
RENAMED_KEYS = {
    "step.details": {"refused", "foreign", "others", "own"},
    "trial.effective": {"delay_line_runs_first", "link_impaired_by", "refused_frames", "unsettled"},
    "endpoint.totals": {
        "load_began_s", "foreign", "connect", "others", "kinds", "own", "lent", "unsettled", "highest",
        "other_clock", "refused", "by", "sampler_late_max_s", "is_ranked", "held_back", "overflowed",
        "overflowed_bytes", "waiting", "waiting_bytes", "most_waiting_bytes", *LATENESS,
    },
    "stream_sample.details": {"foreign"},
    "testbed.description": {
        "why_no_kvm", "guest_kernel_from", "starts_s", "line", "ends", "vf_of", "address6", "prefix6_length",
    },
}  # fmt: skip
"""Keys that version 4 does not have, by column."""


def json_keys(value: object) -> Iterator[str]:
    if isinstance(value, dict):
        for key, each in value.items():
            yield key
            yield from json_keys(each)
    elif isinstance(value, list):
        for each in value:
            yield from json_keys(each)


def stored_objects(path: Path, column: str) -> list[object]:
    """Return the JSON values that the file stores in this column of schema versions 3 and 4."""
    table, _, name = column.partition(".")
    with closing(sqlite3.connect(path)) as db:
        (version,) = db.execute("PRAGMA user_version").fetchone()
        if version < 5 or table not in ("endpoint", "stream_sample"):
            return [json.loads(text) for (text,) in db.execute(f"SELECT {name} FROM {table}")]
    endpoints = [each for trial in read_trials(path) for each in trial.endpoints]
    if table == "endpoint":
        return [dict(each.totals) for each in endpoints]
    return [dict(y.details) for each in endpoints for x in each.samples for y in x.streams]


def keys_in(path: Path, column: str) -> set[str]:
    return {key for value in stored_objects(path, column) for key in json_keys(value)}


def migrate(path: Path) -> Path:
    ResultsFile.open_to_write(path).close()
    return path


def read_trials(path: Path) -> list[TrialRecord]:
    with closing(ResultsFile.open_to_read(path)) as file:
        return list(file.trials())


@pytest.mark.parametrize("column", RENAMED_KEYS)
def test_a_migrated_file_has_no_renamed_key_and_the_recorded_files_have_each(
    tmp_path: Path, column: str
) -> None:
    before: set[str] = set()
    for name in SCHEMA_3_FILES:
        path = unpack_recorded_file(name, tmp_path)
        before |= keys_in(path, column)
        assert keys_in(migrate(path), column).isdisjoint(RENAMED_KEYS[column]), name
    assert RENAMED_KEYS[column] <= before


@pytest.mark.parametrize(
    ("table", "column", "old", "new"),
    [
        ("trial", "effective", {"device_not_apart": "2 CPUs"}, {"device_cpus_unavailable": "2 CPUs"}),
        ("endpoint", "totals", {"threads": [{"name": "a1 vcpu0", "gone": True}]},
         {"threads": [{"name": "a1 vcpu0", "is_gone": True}]}),
        ("endpoint", "totals", {"interfaces": [{"gone": True}, 3], "streams": None, "instrument": []},
         {"interfaces": [{"is_gone": True}, 3], "streams": None, "instrument": []}),
        ("endpoint", "totals", {"queues": [{"kind": "rx", "queue": 0, "packets": 7, "bytes": 9}]},
         {"queues": [{"direction": "rx", "queue": 0, "packets": 7, "bytes": 9}]}),
        ("endpoint", "totals", {"instrument": {"pacing": {"due": 1, "late_mean_us": 2.0}}},
         {"instrument": {"pacing": {"due": 1, "lateness_mean_us": 2.0}}}),
    ],
)  # fmt: skip
def test_keys_of_rare_events_get_their_new_names(
    tmp_path: Path, table: str, column: str, old: object, new: object
) -> None:
    path = tmp_path / "r.vnb"
    file, _ = fixtures.create_results_file(path)
    file.add_trial(fixtures.make_trial(0, 0), 1.0)
    file.close("interrupted")
    convert_to_schema_4(path)
    set_json(path, table, column, old)
    with closing(sqlite3.connect(path)) as db:
        db.execute("PRAGMA user_version = 3")
    assert stored_objects(migrate(path), f"{table}.{column}")[0] == new


@pytest.mark.parametrize("name", SCHEMA_3_FILES)
def test_the_stored_study_and_its_overrides_are_valid_after_the_migration(tmp_path: Path, name: str) -> None:
    path = unpack_recorded_file(name, tmp_path)
    for _ in range(2):
        with closing(ResultsFile.open_to_read(path)) as file:
            campaign = file.campaign()
        study = parse_study(campaign.study_text, None, campaign.overrides)
        assert study.precision.max_trials in (1, 2)
        migrate(path)


def test_the_overrides_of_a_campaign_have_the_new_keys(tmp_path: Path) -> None:
    with closing(ResultsFile.open_to_read(unpack_recorded_file("frame-throughput", tmp_path))) as file:
        campaign = file.campaign()
    assert campaign.overrides == ("precision.max_trials=2", "search.max_load=20 kframe/s")
    assert 'min_load = "1 kframe/s" # at least this much\nmax_load = "20 kframe/s"\n' in campaign.study_text


def test_the_connection_times_of_a_migrated_file_are_estimated(tmp_path: Path) -> None:
    (treatment,) = fixtures.read_summary(unpack_recorded_file("connections", tmp_path)).treatments
    assert 0 < treatment.metrics["connect_p50_us"].value < 1e6


def test_the_delay_lines_and_zero_copy_sends_of_a_migrated_file_are_read(tmp_path: Path) -> None:
    trials = read_trials(unpack_recorded_file("delay-line-and-zero-copy", tmp_path))
    reported = [each.totals.get("delay_lines") for trial in trials for each in trial.endpoints]
    (line, *_) = [line for lines in reported if isinstance(lines, list) for line in lines]
    assert line["forward"]["has_priority"] in (True, False) and line["forward"]["counts"]["queue_drops"] == 0
    counts = [sum_zero_copy_counts([each.totals for each in trial.endpoints]) for trial in trials]
    assert any(each and each["copied"] > 0 and each["uncompleted"] == 0 for each in counts)


def test_the_foreign_frames_of_a_migrated_search_are_read(tmp_path: Path) -> None:
    steps = [
        step
        for trial in read_trials(unpack_recorded_file("frame-throughput", tmp_path))
        for step in trial.steps
    ]
    assert (
        sum(each.from_other_senders for each in sum_step_counts(steps).foreign_frames_by_endpoint.values())
        > 0
    )


def test_the_state_of_a_treatment_has_its_new_name(tmp_path: Path) -> None:
    path = unpack_recorded_file("connections", tmp_path)
    with closing(sqlite3.connect(path)) as db, db:
        db.execute("UPDATE treatment SET state = 'most trials'")
    with closing(ResultsFile.open_to_read(migrate(path))) as file:
        assert {treatment.state for treatment in file.treatments()} == {"trial limit"}
