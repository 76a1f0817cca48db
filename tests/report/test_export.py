"""Exports: JSON in the documented format, CSV and Markdown."""

from __future__ import annotations

import csv
import io
import json
import math
import re
from dataclasses import replace
from pathlib import Path

import jsonschema
import pytest

from tests.report.explanations import COMMAND, EXPLANATION, LIMIT, TRIED
from vnetbench.estimate.model import Ratio
from vnetbench.estimate.published_reference import published_table_summary
from vnetbench.estimate.summary import CampaignSummary
from vnetbench.explain.model import ExperimentResult, Explanation
from vnetbench.report.export.campaign_csv import campaign_csv
from vnetbench.report.export.campaign_json import campaign_json
from vnetbench.report.export.markdown import campaign_markdown
from vnetbench.report.text import narrative
from vnetbench.report.text.evidence_text import format_experiment_result

DOCUMENT = Path(__file__).parents[2] / "docs" / "show-json.md"


def schema() -> dict[str, object]:
    """Return the JSON Schema in the documentation."""
    block = re.search(r"```json\n(\{\s*\"\$schema\".*?)```", DOCUMENT.read_text(), re.DOTALL)
    assert block is not None
    parsed: dict[str, object] = json.loads(block[1])
    return parsed


@pytest.mark.parametrize("name", ["jumbo", "surface", "placement", "single", "empty"])
def test_the_json_matches_the_documented_schema(name: str, request: pytest.FixtureRequest) -> None:
    summary: CampaignSummary = request.getfixturevalue(name)
    jsonschema.Draft202012Validator.check_schema(schema())
    jsonschema.validate(json.loads(campaign_json(summary)), schema())


def test_the_documentation_contains_every_key(jumbo: CampaignSummary) -> None:
    known = schema()
    form = json.loads(campaign_json(jumbo))
    assert set(form) == set(known["properties"])  # type: ignore[call-overload]
    treatment = known["$defs"]["treatment"]["properties"]  # type: ignore[index]
    assert set(form["treatments"][0]) == set(treatment)


def test_numbers_are_numbers_in_base_units(surface: CampaignSummary) -> None:
    form = json.loads(campaign_json(surface))
    first = form["treatments"][0]
    assert first["factors"] == {"socket_buffer": 8192, "message_size": 64}
    goodput = first["metrics"]["goodput_bps"]
    assert goodput["low"] <= goodput["value"] <= goodput["high"]
    assert goodput["unit"] == "bit/s"


def test_unknown_values_are_null(jumbo: CampaignSummary) -> None:
    few = json.loads(campaign_json(jumbo))["treatments"][14]
    assert few["trial_count"] == 4
    assert few["metrics"]["goodput_bps"]["low"] is None
    refused = json.loads(campaign_json(jumbo))["treatments"][7]
    assert (refused["stopped_by"], refused["metrics"]) == ("refused", {})
    assert refused["failures"][0].startswith("the path carries 1500 bytes")


def test_two_modes_have_shares(jumbo: CampaignSummary) -> None:
    goodput = json.loads(campaign_json(jumbo))["treatments"][15]["metrics"]["goodput_bps"]
    assert goodput["modality"] == "two"
    assert sum(mode["share"] for mode in goodput["modes"]) == pytest.approx(1)


def test_csv_has_a_row_per_treatment_and_parses_back(jumbo: CampaignSummary) -> None:
    rows = list(csv.DictReader(io.StringIO(campaign_csv(jumbo))))
    assert len(rows) == 20
    assert float(rows[0]["goodput_bps"]) == jumbo.treatments[0].metrics["goodput_bps"].value
    assert rows[0]["mtu"] == "1500"
    assert rows[14]["goodput_bps_low"] == ""
    assert rows[7]["failures"].startswith("the path carries")
    assert [float(mode.split("*")[1]) for mode in rows[15]["goodput_bps_modes"].split()] == pytest.approx(
        [1 / 3, 2 / 3]
    )


def test_markdown_contains_the_table_and_its_notes(jumbo: CampaignSummary) -> None:
    text = campaign_markdown(jumbo)
    table = [line for line in text.splitlines() if line.startswith("|")]
    assert len(table) == 22
    assert len({len(re.findall(r"(?<!\\)\|", line)) for line in table}) == 1
    assert "43.5 (33 %)<br>64.0 (67 %)" in text


def test_special_characters_in_a_title_are_escaped_in_markdown(jumbo: CampaignSummary) -> None:
    text = campaign_markdown(replace(jumbo, title="a | b <script>\n# c"))
    assert text.splitlines()[0] == r"# a \| b \<script\> \# c"


def test_a_published_table_has_a_source_and_no_trials() -> None:
    table = published_table_summary("ntttcp-vmxnet3-2011")
    jsonschema.validate(json.loads(campaign_json(table)), schema())
    text = campaign_markdown(table)
    assert "A report of 2011 on NTttcp 3.0" in text and "Two VMs on one ESXi 4.1U1 host" in text
    assert "Trials" not in text and "| 9.85 |" in text


def test_an_explanation_matches_the_schema_and_its_texts_are_listed_separately(
    jumbo: CampaignSummary, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(narrative, "explain", lambda _: EXPLANATION)
    form = json.loads(campaign_json(jumbo))
    jsonschema.validate(form, schema())
    explained = form["explanation"]
    assert form["findings"] == [each["text"] for each in explained["findings"]]
    assert explained["answer"][2:] == list(EXPLANATION.answer)
    first = explained["findings"][0]["candidates"][0]
    assert (first["cause"], first["confidence"], first["setting"]) == (
        "receiver_cpu",
        "very likely",
        {"streams": 4},
    )
    assert first["evidence"][0]["metric"] == "receiver_thread_busy_percent"
    assert first["experiment_result"]["verdict"] == "inconclusive"
    assert first["experiment_result"]["low"] < 1 < first["experiment_result"]["high"]


def test_an_infinite_ratio_is_null(jumbo: CampaignSummary, monkeypatch: pytest.MonkeyPatch) -> None:
    revived = replace(TRIED, ratio=Ratio(math.inf, None, None, 0.95, 0.0))
    candidate = replace(LIMIT.candidates[0], experiment_result=ExperimentResult("confirmed", revived))
    monkeypatch.setattr(
        narrative, "explain", lambda _: Explanation((), (replace(LIMIT, candidates=(candidate,)),))
    )
    form = json.loads(campaign_json(jumbo))
    jsonschema.validate(form, schema())
    assert form["explanation"]["findings"][0]["candidates"][0]["experiment_result"]["ratio"] is None
    assert "(no interval: a value is 0) in 8 blocks" in format_experiment_result(
        ExperimentResult("confirmed", revived)
    )


def test_markdown_has_the_answer_findings_and_commands_before_the_table(
    jumbo: CampaignSummary, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(narrative, "explain", lambda _: EXPLANATION)
    lines = campaign_markdown(jumbo).splitlines()
    table = next(place for place, line in enumerate(lines) if line.startswith("|"))
    before = "\n".join(lines[:table])
    assert "**MTU 9000 instead of 1500 multiplies goodput by 1.4" in before and "Goodput is highest" in before
    assert "\n1. 1 stream" in before and "98.7 to 99.4" in before
    assert f"`{COMMAND}`" in before
