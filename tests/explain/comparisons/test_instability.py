"""Instability: injected modes, drift, missing steady state and a busy machine."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
import pytest

from tests.explain.comparisons.simulated import campaign, simulated, treatment
from vnetbench.estimate.summary import CampaignSummary
from vnetbench.explain.comparisons.instability import instability_findings
from vnetbench.explain.comparisons.mode_metrics import is_consequence_of
from vnetbench.explain.comparisons.mode_splits import find_splits_by_mode_or_placement
from vnetbench.explain.model import Finding
from vnetbench.report.text.narrative import build_narrative
from vnetbench.study.model import FactorLevels, Level

pytestmark = pytest.mark.pure

CAMPAIGNS = 100
STREAMS: Mapping[str, tuple[Level, ...]] = {"streams": (1, 2, 4), "mtu": (1500, 9000)}


def level(levels: Mapping[str, Level]) -> float:
    return 1e10 * float(levels["streams"])


def two_modes(
    random: np.random.Generator, trials: int = 24, slow: int = 8, is_separable: bool = True
) -> CampaignSummary:
    """Return a treatment with 19 Gbit/s if both threads share a CPU, and 27 Gbit/s otherwise."""
    is_slow = random.permutation([True] * slow + [False] * (trials - slow))
    values = np.where(is_slow, 19e9, 27e9) * np.exp(random.normal(0, 0.03, trials))
    shares = [bool(each) for each in is_slow] if is_separable else random.random(trials) < 0.3
    evidence = [
        {
            "threads_on_one_cpu_percent": float(random.uniform(80, 100) if shared else random.uniform(0, 30)),
            "sender_cpu": float(random.integers(0, 4)),
            "other_work_cpus": float(random.lognormal(1, 1)) / 100,
            "retransmitted_percent": float(random.lognormal(0, 1)),
            "stream_goodput_bps": float(value),
            "calls_per_s": float(value / 1e6),
        }
        for shared, value in zip(shares, values, strict=True)
    ]
    only = treatment(0, {"streams": 1}, values.tolist(), evidence)
    return campaign([FactorLevels("streams", (1,))], [only])


def findings_of_cause(result: Sequence[Finding], cause: str) -> list[Finding]:
    return [each for each in result if each.candidates and each.candidates[0].cause.name == cause]


def test_the_finding_names_the_separating_metric_and_no_consequence() -> None:
    named = 0
    for seed in range(CAMPAIGNS):
        (split,) = find_splits_by_mode_or_placement(two_modes(np.random.default_rng(seed)))
        named += split.separating_metrics[0].metric == "threads_on_one_cpu_percent"
        assert not any(is_consequence_of(each.metric, "goodput_bps") for each in split.separating_metrics)

    assert named == CAMPAIGNS


OF_FRAMES_AND_LINES = (
    "delay_line_busy_percent",
    "delay_line_waiting_percent",
    "delay_line_drop_percent",
    "frames_lost_percent",
)


@pytest.mark.parametrize("figure", OF_FRAMES_AND_LINES)
def test_lost_frames_and_delay_line_metrics_can_separate_modes(figure: str) -> None:
    is_slow = [place % 3 == 0 for place in range(24)]
    values = [(19e9 if slow else 27e9) + 1e7 * place for place, slow in enumerate(is_slow)]
    evidence = [
        {figure: 40.0 * slow + place % 5, "delay_p99_us": 1e12 / value, "frames": value / 1e4}
        for place, (slow, value) in enumerate(zip(is_slow, values, strict=True))
    ]
    (split,) = find_splits_by_mode_or_placement(
        campaign([FactorLevels("streams", (1,))], [treatment(0, {"streams": 1}, values, evidence)])
    )

    assert [each.metric for each in split.separating_metrics] == [figure]


def test_modes_without_a_separating_metric_are_reported_as_unexplained() -> None:
    is_separable = 0
    for seed in range(CAMPAIGNS):
        (split,) = find_splits_by_mode_or_placement(
            two_modes(np.random.default_rng([1, seed]), is_separable=False)
        )
        is_separable += bool(split.separating_metrics)
    assert is_separable <= 0.05 * CAMPAIGNS

    result = instability_findings(two_modes(np.random.default_rng(2), is_separable=False))
    (finding,) = findings_of_cause(result, "two_modes")
    assert finding.text.endswith("No counter separates the two groups of trials.")
    assert finding.candidates[0].confidence == "possible"


def test_the_finding_shows_both_groups_of_trials() -> None:
    (finding,) = findings_of_cause(instability_findings(two_modes(np.random.default_rng(3))), "two_modes")

    assert finding.kind == "unstable"
    assert finding.text.startswith("the trials fall into two modes. Goodput is 19.")
    assert " in 8 of 24 trials and 2" in finding.text
    assert "The groups differ in sending and receiving thread on one CPU" in finding.text
    assert finding.candidates[0].confidence == "very likely"
    assert finding.candidates[0].evidence[0].metric == "threads_on_one_cpu_percent"
    assert finding.chart is not None and finding.chart.chart_type == "modes"
    assert [row["series"] for row in finding.chart.rows].count("lower") == 8


def test_below_20_trials_a_split_needs_a_separating_metric() -> None:
    with_one = sum(
        bool(find_splits_by_mode_or_placement(two_modes(np.random.default_rng([4, seed]), trials=14, slow=5)))
        for seed in range(CAMPAIGNS)
    )
    without = sum(
        bool(
            find_splits_by_mode_or_placement(
                two_modes(np.random.default_rng([5, seed]), trials=14, slow=5, is_separable=False)
            )
        )
        for seed in range(CAMPAIGNS)
    )

    assert with_one >= 0.9 * CAMPAIGNS
    assert without <= 0.1 * CAMPAIGNS


def test_a_placement_metric_with_less_separation_does_not_come_first() -> None:
    is_slow = [place % 3 == 0 for place in range(24)]
    values = [(19e9 if slow else 27e9) + 1e7 * place for place, slow in enumerate(is_slow)]
    shared = [slow != (place in (0, 1, 3)) for place, slow in enumerate(is_slow)]
    evidence = [
        {
            "threads_on_one_cpu_percent": 80.0 * share + place % 7,
            "retransmitted_percent": 5.0 * slow + place % 5,
        }
        for place, (share, slow) in enumerate(zip(shared, is_slow, strict=True))
    ]
    only = treatment(0, {"streams": 1}, values, evidence)
    (split,) = find_splits_by_mode_or_placement(campaign([FactorLevels("streams", (1,))], [only]))

    assert "threads_on_one_cpu_percent" in [each.metric for each in split.separating_metrics]
    assert split.separating_metrics[0].metric == "retransmitted_percent"


def test_the_answer_reports_two_modes_and_the_finding_their_difference() -> None:
    narrative = build_narrative(two_modes(np.random.default_rng(1)))
    modes, limit = narrative.answer
    finding = next(each for each in narrative.findings if each.details.get("cause") == "two_modes")

    assert modes.startswith("Goodput falls into two modes: 18.7 [18.3, 19.1] (33 %), ")
    assert limit == "No single limit applies to both modes."
    assert "The groups differ in sending and receiving thread on one CPU: " in finding.text
    assert finding.text.endswith(" % of samples where goodput is high.")
    assert finding.candidates[0].cause.advice.startswith("Fix what differs between the modes")


KINDS = {
    "threads_on_one_cpu_percent": ((0, 30), (70, 100)),
    "busiest_receive_cpu_percent": ((50, 60), (84, 94)),
}
"""Placement metrics with their values in both groups. Both values of the second one are above 50."""


def two_group_campaign(random: np.random.Generator, times: float, figure: str) -> CampaignSummary:
    """Return a noisy campaign in which trials with a high metric are `times` as fast."""
    share = random.permutation([True] * 10 + [False] * 14)
    values = 20e9 * np.where(share, times, 1.0) * np.exp(random.normal(0, 0.25, 24))
    evidence = [{figure: float(random.uniform(*KINDS[figure][bool(each)]))} for each in share]
    return campaign(
        [FactorLevels("streams", (1,))], [treatment(0, {"streams": 1}, values.tolist(), evidence)]
    )


@pytest.mark.parametrize("figure", KINDS)
def test_groups_by_placement_are_found_even_if_the_metric_shows_no_modes(figure: str) -> None:
    is_separable = [
        find_splits_by_mode_or_placement(two_group_campaign(np.random.default_rng([11, seed]), 1.8, figure))
        for seed in range(CAMPAIGNS)
    ]
    false = [
        find_splits_by_mode_or_placement(two_group_campaign(np.random.default_rng([12, seed]), 1.0, figure))
        for seed in range(CAMPAIGNS)
    ]

    assert sum(map(bool, is_separable)) >= 0.95 * CAMPAIGNS
    assert sum(each[0].is_by_placement for each in is_separable if each) >= 0.8 * CAMPAIGNS
    assert sum(map(bool, false)) <= 0.03 * CAMPAIGNS


def test_a_noisy_share_does_not_form_two_groups() -> None:
    def scattered(seed: int) -> CampaignSummary:
        random = np.random.default_rng([13, seed])
        shares = random.uniform(50, 95, 24)
        values = (20e9 * (shares / 70) * np.exp(random.normal(0, 0.25, 24))).tolist()
        evidence = [{"busiest_receive_cpu_percent": float(each)} for each in shares]
        only = treatment(0, {"streams": 1}, values, evidence)
        return campaign([FactorLevels("streams", (1,))], [only])

    assert (
        sum(bool(find_splits_by_mode_or_placement(scattered(seed))) for seed in range(CAMPAIGNS))
        <= 0.1 * CAMPAIGNS
    )


def test_modes_that_correlate_with_other_work_have_the_cause_machine_busy() -> None:
    random = np.random.default_rng(6)
    is_slow = [trial % 3 == 0 for trial in range(24)]
    values = [(19e9 if slow else 27e9) * float(np.exp(random.normal(0, 0.02))) for slow in is_slow]
    evidence = [
        {"other_work_cpus": float(random.uniform(*((1.5, 2.5) if slow else (0, 0.2))))} for slow in is_slow
    ]
    only = treatment(0, {"streams": 1}, values, evidence)
    result = instability_findings(campaign([FactorLevels("streams", (1,))], [only]))

    assert findings_of_cause(result, "machine_busy")[0].text.startswith("the trials fall into two modes")
    assert findings_of_cause(result, "two_modes") == []


@pytest.mark.parametrize(
    ("metric", "cause"),
    [
        ("programs_time_percent", "other_programs"),
        ("quota_time_percent", "cpu_quota"),
        ("time_link_queue_percent", "link_full"),
        ("time_loss_recovery_percent", "path_loss"),
    ],
)
def test_a_cause_that_comes_and_goes_is_named_although_placement_differs_too(metric: str, cause: str) -> None:
    """In quiet trials the metric is absent: without the disturbance there is nothing to count."""
    random = np.random.default_rng(6)
    is_slow = [trial % 3 == 0 for trial in range(24)]
    values = [(1e9 if slow else 27e9) * float(np.exp(random.normal(0, 0.02))) for slow in is_slow]
    evidence = [
        {"threads_on_one_cpu_percent": 5.0 if slow else 95.0}
        | ({metric: float(random.uniform(40, 60))} if slow else {})
        for slow in is_slow
    ]
    only = treatment(0, {"streams": 1}, values, evidence)
    result = instability_findings(campaign([FactorLevels("streams", (1,))], [only]))

    assert len(findings_of_cause(result, cause)) == 1
    assert findings_of_cause(result, "two_modes") == []


def test_random_noise_is_not_unstable() -> None:
    seen = sum(
        bool(instability_findings(simulated(np.random.default_rng([7, s]), STREAMS, level)))
        for s in range(CAMPAIGNS)
    )

    assert seen <= 0.03 * CAMPAIGNS


def test_drift_of_all_treatments_is_reported_with_its_size() -> None:
    def drifting(seed: int) -> CampaignSummary:
        summary = simulated(np.random.default_rng([8, seed]), STREAMS, level, of_blocks=0.01, blocks=12)
        treatments = [
            treatment(t.index, t.factors, [p.values["goodput_bps"] * 0.985**p.block for p in t.points])
            for t in summary.treatments
        ]
        return replace(summary, treatments=tuple(treatments))

    result = [findings_of_cause(instability_findings(drifting(seed)), "drift") for seed in range(CAMPAIGNS)]
    assert sum(map(len, result)) >= 0.95 * CAMPAIGNS
    changes = [float(str(finding.details["change"])) for each in result for finding in each]
    assert float(np.median(changes)) == pytest.approx(0.985**11 - 1, abs=0.01)
    assert "falls by 1" in result[0][0].text


RISING = tuple(float(100 + 10 * place) for place in range(12))
FALLING = RISING[::-1]


def restless(*time_series: Sequence[float]) -> CampaignSummary:
    """Return a campaign in which one treatment has these time series and no steady state."""
    summary = simulated(np.random.default_rng(9), STREAMS, level)
    first, *others = summary.treatments
    moving = tuple(
        replace(point, has_steady_state=False, time_series=tuple(course))
        for point, course in zip(first.points, time_series, strict=False)
    )
    moving += first.points[len(moving) :]
    return replace(summary, treatments=(replace(first, points=moving), *others))


def test_a_treatment_without_steady_state_is_reported() -> None:
    (finding,) = findings_of_cause(instability_findings(restless(*[RISING] * 6)), "warm_up")

    assert finding.treatment_indices == (0,)
    assert finding.text.startswith(
        "1 stream, MTU 1500: goodput was still rising at the end of 6 of 9 trials."
    )
    (finding,) = findings_of_cause(instability_findings(restless(*[FALLING] * 6)), "warm_up")
    assert "was still falling at the end of 6 of 9 trials" in finding.text


def test_mixed_or_irrelevant_trends_within_trials_are_noise() -> None:
    slight = [1000.0 + place for place in range(12)]

    assert findings_of_cause(instability_findings(restless(*[RISING, FALLING] * 3)), "warm_up") == []
    assert findings_of_cause(instability_findings(restless(*[slight] * 9)), "warm_up") == []
    assert findings_of_cause(instability_findings(restless(*[()] * 9)), "warm_up") == []


def test_other_work_is_reported_only_if_it_correlates_with_bad_trials() -> None:
    def busy(seed: int, harm: float) -> CampaignSummary:
        random = np.random.default_rng([10, seed])
        summary = simulated(random, STREAMS, level)
        treatments = []
        for each in summary.treatments:
            work = random.uniform(0, 200, len(each.points))
            values = [
                point.values["goodput_bps"] * (1 - harm * spent / 200)
                for point, spent in zip(each.points, work, strict=True)
            ]
            evidence = [{"other_work_cpus": float(spent) / 100} for spent in work]
            treatments.append(treatment(each.index, each.factors, values, evidence))
        return replace(summary, treatments=tuple(treatments))

    is_separable = sum(
        bool(findings_of_cause(instability_findings(busy(seed, 0.3)), "machine_busy"))
        for seed in range(CAMPAIGNS)
    )
    false = sum(
        bool(findings_of_cause(instability_findings(busy(seed, 0.0)), "machine_busy"))
        for seed in range(CAMPAIGNS)
    )

    assert is_separable >= 0.95 * CAMPAIGNS
    assert false <= 0.03 * CAMPAIGNS


@pytest.mark.parametrize(("harm", "is_reported"), [(0.4, True), (-0.4, False)])
def test_an_increase_of_a_lower_is_better_metric_is_worse(harm: float, is_reported: bool) -> None:
    work = [20.0 * block for block in range(9)]
    only = treatment(0, {"streams": 1}, [1.0] * 9, [{"other_work_cpus": each / 100} for each in work])
    points = tuple(
        replace(point, values={"latency_p50_us": 100 * (1 + harm * spent / 160)})
        for point, spent in zip(only.points, work, strict=True)
    )
    summary = campaign([FactorLevels("streams", (1,))], [replace(only, points=points)])
    result = findings_of_cause(
        instability_findings(replace(summary, deciding_metric="latency_p50_us")), "machine_busy"
    )

    assert bool(result) == is_reported


@pytest.mark.parametrize("apart", [0.0, 1e-13, 1e-3, 0.7, 30.0])
def test_nearly_constant_other_work_is_not_a_reason(apart: float) -> None:
    values = [1e9 * 0.8**block for block in range(9)]
    evidence = [{"other_work_cpus": (40.0 + apart * block / 9) / 100} for block in range(9)]
    only = treatment(0, {"streams": 1}, values, evidence)
    result = instability_findings(campaign([FactorLevels("streams", (1,))], [only]))

    assert bool(findings_of_cause(result, "machine_busy")) == (apart > 20)


def test_the_effect_of_other_work_is_limited_to_the_range_of_trials() -> None:
    close = [0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 400.0, 800.0]
    values = [1e9 * 0.5**place for place in range(10)]
    only = treatment(0, {"streams": 1}, values, [{"other_work_cpus": each / 100} for each in close])
    (finding,) = findings_of_cause(
        instability_findings(campaign([FactorLevels("streams", (1,))], [only])), "machine_busy"
    )

    assert float(str(finding.details["decline"])) <= 1 - 0.5**9


def test_evidence_of_the_lower_mode_supports_on_its_own_side_of_the_threshold() -> None:
    (finding,) = findings_of_cause(instability_findings(two_modes(np.random.default_rng(3))), "two_modes")
    first = finding.candidates[0].evidence[0]
    assert first.threshold is not None and first.value > first.threshold and not first.applies_below_threshold
    assert finding.chart is not None
    assert finding.chart.x_label == "sending and receiving thread on one CPU (% of samples)"


def test_evidence_of_a_busy_machine_is_the_median_and_range() -> None:
    random = np.random.default_rng(8)
    work = [float(each) for each in random.uniform(0, 200, 24)]
    values = [20e9 * (1 - each / 400) * float(np.exp(random.normal(0, 0.01))) for each in work]
    only = treatment(0, {"streams": 1}, values, [{"other_work_cpus": each / 100} for each in work])
    result = instability_findings(campaign([FactorLevels("streams", (1,))], [only]))
    (item,) = findings_of_cause(result, "machine_busy")[0].candidates[0].evidence
    assert (item.value, item.low, item.high) == pytest.approx(
        (float(np.median(work)) / 100, min(work) / 100, max(work) / 100)
    )
    assert item.threshold is None
