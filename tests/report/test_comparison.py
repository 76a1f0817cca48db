"""Comparison of two campaigns: it finds real differences, ignores noise, and lists what is missing."""

from __future__ import annotations

import io
from dataclasses import replace

import numpy as np
import pytest
from rich.cells import cell_len
from rich.console import Console

from tests.report.campaigns import GBIT, campaign, treatment
from vnetbench.estimate.summary import CampaignSummary
from vnetbench.report.comparison import compare_campaigns, find_worsened_metrics
from vnetbench.report.tables.comparison_table import comparison_table
from vnetbench.study.labs import HOSTS
from vnetbench.study.model import FactorLevels, Precision


def four_treatments(seed: int, faster: float = 1.0, trials: int = 9) -> CampaignSummary:
    rng = np.random.default_rng(seed)
    levels = (1, 2, 4, 8)
    treatments = [
        treatment(rng, index, {"streams": streams}, 20 * GBIT * faster, trials=trials)
        for index, streams in enumerate(levels)
    ]
    return campaign("Before and after", "", [FactorLevels("streams", levels)], treatments)


def print_comparison(before: CampaignSummary, after: CampaignSummary, width: int = 80) -> str:
    out = io.StringIO()
    Console(file=out, width=width).print(comparison_table(compare_campaigns(before, after)))
    return out.getvalue()


def test_a_loss_of_ten_percent_is_found_in_every_treatment() -> None:
    comparison = compare_campaigns(four_treatments(1), four_treatments(2, faster=0.9))
    assert len(find_worsened_metrics(comparison, 0.05)) == 4
    for change in comparison.changes:
        assert change.ratio.low is not None and change.ratio.high is not None
        assert change.ratio.low <= 0.92 and change.ratio.high >= 0.88


def test_default_levels_depend_on_the_testbed() -> None:
    before, after = four_treatments(1), four_treatments(2)
    hosts_comparison = compare_campaigns(
        replace(before, testbed_backend=HOSTS), replace(after, testbed_backend=HOSTS)
    )
    assert all({"mtu", "vswitch"}.isdisjoint(change.factors) for change in hosts_comparison.changes)
    assert all(
        {"mtu", "vswitch"} < set(change.factors) for change in compare_campaigns(before, after).changes
    )


def test_a_loss_of_ten_percent_is_no_regression_by_twenty() -> None:
    assert (
        find_worsened_metrics(compare_campaigns(four_treatments(1), four_treatments(2, faster=0.9)), 0.2)
        == []
    )


def test_higher_goodput_is_no_regression() -> None:
    assert (
        find_worsened_metrics(compare_campaigns(four_treatments(1), four_treatments(2, faster=1.3)), 0.0)
        == []
    )


def test_at_most_one_of_twenty_identical_campaigns_raises_a_false_alarm() -> None:
    false_alarms = sum(
        bool(find_worsened_metrics(compare_campaigns(four_treatments(seed), four_treatments(seed + 1)), 0.0))
        for seed in range(10, 410, 2)
    )
    assert false_alarms <= 200 * 0.05 + 2 * np.sqrt(200 * 0.05 * 0.95)


def test_too_few_trials_are_marked_and_are_no_regression() -> None:
    before, after = four_treatments(1, trials=2), four_treatments(2, faster=0.5, trials=2)
    assert find_worsened_metrics(compare_campaigns(before, after), 0.05) == []
    assert "[?]" in print_comparison(before, after)


def test_lower_cpu_usage_is_better_and_higher_is_worse() -> None:
    before, after = four_treatments(1), four_treatments(2, faster=0.5)
    cpu = compare_campaigns(before, after, metrics=("receiver_cpu_percent",))
    assert find_worsened_metrics(cpu, 0.05) == []
    assert (
        len(find_worsened_metrics(compare_campaigns(after, before, metrics=("receiver_cpu_percent",)), 0.05))
        == 4
    )


def test_a_latency_increase_is_compared_if_it_has_a_ratio(mixed: CampaignSummary) -> None:
    comparison = compare_campaigns(mixed, mixed, ("latency_p99_us", "latency_increase_p50_us"))
    assert len(comparison.changes) == 12
    assert not any(change.is_significant_and_excludes_1 for change in comparison.changes)
    first, *others = mixed.treatments
    points = tuple(
        replace(point, values={**point.values, "latency_increase_p50_us": -1.0}) for point in first.points
    )
    with_negative = replace(mixed, treatments=(replace(first, points=points), *others))
    assert len(compare_campaigns(mixed, with_negative, ("latency_increase_p50_us",)).changes) == 5


def test_a_factor_at_its_default_matches_the_same_level_of_another_study() -> None:
    before = four_treatments(1)
    named = [replace(t, factors={**t.factors, "vswitch": "bridge"}) for t in before.treatments]
    after = replace(
        before, treatments=tuple(named), factors=(*before.factors, FactorLevels("vswitch", ("bridge",)))
    )
    assert len(compare_campaigns(before, after).changes) == 4


def test_unmatched_and_unmeasured_treatments_are_listed(
    jumbo: CampaignSummary, jumbo_slower: CampaignSummary
) -> None:
    fewer = replace(jumbo_slower, treatments=jumbo_slower.treatments[1:])
    comparison = compare_campaigns(jumbo, fewer)
    assert [factors["streams"] for factors in comparison.only_before] == [1]
    assert len(comparison.changes) + len(comparison.only_before) + len(comparison.unmeasured_in_either) == 20
    text = " ".join(print_comparison(jumbo, fewer).split())
    assert "only in the first campaign: 1 stream, forward, MTU 1500" in text
    assert "not compared: 16 streams, reverse, MTU 1500 (before: failed, after: failed)" in text


def test_the_environment_precedes_the_table_without_volatile_facts(
    jumbo: CampaignSummary, jumbo_slower: CampaignSummary
) -> None:
    names = {each.name for each in compare_campaigns(jumbo, jumbo_slower).environment_differences}
    assert names == {"kernel.release", "hostname"}
    text = print_comparison(jumbo, jumbo_slower)
    assert text.index("6.19.0-amd64") < text.index("Ratio")


def test_the_first_line_gives_the_number_of_significant_changes_and_the_largest() -> None:
    slower = four_treatments(2, faster=0.9)
    first_line = print_comparison(four_treatments(1), slower, width=200).splitlines()[0]
    assert first_line.startswith("Goodput differs significantly in 4 of 4 treatments. Largest change: ×0.")
    same = four_treatments(1)
    first_line = print_comparison(same, same, width=200).splitlines()[0]
    assert (
        first_line
        == "No significant difference in goodput. Largest ratio of 4 treatments: ×1.000 [0.989, 1.011]."
    )


def test_the_lower_confidence_of_the_two_campaigns_applies(jumbo: CampaignSummary) -> None:
    other = replace(jumbo, required_precision=Precision(confidence=0.9))
    assert {change.ratio.confidence for change in compare_campaigns(jumbo, other).changes} == {0.9}


@pytest.mark.parametrize("width", [64, 80, 140])
def test_the_table_fits_the_terminal_without_cut_cells(
    jumbo: CampaignSummary, jumbo_slower: CampaignSummary, width: int
) -> None:
    text = print_comparison(jumbo, jumbo_slower, width)
    assert max(map(cell_len, text.splitlines())) <= width
    assert "…" not in text
