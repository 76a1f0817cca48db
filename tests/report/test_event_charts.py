"""The timeline of an event: one trial of each treatment, with its gap and the times of the event."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.report.campaigns import campaign
from tests.report.test_outage_text import treatment
from vnetbench.estimate.summary import CampaignSummary, TrialPoint
from vnetbench.report.charts.event_charts import event_timeline_rows, event_timeline_spec
from vnetbench.study.model import FactorLevels

pytestmark = pytest.mark.pure


def point(trial_id: int, outage_s: float) -> TrialPoint:
    arrivals = ((-0.02, 10_000.0), (0.0, 0.0), (outage_s, 10_000.0))
    return TrialPoint(
        trial_id, 0, 0.0, 1.5, 0.0, True, {"outage_s": outage_s},
        arrivals_around_event=arrivals, event_s=0.1,
    )  # fmt: skip


def timeline_campaign() -> CampaignSummary:
    flap = treatment(0, "link-flap", [0.1], 0.001)
    points = (point(1, 0.13), point(2, 0.11), point(3, 0.12))
    unmeasured = replace(treatment(1, "silent-drop", [0.1], 0.001), points=())
    factors = [FactorLevels("event", ("link-flap", "silent-drop"))]
    return campaign("x", "y", factors, [replace(flap, points=points), unmeasured])


def test_the_trial_with_the_median_outage_is_drawn_with_the_times_of_its_event() -> None:
    rows = event_timeline_rows(timeline_campaign())
    assert {row["treatment"] for row in rows} == {"event link-flap"}
    arrivals = [(row["time_s"], row["rate"]) for row in rows if row["kind"] == "arrivals"]
    assert arrivals == [(-0.02, 10_000.0), (0.0, 0.0), (0.12, 10_000.0)]
    assert [row["time_s"] for row in rows if row["kind"] == "event"] == [0.0, 0.1]
    assert event_timeline_spec(rows)["facet"]["field"] == "treatment"
    assert event_timeline_rows(campaign("x", "y", [], [])) == []
