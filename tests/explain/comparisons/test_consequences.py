"""Metrics that can explain modes, and metrics that are their consequences."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest

from tests.explain.comparisons.simulated import campaign, treatment
from vnetbench.estimate.evidence import EVIDENCE_METRICS
from vnetbench.estimate.metrics import METRICS
from vnetbench.estimate.summary import CampaignSummary
from vnetbench.explain.comparisons.instability import instability_findings
from vnetbench.explain.comparisons.mode_metrics import DERIVED_METRIC_NAMES_AND_PREFIXES, is_consequence_of
from vnetbench.explain.comparisons.mode_splits import find_splits_by_mode_or_placement
from vnetbench.study.model import FactorLevels

pytestmark = pytest.mark.pure


def bimodal_campaign(metric: str, **metrics: Callable[[bool, int], float]) -> CampaignSummary:
    """Return a campaign of 24 trials with two modes, and metrics by group and position of the trial."""
    is_upper = [place % 3 > 0 for place in range(24)]
    values = [(3e5 if upper else 2e5) + place for place, upper in enumerate(is_upper)]
    only = treatment(0, {"streams": 1}, values)
    points = tuple(
        replace(
            point,
            values={metric: value},
            evidence={name: function(upper, place) for name, function in metrics.items()},
        )
        for place, (point, value, upper) in enumerate(zip(only.points, values, is_upper, strict=True))
    )
    summary = campaign([FactorLevels("streams", (1,))], [replace(only, points=points)])
    return replace(summary, deciding_metric=metric)


SHARES_LOST = ("frame_loss_percent", "loss_percent", "frames_lost_percent")


def test_loss_is_a_consequence_of_the_forwarding_rate_and_its_drop_location_is_not() -> None:
    def lost(upper: bool, place: int) -> float:
        return 0.0 if upper else 33.0 - place / 1e3

    shares = dict.fromkeys(SHARES_LOST, lost)

    (split,) = find_splits_by_mode_or_placement(bimodal_campaign("forwarding_rate_fps", **shares))
    assert split.separating_metrics == ()
    at_switch = {"lost_at_switch_percent": lambda upper, place: 20.0 + place % 7 if upper else 90.0 - place}
    (split,) = find_splits_by_mode_or_placement(
        bimodal_campaign("forwarding_rate_fps", **shares, **at_switch)
    )
    assert [each.metric for each in split.separating_metrics] == ["lost_at_switch_percent"]
    (split,) = find_splits_by_mode_or_placement(bimodal_campaign("delay_p99_us", **shares))
    assert {each.metric for each in split.separating_metrics} == {*SHARES_LOST}


def test_trials_without_loss_have_0_at_each_drop_location() -> None:
    def at_switch(upper: bool, place: int) -> float:
        return 90.0 - place

    summary = bimodal_campaign(
        "forwarding_rate_fps", frames_lost_percent=lambda upper, _: 0.0 if upper else 30.0
    )
    (treatment,) = summary.treatments
    points = tuple(
        replace(each, evidence={**each.evidence, "lost_at_switch_percent": at_switch(False, place)})
        if each.evidence["frames_lost_percent"]
        else each
        for place, each in enumerate(treatment.points)
    )
    (result,) = instability_findings(replace(summary, treatments=(replace(treatment, points=points),)))
    assert "The groups differ in frames lost at the switch: " in result.text
    assert result.text.endswith("0 % of lost frames where forwarding rate is high.")
    assert result.chart is not None and result.candidates[0].evidence


@pytest.mark.parametrize(
    ("metric", "expected"), [("latency_p99_us", ["latency_idle_p50_us"]), ("latency_increase_p99_us", [])]
)
def test_idle_latency_is_a_consequence_only_of_the_latency_increase(
    metric: str, expected: Sequence[str]
) -> None:
    def latency(upper: bool, place: int) -> float:
        return 80.0 * upper + 20.0 + place % 7

    (split,) = find_splits_by_mode_or_placement(
        bimodal_campaign(metric, latency_idle_p50_us=latency, latency_p50_us=latency)
    )

    assert [each.metric for each in split.separating_metrics] == expected


OF_OTHER_TOOLS = (
    "server_cpu_percent",
    "sender_cycles_per_byte",
    "receiver_cycles_per_byte",
    "sender_interrupts_per_s",
    "receiver_interrupts_per_s",
)


def test_imported_work_per_byte_is_a_consequence() -> None:
    is_slow = [place % 3 == 0 for place in range(24)]
    values = [(19e9 if slow else 27e9) + 1e7 * place for place, slow in enumerate(is_slow)]
    evidence = [
        {**dict.fromkeys(OF_OTHER_TOOLS, value / 1e9), "sender_retransmits_per_s": 30.0 * slow + place % 5}
        for place, (slow, value) in enumerate(zip(is_slow, values, strict=True))
    ]
    only = treatment(0, {"streams": 1}, values, evidence)
    (split,) = find_splits_by_mode_or_placement(campaign([FactorLevels("streams", (1,))], [only]))

    assert [each.metric for each in split.separating_metrics] == ["sender_retransmits_per_s"]


@pytest.mark.parametrize("metric", ["shaper_rate_share_percent", "filter_work_percent"])
def test_work_that_grows_with_the_rate_is_a_consequence(metric: str) -> None:
    assert is_consequence_of(metric, "goodput_bps")


@pytest.mark.parametrize("metric", ["connect_stall_percent", "connect_share_of_stalls_percent"])
def test_stalled_connects_can_explain_modes_and_latencies_of_connects_cannot(metric: str) -> None:
    def stalled(upper: bool, place: int) -> float:
        return 5.0 if upper else 80.0 + place % 7

    summary = bimodal_campaign("connections_per_s", **{metric: stalled, "connect_p99_us": stalled})
    (split,) = find_splits_by_mode_or_placement(summary)
    assert [each.metric for each in split.separating_metrics] == [metric]


def test_every_derived_metric_exists() -> None:
    known = {*METRICS, *EVIDENCE_METRICS}

    unknown = [
        each
        for each in DERIVED_METRIC_NAMES_AND_PREFIXES
        if each not in known and not (each.endswith("_") and any(name.startswith(each) for name in known))
    ]
    assert unknown == []
    of_datagrams = [name for name in METRICS if name.startswith(("delay_", "datagrams"))]
    assert of_datagrams and all(is_consequence_of(name, "goodput_bps") for name in of_datagrams)
