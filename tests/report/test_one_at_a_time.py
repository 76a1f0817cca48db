"""One-at-a-time studies: each treatment has its change and its ratio to the baseline."""

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
from vnetbench.report.one_at_a_time import (
    BASELINE_LEVEL,
    baseline_ratio_column,
    merge_sparse_design_into_one_factor,
)
from vnetbench.report.page.html import render_page
from vnetbench.report.tables.estimates_table import estimates_table
from vnetbench.report.text.answer import answer_question
from vnetbench.study.model import ONE_AT_A_TIME, FactorLevels

GBIT = 1e9


@pytest.fixture(scope="module")
def tuning() -> CampaignSummary:
    """Return four treatments: MTU 9000 gains 50 %, LRO off loses 50 %, both together equal the baseline."""
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
    tuning = campaign("Tuning", "What gains?", factors, measured)
    return replace(tuning, level_combination_method=ONE_AT_A_TIME)


def test_a_treatment_is_named_by_its_change(tuning: CampaignSummary) -> None:
    merged = merge_sparse_design_into_one_factor(tuning)
    changes = [each.factors["changed"] for each in merged.treatments]
    assert changes == [BASELINE_LEVEL, "MTU 9000", "LRO off", "MTU 9000, LRO off"]
    assert all(each.factors["streams"] == 4 for each in merged.treatments)
    assert merged.warnings[0] == "Baseline: MTU 1500, LRO on"


def test_each_ratio_to_the_baseline_has_an_interval(tuning: CampaignSummary) -> None:
    column = baseline_ratio_column(merge_sparse_design_into_one_factor(tuning))
    assert column is not None
    (base,), *changes = column.cells
    assert base == "1"
    values = [float(cell.partition(" ")[0]) for (cell,) in changes]
    assert values == pytest.approx([1.5, 0.5, 1.0], rel=0.05)
    assert all("[" in cell and "?" not in cell for (cell,) in changes)


def test_the_answer_gives_the_effect_of_each_change(tuning: CampaignSummary) -> None:
    answer = answer_question(merge_sparse_design_into_one_factor(tuning))
    (headline,) = answer.headline_effect_sentences
    assert (
        headline.startswith("Goodput is 0.4")
        and "times as high with LRO off as with the baseline" in headline
    )
    gain, no_change = answer.other_effect_sentences
    assert gain.startswith("Goodput is 1.4") and "with MTU 9000 as with the baseline (95 % " in gain
    assert no_change.startswith(
        "No significant difference in goodput between MTU 9000, LRO off and the baseline (×"
    )


def test_table_markdown_page_and_charts_contain_the_ratio_to_the_baseline(tuning: CampaignSummary) -> None:
    out = io.StringIO()
    Console(file=out, width=100).print(estimates_table(tuning))
    for text in (out.getvalue(), campaign_markdown(tuning).replace("\\", ""), render_page([tuning])):
        assert "MTU 9000, LRO off" in text
        assert "Ratio to" in text
    (chart, *_) = main_charts(merge_sparse_design_into_one_factor(tuning))
    assert {row["panel"] for row in chart.rows} == {
        BASELINE_LEVEL,
        "MTU 9000",
        "LRO off",
        "MTU 9000, LRO off",
    }


def test_json_contains_the_factors_of_the_study(tuning: CampaignSummary) -> None:
    fields = json.loads(campaign_json(tuning))
    assert [factor["name"] for factor in fields["factors"]] == ["streams", "mtu", "lro"]


def test_other_campaigns_stay_unchanged(jumbo: CampaignSummary) -> None:
    assert merge_sparse_design_into_one_factor(jumbo) is jumbo
    assert baseline_ratio_column(jumbo) is None
