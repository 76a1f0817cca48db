"""A value that no bench writes gets an error with its trial; it causes no traceback and no endless work."""

from __future__ import annotations

import math
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tests.results.crafted_files import create_results_file, execute
from tests.results.old_files import unpack_recorded_file
from vnetbench.commands.summaries import read_summary_with_experiments
from vnetbench.errors import BenchError
from vnetbench.results.records import EndpointRecord, Sample, StreamSample
from vnetbench.results.sample_columns import compress_json_with_length, decompress_json
from vnetbench.results.validation import check_endpoint

CHANGES = {
    "no JSON": "UPDATE trial SET effective = '{'",
    "deep JSON": "UPDATE trial SET effective = replace(hex(zeroblob(100000)), '00', '[')",
    "half a surrogate pair": """UPDATE trial SET effective = '{"cpus":"\\ud800"}'""",
    "another treatment": "PRAGMA foreign_keys = OFF; UPDATE trial SET treatment_id = 99",
    "a level that is a list": """UPDATE treatment SET factors = '{"streams":[1],"mtu":1500}'""",
    "a note that is a number": "UPDATE trial SET notes = '[1]'",
    "facts that are no JSON": "INSERT INTO fact VALUES (1, 'host', 'cpu', '{')",
    "a testbed that is a list": "INSERT INTO testbed VALUES ('bridge pairs=1', '[]')",
    "overrides that are an object": "UPDATE campaign SET overrides = '{\"a\":1}'",
    "an infinite running time": "UPDATE session SET elapsed_s = 9e999",
    "an endpoint without a name": """
        INSERT INTO testbed VALUES ('bridge pairs=1', '{"endpoints":[{"protocol":"iperf3"}]}')
    """,
}


SAMPLE_CHANGES: dict[str, Callable[[dict[str, Any]], object]] = {
    "a counter that is a list": lambda part: _set_counter(part, []),
    "a huge counter": lambda part: _set_counter(part, 1e300),
    "NaN": lambda part: _set_counter(part, math.nan),
    "counters that are text": lambda part: part["samples"].update(counters="{},{}"),
    "an interval of 0": lambda part: _set_number(part, "interval_s", 0),
    "an infinite interval": lambda part: _set_number(part, "interval_s", math.inf),
    "negative bytes": lambda part: _set_number(part, "bytes_received", -1),
    "negative counts in a histogram": lambda part: part.update(histograms=_histogram([-1])),
    "a histogram that is no list": lambda part: part.update(histograms=_histogram(3)),
    "details that are no object": lambda part: part["streams"].update(details="[]"),
    "columns of different lengths": lambda part: part["samples"]["t_s"].pop(),
    "no samples": lambda part: part.pop("samples"),
}
"""Changes of the columns of an endpoint (docs/results-file.md, "Samples")."""


def _set_counter(part: dict[str, Any], value: object) -> None:
    part["samples"]["counters"] = {"interrupts": [value] * len(part["samples"]["seq"])}


def _set_number(part: dict[str, Any], name: str, value: float) -> None:
    part["samples"][name] = [value] * len(part["samples"]["seq"])


def _histogram(counts: object) -> dict[str, list[Any]]:
    return {"seq": [0], "kind": ["latency"], "values_ns": [[1]], "counts": [counts]}


def edit_endpoint(path: Path, edit: Callable[[dict[str, Any]], object]) -> None:
    """Change the columns of the receiver of the first trial."""
    with closing(sqlite3.connect(path)) as db, db:
        row, *data = db.execute(
            "SELECT id, json_bytes, data FROM endpoint_data WHERE trial_id = 1 AND endpoint = 'b1'"
        ).fetchone()
        part = decompress_json(*data)
        edit(part)
        db.execute(
            "UPDATE endpoint_data SET json_bytes = ?, data = ? WHERE id = ?",
            (*compress_json_with_length(part), row),
        )


@pytest.mark.parametrize("name", SAMPLE_CHANGES)
def test_an_invalid_sample_is_an_error(tmp_path: Path, name: str) -> None:
    path = create_results_file(tmp_path / "r.vnb")
    edit_endpoint(path, SAMPLE_CHANGES[name])
    with pytest.raises(BenchError, match=r"no version of vnetbench writes|damaged") as refused:
        read_summary_with_experiments(path)
    assert refused.value.fix and str(path) in str(refused.value.where)


def test_equal_samples_that_would_take_all_memory_are_an_error(tmp_path: Path) -> None:
    path = create_results_file(tmp_path / "r.vnb")
    edit_endpoint(path, lambda part: part.update(more=[0] * 9_000_000))
    assert path.stat().st_size < 200_000
    with pytest.raises(BenchError, match="bytes of JSON, but at most") as refused:
        read_summary_with_experiments(path)
    assert refused.value.fix


@pytest.mark.parametrize("name", CHANGES)
def test_an_invalid_value_is_an_error(tmp_path: Path, name: str) -> None:
    path = create_results_file(tmp_path / "r.vnb")
    execute(path, CHANGES[name])
    with pytest.raises(BenchError, match="no version of vnetbench writes") as refused:
        read_summary_with_experiments(path)
    assert refused.value.fix and str(path) in str(refused.value.where)


def test_a_valid_change_is_no_error(tmp_path: Path) -> None:
    path = create_results_file(tmp_path / "r.vnb")
    execute(path, "UPDATE trial SET notes = '[\"fine\"]'")
    assert read_summary_with_experiments(path).treatments[0].notes == ("fine",)


@pytest.mark.parametrize("name", ["lost", "duplicates"])
def test_only_a_number_of_lost_datagrams_may_decrease(name: str) -> None:
    # A datagram that one sample counts as lost may arrive in the next, late.
    stream = StreamSample(0, "sink", 1, None, None, None, details={name: -1})
    sample = Sample(1, 0.1, 0.1, 0, 1, {}, (), (stream,), {})
    record = EndpointRecord("b1", "sink", {}, (sample,))
    if name == "lost":
        check_endpoint(record)
    else:
        with pytest.raises(ValueError, match="negative"):
            check_endpoint(record)


def test_a_level_that_its_factor_does_not_have_is_an_error(tmp_path: Path) -> None:
    path = unpack_recorded_file("frame-throughput", tmp_path)
    execute(path, """UPDATE treatment SET factors = json_set(factors, '$.frame_size', 'x')""")
    with pytest.raises(BenchError, match="no version of vnetbench writes"):
        read_summary_with_experiments(path)
