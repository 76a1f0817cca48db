"""Two campaigns compared: real differences are found, noise is not, and what can't be compared is said."""

from __future__ import annotations

import io
from dataclasses import replace

import numpy as np
import pytest
from rich.cells import cell_len
from rich.console import Console

from tests.report.campaigns import GBIT, campaign, treatment
from vnetbench.estimate.summary import CampaignSummary
from vnetbench.report.comparison import compare_campaigns, find_regressions
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


def shown(before: CampaignSummary, after: CampaignSummary, width: int = 80) -> str:
    out = io.StringIO()
    Console(file=out, width=width).print(comparison_table(compare_campaigns(before, after)))
    return out.getvalue()


def test_ten_percent_less_is_found_in_every_treatment() -> None:
    found = compare_campaigns(four_treatments(1), four_treatments(2, faster=0.9))
    assert len(find_regressions(found, 0.05)) == 4
    for change in found.changes:
        assert change.ratio.low is not None and change.ratio.high is not None
        assert change.ratio.low <= 0.92 and change.ratio.high >= 0.88


def test_a_testbed_has_the_defaults_of_its_own_kind() -> None:
    before, after = four_treatments(1), four_treatments(2)
    of_hosts = compare_campaigns(
        replace(before, testbed_backend=HOSTS), replace(after, testbed_backend=HOSTS)
    )
    assert all({"mtu", "vswitch"}.isdisjoint(change.factors) for change in of_hosts.changes)
    assert all(
        {"mtu", "vswitch"} < set(change.factors) for change in compare_campaigns(before, after).changes
    )


def test_ten_percent_less_is_not_worse_than_twenty() -> None:
    assert find_regressions(compare_campaigns(four_treatments(1), four_treatments(2, faster=0.9)), 0.2) == []


def test_more_goodput_is_never_worse() -> None:
    assert find_regressions(compare_campaigns(four_treatments(1), four_treatments(2, faster=1.3)), 0.0) == []


def test_the_same_machine_again_is_called_different_in_at_most_one_campaign_of_twenty() -> None:
    alarms = sum(
        bool(find_regressions(compare_campaigns(four_treatments(seed), four_treatments(seed + 1)), 0.0))
        for seed in range(10, 410, 2)
    )
    assert alarms <= 200 * 0.05 + 2 * np.sqrt(200 * 0.05 * 0.95)


def test_too_few_trials_fail_nothing_and_are_marked() -> None:
    before, after = four_treatments(1, trials=2), four_treatments(2, faster=0.5, trials=2)
    assert find_regressions(compare_campaigns(before, after), 0.05) == []
    assert "[?]" in shown(before, after)


def test_less_cost_is_better_and_more_is_worse() -> None:
    before, after = four_treatments(1), four_treatments(2, faster=0.5)
    cpu = compare_campaigns(before, after, metrics=("receiver_cpu_percent",))
    assert find_regressions(cpu, 0.05) == []
    assert (
        len(find_regressions(compare_campaigns(after, before, metrics=("receiver_cpu_percent",)), 0.05)) == 4
    )


def test_of_latency_under_load_the_increase_is_compared_where_it_has_a_ratio(mixed: CampaignSummary) -> None:
    found = compare_campaigns(mixed, mixed, ("latency_p99_us", "latency_increase_p50_us"))
    assert len(found.changes) == 12 and not any(change.is_shown for change in found.changes)
    first, *others = mixed.treatments
    points = tuple(
        replace(point, values={**point.values, "latency_increase_p50_us": -1.0}) for point in first.points
    )
    below_zero = replace(mixed, treatments=(replace(first, points=points), *others))
    assert len(compare_campaigns(mixed, below_zero, ("latency_increase_p50_us",)).changes) == 5


def test_a_factor_that_one_study_leaves_at_its_default_is_matched() -> None:
    before = four_treatments(1)
    named = [replace(t, factors={**t.factors, "vswitch": "bridge"}) for t in before.treatments]
    after = replace(
        before, treatments=tuple(named), factors=(*before.factors, FactorLevels("vswitch", ("bridge",)))
    )
    assert len(compare_campaigns(before, after).changes) == 4


def test_what_only_one_campaign_has_and_what_was_not_measured_is_listed(
    jumbo: CampaignSummary, jumbo_slower: CampaignSummary
) -> None:
    less = replace(jumbo_slower, treatments=jumbo_slower.treatments[1:])
    found = compare_campaigns(jumbo, less)
    assert [factors["streams"] for factors in found.only_before] == [1]
    assert len(found.changes) + len(found.only_before) + len(found.unmeasured) == 20
    text = " ".join(shown(jumbo, less).split())
    assert "only before: 1 stream, forward, MTU 1500" in text
    assert "not compared: 16 streams, reverse, MTU 1500 (before: failed, after: failed)" in text


def test_the_environment_comes_first_and_facts_of_the_moment_do_not(
    jumbo: CampaignSummary, jumbo_slower: CampaignSummary
) -> None:
    names = {each.name for each in compare_campaigns(jumbo, jumbo_slower).environment}
    assert names == {"kernel.release", "hostname"}
    text = shown(jumbo, jumbo_slower)
    assert text.index("6.19.0-amd64") < text.index("Ratio")


def test_a_lower_confidence_of_either_campaign_counts(jumbo: CampaignSummary) -> None:
    other = replace(jumbo, precision=Precision(confidence=0.9))
    assert {change.ratio.confidence for change in compare_campaigns(jumbo, other).changes} == {0.9}


@pytest.mark.parametrize("width", [64, 80, 140])
def test_the_table_fits_and_cuts_nothing(
    jumbo: CampaignSummary, jumbo_slower: CampaignSummary, width: int
) -> None:
    text = shown(jumbo, jumbo_slower, width)
    assert max(map(cell_len, text.splitlines())) <= width
    assert "…" not in text
