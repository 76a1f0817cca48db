"""Figures of guests under TCG are never shown without it."""

from __future__ import annotations

import csv
import io
import json
from dataclasses import replace

import pytest
from rich.console import Console

from vnetbench.estimate.summary import CampaignSummary
from vnetbench.report.comparison import compare_campaigns, comparison_table
from vnetbench.report.export import campaign_export
from vnetbench.report.page.html import render_page
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


def printed(renderable: object) -> str:
    console = Console(width=120, file=io.StringIO())
    console.print(renderable)
    assert isinstance(console.file, io.StringIO)
    return " ".join(console.file.getvalue().split())


def test_tables_say_it(emulated: CampaignSummary) -> None:
    assert EMULATION_WARNING in printed(estimates_table(emulated))
    assert EMULATION_WARNING in campaign_export.campaign_markdown(emulated)
    assert EMULATION_WARNING.replace("'", "&#39;") in render_page([emulated])


def test_a_comparison_says_of_which_side(jumbo: CampaignSummary, emulated: CampaignSummary) -> None:
    text = printed(comparison_table(compare_campaigns(jumbo, emulated)))
    assert f"after: {EMULATION_WARNING}" in text and f"before: {EMULATION_WARNING}" not in text


def test_programs_read_it(emulated: CampaignSummary) -> None:
    assert json.loads(campaign_export.campaign_json(emulated))["accelerator"] == "tcg"
    rows = list(csv.DictReader(io.StringIO(campaign_export.campaign_csv(emulated))))
    assert {row["accelerator"] for row in rows} == {"tcg"}


def test_others_have_nothing_to_say(jumbo: CampaignSummary) -> None:
    for summary in (jumbo, with_guests(jumbo, "kvm")):
        assert "TCG" not in printed(estimates_table(summary))
        assert "TCG" not in render_page([summary])
    assert json.loads(campaign_export.campaign_json(jumbo))["accelerator"] is None
    assert "accelerator" not in campaign_export.campaign_csv(jumbo).splitlines()[0]
