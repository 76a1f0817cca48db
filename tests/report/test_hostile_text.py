"""Exports of a campaign whose texts an attacker wrote contain no control character and no formula."""

from __future__ import annotations

import csv
import io
import json
import math
import sqlite3
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from tests import fixtures
from tests.results.crafted_files import execute
from vnetbench.commands.summaries import read_summary_without_experiments
from vnetbench.estimate.summary import CampaignSummary
from vnetbench.printable import make_printable
from vnetbench.report.charts.chart_rows import time_series_rows_and_omission_note
from vnetbench.report.charts.factor_layout import lay_out_factors
from vnetbench.report.export.campaign_csv import campaign_csv
from vnetbench.report.export.campaign_json import campaign_json
from vnetbench.report.export.markdown import campaign_markdown

HOSTILE = "\x1b]0;owned\x07\x9b31m\x7f\u202e`x`"
FORMULAS = ("=cmd|' /C calc'!A0", "+1+1", "-1+1", "@SUM(A1)", "\N{FULLWIDTH EQUALS SIGN}1")
STUDY = f"""\
title = "Title"
question = "?"
workload = "tcp_stream"

[testbed]
lab = "imported"

[factors]
label_host = {json.dumps(["other", *FORMULAS])}
"""
REASONS = ("=HYPERLINK", "\t=1", "\r=1", "\n=1")


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> CampaignSummary:
    path = tmp_path_factory.mktemp("hostile") / "r.vnb"
    file, _ = fixtures.create_results_file(path, fixtures.make_study(STUDY))
    with closing(file):
        for treatment in range(1 + len(FORMULAS)):
            file.add_trial(
                fixtures.make_trial(treatment, 0, failure=f"{REASONS[treatment % 4]}{HOSTILE}"), 1.0
            )
            file.set_treatment_state(treatment, "failed", f"=HYPERLINK({HOSTILE})")
    with closing(sqlite3.connect(path)) as db, db:
        db.execute("UPDATE campaign SET title = ?", (HOSTILE,))
        levels = json.dumps({"label_host": HOSTILE})
        db.execute("UPDATE treatment SET factors = ? WHERE id = 0", (levels,))
    return read_summary_without_experiments(path)


@pytest.mark.parametrize("export", [campaign_csv, campaign_markdown, campaign_json])
def test_no_control_character_is_exported(
    hostile: CampaignSummary, export: Callable[[CampaignSummary], str]
) -> None:
    text = export(hostile)
    assert "owned" in text
    assert make_printable(text, keep="\r\n") == text


def test_json_keeps_the_texts(hostile: CampaignSummary) -> None:
    assert json.loads(campaign_json(hostile))["title"] == HOSTILE


def test_no_cell_of_the_csv_starts_as_a_formula(hostile: CampaignSummary) -> None:
    rows = list(csv.reader(io.StringIO(campaign_csv(hostile), newline="")))
    assert len(rows) == 2 + len(FORMULAS)
    texts = [cell for row in rows for cell in row if "owned" in cell or cell.lstrip("'") in FORMULAS]
    assert len(texts) > len(FORMULAS)
    starts = ("=", "+", "-", "@", "\t", "\r", "\N{FULLWIDTH EQUALS SIGN}")
    assert not [cell for cell in texts if cell.startswith(starts)]


def test_no_text_of_the_csv_is_a_formula_where_semicolons_separate_cells(hostile: CampaignSummary) -> None:
    failed = replace(hostile.treatments[0], failures=("a;=cmd()", "=cmd()", "b; c", "d|+1"))
    (row,) = csv.DictReader(io.StringIO(campaign_csv(replace(hostile, treatments=(failed,)))))
    assert row["failures"] == "a;'=cmd(); '=cmd(); b; c; d|'+1"


def test_numbers_of_the_csv_stay_numbers(tmp_path: Path) -> None:
    file, _ = fixtures.create_results_file(tmp_path / "r.vnb")
    file.add_trial(fixtures.make_trial(0, 0), 1.0)
    file.close("finished")
    rows = list(csv.DictReader(io.StringIO(campaign_csv(read_summary_without_experiments(file.path)))))
    assert float(rows[0]["goodput_bps"]) > 0 and rows[0]["streams"] == "1"


def test_a_command_in_markdown_stays_inside_its_code_span(tmp_path: Path) -> None:
    path = tmp_path / "r`x`.vnb"
    file, _ = fixtures.create_results_file(path)
    file.add_trial(fixtures.make_trial(0, 0), 1.0)
    file.close("finished")
    execute(path, "UPDATE campaign SET study_path = '/tmp/a`b`.toml'")
    for line in campaign_markdown(read_summary_without_experiments(path)).splitlines():
        if "To test it:" in line:
            fence = line.split("To test it: ")[1].split("vnetbench")[0].strip()
            assert line.rstrip().endswith(fence) and line.count(fence) == 2


def test_json_of_a_stopped_search_without_a_time_limit_has_null(hostile: CampaignSummary) -> None:
    stopped = replace(
        hostile.treatments[0], stopped_search_result={"parameters": {"time_limit_s": math.inf, "x": [1.5]}}
    )
    document = json.loads(campaign_json(replace(hostile, treatments=(stopped,))))
    assert document["treatments"][0]["stopped_search"] == {"parameters": {"time_limit_s": None, "x": [1.5]}}


def test_a_treatment_without_the_deciding_metric_has_no_time_series_chart(jumbo: CampaignSummary) -> None:
    first, *others = jumbo.treatments
    summary = replace(jumbo, treatments=(replace(first, metrics={}), *others))
    rows, _ = time_series_rows_and_omission_note(summary, lay_out_factors(summary))
    assert rows
