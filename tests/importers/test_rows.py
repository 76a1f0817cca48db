"""Test the reading of rows in blocks: it gives what a reader of single lines gives."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench import long_runs
from tests.importers.test_logs import EXPECTATIONS, find_log
from vnetbench.importers import log_lines
from vnetbench.importers.decoding import decode_lines
from vnetbench.importers.log_lines import LogLines
from vnetbench.importers.log_parser import LogItem, UnreadableSection, parse_log
from vnetbench.importers.row_columns import RowPattern
from vnetbench.importers.runs import Run
from vnetbench.importers.units import parse_rounded
from vnetbench.importers.value_columns import parse_rounded_column

pytestmark = pytest.mark.pure

_SINGLE_LINES, _WHOLE_BLOCKS = (1, 1), (4096, 4096)
"""Fewest and most lines that are matched together."""
_TWO_NUMBERS = RowPattern(r"(?P<one>\d+)\s*(?P<other>\d*)", separator="-+")


@pytest.mark.parametrize("expectation", EXPECTATIONS, ids=lambda path: path.stem.removesuffix(".expected"))
def test_blocks_of_rows_give_the_same_runs_as_single_lines(
    expectation: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = find_log(expectation)

    as_usual = read_items(log)

    for rows_ahead in (_SINGLE_LINES, _WHOLE_BLOCKS):
        assert read_items(log, rows_ahead, monkeypatch) == as_usual


@pytest.mark.parametrize("name", long_runs.NAMES)
def test_a_long_run_has_the_same_intervals_when_read_line_by_line(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = tmp_path / "long.log"
    count = long_runs.write_log(log, name, 1)

    runs = read_items(log)

    assert [isinstance(run, Run) and run.failure for run in runs] == [""] * count
    assert all(isinstance(run, Run) and run.intervals for run in runs)
    assert read_items(log, _SINGLE_LINES, monkeypatch) == runs


def read_items(
    log: Path, rows_ahead: tuple[int, int] | None = None, monkeypatch: pytest.MonkeyPatch | None = None
) -> list[LogItem]:
    """Return what a log has, with plain tuples of intervals."""
    if rows_ahead is not None and monkeypatch is not None:
        monkeypatch.setattr(log_lines, "_MIN_ROWS_AHEAD", rows_ahead[0])
        monkeypatch.setattr(log_lines, "_MAX_ROWS_AHEAD", rows_ahead[1])
    with log.open("rb") as stream:
        items = list(parse_log(decode_lines(stream)))
    return [
        replace(item, intervals=tuple(item.intervals)) if isinstance(item, Run) else item for item in items
    ]


def test_rows_end_at_the_first_other_line() -> None:
    rows = _TWO_NUMBERS.match_leading_rows(["1 2", "---", "3", "no row", "4"])

    assert rows == [("1", "2", ""), ("", "", ""), ("3", "", "")]


def test_a_row_never_continues_on_the_next_line() -> None:
    assert _TWO_NUMBERS.match_leading_rows(["1", "2 3"]) == [("1", "", ""), ("2", "3", "")]
    assert _TWO_NUMBERS.match_leading_rows(["1", "", "2"]) == [("1", "", "")]


def test_hidden_lines_are_no_rows() -> None:
    lines = LogLines(["1", "2", "3"])
    lines.hide_lines_after(2)

    assert [row[0] for row in lines.take_rows(_TWO_NUMBERS)] == ["1", "2"]
    assert lines.take_rows(_TWO_NUMBERS) == []

    lines.hide_lines_after(None)
    assert lines.take_line() == "3"


def test_no_line_behind_a_very_long_one_is_read_in_advance() -> None:
    produced: list[int] = []

    def produce_lines() -> Iterator[str]:
        for number in range(100):
            produced.append(number)
            yield "1" if number < 3 else "x" * 100_000

    lines = LogLines(produce_lines())
    rows = lines.take_rows(_TWO_NUMBERS)

    assert (len(rows), len(produced)) == (3, 4)


_PLAIN = st.from_regex(r"-?[0-9]{1,12}(\.[0-9]{1,9})?", fullmatch=True)
_UNUSUAL = st.sampled_from(("5.", ".5", "1,5", "1e3", "+2", "1.234,5", "00012.50", "1" * 30))


@given(
    st.lists(_PLAIN, min_size=1, max_size=40),
    st.lists(_UNUSUAL, max_size=2),
    st.randoms(use_true_random=False),
)
def test_a_column_has_the_same_values_as_single_numbers(
    plain: list[str], unusual: list[str], rng: random.Random
) -> None:
    texts = [*plain, *unusual]
    factors = [rng.choice((1.0, 1e6, 1024.0, 0.125, 1e-6)) for _ in texts]

    column = parse_rounded_column(texts, factors)

    singles = [parse_rounded(text, factor) for text, factor in zip(texts, factors, strict=True)]
    assert column.values.tolist() == [each.value for each in singles]
    assert column.lows.tolist() == [each.low for each in singles]
    assert column.highs.tolist() == [each.high for each in singles]


def test_packets_that_lie_years_apart_are_no_result_of_sockperf(tmp_path: Path) -> None:
    whole = find_log(next(each for each in EXPECTATIONS if each.stem == "full-log.expected"))
    log = tmp_path / "full-log.csv"
    log.write_bytes(whole.read_bytes().replace(b", 2.954028848, ", b", 99999999999.954028848, "))

    (section,) = read_items(log)

    assert isinstance(section, UnreadableSection)
    assert "packets cover more than" in section.reason
