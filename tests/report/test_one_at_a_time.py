"""A study of one change at a time: treatments are told by what they change and what that gains."""

from __future__ import annotations

import io
import json
from dataclasses import replace

import numpy as np
import pytest
from rich.console import Console

from tests.report.campaigns import campaign, treatment
from vnetbench.estimate.summary import CampaignSummary
from vnetbench.report.charts.campaign_charts import main_charts
from vnetbench.report.export.campaign_json import campaign_json
from vnetbench.report.export.markdown import campaign_markdown
from vnetbench.report.one_at_a_time import BASELINE, gain_column, to_single_factor
from vnetbench.report.page.html import render_page
from vnetbench.report.tables.estimates_table import estimates_table
from vnetbench.report.text.answer import answer_question
from vnetbench.study.model import ONE_AT_A_TIME, FactorLevels

GBIT = 1e9


@pytest.fixture(scope="module")
def tuning() -> CampaignSummary:
    """MTU gains a half, LRO off loses a half, both together are as the base; four streams in all."""
    rng = np.random.default_rng(6)
    factors = [
        FactorLevels("streams", (4,)),
        FactorLevels("mtu", (1500, 9000)),
        FactorLevels("lro", ("on", "off")),
    ]
    means = {(1500, "on"): 4.0, (9000, "on"): 6.0, (1500, "off"): 2.0, (9000, "off"): 4.0}
    measured = [
        treatment(rng, index, {"streams": 4, "mtu": mtu, "lro": lro}, mean * GBIT, order=4)
        for index, ((mtu, lro), mean) in enumerate(means.items())
    ]
    return replace(campaign("Tuning", "What gains?", factors, measured), combine=ONE_AT_A_TIME)


def test_a_treatment_is_named_by_what_it_changes(tuning: CampaignSummary) -> None:
    told = to_single_factor(tuning)
    changes = [each.factors["changed"] for each in told.treatments]
    assert changes == [BASELINE, "MTU 9000", "LRO off", "MTU 9000, LRO off"]
    assert all(each.factors["streams"] == 4 for each in told.treatments)
    assert told.warnings[0] == "With nothing changed: MTU 1500, LRO on"


def test_each_gain_over_nothing_changed_has_its_interval(tuning: CampaignSummary) -> None:
    column = gain_column(to_single_factor(tuning))
    assert column is not None
    (base,), *changes = column.cells
    assert base == "1"
    values = [float(cell.partition(" ")[0]) for (cell,) in changes]
    assert values == pytest.approx([1.5, 0.5, 1.0], rel=0.05)
    assert all("[" in cell and "?" not in cell for (cell,) in changes)


def test_the_answer_tells_each_change_by_itself(tuning: CampaignSummary) -> None:
    effects = answer_question(to_single_factor(tuning)).effects
    assert [sentence.partition(":")[0] for sentence in effects] == [
        "MTU 9000",
        "LRO off",
        "MTU 9000, LRO off",
    ]
    assert ": goodput times 1.4" in effects[0]
    assert "no difference is shown" in effects[2]


def test_table_markdown_page_and_charts_show_the_gain(tuning: CampaignSummary) -> None:
    out = io.StringIO()
    Console(file=out, width=100).print(estimates_table(tuning))
    for text in (out.getvalue(), campaign_markdown(tuning).replace("\\", ""), render_page([tuning])):
        assert "MTU 9000, LRO off" in text
        assert "Against" in text
    (chart, *_) = main_charts(to_single_factor(tuning))
    assert {row["panel"] for row in chart.rows} == {BASELINE, "MTU 9000", "LRO off", "MTU 9000, LRO off"}


def test_programs_get_the_factors_as_the_study_has_them(tuning: CampaignSummary) -> None:
    form = json.loads(campaign_json(tuning))
    assert [factor["name"] for factor in form["factors"]] == ["streams", "mtu", "lro"]


def test_other_campaigns_are_told_as_before(jumbo: CampaignSummary) -> None:
    assert to_single_factor(jumbo) is jumbo
    assert gain_column(jumbo) is None
