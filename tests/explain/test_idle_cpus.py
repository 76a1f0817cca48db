"""Guests that lose frames while they report idle CPUs."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.report.campaigns import estimate
from tests.report.frame_campaigns import forwarding_campaign, searched
from vnetbench.estimate.summary import CampaignSummary, TreatmentSummary
from vnetbench.explain.idle_cpus import cpu_use_of_saturated_forwarders, saturated_forwarder_findings

pytestmark = pytest.mark.pure


def findings(summary: CampaignSummary) -> tuple[str, ...]:
    return tuple(finding.text for finding in saturated_forwarder_findings(summary))


@pytest.fixture(scope="module")
def forwarding() -> CampaignSummary:
    return forwarding_campaign()


def with_cpus(treatment: TreatmentSummary, busy: float, vcpu: float) -> TreatmentSummary:
    """Return the treatment with these CPU counts of the guest and of the host, percent."""
    cpu_use = {"forwarder_busy_percent": busy, "forwarder_vcpu_percent": vcpu}
    points = tuple(
        replace(
            point,
            values={**point.values, **{name: value + place / 10 for name, value in cpu_use.items()}},
        )
        for place, point in enumerate(treatment.points)
    )
    metrics = {name: estimate([point.values[name] for point in points]) for name in cpu_use}
    return replace(treatment, points=points, metrics={**treatment.metrics, **metrics})


def campaign_of(forwarding: CampaignSummary, *cpus: tuple[float, float]) -> CampaignSummary:
    treatments = tuple(
        with_cpus(treatment, *of_it) for treatment, of_it in zip(forwarding.treatments, cpus, strict=False)
    )
    return replace(forwarding, treatments=treatments)


def test_an_idle_guest_with_a_busy_vcpu_is_reported(forwarding: CampaignSummary) -> None:
    summary = campaign_of(forwarding, (62.0, 97.0), (99.0, 99.0))
    (sentence,) = findings(summary)
    assert sentence.startswith("Guests lose frames although they report idle CPUs, in 1 of 2 treatments")
    assert "idle for 38 % of the time" in sentence and "vCPU threads for 97 % of the time" in sentence
    assert "The most idle treatment is forward" in sentence
    assert "its CPUs idle for 37.9 % of the time" in sentence and "(3 trials)" in sentence


def test_busy_guests_are_reported_as_not_idle(forwarding: CampaignSummary) -> None:
    (sentence,) = findings(campaign_of(forwarding, (95.0, 97.0), (85.0, 97.0)))
    assert sentence.startswith("No guest loses frames while it reports idle CPUs")
    assert "The most idle treatment is both" in sentence
    assert "its CPUs idle for 14.9 % of the time" in sentence


def test_without_an_interval_the_busiest_trial_decides(
    forwarding: CampaignSummary,
) -> None:
    # Median 80 %, and 80.1 % in the busiest of three trials.
    (sentence,) = findings(campaign_of(forwarding, (79.9, 97.0), (99.0, 99.0)))
    assert sentence.startswith("No guest loses frames while it reports idle CPUs")


def cut_by_time(treatment: TreatmentSummary, high_fps: float) -> TreatmentSummary:
    """Return the treatment with searches that stopped early with an upper bound only."""
    points = tuple(
        replace(
            point,
            search_result={
                **point.search_result,
                "goal_results": [
                    {**answer, "limited_by": "time", "high_fps": high_fps}
                    for answer in point.search_result["goal_results"]
                ],
            },
        )
        for point in treatment.points
    )
    return replace(treatment, points=points)


def test_a_search_that_stopped_early_counts_if_it_found_an_upper_bound(
    forwarding: CampaignSummary,
) -> None:
    idle = with_cpus(forwarding.treatments[0], 60.0, 97.0)
    most_fps = idle.points[0].search_result["parameters"]["max_load_fps"]
    assert cpu_use_of_saturated_forwarders(
        replace(forwarding, treatments=(cut_by_time(idle, 0.9 * most_fps),))
    )
    assert not cpu_use_of_saturated_forwarders(replace(forwarding, treatments=(cut_by_time(idle, most_fps),)))


def test_a_limit_of_the_generator_gives_no_finding(forwarding: CampaignSummary) -> None:
    never_lost = with_cpus(searched(0, {"adapter": "virtio-net"}, 1e9), 30.0, 97.0)
    assert {a.limited_by for p in never_lost.points for a in p.goal_results} == {"generator"}
    assert cpu_use_of_saturated_forwarders(replace(forwarding, treatments=(never_lost,))) == ()


def test_without_a_forwarding_guest_there_is_no_finding(forwarding: CampaignSummary) -> None:
    assert findings(forwarding) == ()
