"""Statements in a terminal of any width, with their evidence, and as JSON."""

from __future__ import annotations

import io
import json
import re
from pathlib import Path

import jsonschema
import pytest
from rich.console import Console

from tests.statements.campaigns import SimulationOptions, goodputs, simulated_campaign
from vnetbench.report.export.statements_json import statements_json
from vnetbench.report.tables.statements_table import statements_table
from vnetbench.statements.check import StatementResult, check_statements

DOCUMENT = Path(__file__).parents[2] / "docs" / "statements.md"


@pytest.fixture(scope="module")
def results() -> tuple[StatementResult, ...]:
    rows = [
        *goodputs("streams", {1: 6.0, 4: 14.0, 8: 20.0, 12: 16.0, 16: 16.0}, direction="forward", mtu=1500),
        *goodputs("streams", {1: 6.0, 4: 14.0, 8: 20.0, 12: 16.0, 16: 16.0}, direction="reverse", mtu=1500),
    ]
    return check_statements([simulated_campaign(rows)])


def print_statements(results: tuple[StatementResult, ...], width: int, files: int = 1) -> str:
    console = Console(file=io.StringIO(), width=width)
    console.print(statements_table(results, files))
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


@pytest.mark.parametrize("width", [60, 80, 200])
def test_every_statement_is_printed_within_the_width(
    results: tuple[StatementResult, ...], width: int
) -> None:
    text = print_statements(results, width)
    assert max(map(len, text.splitlines())) <= width
    assert next(line for line in text.splitlines() if line.startswith("S")) == "S01  supported"
    summary = "19 published statements: 1 supported, 1 refuted, 17 inconclusive"
    assert " ".join(text.split()).startswith(summary)


def test_evidence_follows_its_claim(results: tuple[StatementResult, ...]) -> None:
    text = print_statements(results, 200)
    lines = text[: text.index("S02")].splitlines()
    assert any(re.search(r"forward: 1 stream relative to 8 streams, goodput ×0\.\d+ \[0\.", x) for x in lines)
    assert "       and 1 more value (4 of 4 values agree)" in lines
    assert any("not checked: 20 Gbit/s. Measured here: 8 streams, forward" in x for x in lines)


def test_missing_treatments_are_listed_with_the_run_that_measures_them(
    results: tuple[StatementResult, ...],
) -> None:
    text = print_statements(results, 200)
    of_12 = text[text.index("S12") : text.index("S13")]
    assert "Missing: treatments with the metric mean_segment_bytes" in of_12
    assert "To check it: vnetbench run studies/socket-and-message.toml" in of_12
    of_3 = text[text.index("S03") : text.index("S04")]
    assert "vnetbench cannot check adaptive receive ring sizing" in of_3
    of_17 = text[text.index("S17") : text.index("S18")]
    assert "To check it: vnetbench run studies/team-policies.toml" in of_17


def test_each_verdict_names_its_file_if_there_are_several() -> None:
    same, differing = (
        simulated_campaign(goodputs("direction", {"forward": 20.0, "reverse": mean}, mtu=1500))
        for mean in (20.0, 16.0)
    )
    text = print_statements(check_statements([same, differing]), 100, files=2)
    of_5 = text[text.index("S05") : text.index("S06")]
    assert of_5.count("jumbo.vnb") == 2
    assert "+ goodput differs between forward and reverse" in of_5
    assert "- goodput differs between forward and reverse" in of_5


def test_the_json_matches_the_documented_schema_with_all_evidence(
    results: tuple[StatementResult, ...],
) -> None:
    block = re.search(r"```json\n(\{\s*\"\$schema\".*?)```", DOCUMENT.read_text(), re.DOTALL)
    assert block is not None
    schema = json.loads(block[1])
    jsonschema.Draft202012Validator.check_schema(schema)
    long = simulated_campaign(goodputs("streams", {1: 9.0}), SimulationOptions(duration_s=25.0, warmup_s=4.0))
    fields = json.loads(statements_json(results))
    jsonschema.validate(fields, schema)
    jsonschema.validate(json.loads(statements_json(check_statements([long]))), schema)
    first = fields["statements"][0]
    assert (first["id"], first["state"]) == ("S01", "supported")
    evidence = first["files"][0]["parts"][0]["evidence"]
    assert len(evidence) == 4
    assert all(each["is_ratio"] and each["low"] <= each["value"] <= each["high"] < 1 for each in evidence)
    assert evidence[0]["base"] == {"streams": 8} and evidence[0]["level"] == {"streams": 1}
