"""Real trials of one stream, whose two ends something outside put on one CPU or on two, by a coin.

Recorded on four cores that others used too, with the lab netns and the scheduler free within what the coin
left it: the file has no factor that separates the placements, only the counters.
"""

from __future__ import annotations

import lzma
from pathlib import Path

import pytest

from tests import fixtures
from vnetbench.estimate.summary import CampaignSummary
from vnetbench.explain.comparisons.instability import instability_findings
from vnetbench.explain.comparisons.mode_splits import find_splits_by_mode_or_placement
from vnetbench.explain.explain import explain

pytestmark = pytest.mark.pure

RECORDED = Path(__file__).parents[2] / "data" / "results" / "one-stream-two-placements.vnb.xz"


@pytest.fixture(scope="module")
def summary(tmp_path_factory: pytest.TempPathFactory) -> CampaignSummary:
    path = tmp_path_factory.mktemp("recorded") / "one-stream.vnb"
    path.write_bytes(lzma.decompress(RECORDED.read_bytes()))
    return fixtures.read_summary(path)


def test_the_counter_that_separates_two_groups_of_trials_is_named(summary: CampaignSummary) -> None:
    (split,) = find_splits_by_mode_or_placement(summary)

    assert split.separating_metrics[0].metric == "threads_on_one_cpu_percent"
    assert (
        split.separating_metrics[0].lower_group_value < 20
        and split.separating_metrics[0].upper_group_value == 100
    )
    assert split.upper_median > 1.8 * split.lower_median


def test_the_finding_shows_both_groups_and_the_experiment_command(summary: CampaignSummary) -> None:
    finding = next(each for each in instability_findings(summary) if each.details["cause"] == "two_modes")

    groups = "Goodput is 14.4 [13.2, 17.4] Gbit/s in 10 of 24 trials and 29 [25, 37] Gbit/s in the others"
    assert f"the trials fall into two groups by placement. {groups}. " in finding.text
    assert "sending and receiving thread on one CPU: 16.7 % of samples where goodput is low" in finding.text
    assert finding.candidates[0].cause.name == "two_modes"
    assert "--set thread_cpus=any,spread" in finding.candidates[0].command
    assert finding.chart is not None and len(finding.chart.rows) == 24


def test_the_answer_reports_two_groups_instead_of_a_limit(summary: CampaignSummary) -> None:
    explanation = explain(summary)
    first = explanation.findings[0]

    assert explanation.answer == (
        "The trials fall into two groups with different values, so no single limit applies.",
    )
    assert first.text.startswith("The trials fall into two groups by placement.")
    assert "sending and receiving thread on one CPU" in first.text
    assert first.candidates[0].cause.advice.startswith("Fix what differs between the modes")


def test_every_trial_records_where_its_threads_ran(summary: CampaignSummary) -> None:
    (treatment,) = summary.treatments

    assert treatment.trial_count == 24
    for point in treatment.points:
        assert {
            "sender_cpu",
            "receiver_cpu",
            "softirq_cpu",
            "sender_migrations_per_s",
        } <= point.evidence.keys()
        assert 0 <= point.evidence["threads_on_one_cpu_percent"] <= 100
