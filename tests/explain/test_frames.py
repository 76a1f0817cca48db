"""Causes of lost frames, by drop location and by the state of the threads there."""

from __future__ import annotations

import pytest

from tests.explain.campaigns import Evidence, SimulatedTreatment, campaign
from vnetbench.explain.explain import explain
from vnetbench.explain.limits import find_treatment_limits

pytestmark = pytest.mark.pure

PACED: Evidence = {
    "sender_thread_busy_percent": 99.0,
    "sender_thread_runnable_percent": 99.0,
    "frames_unpaced": 0.0,
    "rate_achieved_percent": 100.0,
    "generator_limited": 0.0,
    "busiest_cpu_percent": 100.0,
}
"""A paced generator busy-waits."""
LOST: Evidence = {
    "frames_lost_percent": 30.0,
    "loss_percent": 30.0,
    "lost_at_switch_percent": 0.0,
    "lost_before_link_percent": 0.0,
    "lost_in_backlog_percent": 0.0,
    "lost_before_receiver_percent": 0.0,
    "lost_elsewhere_percent": 0.0,
    "switch_thread_busy_percent": 50.0,
    "switch_thread_waiting_percent": 1.0,
    "switch_thread_runnable_percent": 51.0,
    "sink_thread_busy_percent": 30.0,
    "sink_thread_waiting_percent": 1.0,
    "sink_thread_runnable_percent": 31.0,
}
AT_SWITCH: Evidence = {**LOST, "lost_at_switch_percent": 99.0}
SWITCH_FULL: Evidence = {
    **AT_SWITCH, "switch_thread_busy_percent": 96.0, "switch_thread_runnable_percent": 97.0
}  # fmt: skip
STUDY = 'title = "t"\nworkload = "frames"\n[factors]\nframe_load = "1 Mframe/s"\n'
SEARCH = 'title = "t"\nworkload = "frames"\n[factors]\nframe_size = 64\n[search]\nloss = "0 %"\n'


@pytest.mark.parametrize(
    ("evidence", "cause"),
    [
        (SWITCH_FULL, "switch_cpu"),
        ({**SWITCH_FULL, "overlimits_per_s": 60e3, "backlog_delay_us": 500.0}, "link_full"),
        ({**LOST, "lost_before_link_percent": 90.0, "overlimits_per_s": 60e3}, "link_full"),
        (
            {
                **AT_SWITCH,
                "switch_thread_busy_percent": 30.0,
                "switch_thread_waiting_percent": 60.0,
                "switch_thread_runnable_percent": 90.0,
            },
            "other_programs",
        ),
        (
            {**LOST, "lost_before_receiver_percent": 95.0, "sink_thread_waiting_percent": 60.0},
            "other_programs",
        ),
        (
            {
                **LOST,
                "lost_before_receiver_percent": 95.0,
                "sink_thread_busy_percent": 97.0,
                "sink_thread_runnable_percent": 98.0,
            },
            "receiver_cpu",
        ),
        ({**LOST, "lost_in_backlog_percent": 100.0}, "overflow"),
        (AT_SWITCH, "overflow"),
        ({**LOST, "lost_elsewhere_percent": 100.0}, "path_loss"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_the_drop_location_identifies_the_limit(evidence: Evidence, cause: str) -> None:
    summary = campaign(STUDY, SimulatedTreatment({**PACED, **evidence}, 0.7e6))
    assert find_treatment_limits(summary)[0].cause_name == cause


def test_a_missed_rate_is_the_benchs_limit_unless_the_switch_loses_most_frames() -> None:
    behind = {**PACED, "rate_achieved_percent": 40.0, "generator_limited": 1.0, "frames_lost_percent": 0.0}
    assert (
        find_treatment_limits(campaign(STUDY, SimulatedTreatment(behind, 0.4e6)))[0].cause_name
        == "instrument_limit"
    )
    assert (
        find_treatment_limits(campaign(STUDY, SimulatedTreatment({**behind, **SWITCH_FULL}, 0.3e6)))[
            0
        ].cause_name
        == "switch_cpu"
    )


def test_unpaced_frames_without_loss_are_normally_limited_by_the_generator() -> None:
    free = {
        name: value
        for name, value in PACED.items()
        if name not in ("rate_achieved_percent", "generator_limited")
    }
    study = STUDY.replace("1 Mframe/s", "max")
    summary = campaign(
        study, SimulatedTreatment({**free, "frames_unpaced": 1.0, "frames_lost_percent": 0.1}, 5e6)
    )
    assert find_treatment_limits(summary)[0].cause_name == "generator_cpu"
    explanation = explain(summary)
    (sentence,) = explanation.answer
    assert sentence.startswith(
        "The bench, not the network, limits the results: the generator sends frames at its maximum rate"
    )
    assert "No fault is visible." in explanation.findings[0].text


def test_the_limit_of_a_search_is_explained() -> None:
    at_generator = {**PACED, "generator_limited": 1.0, "frames_lost_percent": 0.0}
    at_device = {**PACED, **SWITCH_FULL, "generator_limited": 0.0, "frames_lost_percent": 5.0}
    del at_generator["rate_achieved_percent"], at_device["rate_achieved_percent"]
    assert (
        find_treatment_limits(campaign(SEARCH, SimulatedTreatment(at_generator, 4e6)))[0].cause_name
        == "instrument_limit"
    )
    assert (
        find_treatment_limits(campaign(SEARCH, SimulatedTreatment(at_device, 0.3e6)))[0].cause_name
        == "switch_cpu"
    )
