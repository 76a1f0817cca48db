"""Scores of the red-team corpus, and the check that a cause has an effect."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from bench.redteam import effects, scoring
from bench.redteam.calibration import NamedRun, format_calibration
from bench.redteam.causes import BY_ID
from bench.redteam.intervals import wilson
from bench.redteam.model import Label
from bench.redteam.scoring import Named, Verdict

LABEL = Label(
    run_id="x", cause="tbf-sender", family="links", part="development", intensity=0, value="1gbit",
    accepted=("link_full",), shape="2", load="tcp_stream-1", workload="tcp_stream", vswitch="bridge",
    effect=effects.EFFECT,
)  # fmt: skip
CONTROL = replace(
    LABEL, cause="control-x", is_control=True, accepted=("nothing wrong",), effect="nothing wrong"
)
DATAGRAMS = replace(CONTROL, workload="udp_stream", load="udp_stream-1")
OVERFLOW = Named("overflow", "likely", is_fault=True)
LINK = Named("link_full", "very likely", is_fault=True)
QUOTA = Named("cpu_quota", "very likely", is_fault=True)
CPU = Named("sender_cpu", "very likely", is_fault=False)


def _shown(*values: float, metric: str = "goodput_bps", failures: list[str] | None = None) -> dict[str, Any]:
    trials = [{"values": {metric: value}} for value in values]
    return {"treatments": [{"trials": trials, "failures": failures or []}]}


@pytest.mark.parametrize(
    ("run", "control", "verdict"),
    [
        (_shown(5, 5, 6), _shown(10, 11, 9), effects.EFFECT),
        (_shown(9.5, 9.4, 9.6), _shown(10, 10.1, 9.9), effects.NO_EFFECT),
        (_shown(5, 5, 9.5), _shown(10, 11, 9), effects.NO_EFFECT),
        (_shown(), _shown(10, 11, 9), effects.FAILED),
        (_shown(9, metric="rtt_us"), _shown(10, 11, 9), effects.EFFECT),
        ({}, _shown(10, 11, 9), effects.FAILED),
        (_shown(5, failures=["refused"]), _shown(10, 11), effects.FAILED),
        (_shown(5, 5, 6), _shown(), effects.UNKNOWN),
        (_shown(5, 5, 6), None, effects.UNKNOWN),
        (_shown(40, 50, 60, metric="latency_p99_us"), _shown(10, 11, 9, metric="latency_p99_us"), "effect"),
        (
            _shown(12, 12, 12, metric="latency_p99_us"),
            _shown(10, 11, 9, metric="latency_p99_us"),
            "no effect",
        ),
        (_shown(1.0, 1.1, metric="loss_percent"), _shown(0, 0.1, metric="loss_percent"), "effect"),
        (_shown(0.2, 0.2, metric="loss_percent"), _shown(0, 0.0, metric="loss_percent"), "no effect"),
    ],
)
def test_an_effect_needs_a_worse_median_and_ranges_that_do_not_overlap(
    run: dict[str, Any], control: dict[str, Any] | None, verdict: str
) -> None:
    assert effects.compare(run, control)[0] == verdict


def test_names_are_in_the_order_of_the_findings_without_those_about_the_length() -> None:
    def finding(*names: str, confidence: str = "likely") -> dict[str, Any]:
        return {
            "candidates": [
                {"cause": name, "confidence": confidence, "is_fault": name != "sender_cpu"} for name in names
            ]
        }

    explained = {
        "findings": [
            finding("too_few_trials"),
            finding("cpu_quota", confidence="refuted"),
            finding("sender_cpu", "link_full"),
            finding("sender_cpu", confidence="possible"),
        ]
    }
    assert [each.cause for each in scoring.named_causes(explained)] == ["sender_cpu", "link_full"]
    assert scoring.named_causes({}) == ()


@pytest.mark.parametrize(
    ("named", "right", "among_two", "wrong", "silent"),
    [
        ((LINK,), True, True, False, False),
        ((QUOTA, LINK), False, True, True, False),
        ((CPU,), False, False, True, True),
        ((), False, False, False, True),
        ((replace(QUOTA, confidence="possible"),), False, False, False, False),
    ],
)
def test_a_verdict_on_a_fault(
    named: tuple[Named, ...], right: bool, among_two: bool, wrong: bool, silent: bool
) -> None:
    verdict = Verdict(LABEL, named, disturbed=False)
    assert verdict.is_scored_fault
    assert not verdict.is_scored_control
    found = (verdict.is_right, verdict.is_among_two, verdict.is_confidently_wrong, verdict.is_silent)
    assert found == (right, among_two, wrong, silent)


@pytest.mark.parametrize(
    ("label", "named", "alarm"),
    [
        (CONTROL, (), False),
        (CONTROL, (CPU,), False),
        (CONTROL, (QUOTA,), True),
        (replace(CONTROL, shape="2-busy"), (Named("other_programs", "likely", True),), False),
        (CONTROL, (Named("other_programs", "likely", True),), True),
        (DATAGRAMS, (OVERFLOW,), False),
        (replace(DATAGRAMS, load="udp_stream-1-rate=1kps"), (OVERFLOW,), True),
    ],
)  # fmt: skip
def test_a_false_alarm_is_a_fault_that_is_not_true_of_the_control(
    label: Label, named: tuple[Named, ...], alarm: bool
) -> None:
    verdict = Verdict(label, named, disturbed=False)
    assert verdict.is_scored_control
    assert verdict.is_false_alarm is alarm


def test_runs_without_effect_with_errors_or_disturbed_are_not_scored() -> None:
    for label, disturbed in (
        (replace(LABEL, effect=effects.NO_EFFECT), False),
        (replace(LABEL, error="InjectionError"), False),
        (LABEL, True),
    ):
        assert not Verdict(label, (LINK,), disturbed).is_scored_fault
    assert scoring.is_disturbed(replace(LABEL, other_share=0.6))
    assert not scoring.is_disturbed(replace(LABEL, other_share=0.1))


def test_a_control_is_disturbed_by_as_much_other_work_as_makes_a_shape_busy() -> None:
    assert scoring.is_disturbed(replace(CONTROL, other_share=0.31))
    assert not scoring.is_disturbed(replace(CONTROL, other_share=0.29))
    assert not scoring.is_disturbed(replace(LABEL, other_share=0.31))


def test_threads_of_the_kernel_disturb_no_run() -> None:
    assert not scoring.is_disturbed(replace(CONTROL, other_share=0.9, programs_share=0.1))
    assert scoring.is_disturbed(replace(CONTROL, other_share=0.9, programs_share=0.4))


def test_the_accepted_names_are_those_of_the_present_declarations() -> None:
    stored = replace(LABEL, cause="police-udp", accepted=("path_loss", "missing:policer"))
    assert scoring.with_present_names(stored).accepted == BY_ID["police-udp"].accepted
    (verdict,) = scoring.judge_runs(Path("no-such-folder"), [stored])
    assert verdict.label.accepted[0] == "policer"
    assert scoring.with_present_names(CONTROL) == CONTROL
    removed = replace(LABEL, cause="a-cause-of-an-older-version")
    assert scoring.with_present_names(removed) == removed


def test_the_wilson_interval_matches_a_published_example() -> None:
    # Newcombe, Statistics in Medicine 17 (1998), table I: 81 of 263, method 3.
    low, high = wilson(81, 263)
    assert (round(low, 4), round(high, 4)) == (0.2553, 0.3662)
    assert wilson(0, 0) == (0.0, 1.0)


def test_the_score_names_every_share() -> None:
    verdicts = [
        Verdict(LABEL, (LINK,), False),
        Verdict(LABEL, (QUOTA,), False),
        Verdict(CONTROL, (QUOTA,), False),
        Verdict(replace(LABEL, accepted=("missing:x",)), (), False),
    ]
    lines = "\n".join(scoring.format_scores(verdicts, with_details=True))
    assert "right first                                  33.3%" in lines
    assert "right first, of causes that have a name      50.0%" in lines
    assert "false alarms                                 100.0%" in lines
    assert "WRONG  tbf-sender" in lines
    assert "ALARM  control-x" in lines


def test_a_word_that_is_right_for_one_cause_only_shows_it() -> None:
    runs = [NamedRun("common", "likely", True)] * 8 + [NamedRun("rare", "likely", False)] * 2
    confirmed, very_likely, likely, possible = format_calibration(runs)
    assert "80.0%" in likely and likely.endswith("without any one cause 0% to 100%")
    assert all("no run" in line for line in (confirmed, very_likely, possible))
