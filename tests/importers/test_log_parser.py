"""Parse a log: separate its runs, find documents in text, and lose nothing silently."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.importers.toy_tool import TOY
from vnetbench.importers import log_parser
from vnetbench.importers.json_documents import parse_json
from vnetbench.importers.log_parser import LogItem, UnreadableSection, UnrecognizedSection, parse_log
from vnetbench.importers.reader import TextReader
from vnetbench.importers.runs import CUT_OFF_FAILURE, Run

pytestmark = pytest.mark.pure

RUN = """\
toy 1.2 streams=4
  1.0 100 MB
= 800 Mbit/s 10.0 s
"""
DOCUMENT = """\
{
    "toy": {
        "streams": 2,
        "mbit_s": 90.5,
        "s": 10
    }
}
"""


def parse_text(text: str) -> list[LogItem]:
    return list(parse_log(text.splitlines(), TOY))


def parse_runs(text: str) -> list[Run]:
    return [item for item in parse_text(text) if isinstance(item, Run)]


def test_runs_of_one_log_are_separated() -> None:
    assert [run.first_line for run in parse_runs(RUN + "\n" + RUN + RUN)] == [1, 5, 8]


def test_a_run_that_another_one_interrupts_is_cut_off() -> None:
    cut = parse_runs(RUN[:20] + "\n" + RUN)

    assert [(run.first_line, run.failure) for run in cut] == [(1, CUT_OFF_FAILURE), (3, "")]


def test_documents_are_found_in_text() -> None:
    parsed = parse_runs(f"Mon Mar  2 10:00:00\n{DOCUMENT}{RUN}{DOCUMENT.strip()} trailing text\n{DOCUMENT}")

    assert [(run.first_line, run.last_line) for run in parsed] == [(2, 8), (9, 11), (12, 18), (19, 25)]


def test_text_behind_a_document_on_the_same_line_is_kept() -> None:
    (_, text) = parse_text(DOCUMENT.strip() + "toy, done\n")

    assert text == UnrecognizedSection(7, 7, "toy, done")


def test_several_documents_on_one_line_or_in_a_list_are_separated() -> None:
    line = '{"toy": {"streams": 1, "mbit_s": 1, "s": 1}}'

    assert len(parse_runs(f"{line}{line}\n[{line}, {line}]\n")) == 4


@pytest.mark.parametrize("number", ["nan", "-nan", "NaN", "-inf", "Infinity", "nan(0x8)"])
def test_numbers_that_are_not_finite_become_null(number: str) -> None:
    text = DOCUMENT.replace('"s": 10', f'"s": {number}, "note": "nan is said, inf too"')

    (run,) = parse_runs(text)
    assert run.measured_duration_s is None


def test_half_of_a_surrogate_pair_can_be_stored() -> None:
    assert parse_json('{"a\\ud800": ["\\uD83D\\uDE00", "\\\\ud800", "\\udc00x"]}') == {
        "a?": ["\N{GRINNING FACE}", "\\ud800", "?x"]
    }


@pytest.mark.parametrize(
    "start",
    [
        '{"Time":"2026-01-01T00:00:00Z","Title":"","Type":"INFO","Message":',
        '{"timestamp":1,"elapsed_secs":',
        '{"id":"x","bytes_total":',
    ],
)
def test_a_line_of_json_that_is_nested_too_deeply_is_not_read(start: str) -> None:
    deep = start + "[" * 100_000 + "]" * 100_000 + "}"
    assert not any(isinstance(item, Run) for item in parse_log([deep, "end"]))


def test_an_incomplete_document_is_cut_off() -> None:
    beginning = "".join(DOCUMENT.splitlines(keepends=True)[:-2])
    parsed = parse_runs(beginning + DOCUMENT + beginning)

    assert [(run.first_line, run.failure) for run in parsed] == [
        (1, CUT_OFF_FAILURE),
        (6, ""),
        (13, CUT_OFF_FAILURE),
    ]


def test_a_document_cut_off_too_early_is_reported() -> None:
    (item,) = parse_text('{\n  "toy": {\n    "streams"\n')

    assert isinstance(item, UnreadableSection)
    assert (item.first_line, item.last_line) == (1, 3)


def test_a_document_of_an_unknown_tool_is_reported() -> None:
    (item,) = parse_text('{\n "other": 1\n}\n')

    assert isinstance(item, UnreadableSection)
    assert "not from a supported tool" in item.reason


def test_xml_is_read_with_and_without_declaration() -> None:
    complete = '<?xml version="1.0" encoding="utf-16"?>\n<toy>\n</toy>\n'

    assert parse_text(complete + "<toy>\n</toy> after\n") == [UnrecognizedSection(5, 5, " after")]


def test_xml_that_declares_entities_is_not_expanded() -> None:
    bomb = (
        '<?xml version="1.0"?>\n<!DOCTYPE toy [<!ENTITY a "aaaa"><!ENTITY b "&a;&a;&a;">]>\n<toy>&b;</toy>\n'
    )

    (item,) = parse_text(bomb)
    assert isinstance(item, UnreadableSection)
    assert "entities" in item.reason


def test_consecutive_unrecognized_lines_are_merged() -> None:
    (before, _, after) = parse_text(
        "a note\n\nanother\n" + RUN + "[  5]   0.00-1.00   sec  1.62 GBytes  13.9 Gbits/sec\n"
    )

    assert before == UnrecognizedSection(1, 3, "a note", line_count=2)
    assert isinstance(after, UnrecognizedSection)
    assert after.may_be_result


def test_braces_and_brackets_in_prose_start_no_document() -> None:
    text = "[  5] local 10.0.0.1\n{ this is prose\n<a@b.c> wrote:\n"

    assert parse_text(text) == [UnrecognizedSection(1, 3, "[  5] local 10.0.0.1", line_count=3)]


def test_a_document_that_is_too_large_is_skipped_and_the_rest_is_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(log_parser, "MAX_DOCUMENT_CHARACTERS", 500)
    huge = DOCUMENT.replace('"s": 10', '"s": [\n' + "        1,\n" * 100 + "        1]")

    large, run = parse_text(huge + DOCUMENT)
    assert isinstance(large, UnreadableSection)
    assert "the limit is" in large.reason
    assert isinstance(run, Run)


def test_a_reader_that_fails_does_not_stop_the_parser() -> None:
    broken, run = parse_text('{"toy": {"streams": 1}}\n' + RUN)

    assert isinstance(broken, UnreadableSection)
    assert "content is unexpected" in broken.reason
    assert isinstance(run, Run)


def test_a_reader_that_takes_no_line_does_not_block_the_parser() -> None:
    idle = TextReader("idle", lambda lines: True, lambda lines, begins: [])

    assert list(parse_log(["one", "two"], (idle,))) == []


def test_a_run_with_too_many_lines_is_incomplete() -> None:
    text, *others = TOY
    assert isinstance(text, TextReader)
    long = "toy 1.2\n" + "  1.0 1 MB\n" * 20 + "= 8 Mbit/s 10.0 s\n"

    first, *_, last = parse_log((long + RUN).splitlines(), (replace(text, max_run_lines=10), *others))
    assert isinstance(first, Run)
    assert first.failure == "the run is longer than 10 lines, the limit for one run"
    assert isinstance(last, Run)
    assert not last.failure
