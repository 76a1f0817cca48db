"""The warning that accompanies every result of guests under TCG."""

from __future__ import annotations

import csv
import io
import json
from dataclasses import replace

import pytest
from rich.console import Console

from vnetbench.estimate.summary import CampaignSummary
from vnetbench.report.comparison import compare_campaigns
from vnetbench.report.export.campaign_csv import campaign_csv
from vnetbench.report.export.campaign_json import campaign_json
from vnetbench.report.export.markdown import campaign_markdown
from vnetbench.report.page.html import render_page
from vnetbench.report.tables.comparison_table import comparison_table
from vnetbench.report.tables.estimates_table import estimates_table
from vnetbench.report.text.emulation_warning import EMULATION_WARNING


def with_guests(summary: CampaignSummary, accelerator: str) -> CampaignSummary:
    treatments = [
        replace(t, effective={**t.effective, "accelerator": accelerator}) for t in summary.treatments
    ]
    return replace(summary, treatments=tuple(treatments))


@pytest.fixture
def emulated(jumbo: CampaignSummary) -> CampaignSummary:
    return with_guests(jumbo, "tcg")


def print_to_line(renderable: object) -> str:
    console = Console(width=120, file=io.StringIO())
    console.print(renderable)
    assert isinstance(console.file, io.StringIO)
    return " ".join(console.file.getvalue().split())


def test_tables_and_the_page_contain_the_warning(emulated: CampaignSummary) -> None:
    assert EMULATION_WARNING in print_to_line(estimates_table(emulated))
    assert EMULATION_WARNING in campaign_markdown(emulated)
    assert EMULATION_WARNING.replace("'", "&#39;") in render_page([emulated])


def test_a_comparison_warns_about_the_emulated_campaign_only(
    jumbo: CampaignSummary, emulated: CampaignSummary
) -> None:
    text = print_to_line(comparison_table(compare_campaigns(jumbo, emulated)))
    assert f"after: {EMULATION_WARNING}" in text and f"before: {EMULATION_WARNING}" not in text


def test_json_and_csv_contain_the_accelerator(emulated: CampaignSummary) -> None:
    assert json.loads(campaign_json(emulated))["accelerator"] == "tcg"
    rows = list(csv.DictReader(io.StringIO(campaign_csv(emulated))))
    assert {row["accelerator"] for row in rows} == {"tcg"}


def test_campaigns_without_emulation_have_no_warning(jumbo: CampaignSummary) -> None:
    for summary in (jumbo, with_guests(jumbo, "kvm")):
        assert "TCG" not in print_to_line(estimates_table(summary))
        assert "TCG" not in render_page([summary])
    assert json.loads(campaign_json(jumbo))["accelerator"] is None
    assert "accelerator" not in campaign_csv(jumbo).splitlines()[0]
