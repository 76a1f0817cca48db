"""Samples as compressed columns: what is written is read, by others too, and malformed data is refused."""

from __future__ import annotations

import json
import re
import shutil
import sqlite3
import subprocess
import sys
import zlib
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests import fixtures
from tests.results.old_files import RECORDED, convert_to_schema_4, unpack_recorded_file
from vnetbench.errors import BenchError
from vnetbench.results import sample_columns
from vnetbench.results.file import ResultsFile
from vnetbench.results.records import Observation, Sample, StreamSample, TrialRecord
from vnetbench.results.sample_columns import (
    MalformedColumns,
    columns_to_samples,
    compress_json_with_length,
    decompress_json,
    samples_to_columns,
)

DOCS = Path(__file__).parents[2] / "docs" / "results-file.md"

_names = st.sampled_from(["rx_packets", "tx_packets", "cycles", "tcp_timeouts"])
_numbers = st.one_of(
    st.integers(-(2**62), 2**62), st.floats(allow_nan=False, allow_infinity=False), st.just(0)
)
_observations = st.builds(
    Observation,
    st.dictionaries(_names, st.floats(0, 1e9)),
    st.dictionaries(_names, st.dictionaries(_names, st.one_of(_numbers, st.dictionaries(_names, _numbers)))),
    st.one_of(st.none(), st.dictionaries(_names, st.integers(0, 99))),
    st.dictionaries(_names, st.floats(0, 1e9)),
)
_samples = st.builds(
    Sample,
    st.integers(0, 10**6), st.floats(0, 1e6), st.floats(0, 10), st.integers(0, 2**60), st.integers(0, 2**60),
    st.dictionaries(_names, _numbers),
    st.lists(st.dictionaries(_names, _numbers).map(lambda each: {"cpu": 0, **each}), max_size=3).map(tuple),
    st.lists(
        st.builds(
            StreamSample,
            st.integers(0, 99), st.sampled_from(["source", "sink"]), st.integers(0, 2**60),
            st.one_of(st.none(), st.floats(0, 1e6)), st.one_of(st.none(), st.integers(0, 99)),
            st.one_of(st.none(), st.integers(0, 99)), st.dictionaries(_names, st.one_of(_numbers, st.text())),
            st.sampled_from(["", "requests"]),
        ),
        max_size=3,
        unique_by=lambda stream: stream.stream_id,
    ).map(lambda streams: tuple(sorted(streams, key=lambda stream: stream.stream_id))),
    st.dictionaries(
        st.sampled_from(["latency", "delay"]),
        st.lists(st.tuples(st.integers(0, 10**9), st.integers(1, 99)), max_size=4).map(tuple),
    ),
    st.one_of(st.none(), _observations),
)  # fmt: skip


@given(st.lists(_samples, max_size=5, unique_by=lambda sample: sample.seq))
@settings(max_examples=200, deadline=None)
def test_samples_are_read_back_as_they_were_written(samples: list[Sample]) -> None:
    stored = decompress_json(*compress_json_with_length(samples_to_columns(samples)))
    assert columns_to_samples(stored, with_counters=True) == samples


@pytest.mark.parametrize("name", RECORDED)
def test_the_trials_of_recorded_files_survive_the_way_to_version_4_and_back(
    tmp_path: Path, name: str
) -> None:
    path = unpack_recorded_file(name, tmp_path)
    ResultsFile.open_to_write(path).close()
    trials = _read_trials(path)
    convert_to_schema_4(path)
    assert _read_trials(path) == trials and any(each.endpoints for each in trials)


def test_without_counters_the_other_values_are_the_same() -> None:
    host = fixtures.make_trial().endpoints[2].samples
    stored = samples_to_columns(host)
    assert columns_to_samples(stored, with_counters=False) == [replace(x, counters={}, cpu=()) for x in host]


def test_the_data_of_a_long_trial_have_several_parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("vnetbench.results.endpoint_tables.MAX_JSON_BYTES", 2000)
    file, _ = fixtures.create_results_file(tmp_path / "r.vnb")
    trial = fixtures.make_trial()
    file.add_trial(trial, 1.0)
    file.close("finished")
    with closing(sqlite3.connect(tmp_path / "r.vnb")) as db:
        parts, longest = db.execute("SELECT max(part), max(json_bytes) FROM endpoint_data").fetchone()
    assert parts > 0 and longest <= 2000
    assert [each.endpoints for each in _read_trials(tmp_path / "r.vnb")] == [trial.endpoints]


def _columns_of(sample: Sample) -> dict[str, Any]:
    columns: dict[str, Any] = json.loads(json.dumps(samples_to_columns([sample, replace(sample, seq=99)])))
    return columns


@pytest.mark.parametrize(
    ("table", "column", "value"),
    [
        ("samples", "t_s", [0.1]),
        ("samples", "t_s", ["a", "b"]),
        ("samples", "t_s", {"x": [1, 2]}),
        ("samples", "seq", 5),
        ("samples", "bytes_sent", [None, 1]),
        ("samples", "counters", [1, 2]),
        ("samples", "counters", {"rx_packets": [1]}),
        ("samples", "counters", {"rx_packets": "many"}),
        ("samples", "observation", [1, 2]),
        ("samples", "observation", {"thread_cpu_s": [1]}),
        ("streams", "role", [1, 2]),
        ("streams", "role", None),
        ("streams", "details", []),
        ("cpus", "seq", [1]),
        ("histograms", "values_ns", [1, 2]),
        ("histograms", "counts", [["a"], [1]]),
    ],
)
def test_malformed_columns_are_refused(table: str, column: str, value: object) -> None:
    stream = StreamSample(0, "sink", 1, None, None, None)
    sample = Sample(0, 0.1, 0.1, 0, 1, {"rx_packets": 1}, ({"cpu": 0},), (stream,), {"latency": ((5, 1),)})
    stored = _columns_of(sample)
    assert len(columns_to_samples(stored, with_counters=True)) == 2
    stored.setdefault(table, {})[column] = value
    with pytest.raises(MalformedColumns):
        columns_to_samples(stored, with_counters=True)


def test_data_that_are_longer_than_they_claim_are_not_decompressed() -> None:
    bomb = zlib.compress(b"[" + b"0," * 10**7 + b"0]")
    for length in (10, sample_columns.MAX_JSON_BYTES + 1, -1):
        with pytest.raises(MalformedColumns):
            decompress_json(length, bomb)


@pytest.mark.parametrize("data", [b"", b"no zlib", zlib.compress(b"{"), zlib.compress(b"[]")])
def test_a_file_with_malformed_data_is_reported_as_damaged(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "r.vnb"
    file, _ = fixtures.create_results_file(path)
    file.add_trial(fixtures.make_trial(), 1.0)
    file.close("finished")
    with closing(sqlite3.connect(path)) as db, db:
        db.execute("UPDATE endpoint_data SET json_bytes = 2, data = ?", (data,))
    with pytest.raises(BenchError, match="damaged"):
        _read_trials(path)


@pytest.mark.parametrize("length", range(20, 90))
def test_the_stored_length_differs_from_that_of_the_data(length: int) -> None:
    value = {"totals": "".join(chr(33 + i * 7 % 90) for i in range(length))}
    stored_length, data = compress_json_with_length(value)
    assert stored_length != len(data)
    assert decompress_json(stored_length, data) == value


def _read_trials(path: Path) -> list[TrialRecord]:
    with closing(ResultsFile.open_to_read(path)) as file:
        return list(file.trials())


def _example(language: str) -> str:
    (text,) = re.findall(rf"```{language}\n(.*?)```", DOCS.read_text(), re.DOTALL)
    return str(text)


def _write_documented_file(folder: Path) -> list[str]:
    """Write `jumbo.vnb`, and return the lines that the examples of the page print."""
    file, _ = fixtures.create_results_file(folder / "jumbo.vnb")
    file.add_trial(fixtures.make_trial(), 1.0)
    file.add_trial(fixtures.make_trial(1), 2.0)
    file.close("finished")
    return [
        f"{trial.id}|{endpoint.name}|{x.end_s}|{x.bytes_received}"
        for trial in _read_trials(folder / "jumbo.vnb")
        for endpoint in trial.endpoints
        for x in endpoint.samples
    ]


def test_the_documented_python_program_prints_the_samples(tmp_path: Path) -> None:
    expected = _write_documented_file(tmp_path)
    program = [sys.executable, "-c", _example("python")]
    run = subprocess.run(program, cwd=tmp_path, capture_output=True, text=True, check=True)
    assert run.stdout.splitlines() == expected and len(expected) == 120


def test_the_documented_sql_prints_the_samples(tmp_path: Path) -> None:
    expected = _write_documented_file(tmp_path)
    with closing(sqlite3.connect(tmp_path / "jumbo.vnb")) as db:
        db.create_function("sqlar_uncompress", 2, lambda data, _: zlib.decompress(data))
        assert ["|".join(map(str, row)) for row in db.execute(_example("sql"))] == expected
    if shutil.which("sqlite3"):
        program = ["sqlite3", "jumbo.vnb", _example("sql")]
        run = subprocess.run(program, cwd=tmp_path, capture_output=True, text=True, check=True)
        # The shell prints 15 digits of a number.
        assert _with_numbers(run.stdout.splitlines()) == pytest.approx(_with_numbers(expected))


def _with_numbers(lines: list[str]) -> list[float]:
    """Return trial, time and bytes of all lines in one list."""
    return [float(value) for line in lines for value in (*line.split("|")[:1], *line.split("|")[2:])]
