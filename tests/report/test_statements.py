"""What is printed of statements: every state with its figures, in any width, and all of it as JSON."""

from __future__ import annotations

import io
import json
import re
from pathlib import Path

import jsonschema
import pytest
from rich.console import Console

from tests.statements.campaigns import Way, goodputs, made
from vnetbench.report.export.statements_json import statements_json
from vnetbench.report.tables.statements_table import statements_table
from vnetbench.statements.check import StatementResult, check_statements

DOCUMENT = Path(__file__).parents[2] / "docs" / "statements.md"


@pytest.fixture(scope="module")
def checked() -> tuple[StatementResult, ...]:
    rows = [
        *goodputs("streams", {1: 6.0, 4: 14.0, 8: 20.0, 12: 16.0, 16: 16.0}, direction="forward", mtu=1500),
        *goodputs("streams", {1: 6.0, 4: 14.0, 8: 20.0, 12: 16.0, 16: 16.0}, direction="reverse", mtu=1500),
    ]
    return check_statements([made(rows)])


def printed(checked: tuple[StatementResult, ...], width: int, files: int = 1) -> str:
    console = Console(file=io.StringIO(), width=width)
    console.print(statements_table(checked, files))
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


@pytest.mark.parametrize("width", [60, 80, 200])
def test_every_statement_is_printed_and_no_line_is_too_long(
    checked: tuple[StatementResult, ...], width: int
) -> None:
    text = printed(checked, width)
    assert max(map(len, text.splitlines())) <= width
    assert next(line for line in text.splitlines() if line.startswith("S")) == "S01  shown"
    assert text.startswith("19 published statements: 1 shown, 1 refuted, 17 cannot tell")


def test_figures_stand_below_what_they_tell(checked: tuple[StatementResult, ...]) -> None:
    text = printed(checked, 200)
    lines = text[: text.index("S02")].splitlines()
    assert any(
        re.search(r"forward: 1 stream against 8 streams, goodput times 0\.\d+ \[0\.", x) for x in lines
    )
    assert "       and 1 more; 4 of 4 say so" in lines
    assert any("not checked, another machine's: 20 Gbit/s; here 8 streams, forward" in x for x in lines)


def test_what_is_missing_stands_with_the_run_that_would_tell(checked: tuple[StatementResult, ...]) -> None:
    text = printed(checked, 200)
    of_12 = text[text.index("S12") : text.index("S13")]
    assert "missing: treatments with the metric mean_segment_bytes" in of_12
    assert "to tell: vnetbench run studies/socket-and-message.toml" in of_12
    of_17 = text[text.index("S17") : text.index("S18")]
    assert "what no run can tell: no lab builds teams" in of_17 and "to tell:" not in of_17


def test_of_several_files_each_verdict_names_its_own() -> None:
    same, differing = (
        made(goodputs("direction", {"forward": 20.0, "reverse": mean}, mtu=1500)) for mean in (20.0, 16.0)
    )
    text = printed(check_statements([same, differing]), 100, files=2)
    of_5 = text[text.index("S05") : text.index("S06")]
    assert of_5.count("jumbo.vnb") == 2
    assert "+ reverse differs from forward" in of_5 and "- reverse differs from forward" in of_5


def test_the_json_is_the_documented_one_and_has_all_the_figures(checked: tuple[StatementResult, ...]) -> None:
    block = re.search(r"```json\n(\{\s*\"\$schema\".*?)```", DOCUMENT.read_text(), re.DOTALL)
    assert block is not None
    schema = json.loads(block[1])
    jsonschema.Draft202012Validator.check_schema(schema)
    long = made(goodputs("streams", {1: 9.0}), Way(duration_s=25.0, warmup_s=4.0))
    form = json.loads(statements_json(checked))
    jsonschema.validate(form, schema)
    jsonschema.validate(json.loads(statements_json(check_statements([long]))), schema)
    first = form["statements"][0]
    assert (first["id"], first["state"]) == ("S01", "shown")
    below = first["files"][0]["parts"][0]["evidence"]
    assert len(below) == 4
    assert all(each["is_ratio"] and each["low"] <= each["value"] <= each["high"] < 1 for each in below)
    assert below[0]["base"] == {"streams": 8} and below[0]["level"] == {"streams": 1}
