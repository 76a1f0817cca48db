"""A value that no bench writes gets an error with its trial; it causes no traceback and no endless work."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.results.crafted_files import create_results_file, execute
from tests.results.old_files import unpack_recorded_file
from vnetbench.commands.summaries import read_summary_with_experiments
from vnetbench.errors import BenchError

CHANGES = {
    "no JSON": "UPDATE trial SET effective = '{'",
    "deep JSON": "UPDATE trial SET effective = replace(hex(zeroblob(100000)), '00', '[')",
    "half a surrogate pair": """UPDATE trial SET effective = '{"cpus":"\\ud800"}'""",
    "two values in a cell": "UPDATE sample SET counters = '{},{}'",
    "a counter that is no number": """UPDATE sample SET counters = '{"interrupts":[]}'""",
    "a huge counter": """UPDATE sample SET counters = '{"interrupts":1e300}'""",
    "NaN": """UPDATE sample SET counters = '{"interrupts":NaN}'""",
    "an interval of 0": "UPDATE sample SET interval_s = 0",
    "an infinite interval": "UPDATE sample SET interval_s = 9e999",
    "negative bytes": "UPDATE sample SET bytes_received = -1",
    "negative counts in a histogram": "INSERT INTO histogram VALUES (1, 'a1', 0, 'latency', '[[1,-1]]')",
    "a histogram that is no list": "INSERT INTO histogram VALUES (1, 'a1', 0, 'latency', '3')",
    "details that are no object": "UPDATE stream_sample SET details = '[]'",
    "no samples": "DELETE FROM sample",
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


@pytest.mark.parametrize("name", CHANGES)
def test_an_invalid_value_is_an_error(tmp_path: Path, name: str) -> None:
    path = create_results_file(tmp_path / "r.vnb")
    execute(path, CHANGES[name])
    with pytest.raises(BenchError, match="no vnetbench writes") as refused:
        read_summary_with_experiments(path)
    assert refused.value.fix and str(path) in str(refused.value.where)


def test_a_valid_change_is_no_error(tmp_path: Path) -> None:
    path = create_results_file(tmp_path / "r.vnb")
    execute(path, "UPDATE trial SET notes = '[\"fine\"]'")
    assert read_summary_with_experiments(path).treatments[0].notes == ("fine",)


def test_a_level_that_its_factor_does_not_have_is_an_error(tmp_path: Path) -> None:
    path = unpack_recorded_file("frame-throughput", tmp_path)
    execute(path, """UPDATE treatment SET factors = json_set(factors, '$.frame_size', 'x')""")
    with pytest.raises(BenchError, match="no vnetbench writes"):
        read_summary_with_experiments(path)
